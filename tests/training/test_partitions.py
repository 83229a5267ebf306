"""Partitioned training: every bucket once, the same steps as one process, the same result after a kill."""

import errno
import os
from itertools import combinations, pairwise
from pathlib import Path

import numpy as np
import pytest
import torch

from doxa.config import Settings
from doxa.data.beliefs import Beliefs
from doxa.data.triples import TripleIndex
from doxa.errors import BadFile, UsageError
from doxa.estimators import Candidates
from doxa.model import fit
from doxa.slots import Slot
from doxa.storage import folders
from doxa.systems import build
from doxa.training.candidates import corrected_for_part, draw_candidates
from doxa.training.checkpoint import Checkpoint
from doxa.training.executors.partitioned import Partitioned
from doxa.training.fit import fit_to_folder
from doxa.training.loop import TrainingLoop
from doxa.training.partitions.buckets import read_bucket, write_buckets
from doxa.training.partitions.cuts import Cut, Plan, sequence, tournament
from doxa.training.partitions.facts import LocalFacts
from doxa.training.partitions.files import Storage
from doxa.training.partitions.run import PartitionedRun
from doxa.training.partitions.shared import SharedCopy, SharedTables
from doxa.training.partitions.tables import mapped_tables
from tests import reference_partitions as reference
from tests.test_toy_world import SETTINGS, withheld
from tests.worlds import board, settings_of

SMALL = settings_of(dimension=8, epochs=4, batch_size=8, num_candidates=8, partitions=3, patience=0, threads=1)


def loop_of(folder, settings=SMALL, train=None, **more):
    train = Beliefs.from_frame(board(4)) if train is None else train
    return TrainingLoop(PartitionedRun(build(train, settings), train, settings, folder), **more)


def weights(loop):
    return {name: tensor.clone() for name, tensor in loop.pbe.state_dict().items()}


def assert_same(first, second):
    for name, tensor in first.items():
        torch.testing.assert_close(second[name], tensor, rtol=0, atol=0)


@pytest.mark.parametrize("order", [tournament, sequence])
@pytest.mark.parametrize("partitions", [1, 2, 3, 4, 5, 8])
def test_every_bucket_is_trained_once_and_rounds_share_no_partition(order, partitions):
    rounds = order(partitions)
    plan = Plan(rounds, partitions)
    for pairs in rounds:
        used = [each for pair in pairs for each in pair]
        assert len(used) == len(set(used))
    pairs = [pair for pair in plan.tasks if len(pair) == 2]
    assert sorted(pairs) == list(combinations(range(partitions), 2))
    assert {(i, j): plan.task_of_bucket[i, j] for i in range(partitions) for j in range(partitions)} == (
        reference.buckets_of(plan.tasks)
    )


def test_pairs_one_after_the_other_share_a_partition():
    for partitions in (3, 4, 7):
        tasks = [pair for each in sequence(partitions) for pair in each]
        assert all(set(a) & set(b) for a, b in pairwise(tasks))


def test_a_cut_is_even_random_and_new_in_every_epoch():
    first, second = (Cut.draw(1001, 4, seed=3, epoch=epoch) for epoch in (0, 1))
    for cut in (first, second):
        assert sorted(cut.sizes) == [250, 250, 250, 251]
        for partition in range(4):
            ids = np.flatnonzero(cut.partition == partition)
            assert cut.row[ids].tolist() == list(range(len(ids)))
    assert 0.15 < (first.partition == second.partition).mean() < 0.35


def test_buckets_hold_every_belief_once_as_rows_of_their_partitions(tmp_path):
    train = Beliefs.from_frame(board(5))
    entities = len(train.vocabularies.entities)
    cut, plan = Cut.draw(entities, 3, 0, 0), Plan(tournament(3), 3)
    counts = write_buckets(Storage(str(tmp_path)), "epoch", train, cut, plan, chunk=7)
    seen = []
    for number, pair in enumerate(plan.tasks):
        ids = np.concatenate([np.flatnonzero(cut.partition == each) for each in pair])
        bucket = read_bucket(Storage(str(tmp_path)), "epoch", number)
        assert len(bucket) == counts[number]
        words = [tuple(row) for row in np.split(bucket.mention.values, bucket.mention.offsets[1:-1])]
        seen += zip(ids[bucket.head], bucket.relation, ids[bucket.tail], words, strict=True)
    words = [tuple(row) for row in np.split(train.mention.values, train.mention.offsets[1:-1])]
    assert sorted(seen) == sorted(zip(train.head, train.relation, train.tail, words, strict=True))


