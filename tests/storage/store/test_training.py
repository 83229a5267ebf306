"""A store wherever a file of beliefs is: training, evaluation, the update of the live model, and the command line."""

import io
import json
import shutil
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
import torch

import doxa as package
from doxa.curation import living
from doxa.curation.field import kappa, statistics
from doxa.errors import BadFile, BadModel, BadStore, UsageError
from doxa.model import Model
from doxa.storage import models as stored
from doxa.storage import sources
from doxa.storage.folders import signed
from doxa.storage.store.knowledge_base import KnowledgeBase
from doxa.storage.store.publishing import ModelVersions, checksum
from doxa.storage.store.version_folders import new_folder
from tests.worlds import board

QUICK = ["--set", "dimension=8", "--set", "epochs=4", "--set", "batch_size=32", "--set", "num_candidates=8"]


@pytest.fixture(name="doxa_command")
def _doxa_command(doxa, monkeypatch):
    """Run a command that succeeds; its standard output."""

    def run(*arguments, stdin=""):
        monkeypatch.setattr("sys.stdin", io.StringIO(stdin))
        code, out, err = doxa(*arguments)
        assert code == 0, err
        return out

    return run


@pytest.fixture
def world(tmp_path):
    """A board of squares in a store, and its file."""
    return new_world(tmp_path / "kb.db")


def new_world(place):
    kb = KnowledgeBase.create(place, valid=0.15, test=0.15, curator="ann")
    kb.import_beliefs(board(6, words=False), source="board")
    return kb


def weights(folder):
    return Model.load(folder).pbe.state_dict()


@pytest.mark.parametrize(
    ("fault", "writable", "code"),
    [("it is read-only", False, 0), ("it is read-only", True, 1), ("the disk is full or broken", False, 1)],
)
def test_a_model_that_cannot_be_recorded_is_kept_and_reported(
    world, tmp_path, monkeypatch, doxa, fault, writable, code
):
    def fails(*_, **__):
        raise BadStore(f"kb.db cannot be written: {fault}")

    assert sources.is_writable(world.place)
    monkeypatch.setattr(type(world.models), "register", fails)
    monkeypatch.setattr(sources, "is_writable", lambda path: writable)
    ended, _, text = doxa("train", world.place, "--out", tmp_path / "m", *QUICK)
    assert (ended, fault in " ".join(text.split())) == (code, True)
    package.load(tmp_path / "m")


def test_training_again_from_a_snapshot_gives_the_same_weights(world, tmp_path, doxa_command):
    doxa_command("train", world.place, "--out", tmp_path / "m1", *QUICK)
    model = Model.load(tmp_path / "m1")
    assert model.origin["store"]["snapshot"] == 1
    assert world.models.live().folder == (tmp_path / "m1").resolve()
    world.add("new square", "right", "s0")
    world.import_beliefs([("new", "up", "newer", "with a mention", 0.5)])
    world.retract(*world.beliefs("train").to_frame().row(0)[:3])
    world.rename(world.beliefs("train").to_frame().row(5)[0], "renamed")
    doxa_command("train", f"{world.place}@1", "--out", tmp_path / "m2", *QUICK)
    first, second = weights(tmp_path / "m1"), weights(tmp_path / "m2")
    assert first.keys() == second.keys()
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert Model.load(tmp_path / "m2").origin["sha256"] == model.origin["sha256"]
    assert [one.state for one in world.models.all()] == ["live", "candidate"]


def test_parts_of_a_store_are_files(world, tmp_path, doxa_command):
    parts = {part: package.read(f"{world.place}#{part}") for part in ("train", "valid", "test")}
    assert sum(map(len, parts.values())) == len(package.read(str(world.place))) == len(board(6))
    assert parts["train"].text is None
    profile = package.inspect(str(world.place)).as_dict()
    assert set(profile["parts"]) == {"train", "valid", "test"}
    doxa_command("train", world.place, "--out", tmp_path / "m", *QUICK)
    doxa_command("evaluate", tmp_path / "m", f"{world.place}#test", "--tasks", "entity", "--json", tmp_path / "e.json")
    queries = json.loads((tmp_path / "e.json").read_text())["protocol"]["queries"]
    assert queries == len(parts["test"])
    dataset = sources.dataset(str(world.place))
    assert str(dataset.train).endswith("kb.db@1#train")


