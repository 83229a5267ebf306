"""What partitions cost: filtered MRR and ECE of credence with and without them, after the same passes.

    python experiments/cluster/partitions.py DATA --work WORK [--score translation] [--partitions 4] [--cluster RAY]

DATA is a dataset folder such as FB15k. Trains one model in one process and one in partitions, evaluates both on the
test beliefs, and writes `partitions-SCORE-P.json` beside this file (`-ray` with a cluster). One process is not trained
again where that file has its figures. With --nodes, the figures of `doxa bench cluster` on these nodes are added.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import time
from pathlib import Path
from typing import Any

import torch

import doxa
from doxa.cluster.connection import ENVIRONMENT
from doxa.lab.bench_cluster import cluster
from doxa.lab.figures import Bench
from doxa.training.fit import calibrated, resolved, train
from doxa.training.partitions.shared import SYNCHRONIZE


def main() -> None:
    """Train both, evaluate, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--score", default="translation")
    parser.add_argument("--partitions", type=int, default=4)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--dimension", type=int, default=100)
    parser.add_argument("--cluster", default="")
    parser.add_argument("--nodes", type=int, default=0, help="start a Ray cluster of so many nodes on this machine")
    parser.add_argument("--work", type=Path, required=True)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    settings = {
        "score": arguments.score, "dimension": arguments.dimension, "epochs": arguments.epochs,
        "validate_every": arguments.epochs, "threads": 1,
    }  # fmt: skip
    cut: dict[str, Any] = {"partitions": arguments.partitions, "cluster": arguments.cluster}
    report: dict[str, Any] = {"settings": settings | cut}
    folder, name = Path(__file__).parent, f"partitions-{arguments.score}-{arguments.partitions}"
    report["one_process"] = earlier(folder / f"{name}.json", settings) or measure(
        arguments.data, settings, arguments.work / "one"
    )
    if arguments.nodes:
        start_nodes(arguments.nodes)
        cut["cluster"] = report["settings"]["cluster"] = "auto"
        report["nodes"], report["steps_between_merges"] = arguments.nodes, SYNCHRONIZE
        figures = cluster(arguments.data, arguments.dimension, arguments.partitions, "auto")
        report["bench"] = Bench(tuple(figures)).as_dict()
    report["partitions"] = measure(arguments.data, settings | cut, arguments.work / "cut")
    one, parts = report["one_process"], report["partitions"]
    report["loss_of_mrr"] = round(one["mrr"] - parts["mrr"], 5)
    report["difference_of_ece"] = round(parts["ece"] - one["ece"], 5)
    report["versions"] = {"doxa": doxa.__version__, "torch": torch.__version__, "python": platform.python_version()}
    path = folder / f"{name}{'-ray' if cut['cluster'] else ''}.json"
    path.write_text(json.dumps(report, indent=1) + "\n")
    print(path.read_text())


def earlier(path: Path, settings: dict[str, Any]) -> dict[str, float] | None:
    """The figures of one process from an earlier run with the same settings."""
    if not path.exists():
        return None
    report = json.loads(path.read_text())
    same = all(report["settings"].get(name) == value for name, value in settings.items())
    return dict(report["one_process"]) if same else None


def start_nodes(count: int) -> None:
    """Start a Ray cluster of several nodes on this machine, one core each, and connect to it."""
    import ray
    from ray.cluster_utils import Cluster

    os.environ.update(ENVIRONMENT)
    head = {"num_cpus": 1, "object_store_memory": 10**8, "include_dashboard": False}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    for _ in range(count - 1):
        cluster.add_node(num_cpus=1, object_store_memory=10**8)
    ray.init(address=cluster.address, log_to_driver=False)


def measure(data: Path, settings: dict[str, Any], work: Path) -> dict[str, float]:
    """The figures of a model trained with these settings."""
    work.mkdir(parents=True, exist_ok=True)
    beliefs, valid, test = (doxa.read(data / f"{name}.tsv") for name in ("train", "valid", "test"))
    began = time.monotonic()
    result = train(beliefs, valid, settings=resolved(None, settings), checkpoint=work / "checkpoint.safetensors")
    seconds = time.monotonic() - began
    model = calibrated(result)
    evaluation = model.evaluate(test, tasks=("entity", "calibration"))
    assert evaluation.entity is not None
    assert evaluation.calibration is not None
    return {
        "mrr": round(evaluation.entity.filtered.mrr, 5),
        "hits@10": round(evaluation.entity.filtered.hits[10], 5),
        "ece": round(evaluation.calibration.after.ece, 5),
        "seconds": round(seconds, 1),
        "beliefs_per_second": round(len(result.train) * result.state.epoch / result.state.seconds),
    }


if __name__ == "__main__":
    main()
