"""Review of the atlas by a simulated curator who knows the truth: does reviewing improve the model, and how fast?

    python experiments/curation/reviewing.py --work WORK [--seeds 3] [--plot]

Train, with its planted false facts, and valid are the knowledge base; the test facts are missing from it. A fifth of
these is kept to measure models, and never proposed. Five rounds: `complete` fills the review queue, the curator decides
REVIEWED proposals and accepts the missing facts among them, the live model is updated. Once with each order of the
queue, and once by credence without updates. MRR is filtered by the whole truth.

Field calibration compares the credence shown with the verdicts. The ECE of a perfectly calibrated credence on as many
decisions is the floor. With `--plot` the picture is drawn again from the stored figures.
"""

from __future__ import annotations

import argparse
import json
import shutil
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from hiding import keep
from updating import filtered_mrr

import doxa
from doxa.curation.field import statistics
from doxa.curation.living import update_live
from doxa.data.beliefs import Beliefs
from doxa.data.negatives import corrupt_triples, stack
from doxa.data.triples import TripleIndex
from doxa.demo import atlas
from doxa.demo.run import SETTINGS
from doxa.evaluation.calibration import Reliability, ece_floor
from doxa.inference import judge
from doxa.model import Model
from doxa.render.colors import GROUPS, PALE
from doxa.storage.store.knowledge_base import KnowledgeBase

MEASURED, ROUNDS, REVIEWED, TOP = 0.2, 5, 500, 3000
"""Share of the test facts that is kept, rounds, decisions of a round, and proposals of a completion."""

CASES = {"credence": "credence", "uncertainty": "uncertainty", "without updates": "credence"}
"""Orders of the queue; in the last case the first model proposes in every round."""

TRIPLE = ["head", "relation", "tail"]


@dataclass(frozen=True, eq=False)
class World:
    """The known facts, the true ones that are missing, and those that models are measured on."""

    train: pl.DataFrame
    missing: pl.DataFrame
    valid: pl.DataFrame
    test: pl.DataFrame

    @property
    def truth(self) -> pl.DataFrame:
        return pl.concat([part.select(TRIPLE) for part in (self.train, self.missing, self.valid, self.test)])


def load(seed: int) -> World:
    """The atlas with its test facts divided."""
    world = atlas.load()
    order = np.random.default_rng([seed, 21]).permutation(len(world.test))
    kept = np.sort(order[: round(MEASURED * len(order))])
    mask = np.isin(np.arange(len(world.test)), kept)
    return World(world.train, world.test.filter(pl.Series(~mask)), world.valid, world.test.filter(pl.Series(mask)))


class Measure:
    """MRR and calibration of a model on the test facts and as many corrupted ones, the same for every model."""

    def __init__(self, world: World, model: Model) -> None:
        names = model.vocabularies
        test = Beliefs.from_frame(world.test.select(TRIPLE)).encode(names)
        self.test = test.where(test.seen)
        self.truth = Beliefs.from_frame(world.truth)
        index = TripleIndex(self.truth.encode(names).triples, len(names.entities), len(names.relations))
        self.labeled = stack(self.test, corrupt_triples(self.test, index, 0)[0])

    def __call__(self, model: Model) -> dict[str, float]:
        labeled = self.labeled.encode(model.vocabularies)
        assert labeled.label is not None
        reliability = Reliability.of(judge(model, labeled).credence, labeled.label == 1)
        return {"mrr": filtered_mrr(model, self.test, [self.truth]), **reliability.as_dict()}


def review(kb: KnowledgeBase, order: str, right: set[tuple[str, ...]]) -> list[tuple[float, bool]]:
    """Decide REVIEWED proposals, or as many as there are; credence shown and truth of each."""
    decided = []
    while len(decided) < REVIEWED and (proposal := kb.queue.claim(order=order)) is not None:
        true = proposal.triple in right
        kb.queue.decide(proposal.id, "accept" if true else "reject")
        decided.append((proposal.credence, true))
    return decided


def field(kb: KnowledgeBase, decided: list[tuple[float, bool]]) -> dict[str, Any]:
    """Precision and field calibration of the decisions of a round; they are the last ones of the log."""
    figures = statistics(kb.queue.decisions().tail(len(decided))).as_dict()
    credence, true = (np.array(column) for column in zip(*decided, strict=True))
    hundreds = [float(true[start : start + 100].mean()) for start in range(0, len(true), 100)]
    floor = ece_floor(credence, bins=10)
    return {"decided": len(decided), "precision": figures["precision"], "expected": float(credence.mean()),
            "precision_by_hundred": hundreds, "calibration": figures["calibration"] | {"ece_floor": floor}}  # fmt: skip


