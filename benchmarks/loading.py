"""What checksums cost: `python benchmarks/loading.py [MODEL] [--rounds N] [--json FILE]`.

Loads a model folder with and without the comparison of its files with their checksums, in turn. Without MODEL, a model
of the size of FB15k is made first: 14,951 entities, 1,345 relations, 533,142 facts, dimension 200, untrained.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from doxa.data import synthetic
from doxa.lab.figures import machine
from doxa.model import Model, fit
from doxa.storage import folders

ENTITIES, RELATIONS, TRAIN, VALID = 14_951, 1_345, 483_142, 50_000


def make_model(folder: Path) -> None:
    """A model of the size of FB15k, with the weights of the start."""
    train = synthetic.generate(TRAIN, ENTITIES, RELATIONS)
    valid = synthetic.generate(VALID, ENTITIES, RELATIONS, seed=1)
    fit(train, valid, score="complex", dimension=200, epochs=1, time_budget=0.1).save(folder)


def seconds(folder: Path, checked: bool) -> float:
    """How long the model takes to load."""
    real = folders.check_files
    if not checked:
        folders.check_files = lambda *_, **__: None
    try:
        began = time.perf_counter()
        Model.load(folder)
        return time.perf_counter() - began
    finally:
        folders.check_files = real


def measured(folder: Path, rounds: int) -> dict[str, Any]:
    """Median seconds with and without checksums, of alternating rounds; the first loads do not count."""
    files = folders.entries(folder, folders.read_manifest(folder))
    times: dict[bool, list[float]] = {False: [], True: []}
    for number in range(rounds + 1):
        for checked in (False, True) if number % 2 else (True, False):
            value = seconds(folder, checked)
            if number:
                times[checked].append(value)
    without, with_checksums = (statistics.median(times[checked]) for checked in (False, True))
    return {
        "bytes": sum(entry.size for entry in files.values()),
        "rounds": rounds,
        "seconds_without_checksums": round(without, 4),
        "seconds_with_checksums": round(with_checksums, 4),
        "fastest": [round(min(times[checked]), 4) for checked in (False, True)],
    }


def main() -> None:
    """Measure, print, write JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path, nargs="?", help="a model folder; made if left out")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        folder = arguments.model or Path(place) / "model"
        if arguments.model is None:
            make_model(folder)
        figures = measured(folder, arguments.rounds) | machine()
    print(
        f"{figures['bytes'] / 1e6:.1f} MB: {1000 * figures['seconds_without_checksums']:.0f} ms without checksums, "
        f"{1000 * figures['seconds_with_checksums']:.0f} ms with them (medians of {arguments.rounds})"
    )
    if arguments.json:
        arguments.json.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
