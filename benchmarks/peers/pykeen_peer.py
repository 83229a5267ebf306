"""PyKEEN's part of the comparison; runs in an environment of its own and prints JSON. See benchmarks/peers.py.

Training is timed by its batches, the first few left out: comparisons per second are beliefs × candidates each is
compared with. Quality is the filtered MRR after so many seconds of training, on the first test beliefs.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import torch
from pykeen.evaluation import RankBasedEvaluator
from pykeen.losses import CrossEntropyLoss, SoftplusLoss
from pykeen.models import ComplEx, Model, TransE
from pykeen.training import LCWATrainingLoop, SLCWATrainingLoop
from pykeen.training.callbacks import TrainingCallback
from pykeen.triples import TriplesFactory
from torch.optim import Adagrad, Adam

WARM_UP = 3
"""Batches before the clock starts."""

PIECE = 5000
"""Test beliefs evaluated at once: memory grows with them, and all of FB15k's at once do not fit into 24 GB."""


class EnoughError(Exception):
    """Raised to end training."""


class Clock(TrainingCallback):
    """Counts batches until the time is up."""

    def __init__(self, seconds: float, warm_up: int) -> None:
        super().__init__()
        self.seconds, self.warm_up, self.batches, self.began = seconds, warm_up, -warm_up, 0.0

    def on_batch(self, epoch: int, batch: Any, batch_loss: float, **kwargs: Any) -> None:
        self.batches += 1
        if self.batches == 0:
            self.began = time.perf_counter()
        elif self.batches > 0 and time.perf_counter() - self.began > self.seconds:
            raise EnoughError


def main() -> None:
    """Measure what is asked and print it."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("what", choices=["sampled", "all", "evaluation", "quality"])
    options.add_argument("data", type=Path)
    options.add_argument("--model", choices=["translation", "complex"], default="complex")
    options.add_argument("--dimension", type=int, default=200)
    options.add_argument("--batch", type=int, default=512)
    options.add_argument("--negatives", type=int, default=256)
    options.add_argument("--seconds", type=float, default=30.0)
    options.add_argument("--questions", type=int, default=0, help="test beliefs to evaluate on, 0 = all")
    options.add_argument("--threads", type=int, default=2)
    given = options.parse_args()
    torch.set_num_threads(given.threads)
    train = TriplesFactory.from_path(given.data / "train.tsv")
    names = {"entity_to_id": train.entity_to_id, "relation_to_id": train.relation_to_id}
    valid, test = (TriplesFactory.from_path(given.data / f"{part}.tsv", **names) for part in ("valid", "test"))
    if given.what in ("sampled", "all"):
        print(json.dumps(speed(given, train)))
        return
    model = made(given, train, all_candidates=True)
    seconds = 0.0
    if given.what == "quality":
        clock = Clock(given.seconds, warm_up=0)
        clock.batches, clock.began = 1, time.perf_counter()
        loop = LCWATrainingLoop(model=model, triples_factory=train, optimizer=Adagrad(model.parameters(), lr=0.1))
        run(loop, train, given.batch, clock)
        seconds = time.perf_counter() - clock.began
    asked = test.mapped_triples[: given.questions or None]
    began, mrr, hits = time.perf_counter(), 0.0, 0.0
    for piece in asked.split(PIECE):
        found = RankBasedEvaluator(filtered=True).evaluate(
            model, piece, batch_size=None, additional_filter_triples=[train.mapped_triples, valid.mapped_triples,
                                                                      test.mapped_triples], use_tqdm=False)  # fmt: skip
        mrr += found.get_metric("both.realistic.inverse_harmonic_mean_rank") * len(piece) / len(asked)
        hits += found.get_metric("both.realistic.hits_at_10") * len(piece) / len(asked)
    took = time.perf_counter() - began
    print(json.dumps({"training_seconds": seconds, "evaluation_seconds": took, "questions": 2 * len(asked),
                      "mrr": mrr, "hits@10": hits}))  # fmt: skip


def made(given: argparse.Namespace, train: TriplesFactory, all_candidates: bool) -> Model:
    """A model of the size asked for, with the loss that suits how it is trained.

    ComplEx starts from small numbers: from its default ones the gradients of a softmax over all entities are denormal
    numbers, which make a step twenty times slower.
    """
    loss = CrossEntropyLoss() if all_candidates else SoftplusLoss()
    if given.model == "complex":
        small = {"entity_initializer": "xavier_normal_", "relation_initializer": "xavier_normal_"}
        return ComplEx(triples_factory=train, embedding_dim=given.dimension // 2, loss=loss, regularizer=None,
                       random_seed=0, **small)  # fmt: skip
    return TransE(triples_factory=train, embedding_dim=given.dimension, scoring_fct_norm=2, loss=loss, random_seed=0)


def speed(given: argparse.Namespace, train: TriplesFactory) -> dict[str, float]:
    """Beliefs and comparisons per second of training."""
    clock = Clock(given.seconds, WARM_UP)
    if given.what == "all":
        model = made(given, train, all_candidates=True)
        loop = LCWATrainingLoop(model=model, triples_factory=train, optimizer=Adagrad(model.parameters(), lr=0.1))
        each = train.num_entities
    else:
        model = made(given, train, all_candidates=False)
        loop = SLCWATrainingLoop(
            model=model,
            triples_factory=train,
            optimizer=Adam(model.parameters()),
            negative_sampler="basic",
            negative_sampler_kwargs={"num_negs_per_pos": given.negatives},
        )
        each = given.negatives
    run(loop, train, given.batch, clock)
    beliefs = clock.batches * given.batch / (time.perf_counter() - clock.began)
    return {"beliefs_per_second": beliefs, "comparisons_per_second": beliefs * each}


def run(loop: LCWATrainingLoop | SLCWATrainingLoop, train: TriplesFactory, batch: int, clock: Clock) -> None:
    """Train until the clock says enough."""
    try:
        loop.train(train, num_epochs=10_000, batch_size=batch, use_tqdm=False, callbacks=clock)
    except EnoughError:
        return


if __name__ == "__main__":
    main()