@pytest.mark.parametrize("more", [{}, {"sampling_correction": True}, {"estimator": "exact"}])
def test_the_correction_of_candidates_is_that_of_the_reference(more):
    settings = settings_of(num_candidates=20, **more)
    relations = torch.arange(3)
    pool = Candidates(torch.arange(30), relations, torch.arange(12))
    whole = (100, 3, 90)
    drawn = draw_candidates(pool, 20, np.random.default_rng(0)) if not more.get("estimator") else pool
    shares = corrected_for_part(drawn, pool, whole, settings).log_share
    assert shares[Slot.RELATION] == 0
    for slot in (Slot.HEAD, Slot.TAIL):
        wanted = 1.0 if more else 20 / whole[slot]
        expected = reference.false_share(whole[slot], len(pool.of(slot)), len(drawn.of(slot)), wanted)
        assert np.exp(shares[slot]) == pytest.approx(expected)


def test_sums_over_corrected_candidates_are_unbiased():
    """Over many cuts and draws, the sum over false candidates is on average that over all false entities."""
    entities, partitions, settings = 60, 4, settings_of(num_candidates=10, sampling_correction=True)
    random = np.random.default_rng(0)
    scores, truth, sums = random.normal(size=entities), 7, []
    for epoch in range(2000):
        cut = Cut.draw(entities, partitions, 0, epoch)
        pair = {int(cut.partition[truth]), int((cut.partition[truth] + 1) % partitions)}
        part = torch.from_numpy(np.flatnonzero(np.isin(cut.partition, list(pair))))
        pool = Candidates(part, torch.arange(1), part)
        drawn = corrected_for_part(draw_candidates(pool, 10, random), pool, (entities, 1, entities), settings)
        false = drawn.tails.numpy()[drawn.tails.numpy() != truth]
        sums.append(np.exp(scores[false] + drawn.log_share[Slot.TAIL]).sum())
    wanted = np.exp(np.delete(scores, truth)).sum()
    assert abs(np.mean(sums) - wanted) < 4 * np.std(sums) / np.sqrt(len(sums))
    assert np.std(sums) / np.sqrt(len(sums)) < 0.02 * wanted


@pytest.mark.parametrize("more", [{}, {"score": "complex", "n3": 0.1}, {"objective": "margin"}, {"optimizer": "sgd"}])
def test_one_partition_is_the_plain_loop(tmp_path, more):
    train, settings = Beliefs.from_frame(board(4)), SMALL.changed(**more)
    plain = fit(train, settings=settings, partitions=0)
    cut = fit(train, settings=settings, partitions=1)
    for name, tensor in plain.pbe.state_dict().items():
        torch.testing.assert_close(cut.pbe.state_dict()[name], tensor, rtol=1e-5, atol=1e-6)
    assert [one["loss"] for one in cut.curve] == pytest.approx([one["loss"] for one in plain.curve], rel=1e-5)


def test_partitions_find_the_withheld_step():
    train, (head, relation, tail) = withheld(0)
    model = fit(train, seed=0, threads=1, **(SETTINGS | {"partitions": 3, "epochs": 100}))
    assert model.tails(head, relation, top=1)[0].name == tail
    assert model.heads(relation, tail, top=1)[0].name == head


class Killed(Exception):
    """In place of a kill: nothing is cleaned up."""


def test_a_run_killed_in_an_epoch_goes_on_with_the_same_result(tmp_path):
    whole = loop_of(tmp_path / "whole", validate=lambda: 0.5)
    whole.run()
    path = tmp_path / "c.safetensors"
    killed = loop_of(tmp_path / "killed", checkpoint=path, validate=lambda: 0.5)
    steps = []

    def report(progress):
        steps.append(progress)
        if progress.epoch == 2 and progress.fraction > 0.6:
            raise Killed

    killed.report = report
    killed._report = lambda now=False: report(killed.progress())
    with pytest.raises(Killed):
        killed.run()
    again = loop_of(tmp_path / "killed", checkpoint=path, validate=lambda: 0.5)
    again.resume(Checkpoint.load(path))
    assert again.state.epoch == 2
    state = again.run()
    assert state.finished
    assert_same(weights(whole), weights(again))
    assert [one.loss for one in state.curve] == [one.loss for one in whole.state.curve]


def test_an_interrupted_epoch_is_run_again_from_its_own_files(tmp_path):
    """Ctrl-C keeps what was trained; the epoch under way then starts again, as with several workers."""
    path = tmp_path / "c.safetensors"
    stopped = loop_of(tmp_path / "files", checkpoint=path)

    def report(now=False):
        stopped.interrupted |= stopped.state.epoch == 1 and stopped.state.step > stopped.steps.per_epoch

    stopped._report = report
    state = stopped.run()
    assert stopped.interrupted
    assert not state.finished
    again = loop_of(tmp_path / "files", checkpoint=path)
    again.resume(Checkpoint.load(path))
    assert (again.state.epoch, again.state.step) == (1, again.steps.per_epoch)
    assert_same(weights(stopped), weights(again))
    assert again.run().finished
    assert [record.epoch for record in again.state.curve] == [1, 2, 3, 4]
    assert again.steps.current == "epoch-00004"


