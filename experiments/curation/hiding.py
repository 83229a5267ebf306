"""Shared by the curation experiments: FB15k with beliefs and entities hidden, and the models trained on the rest.

    python experiments/curation/hiding.py --data DIR --work WORK

`DIR` has the datasets (`fb15k/train.tsv` …). Hidden are all beliefs of 200 entities and a tenth of the others, drawn
with seed 0. `WORK/less` is trained on the remaining beliefs, `WORK/more` on all but those of the hidden entities,
`WORK/all` on everything. Existing models are reused.
"""

from __future__ import annotations

import argparse
import json
import platform
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import doxa
from doxa.data.atomic import written
from doxa.data.beliefs import Beliefs
from doxa.model import Model

SETTINGS: dict[str, Any] = {
    "score": "complex",
    "dimension": 200,
    "batch_size": 1024,
    "num_candidates": 512,
    "n3": 0.001,
    "relation_weight": 0.25,
    "epochs": 25,
    "patience": 0,
    "threads": 1,
}
ENTITIES, SHARE, LEAST = 200, 0.1, 10


@dataclass(frozen=True, eq=False)
class Hidden:
    """`left`: training beliefs; `random`: the tenth hidden at random; `of_entities`: all beliefs of hidden entities."""

    everything: Beliefs
    left: Beliefs
    random: Beliefs
    of_entities: Beliefs
    entities: list[str]
    valid: Beliefs
    every_valid: Beliefs
    test: Beliefs


def hide(data: Path, seed: int = 0) -> Hidden:
    """FB15k with entities and beliefs hidden."""
    train, valid, test = (doxa.read(data / "fb15k" / f"{part}.tsv") for part in ("train", "valid", "test"))
    generator = np.random.default_rng([seed, 11])
    degree = np.bincount(np.concatenate([train.head, train.tail]), minlength=len(train.vocabularies.entities))
    chosen = np.sort(generator.choice(np.flatnonzero(degree >= LEAST), ENTITIES, replace=False))
    gone = np.isin(train.head, chosen) | np.isin(train.tail, chosen)
    rows = generator.permutation(np.flatnonzero(~gone))
    hidden, left = np.sort(rows[: int(SHARE * len(rows))]), np.sort(rows[int(SHARE * len(rows)) :])
    names = [train.vocabularies.entities[entity] for entity in chosen]
    reduced = train.take(left).compact()
    asked = valid.encode(reduced.vocabularies)
    return Hidden(train, reduced, train.take(hidden), train.where(gone), names, valid.where(asked.seen), valid, test)


def model_of_less(hidden: Hidden, work: Path) -> Model:
    """The model of the remaining beliefs."""
    return _model(work / "less", hidden.left, hidden.valid)


def model_of_more(hidden: Hidden, work: Path) -> Model:
    """The model of everything but the hidden entities."""
    both = Beliefs.from_frame(hidden.left.to_frame().vstack(hidden.random.to_frame()))
    return _model(work / "more", both, hidden.valid)


def model_of_all(hidden: Hidden, work: Path) -> Model:
    """The model of everything."""
    return _model(work / "all", hidden.everything, hidden.every_valid)


def _model(folder: Path, beliefs: Beliefs, valid: Beliefs) -> Model:
    if not (folder / "model.json").exists():
        print(f"training {folder} …", flush=True)
        began = time.process_time()
        model = doxa.fit(beliefs, valid, **SETTINGS)
        model.origin["processor_seconds"] = round(time.process_time() - began, 1)
        model.save(folder)
    return doxa.load(folder)


def options(about: str | None, with_data: bool = True) -> argparse.Namespace:
    """The options of every script; scripts that use only the atlas need no data."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=with_data, help="folder with the datasets")
    parser.add_argument("--work", type=Path, default=Path("curation-work"), help="folder for the models, reused")
    return parser.parse_args()


def keep(name: str, figures: dict[str, Any]) -> None:
    """Write the figures beside the scripts, with versions and machine, and print them."""
    import torch

    figures = figures | {
        "machine": {"processor": platform.processor() or platform.machine(), "threads": torch.get_num_threads()},
        "versions": {"doxa": doxa.__version__, "torch": torch.__version__, "python": platform.python_version()},
    }
    text = json.dumps(figures, indent=1, ensure_ascii=False)
    with written(Path(__file__).with_name(f"{name}.json")) as unfinished:
        unfinished.write_text(text + "\n", encoding="utf-8")
    print(text)


if __name__ == "__main__":
    arguments = options(__doc__)
    parts = hide(arguments.data)
    model_of_less(parts, arguments.work)
    model_of_more(parts, arguments.work)
    model_of_all(parts, arguments.work)
