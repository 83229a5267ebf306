"""The PyKEEN side of benchmarks/peers.py; runs in a separate environment and prints JSON.

Training is timed by batches after a warm-up; comparisons per second are beliefs × candidates. Task `quality` is the
filtered MRR after a training time, on the first test beliefs. Task `curve` is the filtered MRR of validation beliefs as
training goes on, in seconds that leave the validations out, with the library's defaults for ComplEx (`--style default`)
or with those of the best published runs of it (`--style libkge`: all entities as candidates, cross entropy, Adagrad,
reciprocal relations; Ruffinelli et al., 2020).
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
"""Test beliefs evaluated at once: all of FB15k at once do not fit into 24 GB."""


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


class Curve(TrainingCallback):
    """The MRR of validation beliefs after 1, 2, 3, … intervals of training, until the time is up."""

    def __init__(self, seconds: float, interval: float, asked: torch.Tensor, known: list[torch.Tensor]) -> None:
        super().__init__()
        self.seconds, self.interval, self.asked, self.known = seconds, interval, asked, known
        self.points: list[tuple[float, float]] = []
        self.trained, self.resumed = 0.0, time.perf_counter()

    def on_batch(self, epoch: int, batch: Any, batch_loss: float, **kwargs: Any) -> None:
        trained = self.trained + time.perf_counter() - self.resumed
        if trained < self.interval * (len(self.points) + 1):
            return
        self.points.append((trained, filtered(self.model, self.asked, self.known)[0]))
        self.model.train()
        self.trained, self.resumed = trained, time.perf_counter()
        if trained >= self.seconds:
            raise EnoughError


def main() -> None:
    """Run one task and print its figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["sampled", "all", "evaluation", "quality", "curve"])
    parser.add_argument("data", type=Path)
    parser.add_argument("--model", choices=["translation", "complex"], default="complex")
    parser.add_argument("--dimension", type=int, default=200)
    parser.add_argument("--batch", type=int, default=512)
    parser.add_argument("--negatives", type=int, default=256)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--questions", type=int, default=0, help="test beliefs to evaluate on, 0 = all")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--style", choices=["default", "libkge"], default="default", help="settings of `curve`")
    parser.add_argument("--interval", type=float, default=10.0, help="seconds between two points of a curve")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    reciprocal = arguments.what == "curve" and arguments.style == "libkge"
    train = TriplesFactory.from_path(arguments.data / "train.tsv", create_inverse_triples=reciprocal)
    names = {"entity_to_id": train.entity_to_id, "relation_to_id": train.relation_to_id}
    valid, test = (TriplesFactory.from_path(arguments.data / f"{part}.tsv", **names) for part in ("valid", "test"))
    if arguments.what in ("sampled", "all"):
        print(json.dumps(speed(arguments, train)))
        return
    if arguments.what == "curve":
        print(json.dumps({"curve": curve(arguments, train, valid)}))
        return
    model = build(arguments, train, all_candidates=True)
    seconds = 0.0
    if arguments.what == "quality":
        clock = Clock(arguments.seconds, warm_up=0)
        clock.batches, clock.began = 1, time.perf_counter()
        loop = LCWATrainingLoop(model=model, triples_factory=train, optimizer=Adagrad(model.parameters(), lr=0.1))
        run(loop, train, arguments.batch, clock)
        seconds = time.perf_counter() - clock.began
    asked = test.mapped_triples[: arguments.questions or None]
    began = time.perf_counter()
    known = [train.mapped_triples, valid.mapped_triples, test.mapped_triples]
    mrr, hits = filtered(model, asked, known)
    took = time.perf_counter() - began
    print(json.dumps({"training_seconds": seconds, "evaluation_seconds": took, "questions": 2 * len(asked),
                      "mrr": mrr, "hits@10": hits}))  # fmt: skip


def filtered(model: Model, asked: torch.Tensor, known: list[torch.Tensor]) -> tuple[float, float]:
    """Filtered MRR and Hits@10 of heads and tails."""
    mrr, hits = 0.0, 0.0
    for piece in asked.split(PIECE):
        report = RankBasedEvaluator(filtered=True).evaluate(
            model, piece, batch_size=None, additional_filter_triples=known, use_tqdm=False
        )
        mrr += report.get_metric("both.realistic.inverse_harmonic_mean_rank") * len(piece) / len(asked)
        hits += report.get_metric("both.realistic.hits_at_10") * len(piece) / len(asked)
    return mrr, hits


def curve(arguments: argparse.Namespace, train: TriplesFactory, valid: TriplesFactory) -> list[tuple[float, float]]:
    """Seconds of training and the MRR of validation beliefs by then."""
    order = torch.randperm(valid.num_triples, generator=torch.Generator().manual_seed(0))
    asked = valid.mapped_triples[order[: arguments.questions or None]]
    points = Curve(arguments.seconds, arguments.interval, asked, [train.mapped_triples, valid.mapped_triples])
    if arguments.style == "default":
        model: Model = ComplEx(triples_factory=train, random_seed=0)
        loop: LCWATrainingLoop | SLCWATrainingLoop = SLCWATrainingLoop(
            model=model, triples_factory=train, optimizer=Adam(model.parameters())
        )
        batch = 256
    else:
        model = build(arguments, train, all_candidates=True)
        loop = LCWATrainingLoop(model=model, triples_factory=train, optimizer=Adagrad(model.parameters(), lr=0.5))
        batch = arguments.batch
    run(loop, train, batch, points)
    return points.points


def build(arguments: argparse.Namespace, train: TriplesFactory, all_candidates: bool) -> Model:
    """A model with the loss that fits its training.

    ComplEx gets small initial values: with its defaults the gradients of a softmax over all entities are denormal
    numbers, which make a step twenty times slower.
    """
    loss = CrossEntropyLoss() if all_candidates else SoftplusLoss()
    if arguments.model == "complex":
        small = {"entity_initializer": "xavier_normal_", "relation_initializer": "xavier_normal_"}
        return ComplEx(triples_factory=train, embedding_dim=arguments.dimension // 2, loss=loss, regularizer=None,
                       random_seed=0, **small)  # fmt: skip
    return TransE(
        triples_factory=train, embedding_dim=arguments.dimension, scoring_fct_norm=2, loss=loss, random_seed=0
    )


def speed(arguments: argparse.Namespace, train: TriplesFactory) -> dict[str, float]:
    """Beliefs and comparisons per second of training."""
    clock = Clock(arguments.seconds, WARM_UP)
    if arguments.what == "all":
        model = build(arguments, train, all_candidates=True)
        loop = LCWATrainingLoop(model=model, triples_factory=train, optimizer=Adagrad(model.parameters(), lr=0.1))
        each = train.num_entities
    else:
        model = build(arguments, train, all_candidates=False)
        loop = SLCWATrainingLoop(
            model=model,
            triples_factory=train,
            optimizer=Adam(model.parameters()),
            negative_sampler="basic",
            negative_sampler_kwargs={"num_negs_per_pos": arguments.negatives},
        )
        each = arguments.negatives
    run(loop, train, arguments.batch, clock)
    beliefs = clock.batches * arguments.batch / (time.perf_counter() - clock.began)
    return {"beliefs_per_second": beliefs, "comparisons_per_second": beliefs * each}


def run(loop: LCWATrainingLoop | SLCWATrainingLoop, train: TriplesFactory, batch: int, clock: TrainingCallback) -> None:
    """Train until the clock says enough."""
    try:
        loop.train(train, num_epochs=10_000, batch_size=batch, use_tqdm=False, callbacks=clock)
    except EnoughError:
        return


if __name__ == "__main__":
    main()