def test_the_best_weights_are_the_files_of_their_epoch(tmp_path):
    """The second of four epochs is the best; the run ends with its weights, and keeps no copy in memory."""
    metrics, after = iter([0.1, 0.9, 0.2, 0.3]), {}
    loop = loop_of(tmp_path)

    def validate():
        metric = next(metrics)
        after[metric] = weights(loop)
        return metric

    loop.validate = validate
    loop.run()
    assert loop.state.best_epoch == 2
    assert_same(after[0.9], weights(loop))
    assert loop.steps.best == loop.steps.current == "epoch-00002"
    assert set(Storage(str(tmp_path)).names()) == {"epoch-00002", "epoch-00003", "epoch-00004"}


def test_a_cooldown_goes_on_from_the_best_files(tmp_path):
    metrics = iter([0.9, 0.2, 0.2, 0.95, 0.1, 0.1])
    loop = loop_of(tmp_path, SMALL.changed(patience=2, epochs=10), validate=lambda: next(metrics))
    state = loop.run()
    assert state.cooldown
    assert state.finished
    assert (state.best_epoch, loop.steps.current) == (4, "epoch-00004")


def test_entities_are_neither_lost_nor_trained_in_two_places(tmp_path):
    """After each epoch the files have every entity once; rows without beliefs of a round have not moved."""
    loop = loop_of(tmp_path)
    loop.run()
    storage = Storage(str(tmp_path))
    note = storage.read_note("epoch-00004/epoch.json")
    ids = np.concatenate([storage.read(name, ["id"])["id"] for name in note["files"]])
    assert sorted(ids) == list(range(loop.pbe.entities))
    assert sorted(note["tasks"]) == list(range(len(sequence(3))))


def test_a_model_folder_trained_in_partitions_holds_nothing_else(tmp_path):
    folder, settings = tmp_path / "model", SMALL.changed(validation_fraction=0.2)
    model = fit_to_folder(Beliefs.from_frame(board(4).drop("mention")), None, folder, settings=settings)
    assert model.settings.partitions == 3
    assert not [path.name for path in folder.iterdir() if path.is_dir()]
    folders.check_ours(folder)


def test_other_storage_is_used_and_left_clean(tmp_path):
    place = tmp_path / "storage"
    place.mkdir()
    (place / "note.txt").write_text("mine")
    settings = SMALL.changed(storage=f"file://{place}", validation_fraction=0.2)
    fit_to_folder(Beliefs.from_frame(board(4).drop("mention")), None, tmp_path / "model", settings=settings)
    assert [path.name for path in place.iterdir()] == ["note.txt"]


def test_storage_that_is_no_local_folder():
    storage = Storage("memory://partitions-test")
    columns = {"a": np.arange(6).reshape(3, 2), "bounds": np.array([0, 1, 3]), "scalar": np.float32(2.0)}
    storage.write("x/one", {name: np.asarray(column) for name, column in columns.items()})
    assert storage.read("x/one", ["a"])["a"].tolist() == [[0, 1], [2, 3], [4, 5]]
    assert storage.names("x") == ["one"]
    storage.remove("x")
    assert storage.names() == []
    with pytest.raises(BadFile, match="cannot read"):
        storage.read("x/one")
    with pytest.raises(UsageError, match="fsspec"):
        Storage("nowhere://at/all")


def test_merges_add_the_changes_of_all_tasks():
    """Two tasks move copies of the same tables; in the end the owner and both copies have all changes."""
    random = np.random.default_rng(0)
    start = {"relation": random.normal(size=(5, 2)), "alpha": np.array(1.0)}
    owner = SharedTables({name: table.copy() for name, table in start.items()})
    copies, deltas = [SharedCopy(owner, task) for task in (0, 1)], []
    for turn in range(6):
        copy = copies[turn % 2]
        row, change = int(random.integers(5)), random.normal(size=2)
        copy.tables["relation"][row] += change
        copy.tables["alpha"] += 0.5
        delta = np.zeros((5, 2))
        delta[row] = change
        deltas.append({"relation": delta, "alpha": 0.5})
        copy.merge(beliefs=turn, loss=1.0)
    copies[0].merge(7, 2.0)
    wanted = reference.merged(start, deltas)
    for tables in (owner.tables, copies[0].tables, copies[1].tables):
        np.testing.assert_allclose(tables["relation"], wanted["relation"])
        np.testing.assert_allclose(tables["alpha"], wanted["alpha"])
    assert owner.progress() == (12, 3.0)
    owner.begin(1)
    assert owner.progress() == (7, 2.0)
    assert owner.repeated == 5


