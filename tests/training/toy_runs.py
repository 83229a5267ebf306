"""Toy runs whose weights tell one version of training from another.

python -m tests.training.toy_runs       writes toy_runs.json anew, which a change of weights needs a new VERSION for
"""

import json
from pathlib import Path

import numpy as np
import polars as pl

from doxa.data.beliefs import Beliefs
from doxa.systems import build, recipe
from doxa.training import VERSION
from doxa.training.plan import planned
from doxa.training.query_steps import steps_of
from doxa.training.words import fit_words, prepare_words
from tests.worlds import board

FILE = Path(__file__).with_name("toy_runs.json")

STEPS = 6
"""Few steps, so that differences in rounding between processors stay far below TOLERANCE."""

TOLERANCE = 1e-4
"""Weights that differ by more are others. Rounding makes differences of about 1e-6."""

RUNS = {
    "pbe": {"score": "translation"},
    "pbe-unit": {"score": "translation", "entity_norm": "unit", "max_answers": 2, "graph_smoothing": 2},
    "pbe-joint": {"score": "translation", "mention_term": "joint"},
    "pbe-complex": {"score": "complex", "n3": 0.1, "sampling_correction": True},
    "pbe-rotate": {"score": "rotate"},
    "pbe-distmult": {"score": "distmult", "l2": 0.01},
    "pbe-queries": {"score": "complex", "batch_by": "queries", "n3": 0.1},
    "pbe-label": {"score": "complex", "confidence": "label"},
    "pbe-eq-5": {"score": "translation", "objective": "confidence"},
    "pbe-paper": {"system": "pbe-paper"},
    "transe": {"system": "transe"},
    "transm": {"system": "transm", "filter_negatives": True},
    "transh": {"system": "transh"},
    "jrme": {"system": "jrme"},
    "se": {"system": "se"},
    "ntn": {"system": "ntn"},
    "slm": {"system": "slm"},
    "bilinear": {"system": "bilinear"},
    "unstructured": {"system": "unstructured"},
}
"""Settings of every kind of training that the experiments use."""


def world():
    table = board(4)
    return Beliefs.from_frame(table.with_columns(confidence=pl.Series(np.linspace(0.4, 1.0, len(table)))))


def settings_of(name, **more):
    return recipe({"dimension": 4, "num_candidates": 6, "threads": 1, **RUNS[name], **more})


def weights(name, **more):
    """The settings of a toy run with all automatic values, and its weights by name, rounded."""
    train, settings = prepare_words(world(), settings_of(name, **more))
    settings = planned(settings, len(train), len(train.vocabularies.entities), 10)
    pbe = build(train, settings)
    fit_words(pbe, train, None, settings)
    steps = steps_of(pbe, train, settings)
    for number in range(STEPS):
        steps.take(number, number / STEPS)
    rounded = {key: np.round(p.detach().double().numpy(), 5).reshape(-1).tolist() for key, p in pbe.named_parameters()}
    return settings.as_dict(), {key: numbers[:40] for key, numbers in rounded.items()}


def differences(stored, made):
    """The largest difference by the name of a table; infinite where tables are others."""
    if stored.keys() != made.keys() or any(len(stored[key]) != len(made[key]) for key in made):
        return {"tables": float("inf")}
    return {key: float(np.abs(np.subtract(stored[key], made[key])).max()) for key in made if made[key]}


def main():
    before = json.loads(FILE.read_text()) if FILE.exists() else {"version": None, "runs": {}}
    runs = {name: dict(zip(("settings", "weights"), weights(name), strict=True)) for name in RUNS}
    changed = [
        name
        for name, run in before["runs"].items()
        if name in runs and max(differences(run["weights"], runs[name]["weights"]).values()) > TOLERANCE
    ]
    if changed and before["version"] == VERSION:
        raise SystemExit(f"{', '.join(changed)}: other weights; raise doxa.training.VERSION above {VERSION} first")
    FILE.write_text(json.dumps({"version": VERSION, "runs": runs}, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