@pytest.fixture
def reviewed(world, tmp_path):
    """A store with a live model and decided proposals."""
    return review(world, tmp_path / "m1")


def review(world, folder):
    model = package.fit(world.beliefs("train"), valid=world.beliefs("valid"), dimension=8, epochs=10, batch_size=32,
                     num_candidates=8, threads=1)  # fmt: skip
    model.save(folder)
    world.models.register(folder, world.snapshot())
    names = model.vocabularies.entities.names
    proposed = pl.DataFrame({"head": names[:6], "relation": ["up"] * 6, "tail": names[6:12], "credence": [0.5] * 6})
    world.queue.propose(proposed, "missing")
    for verdict in ("accept", "reject", "reject", "unsure"):
        world.queue.decide(world.queue.claim().id, verdict)
    return world


def test_update_learns_decisions_and_publishes(reviewed, monkeypatch):
    facts = reviewed.beliefs("train").to_frame().select("head", "relation", "tail")
    reviewed.retract(*facts.row(3))
    monkeypatch.setattr(living, "_is_worse", lambda one: False)
    updated = living.update_live(reviewed, epochs=1)
    counts = updated.result.counts
    assert {name: counts[name] for name in ("retracted", "labels", "negatives")} == {
        "retracted": 1, "labels": 3, "negatives": 2}  # fmt: skip
    assert counts["beliefs"] >= 1
    assert updated.published
    assert reviewed.models.live().id == updated.version.id
    model = Model.load(updated.version.folder)
    assert model.origin["store"]["snapshot"] == reviewed.snapshot()
    ids = [model.vocabularies.entities.ids(pl.Series([facts.row(3)[0]]))]
    assert ids[0][0] >= 0
    assert living.update_live(reviewed) is None


def test_decided_proposals_move_the_credence_of_proposals_alone(reviewed):
    old = Model.load(reviewed.models.live().folder)
    known = reviewed.beliefs("train").to_frame().select("head", "relation", "tail").head(1)
    reviewed.queue.propose(known.with_columns(credence=0.1), "suspect")
    reviewed.queue.decide(reviewed.queue.claim(order="uncertainty").id, "unsure")
    while (proposal := reviewed.queue.claim()) is not None:
        reviewed.queue.decide(proposal.id, "accept" if proposal.kind == "suspect" else "unsure")
    parts = {part: reviewed.beliefs(part) for part in ("train", "valid")}
    changes = living.changes_since(old, parts, reviewed.labels())
    assert changes.labels.rows() == [(*known.row(0), 1)]
    assert changes.proposals["label"].to_list() == [1, -1, -1]

    class Curve:
        def adjust(self, credence, relation, true):
            return credence.tolist(), relation.tolist(), true.tolist()

    model = replace(old, calibration=replace(old.calibration, proposals=Curve()))
    result = living._with_decided(living.UpdateResult(model, None, {"labels": 1}), changes.proposals)
    up = old.vocabularies.relations.ids(pl.Series(["up"])).tolist()
    assert result.model.calibration.proposals == ([0.5] * 3, up * 3, [True, False, False])
    assert result.counts == {"labels": 4}


def test_a_worse_model_stays_a_candidate(reviewed, monkeypatch):
    monkeypatch.setattr(living, "_is_worse", lambda one: (one.task, one.metric) == ("entity", "mrr"))
    updated = living.update_live(reviewed, epochs=1)
    assert not updated.published
    assert updated.reason.startswith("worse on")
    assert "mrr" in updated.reason
    assert reviewed.models.live().id == 1


