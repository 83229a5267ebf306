"""The command line as a new user meets it: what it prints, its exit codes, and that nothing half-written is left."""

import json
import os
import re

import pytest

from doxa import formats as files
from doxa.data.beliefs import Beliefs
from doxa.data.splits import split
from doxa.model import Model, fit
from doxa.render import terminal
from tests import model_folders
from tests.worlds import board

QUICK = [
    "--set",
    "dimension=8",
    "--set",
    "epochs=3",
    "--set",
    "batch_size=16",
    "--set",
    "num_candidates=8",
    "--set",
    "threads=1",
]


def text_lines(path):
    return path.read_text().splitlines()


@pytest.fixture
def data(tmp_path):
    folder = tmp_path / "data"
    parts = split(Beliefs.from_frame(board(5)), (0.1, 0.1), seed=0)
    for name, part in zip(("train", "valid", "test"), parts, strict=True):
        files.write(part.to_frame(), folder / f"{name}.tsv")
    return folder


def test_training_never_opens_the_test_file(doxa, data, tmp_path):
    doxa("train", data, "--out", tmp_path / "one", *QUICK)
    (data / "test.tsv").write_bytes(b"\xff not a belief at all")
    assert doxa("train", data, "--out", tmp_path / "two", *QUICK)[0] == 0
    one, two = Model.load(tmp_path / "one"), Model.load(tmp_path / "two")
    assert one.valid.tolist() == two.valid.tolist()
    assert one.calibration.thresholds.overall == two.calibration.thresholds.overall


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model")
    files.write(board(5), folder / "b.tsv")
    fit(Beliefs.from_frame(board(5)), dimension=8, epochs=3, batch_size=16, num_candidates=8, threads=1).save(
        folder / "m"
    )
    return folder / "m"


def test_train_ask_judge_evaluate(doxa, data, tmp_path):
    out = tmp_path / "m"
    code, text, _ = doxa("train", data, "--out", out, *QUICK)
    assert code == 0
    assert "3 epochs" in text
    assert sorted(p.name.partition("-")[0] for p in out.iterdir()) == [
        "entities", "facts", "model.json", "relations", "weights", "words",
    ]  # fmt: skip

    code, text, _ = doxa("ask", out, "1,1", "up", "?", "--top", 3)
    assert code == 0
    assert text.startswith("1,1 · up · ?\n")
    assert len(text.splitlines()) == 4

    code, text, _ = doxa("ask", out, "1,1", "?", "1,2", "--mention", "one step up", "--json")
    answer = json.loads(text)
    assert answer["question"] == ["1,1", "?", "1,2", "one step up"]
    assert set(answer["answers"][0]) == {"name", "probability", "known"}

    code, text, err = doxa("judge", out, data / "test.tsv")
    assert text.splitlines()[0].split("\t") == ["head", "relation", "tail", "mention", "credence", "verdict"]
    assert len(text.splitlines()) == len(text_lines(data / "test.tsv"))
    assert "unknown" in err
    code, *_ = doxa("judge", out, data / "test.tsv", "--out", tmp_path / "judged.tsv")
    assert code == 0
    assert "verdict" in (tmp_path / "judged.tsv").read_text()

    code, text, _ = doxa("evaluate", out, data / "test.tsv", "--json", tmp_path / "report.json")
    assert code == 0
    assert "Entity inference" in text
    report = json.loads((tmp_path / "report.json").read_text())
    code, *_ = doxa("evaluate", out, data, "--json", tmp_path / "folder.json")  # its test file
    assert code == 0
    assert json.loads((tmp_path / "folder.json").read_text())["entity"] == report["entity"]
    *_, err = doxa("evaluate", out, data / "train.tsv")
    assert re.search(r"train\.tsv: \d\d of 32 true beliefs are in the training data too", err)  # others are held out
    assert set(report) == {
        "entity", "relation", "classification", "calibration", "protocol", "seconds", "peak_rss_mb", "skipped",
        "popularity",
    }  # fmt: skip
    assert set(report["entity"]) == {
        "raw", "filtered", "filtered_heads", "filtered_tails", "by_category", "by_frequency",
    }  # fmt: skip
    assert set(report["entity"]["raw"]) == {"mr", "mrr", "hits@1", "hits@3", "hits@10"}
    assert {"ece", "brier", "nll", "before", "intervals", "answers", "bins"} <= set(report["calibration"])
    assert report["protocol"]["queries"] == len(text_lines(data / "test.tsv")) - 1
    assert report["skipped"] == {"confidence": "the beliefs carry no confidence"}


