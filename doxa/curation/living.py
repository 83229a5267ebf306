"""Update of the live model of a knowledge base: learn what was decided since, and publish only what is no worse.

    learned       facts of train that the model does not know
    retracted     facts that the model knows and the knowledge base no longer holds
    labels        decided suspects, which move credence and thresholds
    proposals     decided proposals of new facts, which move the credence of further proposals
    negatives     rejected proposals, which the refit pushes away

The new version is live if no 95 % paired-bootstrap interval of MRR or Brier score on the valid split lies wholly on the
worse side; otherwise it stays a candidate. Decided proposals are never in valid, because they are no random sample.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from doxa.curation.grow import insert_confidence
from doxa.curation.update import UpdateResult, update
from doxa.data.beliefs import Beliefs
from doxa.data.results import Result
from doxa.data.vocabulary import Vocabularies, Vocabulary
from doxa.errors import BadStore, UsageError
from doxa.evaluation.compare import Comparison, Difference, compare
from doxa.model import Model
from doxa.storage import folders, models
from doxa.storage.store.knowledge_base import KnowledgeBase
from doxa.storage.store.moment import Moment
from doxa.storage.store.publishing import ModelVersion, checksum
from doxa.storage.store.version_folders import named_folder, new_folder

SPEED = 2.0
"""Factor on the steps of trained rows: lower than that of `update`, since reviewed facts are few beside the known ones.

