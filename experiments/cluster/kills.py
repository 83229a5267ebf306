"""Ray nodes killed with SIGKILL at random moments, the head node among them: does the run end, and how good is it?

    python experiments/cluster/kills.py DATA --work WORK [--kills 20]

Starts a cluster of three nodes on this machine and `doxa train` on it. Kills a node at a random moment in which tasks
are trained and starts another one, until so many were killed. Every fourth kill is that of the head node, which ends
the cluster. It is started anew and the run goes on with --resume. The same run without kills is trained first, for its
quality. Every epoch notes the tasks whose rows are in its files: each of them must be there once. Writes `kills.json`
beside this file.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import doxa
from doxa.cluster.connection import ENVIRONMENT

HEAD_EVERY = 4
"""Kills of which the last one is that of the head node."""


def main() -> None:
    """Train, kill, evaluate, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--seconds", type=float, default=6.0, help="mean time from one kill to the next")
    arguments = parser.parse_args()
    os.environ.update(ENVIRONMENT)
    times, killed, runs, notes = random.Random(0), list[str](), 0, dict[str, Any]()
    model = arguments.work / "model"
    cluster = Nodes()
    if start(arguments, cluster.address, resume=False).wait():
        sys.exit("training without kills failed")
    undisturbed = mrr(arguments, model)
    training = start(arguments, cluster.address, resume=False)
    while training.poll() is None:
        read_notes(model, notes)
        time.sleep(min(1.0, times.expovariate(1 / arguments.seconds)))
        if times.random() > 1 / arguments.seconds or not is_training() or len(killed) == arguments.kills:
            continue
        if (len(killed) + 1) % HEAD_EVERY:
            cluster.kill_worker(times)
            killed.append("node")
            continue
        cluster.kill()
        killed.append("head")
        try:
            training.wait(60)
        except subprocess.TimeoutExpired:
            killed[-1] = "head; the command did not end by itself"
            training.kill()
            training.wait()
        cluster, runs = Nodes(), runs + 1
        training = start(arguments, cluster.address, resume=(model / "checkpoint.safetensors").exists())
    cluster.kill()
    if training.returncode:
        sys.exit(f"training ended with {training.returncode}")
    if len(killed) < arguments.kills:
        sys.exit(f"training ended after {len(killed)} kills; raise --epochs or lower --seconds")
    report: dict[str, Any] = {
        "kills": killed, "resumed": runs, "mrr": mrr(arguments, model), "mrr_without_kills": undisturbed,
        "epochs": arguments.epochs, "epochs_noted": len(notes),
        "epochs_with_a_task_twice": sum(len(set(tasks)) < len(tasks) for tasks in notes.values()),
        "tasks_of_an_epoch": sorted({len(tasks) for tasks in notes.values()}),
    }  # fmt: skip
    path = Path(__file__).with_name("kills.json")
    path.write_text(json.dumps(report, indent=1) + "\n")
    print(path.read_text())


def mrr(arguments: argparse.Namespace, model: Path) -> float:
    """The filtered MRR of the trained model on the test set."""
    evaluation = doxa.load(model).evaluate(doxa.read(arguments.data / "test.tsv"), tasks=("entity",))
    assert evaluation.entity is not None
    return round(evaluation.entity.filtered.mrr, 5)


def read_notes(model: Path, notes: dict[str, Any]) -> None:
    """Add the tasks of every epoch that has become whole; of earlier ones the files are removed."""
    for path in model.glob("partitions/epoch-*/epoch.json"):
        with contextlib.suppress(OSError, ValueError):
            notes.setdefault(path.parent.name, json.loads(path.read_text())["tasks"])


def is_training() -> bool:
    """Whether a worker of Ray is training a task now."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if path.read_bytes().startswith(b"ray::train_task"):
                return True
    return False


class Nodes:
    """A Ray cluster on this machine: a head node and two others, each a process group of its own."""

    def __init__(self) -> None:
        from ray.cluster_utils import Cluster

        self._cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "object_store_memory": 10**8})
        self.workers = [self._add() for _ in range(2)]
        self.address = self._cluster.address

    def _add(self) -> Any:
        for _ in range(3):  # a busy machine may not start a node within 30 seconds
            with contextlib.suppress(Exception):
                return self._cluster.add_node(num_cpus=1, object_store_memory=10**8)
        sys.exit("a node does not start")

    def kill_worker(self, times: random.Random) -> None:
        """Kill one of the other nodes and start a new one."""
        node = self.workers.pop(times.randrange(len(self.workers)))
        self._cluster.remove_node(node, allow_graceful=False)
        self.workers.append(self._add())

    def kill(self) -> None:
        """Kill all nodes."""
        for process in self._cluster.head_node.all_processes.values():
            for each in process:
                os.kill(each.process.pid, signal.SIGKILL)
        self._cluster.shutdown()


def start(arguments: argparse.Namespace, address: str, resume: bool) -> subprocess.Popen[bytes]:
    """`doxa train` on the cluster."""
    code = "from doxa.cli import main; main()"
    command = [sys.executable, "-c", code, "train", str(arguments.data), "--out", str(arguments.work / "model"),
               "--score", "translation", "--set", "dimension=100", "--set", f"epochs={arguments.epochs}",
               "--partitions", "4", "--cluster", "auto"]  # fmt: skip
    command += ["--resume"] if resume else ["--force"]
    return subprocess.Popen(command, env=os.environ | {"RAY_ADDRESS": address})


if __name__ == "__main__":
    main()