def test_data_inspect_finds_leaks_and_unseen_names(doxa, tmp_path):
    (tmp_path / "train.tsv").write_text("a\tr\tb\na\tr\tb\nb\ts\tb\nc\tr\tb\n")
    (tmp_path / "test.tsv").write_text("b\ts\ta\t1\nz\tr\tb\t1\na\tr\tb\t-1\n")
    code, text, _ = doxa("data", "inspect", tmp_path, "--json")
    report = json.loads(text)
    assert code == 0
    assert report["parts"]["train"] == {
        "beliefs": 4, "entities": 3, "relations": 2, "duplicate_lines": 1, "repeated_triples": 1, "self_loops": 1,
    }  # fmt: skip
    test = report["parts"]["test"]
    assert (test["with_unseen_entity"], test["already_in_train"], test["reversed_pair_in_train"]) == (1, 1, 1)
    assert (test["labeled_true"], test["labeled_false"], test["false_but_in_train"]) == (2, 1, 1)
    assert report["relations"][0] == {
        "relation": "r", "kind": "N-1", "facts": 2, "tails_per_head": 1.0, "heads_per_tail": 2.0,
    }  # fmt: skip
    code, text, _ = doxa("data", "inspect", tmp_path)
    assert "with unseen entity" in text
    assert "Relations, 2 of 2" in text


def test_help_teaches(doxa):
    for command in (
        (),
        ("train",),
        ("ask",),
        ("judge",),
        ("evaluate",),
        ("compare",),
        ("demo",),
        ("settings",),
        ("data", "inspect"),
    ):
        code, text, _ = doxa(*command, "--help")
        assert code == 0
        assert "Usage" in text
    for command in ("convert", "split", "inspect", "generate"):
        assert "Example" in doxa("data", command, "--help")[1]
    for command in ("train", "ask", "judge", "evaluate"):
        assert "Example" in doxa(command, "--help")[1]


def test_settings_are_listed_and_read_well_at_80_columns(doxa, monkeypatch):
    monkeypatch.setattr(terminal.out, "_width", 80)
    _, text, _ = doxa("settings")
    lines = text.splitlines()
    titles = [f"Settings of {group}" for group in ("the model", "training", "judging", "running")]
    groups = [lines.index(title) for title in (*titles, "Options of a score")]
    assert groups == sorted(groups)
    starts = {line.split()[0]: number for number, line in enumerate(lines) if " = " in line and line[2:3].strip()}
    assert lines[starts["schedule"]] == "  schedule = linear   (linear · constant)"
    assert max(map(len, lines)) <= 80
    assert groups[0] < starts["dimension"] < groups[1] < starts["learning_rate"] < groups[2]
    assert groups[2] < starts["decision_rule"] < groups[3] < starts["workers"] < groups[4] < starts["norm"]


BAD_FILES = {
    "missing file": (None, "no file or folder"),
    "empty file": ("", "the file is empty"),
    "wrong column count": ("a\tr\tb\na\tr\nc\ts\td\n", "line 2: 2 fields where other lines have 3"),
    "confidence above 1": ("a\tr\tb\t0.5\na\ts\tc\t1.5\n", "line 2: the confidence is '1.5'"),
    "confidence zero": ("a\tr\tb\t0.5\na\ts\tc\t0\n", "line 2: the confidence is '0'"),
    "NaN": ("a\tr\tb\t0.5\na\ts\tc\tnan\n", "line 2: the confidence is 'nan'"),
    "not UTF-8": (b"a\tr\tb\nc\ts\t\xe9t\xe9\n", "line 2: not UTF-8 text"),
    "one entity only": ("a\tr\ta\na\ts\ta\n", "name 1 entity; at least 2 are needed"),
}


@pytest.mark.parametrize("case", BAD_FILES)
def test_bad_training_files(doxa, tmp_path, case):
    content, message = BAD_FILES[case]
    path, out = tmp_path / "b.tsv", tmp_path / "m"
    if content is not None:
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    code, text, err = doxa("train", path, "--out", out, *QUICK)
    assert code == 1
    assert message in err
    assert "Traceback" not in err
    assert text == ""
    assert [p.name for p in tmp_path.iterdir()] == ([] if content is None else ["b.tsv"])