@pytest.mark.parametrize("what", ["save", "register"])
def test_an_update_that_cannot_be_written_leaves_no_folder(reviewed, monkeypatch, what):
    def fails(*_, **__):
        raise BadFile("cannot write: No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(*((stored, "write") if what == "save" else (ModelVersions, "register")), fails)
        with pytest.raises(BadFile):
            living.update_live(reviewed, epochs=1)
    models = reviewed.place.path.with_suffix(".models")
    assert list(models.iterdir()) == []
    assert living.update_live(reviewed, epochs=1).version.folder == models / "2"


def leave_folder(kb, monkeypatch):
    """An update that fails to record its version, and then cannot read the store: it leaves its folder."""
    with monkeypatch.context() as patched:

        def fails(*_, **__):
            patched.setattr(ModelVersions, "all", fails)
            raise BadStore("the disk is full or broken")

        patched.setattr(ModelVersions, "register", fails)
        with pytest.raises(BadStore):
            living.update_live(kb, epochs=1)


def test_the_next_update_removes_a_folder_without_a_version(new_place, tmp_path, monkeypatch):
    kb = review(new_world(new_place()), tmp_path / "m1")
    parent = tmp_path if kb.place.is_postgres else kb.place.path.with_suffix(".models")
    name = "m1-2" if kb.place.is_postgres else "2"
    before = sorted(parent.glob("*"))
    leave_folder(kb, monkeypatch)
    left = checksum(parent / name)
    shutil.copytree(parent / name, parent / f"{name}0")  # the mark is that of another folder
    (parent / f"{name}1").mkdir()
    updated = living.update_live(kb, epochs=2)  # other weights than those of one epoch
    assert updated.version.folder == (parent / name).resolve()
    assert checksum(parent / name) != left
    assert sorted(parent.glob("*")) == sorted([*before, parent / name, parent / f"{name}0"])


def test_a_folder_that_another_update_is_using_stays(reviewed):
    with new_folder(reviewed, reviewed.models.live()) as folder:
        assert living.update_live(reviewed, epochs=1).version.folder == folder.with_name("3")
        assert folder.exists()


def test_recorded_models_and_other_folders_stay(reviewed, monkeypatch, tmp_path):
    models = reviewed.place.path.with_suffix(".models")
    monkeypatch.setattr(living, "_is_worse", lambda one: False)
    retired = living.update_live(reviewed, epochs=1).version.folder
    reviewed.models.publish(1)
    manifest = json.loads((shutil.copytree(retired, models / "5") / "model.json").read_text())
    manifest["origin"]["store"]["folder"] = "5"
    (models / "5" / "model.json").write_text(signed(manifest))
    reviewed.models.register(tmp_path / "before" / "5", 1, sha256=checksum(models / "5"))  # moved since
    shutil.copytree(tmp_path / "m1", models / "6")  # trained, not updated
    for name in ("7/notes.txt", "8/checkpoint.safetensors", "notes/weights.safetensors"):
        (models / name).parent.mkdir()
        (models / name).touch()
    (models / "9").touch()
    (models / "10").symlink_to(tmp_path / "m1")
    before = {path.name for path in models.iterdir()}
    assert living.update_live(reviewed, epochs=1).version.folder == models / "4"
    assert {path.name for path in models.iterdir()} == before | {"4"}
    assert {path.name for path in (models / "10").iterdir()} == {path.name for path in (tmp_path / "m1").iterdir()}


def test_the_rule_of_publishing():
    def difference(task, metric, low, high):
        return living.Difference(task, metric, 0.5, 0.5, (low + high) / 2, low, high, "")

    assert living._is_worse(difference("entity", "mrr", -0.2, -0.1))
    assert not living._is_worse(difference("entity", "mrr", -0.2, 0.1))
    assert living._is_worse(difference("calibration", "brier", 0.1, 0.2))
    assert not living._is_worse(difference("calibration", "brier", -0.2, -0.1))
    assert not living._is_worse(difference("entity", "hits@1", -0.2, -0.1))


def test_update_follows_renames(reviewed, monkeypatch):
    name = reviewed.beliefs("train").to_frame()["head"][0]
    reviewed.rename(name, "renamed")
    monkeypatch.setattr(living, "_is_worse", lambda one: False)
    updated = living.update_live(reviewed, epochs=1)
    assert updated.result.counts["retracted"] == updated.result.counts["new_entities"] == 0
    names = updated.result.model.vocabularies.entities.names.to_list()
    assert "renamed" in names
    assert name not in names


def test_statistics_of_review():
    decisions = pl.DataFrame(
        {
            "curator": ["ann", "ann", "ann", "bob", "bob", "ann"],
            "verdict": ["accept", "reject", "accept", "accept", "replace", "unsure"],
            "reason": [None, "other", None, None, None, None],
            "credence": [0.9, 0.2, 0.6, 0.9, 0.6, 0.5],
            "belief_id": [1, 2, 3, 1, 3, 4],
            "run_id": [1] * 6,
            "kind": ["missing"] * 6,
        }
    )
    figures = statistics(decisions)
    assert figures.precision == pytest.approx(2 / 3)
    assert (figures.pairs, figures.agreement, figures.disagreements) == (2, 0.5, {"accept, reject": 1})
    assert figures.kappa == pytest.approx(0.0)
    assert figures.calibration.brier == pytest.approx(np.mean([0.1**2, 0.2**2, 0.4**2]))
    assert figures.reasons == {"other": 1}
    assert statistics(decisions.clear()).calibration is None


def test_kappa():
    first, second = ["yes"] * 25 + ["no"] * 25, ["yes"] * 20 + ["no"] * 5 + ["yes"] * 10 + ["no"] * 15
    assert kappa(first, second) == pytest.approx(0.4)
    assert kappa(["yes"], ["yes"]) is None


def test_the_commands(tmp_path, doxa_command):
    kb, file = tmp_path / "kb.db", tmp_path / "facts.tsv"
    file.write_text("head\trelation\ttail\nlyon\tin\tfrance\nparis\tin\tfrance\n")
    doxa_command("kb", "init", kb, "--valid", "0.1")
    assert "2 beliefs about 3 entities" in doxa_command("kb", "import", kb, file)
    doxa_command("kb", "add", kb, "rome", "in", "italy", "--as", "eve", "--note", "by hand")
    doxa_command("kb", "retract", kb, "lyon", "in", "france", "--reason", "other")
    doxa_command("kb", "rename", kb, "rome", "Rome")
    doxa_command("kb", "merge", kb, "lyon", "paris")
    doxa_command("kb", "undo", kb, "5")
    assert "5 decisions" not in doxa_command("kb", "rollback", kb, "--to", "2")
    printed = doxa_command("kb", "export", kb, "-")
    assert printed.splitlines() == ["lyon\tin\tfrance", "paris\tin\tfrance", "rome\tin\titaly"]
    doxa_command("kb", "export", kb, tmp_path / "then.tsv", "--at", "3")
    assert "lyon" not in (tmp_path / "then.tsv").read_text()
    assert "eve  add  rome · in · italy  [by hand]" in doxa_command("kb", "log", kb)
    assert "stated by facts.tsv" in doxa_command("kb", "history", kb, "paris", "in", "france")
    assert json.loads(doxa_command("kb", "status", kb, "--json"))["beliefs"] == 3
    doxa_command("kb", "log", kb, "--out", tmp_path / "log.tsv")
    doxa_command("kb", "init", tmp_path / "kb2.db")
    doxa_command("kb", "import", tmp_path / "kb2.db", tmp_path / "log.tsv")
    doxa_command("kb", "backup", kb, tmp_path / "copy.db")
    assert doxa_command("kb", "export", tmp_path / "copy.db", "-") == printed
    assert doxa_command("kb", "export", tmp_path / "kb2.db", "-") == printed


def test_importing_a_file_again_is_noted(tmp_path, doxa):
    kb, file = tmp_path / "kb.db", tmp_path / "facts.tsv"
    file.write_text("lyon\tin\tfrance\n")
    notes = []
    for command in (("init", kb), ("import", kb, file), ("import", kb, file), ("undo", kb, 1), ("undo", kb, 2),
                    ("import", kb, file)):  # fmt: skip
        code, _, err = doxa("kb", *command)
        assert code == 0, err
        notes.append("Note: decision 1 imported the same file before" in err)
    assert notes == [False, False, True, False, False, False]


def test_review_in_the_terminal(reviewed, doxa_command):
    reviewed.close()
    printed = doxa_command("review", "next", reviewed.place, "--as", "bob", stdin="z\na\nu\na\nx 2\n")
    assert "reject, wrong tail" in printed
    assert "before calibration" in printed
    assert "judged" not in printed  # one credence, that of the proposal
    assert "the last review is undone" in printed
    assert reviewed.queue.counts() == {"open": 0, "decided": 6, "withdrawn": 0, "leased": 0}
    figures = json.loads(doxa_command("review", "stats", reviewed.place, "--json"))
    assert figures["verdicts"] == {"reject": 3, "accept": 2, "unsure": 1}
    assert "calibration in the field" in doxa_command("review", "stats", reviewed.place)
    doxa_command("review", "undo", reviewed.place, "--as", "bob")
    doxa_command("review", "decide", reviewed.place, "6", "accept")
    doxa_command("review", "undo", reviewed.place)
    assert doxa_command("review", "next", reviewed.place, "--json").startswith("{")


def test_complete_proposes_nothing_that_the_store_holds(reviewed):
    model = Model.load(reviewed.models.live().folder)
    first = model.complete(min_credence=0, top=3).to_frame().select("head", "relation", "tail")
    reviewed.import_beliefs(first.head(1), source="more")
    reviewed.decide(*first.row(1), "reject")
    without = model.complete(min_credence=0, top=3, exclude=reviewed.settled()).to_frame()
    assert without.row(0)[:3] == first.row(2)
    assert not set(without.select("head", "relation", "tail").rows()) & set(first.rows()[:2])


def test_models_and_accounts_by_command(reviewed, doxa_command, tmp_path):
    place = reviewed.place
    other = shutil.copytree(reviewed.models.live().folder, tmp_path / "other")
    reviewed.models.register(other, reviewed.snapshot(), sha256=checksum(other), reason="worse on valid")
    assert "version 2: worse on valid" in doxa_command("kb", "models", place)
    assert "version 1 is retired" in doxa_command("kb", "publish", place, "2")
    assert [one["state"] for one in json.loads(doxa_command("kb", "models", place, "--json"))] == ["retired", "live"]
    manifest = other / "model.json"
    manifest.write_text(signed(json.loads(manifest.read_text()) | {"curve": []}))
    with pytest.raises(BadModel, match="another model was written there"):
        living.update_live(reviewed)
    assert reviewed.models.register(other, reviewed.snapshot()).state == "live"
    token = doxa_command("kb", "account", "add", place, "eve", "--role", "reader").splitlines()[-1]
    assert reviewed.accounts.of_token(token) == ("eve", "reader")
    assert "eve" in doxa_command("kb", "account", "list", place)
    doxa_command("kb", "account", "remove", place, "eve")
    assert reviewed.accounts.of_token(token) is None
    assert "publish model version 2" in doxa_command("kb", "account", "log", place)


def test_an_update_overtaken_by_another_stays_a_candidate(reviewed, tmp_path):
    models = reviewed.models
    second = models.register(tmp_path / "b", 1, state="live", parent=models.live().id)
    third = models.register(tmp_path / "c", 1, state="live", parent=1)
    assert (second.state, third.state) == ("live", "candidate")
    assert "version 2 has become live meanwhile" in third.reason


def test_update_refuses_folders_of_other_models(reviewed, tmp_path):
    live = reviewed.models.live().folder
    with pytest.raises(UsageError, match="is the live model"):
        living.update_live(reviewed, live)
    with pytest.raises(UsageError, match="already holds a model"):
        living.update_live(reviewed, shutil.copytree(live, tmp_path / "other"))
