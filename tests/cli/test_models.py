"""Describing a model, calibrating it again, judging one belief."""

import json
import re
import signal
from contextlib import contextmanager
from types import SimpleNamespace

import pytest

import doxa as library
from doxa import formats
from doxa.cli.models import effective_values
from doxa.config import Settings
from doxa.model import Model
from doxa.render import terminal
from doxa.training.plan import summary
from tests.cli.test_cli import QUICK
from tests.worlds import board

INFO = {
    "system": "pbe",
    "score": "translation",
    "entities": 25,
    "relations": 2,
    "words": 9,
    "facts": 40,
    "settings": {"model": {"dimension": 8, "mentions": True}, "judging": {"base_rate": 0.0}},
    "training": {"epochs": 3, "seconds": 0.51234, "loss": [1.25, 0.5]},
    "calibration": {"rule": "product", "thresholds": 1, "temperatures": {"head": 1.5}},
}


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    formats.write(board(5), folder / "b.tsv")
    values = dict(assignment.split("=") for assignment in QUICK if assignment != "--set")
    Model.fit(board(5), **{name: int(value) for name, value in values.items()}).save(folder / "m")
    return folder / "m"


def test_the_version(doxa):
    code, text, _ = doxa("--version")
    assert (code, text) == (0, f"doxa {library.__version__}\n")


def test_info_shows_groups_and_marks_what_is_not_default(doxa, model, monkeypatch):
    monkeypatch.setattr(Model, "info", lambda self: SimpleNamespace(as_dict=lambda: INFO))
    code, text, _ = doxa("info", model)
    assert code == 0
    assert "pbe on the score translation: 25 entities, 2 relations, 9 words, 40 facts" in text
    assert "* dimension" in text
    assert "* mentions" not in text
    assert "for 1 of 2 relations" in text
    assert "Settings of judging" in text
    assert "0.5123" in text
    assert "head 1.5" in text
    assert json.loads(doxa("info", model, "--json")[1]) == INFO


def test_info_of_a_real_model(doxa, model):
    description = json.loads(doxa("info", model, "--json")[1])
    assert set(INFO) <= set(description)
    assert list(description["settings"]) == ["model", "training", "judging", "running"]
    assert description["training"]["last_epoch"]["epoch"] == 3
    text = doxa("info", model)[1]
    assert "pbe on the score translation: 25 entities" in text
    assert re.search(r"scale +0 \(4, the score's default\)\n", text)
    assert re.search(r"estimator +auto \(sampled\)\n", text)
    assert re.search(r"stop_on +auto \(ranking\)\n", text)


def test_info_shows_no_automatic_value_for_a_setting_that_was_chosen():
    chosen = Settings(score="translation", scale=2.0, estimator="exact", stop_on="accuracy")
    assert effective_values(chosen) == {}
    fitted = Settings(score="complex", objective="confidence")
    assert list(effective_values(fitted).values()) == ["1, the score's default", "negative", "confidence"]


def test_options_of_the_score_are_marked_too(doxa, tmp_path):
    formats.write(board(4), tmp_path / "b.tsv")
    assert doxa("train", tmp_path / "b.tsv", "--out", tmp_path / "m", *QUICK, "--set", "norm=1")[0] == 0
    text = doxa("info", tmp_path / "m")[1]
    assert "* norm" in text
    assert "* score" not in text


def test_one_belief_is_judged(doxa, model):
    code, text, _ = doxa("judge", model, "1,1", "up", "1,2", "--mention", "one step up")
    assert code == 0
    assert text.startswith("1,1 · up · 1,2: credence ")
    assert "judged " in text
    assert text.endswith(" (known)\n")
    code, text, err = doxa("judge", model, "nowhere", "up", "1,2", "--mention", "one step up")
    assert code == 0
    assert "'nowhere' is not known to the model: credence is the probability of the relation" in " ".join(err.split())
    code, text, _ = doxa("judge", model, "1,1", "up", "3,3", "--json")
    report = json.loads(text)
    assert report == Model.load(model).judge([("1,1", "up", "3,3")]).as_dict()["beliefs"][0]
    assert list(report) == ["head", "relation", "tail", "credence", "verdict", "known"]
    assert 0 <= report["credence"] <= 1
    assert (report["verdict"] in ("true", "false"), report["known"]) == (True, False)


