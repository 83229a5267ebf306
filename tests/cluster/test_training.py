"""Training on a cluster: as good as in one process, whatever is killed meanwhile."""

import os
import signal
import threading
import time
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from doxa.config import Settings
from doxa.data.beliefs import Beliefs
from doxa.data.mentions import Ragged
from doxa.data.vocabulary import Vocabularies, Vocabulary
from doxa.errors import DoxaError, UsageError
from doxa.model import fit
from doxa.systems import build
from doxa.training.checkpoint import Checkpoint
from doxa.training.executors.cluster import RayCluster
from doxa.training.executors.partitioned import Partitioned
from doxa.training.loop import TrainingLoop
from doxa.training.partitions.files import Storage
from doxa.training.partitions.run import PartitionedRun
from tests.cluster.conftest import add_node
from tests.test_toy_world import SETTINGS, withheld
from tests.worlds import board, settings_of

pytestmark = [pytest.mark.cluster, pytest.mark.filterwarnings("ignore::DeprecationWarning")]

SMALL = settings_of(dimension=8, epochs=6, batch_size=8, num_candidates=8, partitions=4, patience=0, threads=1)


def loop_of(folder, train, settings=SMALL, **more):
    run = PartitionedRun(build(train, settings), train, settings, folder)
    return TrainingLoop(run, **more)


def generated(beliefs, entities, relations=50, seed=0):
    """Beliefs that follow a rule: entities have one of 20 kinds, relations lead from a kind to another one."""
    random = np.random.default_rng(seed)
    kind, to = np.arange(entities) % 20, random.integers(0, 20, (relations, 20))
    head, relation = random.integers(0, entities, beliefs), random.integers(0, relations, beliefs)
    tail = random.integers(0, entities // 20, beliefs) * 20 + to[relation, kind[head]]
    names = [Vocabulary(pl.Series(np.arange(count)), name) for name, count in
             (("entity", entities), ("relation", relations), ("word", 0))]  # fmt: skip
    return Beliefs(Vocabularies(*names), head, relation, tail, Ragged.empty(beliefs), np.full(beliefs, np.nan))


def test_the_loss_is_that_of_partitions_in_one_process(cluster, tmp_path):
    train = Beliefs.from_frame(board(6))
    settings = SMALL.changed(epochs=4)
    losses = []
    for name, executor in (("here", Partitioned), ("ray", lambda run: RayCluster(run, "auto"))):
        state = loop_of(tmp_path / name, train, settings).run(executor)
        assert (state.epoch, state.finished) == (4, True)
        losses.append([one.loss for one in state.curve])
    np.testing.assert_allclose(losses[0], losses[1], rtol=0.1)
    assert losses[1][-1] < losses[1][0]


def test_a_cluster_learns_the_board(cluster):
    """Tasks end in any order, so that no two runs are alike: nearly all steps come first, the withheld one near."""
    train, (head, relation, tail) = withheld(0)
    more = {"partitions": 3, "cluster": "auto", "epochs": 40, "learning_rate": 0.8, "dimension": 8}
    model = fit(train, seed=0, **(SETTINGS | more))
    steps = train.to_frame().select("head", "relation", "tail").rows()
    first = [answers[0].name for answers in model.ask([(head, relation, "?") for head, relation, _ in steps], top=1)]
    assert np.mean([name == tail for name, (_, _, tail) in zip(first, steps, strict=True)]) > 0.9
    assert tail in [answer.name for answer in model.tails(head, relation, top=5)]


def test_errors_of_tasks_and_of_the_command_are_those_of_doxa(cluster, tmp_path):
    train = Beliefs.from_frame(board(5))
    settings = SMALL.changed(optimizer="sgd", learning_rate=1e30)
    with pytest.raises(DoxaError, match="the loss became"):
        loop_of(tmp_path, train, settings).run(lambda run: RayCluster(run, "auto"))
    with pytest.raises(UsageError, match="partitions=0"):
        fit(train, settings=SMALL.changed(cluster="auto", partitions=0))
    with pytest.raises(UsageError, match="expected local, auto"):
        fit(train, settings=SMALL.changed(cluster="somewhere"))


def workers_of_tasks():
    """Process ids of Ray's workers that run a task of training."""
    process_ids = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                command = Path(f"/proc/{name}/cmdline").read_bytes()
            except OSError:
                continue
            if command.startswith(b"ray::train_task"):
                process_ids.append(int(name))
    return process_ids


def test_a_run_survives_a_killed_worker_and_a_killed_node(cluster, tmp_path, caplog):
    """A million beliefs of 200,000 entities: a worker is killed in the first epoch, a node in the second one.

    Every entity is in the files of the last epoch once, and the loss is that of a run without kills.
    """
    train = generated(1_000_000, 200_000)
    settings = Settings().changed(
        score="translation", dimension=16, epochs=2, batch_size=2000, num_candidates=256, partitions=4, threads=1,
        learning_rate=0.3, schedule="constant", patience=0,
    )  # fmt: skip
    undisturbed = loop_of(tmp_path / "here", train, settings).run(Partitioned)
    loop = loop_of(tmp_path / "ray", train, settings)
    kills = []
    node = add_node(cluster)

    def disturb():
        while not loop.state.finished and len(kills) < 2:
            time.sleep(0.5)
            if not kills and loop.state.step > 50:
                for process in workers_of_tasks()[:1]:
                    os.kill(process, signal.SIGKILL)
                    kills.append("worker")
            elif kills == ["worker"] and loop.state.epoch == 1 and loop.state.step > loop.steps.per_epoch + 50:
                cluster.remove_node(node, allow_graceful=False)
                kills.append("node")

    thread = threading.Thread(target=disturb, daemon=True)
    thread.start()
    state = loop.run(lambda run: RayCluster(run, "auto"))
    thread.join(timeout=10)
    assert kills == ["worker", "node"]
    assert state.finished
    assert "its task is run again" in caplog.text
    storage = Storage(str(tmp_path / "ray"))
    note = storage.read_note("epoch-00002/epoch.json")
    ids = np.concatenate([storage.read(name, ["id"])["id"] for name in note["files"]])
    assert np.array_equal(np.sort(ids), np.arange(200_000))
    assert sorted(note["tasks"]) == list(range(len(note["tasks"]))), "a task is in the files once"
    assert state.curve[-1].loss == pytest.approx(undisturbed.curve[-1].loss, rel=0.05)


def test_a_lost_cluster_costs_its_epoch(cluster, tmp_path):
    """The run goes on from the last whole epoch, on another executor."""
    train, path = Beliefs.from_frame(board(6)), tmp_path / "c.safetensors"
    loop = loop_of(tmp_path / "files", train, checkpoint=path)

    class Lost(Exception):
        pass

    def report(now=False):
        if loop.state.epoch == 2:
            raise Lost

    loop._report = report
    with pytest.raises(Lost):
        loop.run(lambda run: RayCluster(run, "auto"))
    again = loop_of(tmp_path / "files", train, checkpoint=path)
    again.resume(Checkpoint.load(path))
    state = again.run(Partitioned)
    assert (again.steps.current, state.epoch, state.finished) == ("epoch-00006", 6, True)
    assert [record.epoch for record in state.curve] == [1, 2, 3, 4, 5, 6]