def test_facts_by_rows_of_a_part():
    random = np.random.default_rng(0)
    triples = np.unique(random.integers(0, [12, 3, 12], (80, 3)), axis=0)
    facts, ids = TripleIndex(triples, 12, 3), np.array([1, 4, 5, 9, 0, 3, 11])
    local = LocalFacts(facts, ids)
    columns = [random.integers(0, size, 40) for size in (7, 3, 7)]
    known = {tuple(row) for row in triples.tolist()}
    assert local.contains(*columns).tolist() == [(ids[h], r, ids[t]) in known for h, r, t in zip(*columns, strict=True)]
    query, answer = local.answers(Slot.TAIL, *columns)
    pairs = {
        (q, t)
        for q, (h, r, _) in enumerate(zip(*columns, strict=True))
        for t in range(7)
        if (ids[h], r, ids[t]) in known
    }
    assert set(zip(query.tolist(), answer.tolist(), strict=True)) == pairs
    counts = local.count_answers(Slot.HEAD, *columns)
    assert counts.tolist() == [
        sum((h, r, ids[t]) in known for h in range(12)) for _, r, t in zip(*columns, strict=True)
    ]


@pytest.mark.parametrize(
    "more",
    [
        {"filter_negatives": True},
        {"max_answers": 2},
        {"system": "transh"},
        {"mention_term": "joint"},
        {"estimator": "negative"},
        {"system": "ntn"},
    ],
    ids=lambda more: next(iter(more.values())),
)
def test_every_kind_of_step_runs_in_partitions(more):
    values = {
        "dimension": 8,
        "epochs": 2,
        "batch_size": 8,
        "num_candidates": 8,
        "partitions": 3,
        "score": "translation",
    }
    if "system" in more:
        del values["score"]
    model = fit(Beliefs.from_frame(board(4)), threads=1, **(values | more))
    assert all(torch.isfinite(tensor).all() for tensor in model.pbe.state_dict().values())
    assert len(model.curve) == 2


def test_tables_of_a_partitioned_run_are_mapped_files(tmp_path):
    with mapped_tables(tmp_path):
        pbe = build(Beliefs.from_frame(board(4)), SMALL)
    plain = build(Beliefs.from_frame(board(4)), SMALL)
    for name, tensor in plain.state_dict().items():
        assert torch.equal(pbe.state_dict()[name], tensor)
    assert str(tmp_path) in Path("/proc/self/maps").read_text()
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(not hasattr(os, "posix_fallocate"), reason="needs posix_fallocate")
def test_a_full_disk_is_an_error_before_a_table_is_mapped(tmp_path, monkeypatch):
    """Later it would be a signal, in whatever writes to the table."""

    def full(file, offset, size):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(OSError, match="No space left"), mapped_tables(tmp_path):
        build(Beliefs.from_frame(board(4)), SMALL)
    assert not list(tmp_path.iterdir())


def test_a_stopped_run_keeps_what_it_trained(tmp_path):
    """A time budget that ends in an epoch leaves the versions that there are."""
    run = PartitionedRun(build(Beliefs.from_frame(board(4)), SMALL), Beliefs.from_frame(board(4)), SMALL, tmp_path)
    before = {name: tensor.clone() for name, tensor in run.pbe.state_dict().items()}
    runner = Partitioned(run)
    runner.warm_up()
    reports = []
    for progress in runner.run_epoch(range(run.per_epoch), lambda step: step / 2):
        reports.append(progress)
    runner.close()
    assert 0 < reports[-1].steps < run.per_epoch
    assert run.current == "epoch-00001"
    assert not torch.equal(before["score.entity.weight"], run.pbe.state_dict()["score.entity.weight"])


def test_partitions_are_fixed_when_a_run_is_resumed(tmp_path):
    path = tmp_path / "c.safetensors"
    loop_of(tmp_path / "a", checkpoint=path).run()
    other = loop_of(tmp_path / "a", SMALL.changed(partitions=2))
    with pytest.raises(UsageError, match="partitions=3"):
        other.resume(Checkpoint.load(path))
    assert Settings().partitions == 0


def test_damaged_files_of_an_epoch_are_refused_when_a_run_is_resumed(tmp_path):
    path = tmp_path / "c.safetensors"
    run = loop_of(tmp_path / "files", checkpoint=path, validate=lambda: 0.5)
    run.run()
    name = run.steps.storage.read_note(f"{run.steps.current}/epoch.json")["files"][0]
    file = Path(run.steps.storage.path(name))
    content = bytearray(file.read_bytes())
    content[-3] ^= 1
    file.write_bytes(content)
    with pytest.raises(BadFile, match="is damaged: its checksum is another one"):
        loop_of(tmp_path / "files", checkpoint=path).resume(Checkpoint.load(path))