def test_one_belief_is_judged_as_in_a_file(doxa, model, tmp_path):
    (tmp_path / "one.tsv").write_text("head\trelation\ttail\tmention\n1,1\tup\t1,2\tone step up\n")
    row = json.loads(doxa("judge", model, tmp_path / "one.tsv", "--json")[1])
    report = json.loads(doxa("judge", model, "1,1", "up", "1,2", "--mention", "one step up", "--json")[1])
    assert report == row
    assert report["mention"] == "one step up"


def test_a_file_is_judged_with_the_names_the_model_lacks(doxa, model, tmp_path):
    (tmp_path / "some.tsv").write_text("1,1\tup\t1,2\n1,1\tup\tnowhere\n")
    _, text, err = doxa("judge", model, tmp_path / "some.tsv", "--json")
    rows = [json.loads(line) for line in text.splitlines()]
    expected = Model.load(model).judge([("1,1", "up", "1,2"), ("1,1", "up", "nowhere")])
    assert rows == expected.as_dict()["beliefs"]
    assert "1 unknown" in err
    text = doxa("judge", model, tmp_path / "some.tsv")[1]
    assert text.splitlines()[2] == "1,1\tup\tnowhere\t\tunknown"


def test_train_prints_the_settings_that_training_used(doxa, tmp_path):
    """They depend on the beliefs that remain after the hold-out."""
    table = board(20, words=False)
    formats.write(table, tmp_path / "b.tsv")
    values = {"dimension": 2, "epochs": 1, "threads": 1, "validation_fraction": 0.3, "stop_on": "entity"}
    arguments = [word for name, value in values.items() for word in ("--set", f"{name}={value}")]
    code, text, err = doxa("train", tmp_path / "b.tsv", "--out", tmp_path / "m", *arguments)
    assert (code, text.rstrip().endswith("(filtered MRR of entities)")) == (0, True)
    settings = library.fit(table, **values).settings
    assert Model.load(tmp_path / "m").settings == settings
    assert settings.batch_size < len(table) // 20
    assert f"training with {summary(settings)}" in err


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("9,9", "up", "1,2"), 1, "no entity '9,9' in this model"),
        (("1,1", "upp", "1,2"), 1, "Did you mean 'up'?"),
        (("1,1", "up"), 2, "2 arguments after MODEL"),
        (("1,1", "up", "1,2", "--out", "x.tsv"), 2, "--out is for judging a file"),
        (("b.tsv", "--mention", "x"), 2, "--mention is for judging one belief"),
    ],
)
def test_what_cannot_be_judged(doxa, model, arguments, code, message):
    result, text, err = doxa("judge", model, *arguments)
    assert (result, text) == (code, "")
    assert message in err


def test_names_may_look_like_options(doxa, tmp_path):
    (tmp_path / "b.tsv").write_text("-x\tr\ty\ny\ts\t-x\n-x\ts\tz\nz\tr\ty\n")
    assert doxa("train", tmp_path / "b.tsv", "--out", tmp_path / "m", *QUICK)[0] == 0
    for dashes in ((), ("--",)):
        assert doxa("judge", tmp_path / "m", *dashes, "-x", "r", "y")[1].startswith("-x · r · y: credence")
        assert doxa("ask", tmp_path / "m", *dashes, "-x", "r", "?")[1].startswith("-x · r · ?")
        assert doxa("explain", tmp_path / "m", *dashes, "-x", "r", "y")[0] == 0
        assert doxa("similar", tmp_path / "m", *dashes, "-x")[0] == 0


def test_calibrate_in_place_and_elsewhere(doxa, model, tmp_path):
    """The command around the library call: where the model goes, and that nothing is replaced by accident."""
    valid, place = model.parent / "b.tsv", tmp_path / "m"
    Model.load(model).save(place)
    code, text, err = doxa("calibrate", place, valid)
    assert (code, "calibrated on 40 beliefs" in text) == (0, True), err
    code, *_ = doxa("calibrate", place, valid, "--out", tmp_path / "m2", "--set", "base_rate=0.5")
    assert code == 0
    assert doxa("judge", tmp_path / "m2", "1,1", "up", "1,2")[0] == 0
    code, _, err = doxa("calibrate", place, valid, "--out", tmp_path / "m2")
    assert (code, "already holds a model\n  pass --force to replace it" in err) == (1, True)
    assert doxa("calibrate", place, valid, "--out", tmp_path / "m2", "--force")[0] == 0
    assert doxa("calibrate", place, valid, "--set", "base_rates=0.5")[0] == 2
    code, _, err = doxa("calibrate", place, valid, "--set", "dimension=5")
    assert (code, "setting dimension takes effect only in training" in err) == (2, True)
    assert doxa("calibrate", place, tmp_path / "none.tsv")[0] == 1


