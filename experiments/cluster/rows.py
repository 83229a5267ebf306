"""Evaluation and completion on two Ray nodes beside one process: the same figures and proposals?

    python experiments/cluster/rows.py MODEL TEST_FILE [--nodes 2] [--top 10000]

MODEL is a trained model folder. Runs `evaluate` and `complete` in this process and on a Ray cluster of several nodes on
this machine, one core each, and writes `rows.json` beside this file: every figure's largest difference, the proposals
that differ, and seconds. Figures of one process are those of one thread.
"""

from __future__ import annotations

import argparse
import json
import platform
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import ray
import torch
from partitions import start_nodes

import doxa
from doxa.cluster.rows import ClusterRows
from doxa.curation.complete import Proposals, complete
from doxa.evaluation.report import Evaluation, evaluate
from doxa.model import Model


def main() -> None:
    """Run both here and there, compare, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("test", type=Path)
    parser.add_argument("--nodes", type=int, default=2)
    parser.add_argument("--top", type=int, default=10_000)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    model, test = Model.load(arguments.model), doxa.read(arguments.test)
    start_nodes(arguments.nodes)
    report: dict[str, Any] = {"nodes": arguments.nodes, "beliefs": len(test)}
    with tempfile.TemporaryDirectory(prefix="doxa-") as parts:
        runner = ClusterRows(ray, arguments.model, Path(parts))
        report["evaluate"] = both(lambda where: evaluate(model, test, runner=where), runner, compared_figures)
        report["complete"] = both(
            lambda where: complete(model, top=arguments.top, runner=where), runner, compared_proposals
        )
    report["versions"] = {"doxa": doxa.__version__, "torch": torch.__version__, "python": platform.python_version()}
    path = Path(__file__).with_name("rows.json")
    path.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    print(path.read_text(encoding="utf-8"))


def both(
    command: Callable[[Any], Any], runner: ClusterRows, compare: Callable[[Any, Any], dict[str, Any]]
) -> dict[str, Any]:
    """Seconds here and there, and the comparison of both results."""
    results, seconds = [], []
    for where in (None, runner):
        began = time.monotonic()
        results.append(command(where))
        seconds.append(round(time.monotonic() - began, 1))
    return {"seconds_of_one_process": seconds[0], "seconds_on_ray": seconds[1], **compare(*results)}


def compared_figures(here: Evaluation, there: Evaluation) -> dict[str, Any]:
    """Figures of both, which must have the same names, and their largest difference."""
    first, second = (each.to_frame().filter(pl.col("value").is_not_null()) for each in (here, there))
    names = [name for name in first.columns if name != "value"]
    assert first.select(names).equals(second.select(names))
    differences = np.abs(first["value"].to_numpy() - second["value"].to_numpy())
    assert here.entity is not None
    return {
        "mrr": here.entity.filtered.mrr,
        "figures": len(first),
        "largest_difference": float(differences.max()),
    }


def compared_proposals(here: Proposals, there: Proposals) -> dict[str, Any]:
    """The number of proposals, of those that only one side has, and the largest difference of probabilities."""
    rows = [{tuple(triple): place for place, triple in enumerate(each.triples.tolist())} for each in (here, there)]
    common = [(place, rows[1][triple]) for triple, place in rows[0].items() if triple in rows[1]]
    first, second = np.array(common).T
    return {
        "proposals": len(rows[0]),
        "only_one_side": len(rows[0]) + len(rows[1]) - 2 * len(common),
        "same_order": here.triples.tolist() == there.triples.tolist(),
        "largest_difference_of_credence": float(np.abs(here.credence[first] - there.credence[second]).max()),
        "largest_difference_of_terms": float(np.abs(here.terms[first] - there.terms[second]).max()),
    }


if __name__ == "__main__":
    main()