def test_a_file_that_is_not_there_for_judge_and_evaluate(doxa, model, tmp_path):
    for command in ("judge", "evaluate"):
        code, _, err = doxa(command, model, tmp_path / "none.tsv")
        assert (code, "no file" in err) == (1, True)


@pytest.mark.parametrize(
    ("question", "code", "message"),
    [
        (("9,9", "up", "?"), 1, "no entity '9,9' in this model"),
        (("1,1", "upp", "?"), 1, "no relation 'upp' in this model. Did you mean 'up'?"),
        (
            ("1,1", "up", "1,2"),
            2,
            "none of head, relation and tail is '?'; expected exactly one\n  for example: doxa ask",
        ),
        (("?", "up", "?"), 2, "2 of head, relation and tail are '?'; expected exactly one"),
        (("?", "?", "?"), 2, "3 of head"),
        (("1,1", "up", "?", "--mention", "x"), 2, "a mention helps to"),
    ],
)
def test_bad_questions(doxa, model, question, code, message):
    ended, text, err = doxa("ask", model, *question)
    assert (ended, text) == (code, "")
    assert message in err


def test_bad_model_folders(doxa, model, tmp_path):
    code, _, err = doxa("ask", tmp_path / "none", "a", "r", "?")
    assert (code, "no model folder" in err) == (1, True)
    assert err.endswith("\n  to make one: doxa train DATA --out MODEL\n")
    code, _, err = doxa("ask", tmp_path, "a", "r", "?")
    assert (code, "holds no model.json" in err) == (1, True)
    assert "doxa.fit" not in err
    cut = tmp_path / "cut"
    cut.mkdir()
    for path in model.iterdir():
        (cut / path.name).write_bytes(path.read_bytes())
    model_folders.part(cut, "weights").write_bytes(b"short")
    code, _, err = doxa("ask", cut, "1,1", "up", "?")
    assert (code, "the model is damaged" in err) == (1, True)


def test_output_folders_that_cannot_be_used(doxa, data, tmp_path):
    (tmp_path / "taken").write_text("x")
    code, _, err = doxa("train", data, "--out", tmp_path / "taken", *QUICK)
    assert (code, "is a file; expected a folder" in err) == (1, True)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.txt").write_text("x")
    for force in ([], ["--force"]):
        code, _, err = doxa("train", data, "--out", tmp_path / "full", *force, *QUICK)
        assert (code, "holds files that are not a model's (thesis.txt)\n  choose a new folder" in err) == (1, True)
    assert [p.name for p in (tmp_path / "full").iterdir()] == ["thesis.txt"]
    assert doxa("train", data, "--out", tmp_path / "m", *QUICK)[0] == 0
    code, _, err = doxa("train", data, "--out", tmp_path / "m", *QUICK)
    assert (code, "already holds a model\n  pass --force to replace it" in err) == (1, True)
    assert doxa("train", data, "--out", tmp_path / "m", "--force", "--seed", 7, *QUICK)[0] == 0
    assert Model.load(tmp_path / "m").settings.seed == 7


def test_force_never_removes_the_data_or_the_folder_one_stands_in(doxa, data, tmp_path, monkeypatch):
    code, _, err = doxa("train", data, "--out", data, "--force", *QUICK)
    assert (code, "holds files that are not a model's" in err) == (1, True)
    (tmp_path / "out").mkdir()
    files.write(board(4), tmp_path / "out" / "weights.safetensors")  # a model's name, but the data
    code, _, err = doxa("train", tmp_path / "out" / "weights.safetensors", "--out", tmp_path / "out", "--force", *QUICK)
    assert (code, "would replace the data" in err) == (2, True)
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    code, _, err = doxa("train", data, "--out", ".", "--force", *QUICK)
    assert (code, "is or contains the current folder" in err) == (1, True)
    assert len(list(data.iterdir())) == 3
    code, _, err = doxa("judge", tmp_path / "m", data / "test.tsv", "--out", data / "test.tsv")
    assert (code, "would replace what is being read" in err) == (2, True)
    code, _, err = doxa("demo", "--out", data, "--force")
    assert (code, "is not the folder of an earlier demo" in err) == (1, True)