def test_average_writes_the_mean_of_models(doxa, tmp_path):
    rows = ["\t".join(row) for row in board(8, words=False).rows()]
    (tmp_path / "train.tsv").write_text("\n".join(row for i, row in enumerate(rows) if i % 4 != 3) + "\n")
    (tmp_path / "valid.tsv").write_text("\n".join(rows[3::4]) + "\n")
    folders = [tmp_path / f"m{seed}" for seed in (0, 1)]
    for seed, folder in enumerate(folders):
        assert doxa("train", tmp_path, "--out", folder, "--score", "complex", "--seed", str(seed), *QUICK)[0] == 0
    mean = tmp_path / "mean"
    code, text, err = doxa("average", *folders, "--valid", tmp_path, "--out", mean)
    assert (code, text.startswith(f"{mean}: ")) == (0, True), err
    assert Model.load(mean).origin["averaged"] == 2
    code, _, err = doxa("average", *folders, "--valid", tmp_path, "--out", mean)
    assert (code, "pass --force to replace it" in err) == (1, True)
    code, _, err = doxa("average", folders[0], "--valid", tmp_path, "--out", tmp_path / "m3")
    assert (code, "at least two models" in err) == (1, True)


def test_calibrate_stores_settings_of_running(doxa, model, tmp_path):
    place, threads = tmp_path / "m", Model.load(model).settings.threads + 1
    Model.load(model).save(place)
    assert doxa("calibrate", place, model.parent / "b.tsv", "--set", f"threads={threads}")[0] == 0
    assert Model.load(place).settings.threads == threads


def test_an_interrupted_run_that_was_calibrated_can_be_resumed(doxa, tmp_path, monkeypatch):
    """Train, Ctrl-C, calibrate in place, --resume."""
    data, out = tmp_path / "b.tsv", tmp_path / "m"
    formats.write(board(5), data)

    @contextmanager
    def interrupting():
        signals = [signal.SIGINT]  # a second one would end calibration too
        yield lambda now: signal.raise_signal(signals.pop()) if now.epoch == 1 and signals else None

    with monkeypatch.context() as patch:
        patch.setattr(terminal, "training_progress", interrupting)
        assert doxa("train", data, "--out", out, *QUICK)[0] == 130
    assert Model.load(out).origin["epochs"] < 3
    assert doxa("calibrate", out, data)[0] == 0
    code, _, err = doxa("train", data, "--out", out, *QUICK, "--resume")
    assert code == 0, err
    assert Model.load(out).origin["epochs"] == 3
    assert not (out / "checkpoint.safetensors").exists()


def test_partitions_train_a_model_and_leave_nothing_else(doxa, tmp_path):
    data, out = tmp_path / "b.tsv", tmp_path / "m"
    formats.write(board(5), data)
    code, _, err = doxa("train", data, "--out", out, "--score", "translation", "--partitions", "2", *QUICK)
    assert code == 0, err
    assert not [path for path in out.iterdir() if path.is_dir()]
    assert doxa("ask", out, "0,0", "right", "?", "--top", "1")[0] == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--cluster", "local"], "partitions=0"),
        (["--partitions", "2", "--cluster", "elsewhere"], "expected local, auto, or ray://HOST:10001"),
    ],
)
def test_a_cluster_that_makes_no_sense_is_refused(doxa, tmp_path, arguments, message):
    data = tmp_path / "b.tsv"
    formats.write(board(5), data)
    code, _, err = doxa("train", data, "--out", tmp_path / "m", "--score", "translation", *arguments, *QUICK)
    assert code == 2
    assert message in err


def test_parts_need_a_cluster(doxa, model):
    code, _, err = doxa("evaluate", model, model.parent / "b.tsv", "--parts", model.parent / "parts")
    assert code == 2
    assert "--cluster local" in err
