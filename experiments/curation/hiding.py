"""What the experiments about curation share: FB15k with beliefs and entities hidden, and the models of both.

    python experiments/curation/hiding.py --data DIR --work WORK

`DIR` holds the datasets (`fb15k/train.tsv` …). Hidden are all beliefs of 200 entities and a tenth of the others, drawn
from seed 0. `WORK/less` is the model of what is left, `WORK/more` that of all but the hidden entities, `WORK/all` that
of everything; a model that is there is kept.
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
    """`left` is learnt from; `some` is the tenth hidden at random; `strange` are all beliefs of the hidden entities."""

    everything: Beliefs
    left: Beliefs
    some: Beliefs
    strange: Beliefs
    entities: list[str]
    valid: Beliefs
    every_valid: Beliefs
    test: Beliefs


def hide(data: Path, seed: int = 0) -> Hidden:
    """FB15k with entities and beliefs hidden; what is hidden names only entities and relations that are left, apart
    from the hidden entities themselves."""
    train, valid, test = (doxa.read(data / "fb15k" / f"{part}.tsv") for part in ("train", "valid", "test"))
    random = np.random.default_rng([seed, 11])
    degree = np.bincount(np.concatenate([train.head, train.tail]), minlength=len(train.vocabularies.entities))
    chosen = np.sort(random.choice(np.flatnonzero(degree >= LEAST), ENTITIES, replace=False))
    gone = np.isin(train.head, chosen) | np.isin(train.tail, chosen)
    rows = random.permutation(np.flatnonzero(~gone))
    some, left = np.sort(rows[: int(SHARE * len(rows))]), np.sort(rows[int(SHARE * len(rows)) :])
    names = [train.vocabularies.entities[entity] for entity in chosen]
    reduced = train.take(left).compact()
    asked = valid.encode(reduced.names)
    return Hidden(train, reduced, train.take(some), train.where(gone), names, valid.where(asked.seen), valid, test)


def model_of_less(hidden: Hidden, work: Path) -> Model:
    """The model of what is left."""
    return _model(work / "less", hidden.left, hidden.valid)


def model_of_more(hidden: Hidden, work: Path) -> Model:
    """The model of what is left and the tenth: everything but the hidden entities."""
    both = Beliefs.from_frame(hidden.left.to_frame().vstack(hidden.some.to_frame()))
    return _model(work / "more", both, hidden.valid)


def model_of_all(hidden: Hidden, work: Path) -> Model:
    """The model of everything."""
    return _model(work / "all", hidden.everything, hidden.every_valid)


def _model(folder: Path, beliefs: Beliefs, valid: Beliefs) -> Model:
    if not (folder / "model.json").exists():
        print(f"learning {folder} …", flush=True)
        began = time.process_time()
        model = doxa.fit(beliefs, valid, **SETTINGS)
        model.origin["processor_seconds"] = round(time.process_time() - began, 1)
        model.save(folder)
    return doxa.load(folder)


def options(about: str | None, with_data: bool = True) -> argparse.Namespace:
    """The options every script takes; those that use the atlas alone need no data."""
    given = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    given.add_argument("--data", type=Path, required=with_data, help="folder with the datasets")
    given.add_argument("--work", type=Path, default=Path("curation-work"), help="folder for the models; kept")
    return given.parse_args()


def keep(name: str, found: dict[str, Any]) -> None:
    """Write the figures beside the scripts, with versions and machine, and print them."""
    import torch

    found = found | {
        "machine": {"processor": platform.processor() or platform.machine(), "threads": torch.get_num_threads()},
        "versions": {"doxa": doxa.__version__, "torch": torch.__version__, "python": platform.python_version()},
    }
    text = json.dumps(found, indent=1, ensure_ascii=False)
    with written(Path(__file__).with_name(f"{name}.json")) as unfinished:
        unfinished.write_text(text + "\n", encoding="utf-8")
    print(text)


if __name__ == "__main__":
    given = options(__doc__)
    beliefs = hide(given.data)
    model_of_less(beliefs, given.work)
    model_of_more(beliefs, given.work)
    model_of_all(beliefs, given.work)