On the atlas, learning 490 accepted facts changed the MRR on valid by -0.0007 with 2, by -0.0020 with 8, and on test by
+0.0026 and +0.0017."""

CHECKED = {("entity", "mrr"): 1, ("calibration", "brier"): -1}
"""Metrics that must not get worse; 1 = higher is better."""

TRIPLE = ["head", "relation", "tail"]


@dataclass(frozen=True, eq=False, repr=False)
class LivingUpdate(Result):
    """The new version, what it learned, and the comparison with the live one on the valid split."""

    version: ModelVersion
    result: UpdateResult
    comparison: Comparison | None
    reason: str

    @property
    def published(self) -> bool:
        return self.version.state == "live"

    def __repr__(self) -> str:
        return f"LivingUpdate(version {self.version.id}, {self.version.state}: {self.reason})"

    def to_frame(self) -> pl.DataFrame:
        """One row per metric: live, new, difference and its interval."""
        return pl.DataFrame() if self.comparison is None else self.comparison.to_frame()

    def as_dict(self) -> dict[str, Any]:
        """The version, the counts of the update, and the comparison."""
        comparison = None if self.comparison is None else self.comparison.as_dict()
        about = {"version": self.version.as_dict(), "reason": self.reason, "comparison": comparison}
        return about | self.result.as_dict()


@dataclass(frozen=True, eq=False)
class Changes:
    """What a model has to learn to be up to date with a snapshot, each a frame by name or None."""

    new: pl.DataFrame | None
    retracted: pl.DataFrame | None
    labels: pl.DataFrame | None
    proposals: pl.DataFrame | None
    negatives: pl.DataFrame | None

    @property
    def empty(self) -> bool:
        return all(part is None for part in (self.new, self.retracted, self.labels, self.proposals))


def update_live(
    kb: KnowledgeBase,
    folder: Path | None = None,
    *,
    epochs: int = 5,
    seed: int = 0,
    force: bool = False,
    report: Callable[[float, str], None] | None = None,
) -> LivingUpdate | None:
    """Update the live model with all that was decided since its snapshot; None if nothing was.

    The new model is written to `folder`, by default a new one beside the SQLite file or, with PostgreSQL, beside the
    live model. The knowledge base records it as the live version if it is no worse than the former one, else as a
    candidate. `force` replaces another model in `folder`.
    """
    live = kb.models.live()
    if live is None:
        raise UsageError("the knowledge base has no live model", f"train one: doxa train {kb.place} --out MODEL")
    if folder is not None:
        _check_folder(live, folder, force)
    old = Model.load(kb.models.folder_of(live))
    snapshot = kb.snapshot()
    with kb.reading() as connection:
        before, after = Moment.of(connection, live.snapshot), Moment.of(connection, snapshot)
    old = _renamed(old, before, after)
    parts = {part: kb.beliefs(part, snapshot) for part in ("train", "valid")}
    changes = changes_since(old, parts, after.labels(live.snapshot))
    if changes.empty:
        return None
    result = update(old, changes.new, changes.retracted, changes.labels, negatives=changes.negatives, epochs=epochs,
                    speed=SPEED, seed=seed, report=report)  # fmt: skip
    result = _with_decided(result, changes.proposals)
    model = _with_valid(result.model, parts["valid"])
    comparison, reason, worse = judge_update(old, model, parts["valid"], seed)
    figures = {f"{one.task} {one.metric}": one.b for one in comparison.differences} if comparison else {}
    with new_folder(kb, live) if folder is None else named_folder(folder) as target:
        store = {"place": str(kb.place), "id": kb.settings["id"], "snapshot": snapshot}
        if folder is None:
            store["folder"] = target.name  # the mark by which the next update knows a folder without a version
        model = replace(model, origin=model.origin | {"store": store})
        models.write(model, target)
        version = kb.models.register(
            target, snapshot, state="candidate" if worse else "live", parent=live.id, reason=reason,
            sha256=checksum(target), figures=figures,
        )  # fmt: skip
    return LivingUpdate(version, replace(result, model=model), comparison, version.reason or reason)


def _check_folder(live: ModelVersion, folder: Path, force: bool) -> None:
    """Refuse, before the work begins, a folder that the new model cannot go to."""
    if folder.resolve() == live.folder.resolve():
        raise UsageError(f"{folder} is the live model", "choose another folder")
    folders.check_vacant(folder, force, resume=False)


def _renamed(model: Model, before: Moment, after: Moment) -> Model:
    """The model under the present names of its entities and relations; merged ones keep their former name."""

    def moved(vocabulary: Vocabulary, old: pl.Series, new: pl.Series) -> Vocabulary:
        count = min(len(old), len(new))
        changed = {a: b for a, b in zip(old[:count], new[:count], strict=True) if a != b and a is not None}
        present = set(vocabulary.names)
        changed = {a: b for a, b in changed.items() if b not in present or b in changed}
        return vocabulary.renamed(changed) if changed else vocabulary

    names = model.vocabularies
    vocabularies = replace(
        names,
        entities=moved(names.entities, before.entities.names, after.entities.names),
        relations=moved(names.relations, before.relations.names, after.relations.names),
    )
    return replace(model, vocabularies=vocabularies) if _differ(names, vocabularies) else model


def _differ(a: Vocabularies, b: Vocabularies) -> bool:
    return a.entities is not b.entities or a.relations is not b.relations


def changes_since(model: Model, parts: dict[str, Beliefs], labels: pl.DataFrame) -> Changes:
    """What the model lacks: `parts` are the beliefs of train and valid at present, `labels` the decided proposals."""
    frames = {part: beliefs.to_frame() for part, beliefs in parts.items()}
    known = Beliefs.from_triples(model.vocabularies, model.known.triples).to_frame()
    holding = pl.concat([frame.select(TRIPLE) for frame in frames.values()]).unique()
    new = frames["train"].join(known, on=TRIPLE, how="anti", maintain_order="left")
    retracted = known.join(holding, on=TRIPLE, how="anti", maintain_order="left")
    entities, relations = pl.Series(model.vocabularies.entities.names), pl.Series(model.vocabularies.relations.names)
    expected = pl.concat([known, new.select(TRIPLE)])
    named = pl.concat([expected["head"], expected["tail"], entities]).unique()
    usable = labels.filter(
        pl.col("head").is_in(named.implode()) & pl.col("tail").is_in(named.implode())
        & pl.col("relation").is_in(pl.concat([relations, expected["relation"]]).unique().implode())
    )  # fmt: skip
    negatives = usable.filter(pl.col("label") == -1).select(TRIPLE)
    suspects = usable.join(known, on=TRIPLE, how="semi", maintain_order="left").drop("credence")
    proposals = usable.join(known, on=TRIPLE, how="anti", maintain_order="left").drop_nulls("credence")

    def present(frame: pl.DataFrame) -> pl.DataFrame | None:
        return frame if len(frame) else None

    return Changes(present(new), present(retracted), present(suspects), present(proposals), present(negatives))


def _with_decided(result: UpdateResult, decided: pl.DataFrame | None) -> UpdateResult:
    """The update with the credence of proposals moved by decided ones.

    They do not move the credence of other beliefs: all of them are credible, so they are no sample of these.
    """
    if decided is None:
        return result
    model, counts = result.model, result.counts | {"labels": result.counts["labels"] + len(decided)}
    curve = model.calibration.proposals
    if curve is not None:
        relation = model.vocabularies.relations.ids(decided["relation"])
        curve = curve.adjust(decided["credence"].to_numpy(), relation, (decided["label"] == 1).to_numpy())
        model = replace(model, calibration=replace(model.calibration, proposals=curve))
    return replace(result, model=model, counts=counts)


def _with_valid(model: Model, valid: Beliefs) -> Model:
    """The model with new facts of the valid split among its known facts."""
    encoded = valid.encode(model.vocabularies)
    encoded = encoded.where(encoded.seen)
    new = encoded.where(~model.known.contains(encoded.head, encoded.relation, encoded.tail))
    if not len(new):
        return model
    return replace(
        model,
        valid=np.concatenate([model.valid, new.triples]),
        known_confidence=insert_confidence(model, len(model.train) + len(model.valid), new),
    )


def judge_update(old: Model, new: Model, valid: Beliefs, seed: int = 0) -> tuple[Comparison | None, str, bool]:
    """The comparison on the valid split, the reason for the verdict, and whether the new model is worse."""
    if not len(valid):
        return None, "the valid split is empty, so that nothing shows that the new model is no worse", True
    comparison = compare(old, new, valid, ("entity", "calibration"), seed=seed, keep_known=True)
    faults = [_fault(one) for one in comparison.differences if _is_worse(one)]
    if faults:
        return comparison, f"worse on {len(valid):,} beliefs of valid: {'; '.join(faults)}", True
    if not comparison.differences:
        raise BadStore(f"the models cannot be compared: {'; '.join(comparison.skipped.values())}")
    return comparison, f"no worse on {len(valid):,} beliefs of valid", False


def _is_worse(one: Difference) -> bool:
    """Whether the interval of a checked metric lies wholly on the worse side."""
    sign = CHECKED.get((one.task, one.metric), 0)
    return (sign > 0 and one.high < 0) or (sign < 0 and one.low > 0)


def _fault(one: Difference) -> str:
    return f"{one.metric} {one.a:.4f} → {one.b:.4f}, difference {one.low:+.4f} to {one.high:+.4f}"