def run(case: str, first: Model, world: World, folder: Path, seed: int) -> list[dict[str, Any]]:
    """The rounds of one case, in a knowledge base of its own; the first row is the model before any review."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    kb = KnowledgeBase.create(folder / "kb.db", valid=0, test=0, curator="simulated")
    kb.import_beliefs({"train": world.train, "valid": world.valid}, source="atlas")
    first.save(folder / "model")
    kb.models.register(folder / "model", kb.snapshot())
    measure = Measure(world, first)
    right = set(world.missing.select(TRIPLE).rows())
    rows: list[dict[str, Any]] = [{"round": 0, **measure(first)}]
    for number in range(1, ROUNDS + 1):
        began = time.process_time()
        live = kb.models.live()
        assert live is not None
        if number == 1 or case != "without updates":
            proposals = doxa.load(live.folder).complete(top=TOP, min_credence=0.0).to_frame()
            kb.queue.propose(proposals.join(world.test, on=TRIPLE, how="anti", maintain_order="left"), "missing")
        row: dict[str, Any] = {"round": number, **field(kb, review(kb, CASES[case], right))}
        if case != "without updates":
            updated = update_live(kb, seed=seed)
            assert updated is not None
            row |= {"published": updated.published, "reason": updated.reason, "counts": updated.result.counts,
                    "candidate": measure(updated.result.model)}  # fmt: skip
            live = kb.models.live()
            assert live is not None
        row |= measure(doxa.load(live.folder)) | {"processor_seconds": round(time.process_time() - began, 1)}
        accepted = int(kb.queue.decisions()["verdict"].eq("accept").sum())
        rows.append(row | {"recall": accepted / len(right)})
        print(case, json.dumps({k: v for k, v in rows[-1].items() if k not in ("calibration", "counts")}), flush=True)
    return rows


def draw(figures: dict[str, Any], path: Path) -> None:
    """Precision, MRR, and calibration in the field by round; lines are means over the seeds."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(13, 3.6), layout="constrained")
    precision, mrr, error, diagram = figure.subplots(1, 4)
    diagram.plot([0, 1], [0, 1], color=PALE, linestyle="--", linewidth=1)
    for (case, runs), color in zip(figures["runs"].items(), GROUPS, strict=False):
        if not runs:
            continue
        rounds = list(range(1, ROUNDS + 1))
        for axes, values in (
            (precision, [[row["precision"] for row in rows[1:]] for rows in runs]),
            (error, [[row["calibration"]["ece"] for row in rows[1:]] for rows in runs]),
        ):
            axes.plot(rounds, np.mean(values, axis=0), color=color, marker="o", markersize=4, label=case)
        floors = np.mean([[row["calibration"]["ece_floor"] for row in rows[1:]] for rows in runs], axis=0)
        error.plot(rounds, floors, color=color, linestyle=":", linewidth=1)
        means = np.mean([[row["mrr"] for row in rows] for rows in runs], axis=0)
        mrr.plot([0, *rounds], means, color=color, marker="o", markersize=4)
        if case != "without updates":
            for rows in runs:
                for row in rows[1:]:
                    bins = row["calibration"]["bins"]
                    diagram.plot(bins["credence"], bins["truth"], ".", color=color, markersize=3)
    precision.set(title="Precision of the proposals", xlabel="round", ylim=(0, 1.02))
    precision.legend(frameon=False)
    mrr.set(title="Filtered MRR on test", xlabel="round")
    error.set(title="ECE in the field (dotted: floor)", xlabel="round")
    diagram.set(title="Credence and truth", xlabel="credence")
    figure.savefig(path, format="png", dpi=110)


def main() -> None:
    """Train, review and update, for every seed and case."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, default=Path("curation-work"), help="folder for the models")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--case", choices=CASES, help="only this case; the others are taken from WORK")
    parser.add_argument("--plot", action="store_true", help="only draw the stored figures again")
    arguments = parser.parse_args()
    path = Path(__file__).with_suffix(".json")
    if not arguments.plot:
        runs: dict[str, list[Any]] = {case: [] for case in CASES}
        for seed in range(arguments.seeds):
            world = load(seed)
            train = Beliefs.from_frame(world.train)
            folder = arguments.work / f"{seed}-first"
            if not (folder / "model.json").exists():
                valid, settings = Beliefs.from_frame(world.valid, train.vocabularies), replace(SETTINGS, seed=seed)
                doxa.fit(train, valid, settings=replace(settings, threads=1)).save(folder)
            first = doxa.load(folder)
            for case in CASES:
                folder = arguments.work / f"{seed}-{case.replace(' ', '-')}"
                if arguments.case in (None, case):
                    rows = run(case, first, world, folder, seed)
                    folder.with_suffix(".json").write_text(json.dumps(rows), encoding="utf-8")
                if folder.with_suffix(".json").exists():
                    runs[case].append(json.loads(folder.with_suffix(".json").read_text(encoding="utf-8")))
            keep(path.stem, {"missing": len(world.missing), "train": len(world.train), "reviewed": REVIEWED,
                             "seeds": seed + 1, "runs": runs})  # fmt: skip
    draw(json.loads(path.read_text(encoding="utf-8")), path.with_suffix(".png"))


if __name__ == "__main__":
    main()
