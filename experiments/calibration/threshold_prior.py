"""The prior of thresholds: which PRIOR_BELIEFS of `doxa.calibration.thresholds` decides most beliefs rightly?

    python experiments/calibration/threshold_prior.py --data DIR --work WORK

Trains on every data set, into `WORK/NAME-SEED`, unless these models exist. The validation beliefs and as many corrupted
triples are split at random, ten times: thresholds are fitted to 10, 30 or 80 % of the pairs, and accuracy is measured
on the others. Test beliefs are never read. Writes `threshold_prior.json` beside this file.
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
from doxa.calibration.rules import decision_score
from doxa.calibration.thresholds import Thresholds
from doxa.data.negatives import labeled_beliefs

SETTINGS: dict[str, dict[str, Any]] = {
    f"{name}-{score}": {"score": score, "epochs": 20}
    for name in ("nations", "kinships", "umls")
    for score in ("complex", "translation")
} | {"webnlg-translation": {"score": "translation", "dimension": 30, "epochs": 3}}
PRIORS, FRACTIONS, SPLITS = (0, 1, 2, 5, 10, 20, 40, 100), (0.1, 0.3, 0.8), 10


def main() -> None:
    """Train, split, fit with all priors, compare."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    cases: list[dict[str, Any]] = []
    for name in SETTINGS:
        for seed in (1,) if name.startswith("webnlg") else (1, 2):
            cases += measure(name, seed, arguments.data / name.split("-")[0], arguments.work)
    gain = np.mean([np.subtract(case["accuracy"], case["accuracy"][0]) for case in cases], axis=0).round(4).tolist()
    about = {"settings": SETTINGS, "versions": {"torch": torch.__version__, "python": platform.python_version()}}
    text = json.dumps({"priors": PRIORS, "mean_gain": gain, "cases": cases} | about)
    Path(__file__).with_suffix(".json").write_text(text + "\n", encoding="utf-8")
    print(f"{'mean gain':>46} " + " ".join(f"{100 * value:6.2f}" for value in gain))


def measure(name: str, seed: int, data: Path, work: Path) -> list[dict[str, Any]]:
    """Accuracy by prior, for each fraction of the validation beliefs of one model."""
    folder = work / f"{name}-{seed}"
    valid = doxa.read(data / "valid.tsv")
    if not folder.exists():
        doxa.fit(doxa.read(data / "train.tsv"), valid, seed=seed, threads=1, **SETTINGS[name]).save(folder)
    model = doxa.load(folder)
    encoded = valid.encode(model.vocabularies)
    labeled = labeled_beliefs(encoded.where(encoded.seen), model.known, seed=0)
    assert labeled.label is not None
    scores = decision_score(model.pbe, labeled, model.settings.decision_rule)
    relation, label, relations = labeled.relation, labeled.label, model.pbe.relations
    per_relation, cases = len(label) / len(np.unique(relation)), []
    for fraction in FRACTIONS:
        accuracy = np.zeros(len(PRIORS))
        for split in range(SPLITS):
            fitted = np.repeat(np.random.default_rng([split, 7]).random(len(label) // 2) < fraction, 2)
            few = scores[fitted], relation[fitted], label[fitted]
            for number, prior in enumerate(PRIORS):
                thresholds = Thresholds.fit(*few, relations, prior).of(relation)
                accuracy[number] += ((scores >= thresholds) == (label == 1))[~fitted].mean() / SPLITS
        case = {"data": name, "seed": seed, "labels_per_relation": round(per_relation * fraction, 1)}
        cases.append(case | {"accuracy": accuracy.round(4).tolist()})
        figures = " ".join(f"{100 * value:6.2f}" for value in accuracy)
        print(f"{name:22} seed {seed}, {case['labels_per_relation']:5} per relation {figures}", flush=True)
    return cases


if __name__ == "__main__":
    main()
