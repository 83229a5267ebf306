"""Calibration on test beliefs: the measured ECE of credence, and that of a perfectly calibrated model.

    python experiments/calibration/ece.py --data DIR --work WORK [NAME …]

Trains on every data set, into `WORK/NAME-SEED`, unless these models exist. Calibrates each model on the validation
beliefs, and measures credence on the test beliefs and as many corrupted triples. Writes `NAME.json` beside this file.
Trainings are short on the large sets: calibration must hold for good and bad models.
"""

from __future__ import annotations

import argparse
import json
import platform
from pathlib import Path
from typing import Any

import numpy as np
import torch

import doxa
from doxa.data.negatives import labeled_beliefs
from doxa.evaluation.calibration import Reliability, ece_floor
from doxa.inference import judge

SMALL = {"score": "complex", "n3": 0.03, "epochs": 60}
SENTENCES = {"score": "translation", "epochs": 15}
LARGE = {"score": "complex", "dimension": 100, "n3": 0.1}

SETTINGS: dict[str, dict[str, Any]] = {
    "nations": SMALL,
    "kinships": SMALL,
    "umls": SMALL,
    "nations-translation": {"score": "translation"},
    "kinships-translation": {"score": "translation"},
    "umls-translation": {"score": "translation"},
    "semeval": SENTENCES,
    "webnlg": SENTENCES,
    "biomed": SENTENCES,
    "wn18rr": LARGE | {"epochs": 4},
    "fb15k-237": LARGE | {"epochs": 2},
    "fb15k": LARGE | {"n3": 0.03, "epochs": 2},
}
ONE_SEED = ("wn18rr", "fb15k-237", "fb15k")


def main() -> None:
    """Train, calibrate, measure, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("names", nargs="*", default=list(SETTINGS))
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    for name in arguments.names:
        runs = [
            measure(name, seed, arguments.data / name.removesuffix("-translation"), arguments.work)
            for seed in ((1,) if name in ONE_SEED else (1, 2, 3))
        ]
        mean = {key: sum(run[key] for run in runs) / len(runs) for key in ("ece", "ece_floor", "excess")}
        about = {
            "settings": SETTINGS[name],
            "versions": {"torch": torch.__version__, "python": platform.python_version()},
        }
        text = json.dumps({"data": name} | mean | {"runs": runs} | about, indent=1)
        Path(__file__).with_name(f"{name}.json").write_text(text + "\n", encoding="utf-8")
        print(f"{name:22} ECE {mean['ece']:.4f}, of a perfect model {mean['ece_floor']:.4f}", flush=True)


def measure(name: str, seed: int, data: Path, work: Path) -> dict[str, Any]:
    """The figures of one model."""
    folder = work / f"{name}-{seed}"
    train, valid, test = (doxa.read(data / f"{part}.tsv") for part in ("train", "valid", "test"))
    if not folder.exists():
        doxa.fit(train, valid, seed=seed, threads=1, **SETTINGS[name]).save(folder)
    model = doxa.load(folder).calibrate(valid)
    encoded = test.encode(model.vocabularies)
    labeled = labeled_beliefs(encoded, model.known.union(encoded.positives().triples), seed=0)
    labeled = labeled.where(labeled.seen)
    assert labeled.label is not None
    credence = judge(model, labeled).credence  # as the task calibration of `doxa evaluate`, without answers
    figures = Reliability.of(credence, labeled.label == 1)
    floor = ece_floor(credence, np.unique(labeled.triples, axis=0, return_inverse=True)[1].reshape(-1))
    return {
        "seed": seed,
        "ece": figures.ece,
        "ece_floor": floor,
        "excess": figures.ece - floor,
        "brier": figures.brier,
        "nll": figures.nll,
        "beliefs": len(labeled),
        "curve": model.calibration.curve.kind,
    }


if __name__ == "__main__":
    main()