def test_odd_names_and_paths_are_printed_as_they_are(doxa, tmp_path):
    rows = [(":cat:", "[/r]", "[bold]b"), ("-x", "s", ":cat:"), ("[bold]b", "s", "-x"), ("-x", "[/r]", "[bold]b")]
    path, out = tmp_path / "b[1].tsv", tmp_path / "m[/a]"
    path.write_text("".join("\t".join(row) + "\n" for row in rows))
    assert doxa("train", path, "--out", out, *QUICK)[0] == 0
    code, text, err = doxa("ask", out, "-x", "[/r]", "?")
    assert (code, err) == (0, "")
    assert ":cat:" in text
    assert "[bold]b" in text


def test_an_unwritable_output_folder(doxa, data, tmp_path, monkeypatch):
    """Refused by the system before any work; for root, who may write anywhere, the refusal is played."""
    locked = tmp_path / "locked"
    locked.mkdir(mode=0o500)
    if os.geteuid() == 0:

        def refuse(*_, **__):
            raise PermissionError(13, "Permission denied")

        monkeypatch.setattr("doxa.data.atomic.Path.mkdir", refuse)
    code, text, err = doxa("train", data, "--out", locked / "m", *QUICK)
    assert (code, text) == (1, "")
    assert f"cannot write to {locked / 'm'}: Permission denied in {locked}" in err
    assert list(locked.iterdir()) == []


def test_validation_with_entities_never_seen(doxa, tmp_path):
    train, valid, out = tmp_path / "train.tsv", tmp_path / "v.tsv", tmp_path / "m"
    files.write(board(5), train)
    valid.write_text("1,1\tup\t1,2\n1,1\tright\tMars\n")
    code, _, err = doxa("train", train, "--valid", valid, "--out", out, "--strict", *QUICK)
    assert code == 1
    assert "belief 2 of the validation set has the entity 'Mars', which training never sees" in err
    assert "leave --strict out" in err
    assert not out.exists()
    code, _, err = doxa("train", train, "--valid", valid, "--out", out, *QUICK)
    assert code == 0
    line = "validation: 1 of 2 beliefs have names training never sees; they are not ranked"
    assert " ".join(err.split()).count(line) == 1
    code, _, err = doxa("calibrate", out, valid, "--strict")
    assert (code, "belief 2 of the validation set has the entity 'Mars'" in err) == (1, True)
    code, _, err = doxa("calibrate", out, valid)
    assert code == 0
    assert "validation: 1 of 2 beliefs have names training never sees" in " ".join(err.split())


def test_labels_in_training_and_validation(doxa, tmp_path):
    """Rows labeled false teach nothing, not even names; files without any true row are refused."""
    train, only_false, out = tmp_path / "t.tsv", tmp_path / "f.tsv", tmp_path / "m"
    lines = ["\t".join(row[:3]) for row in board(4).rows()]
    train.write_text("".join(f"{line}\t1\n" for line in lines) + "Mars\tup\t1,1\t-1\n")
    only_false.write_text("".join(f"{line}\t-1\n" for line in lines))
    assert doxa("train", train, "--out", out, *QUICK)[0] == 0
    model = Model.load(out)
    assert len(model.vocabularies.entities) == 16
    assert doxa("ask", out, "Mars", "up", "?")[0] == 1
    code, _, err = doxa("train", only_false, "--out", tmp_path / "n", *QUICK)
    assert (code, "no belief of the training set is labeled true" in err) == (1, True)
    code, _, err = doxa("train", train, "--valid", only_false, "--out", tmp_path / "n", *QUICK)
    assert (code, "no belief of the validation set is labeled true" in err) == (1, True)
    assert not (tmp_path / "n").exists()


def test_what_cannot_be_judged_is_skipped_with_the_reason(doxa, tmp_path):
    (tmp_path / "t.tsv").write_text("a\tr\tb\nc\ts\td\nc\ts\te\nf\ts\td\n")
    (tmp_path / "e.tsv").write_text("a\tr\tb\n")
    doxa("train", tmp_path / "t.tsv", "--out", tmp_path / "m", *QUICK)
    code, *_ = doxa("evaluate", tmp_path / "m", tmp_path / "e.tsv", "--json", tmp_path / "r.json")
    report = json.loads((tmp_path / "r.json").read_text())
    assert code == 0
    assert "could be made of these beliefs" in report["skipped"]["classification"]
    assert "calibration" not in report


def test_skipping_faulty_lines_says_how_many(doxa, tmp_path):
    path = tmp_path / "b.tsv"
    files.write(board(4).drop("mention"), path)
    path.write_text(path.read_text() + "broken line\n")
    code, _, err = doxa("train", path, "--out", tmp_path / "m", "--on-error", "skip", *QUICK)
    assert code == 0
    assert "skipped 1 of 25 lines" in " ".join(err.split())


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("--set", "dimensions=5"), 2, "no setting 'dimensions'. Did you mean 'dimension'?"),
        (("--set", "epochs=-1"), 2, "setting epochs is -1; expected at least 0"),
        (("--score", "magic"), 2, "no score 'magic'"),
        (("--on-error", "ignore"), 2, "--on-error 'ignore'; expected raise or skip"),
        (("--seed", "99999999999999999999999"), 2, "below 2^63"),
        (("--set", "scale=inf"), 2, "expected a finite number"),
        (("--resume",), 1, "holds no unfinished run to resume"),
        (("--set", "objective=confidence"), 1, "objective=confidence needs beliefs with confidence"),
        (("--set", "optimizer=sgd", "--set", "learning_rate=1e30"), 1, "the loss became"),
    ],
)
def test_bad_options_leave_nothing_behind(doxa, data, tmp_path, arguments, code, message):
    out = tmp_path / "m"
    ended, text, err = doxa("train", data, "--out", out, *QUICK, *arguments)
    assert (ended, text) == (code, "")
    assert message in err
    assert not out.exists()


def test_bad_evaluation_options(doxa, model, tmp_path):
    file = model.parent / "b.tsv"
    assert doxa("evaluate", model, file, "--tasks", "magic")[0] == 2
    assert doxa("evaluate", model, file, "--tasks", " ")[0] == 2
    assert doxa("evaluate", model, file, "--filter", "some")[0] == 2
    assert doxa("evaluate", model, file, "--seed", "-1")[0] == 2
    code, _, err = doxa("evaluate", model, file, "--json", tmp_path)
    assert (code, "it is a folder" in err) == (1, True)
    for target in (file, model / "model.json"):
        code, _, err = doxa("evaluate", model, file, "--json", target)
        assert (code, "would replace what is being read" in err) == (2, True)


def test_wrong_usage_is_exit_code_two(doxa, model):
    assert doxa("ask", model)[0] == 2
    assert doxa("nonsense")[0] == 2


def test_debug_shows_the_traceback(doxa, model):
    from doxa.errors import DoxaError

    for arguments in (("--debug", "ask", model, "nobody", "up", "?"), ("ask", model, "nobody", "up", "?", "--debug")):
        with pytest.raises(DoxaError):
            doxa(*arguments)


def test_systems_lists_formula_size_and_answers(doxa):
    code, out, _ = doxa("systems", "--entities", "100", "--relations", "10", "--dimension", "5")
    assert code == 0
    assert re.search(r"transe +α − ‖h \+ r − t‖ +ERV +5 +550", out)
    assert re.search(r"unstructured +−‖h − t‖² +EV +5 +500", out)
    assert re.search(r"complex +Re ⟨h, r, t̄⟩ +5 +even d!", out)
    report = json.loads(doxa("systems", "--json")[1])
    assert {row["system"]: row["parameters"] for row in report["systems"]}["pbe"] == (14_951 + 1_345) * 200
    assert [row["answers"] for row in report["systems"] if row["system"] == "jrme"] == [["relation"]]


def test_a_file_of_questions_is_answered_line_by_line(doxa, model, tmp_path):
    asked = tmp_path / "asked.tsv"
    asked.write_text("1,1\tup\t?\n1,1\t?\t1,2\n", encoding="utf-8")
    code, text, err = doxa("ask", model, "--questions", asked, "--top", "1", "--json")
    report = [json.loads(line) for line in text.splitlines()]
    assert code == 0, err
    assert [answer["question"] for answer in report] == [["1,1", "up", "?", None], ["1,1", "?", "1,2", None]]
    assert all(len(answer["answers"]) == 1 for answer in report)
    assert doxa("ask", model, "1,1", "--questions", asked)[0] == 2
    assert doxa("ask", model, "1,1", "up")[0] == 2
