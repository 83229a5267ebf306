"""What a data engineer wants to know of a file or dataset before training on it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from doxa import formats as files
from doxa.data.triples import TripleIndex, distinct
from doxa.data.vocabulary import Vocabulary, VocabularyBuilder
from doxa.formats import OnError, Options

NEAR = 0.8
"""Two relations are near-inverse if so many facts of either stand reversed under the other."""

BINS = 20


@dataclass(frozen=True)
class Inspection:
    """Counts and findings per part, as plain data.

    `inverses` are pairs of relations each of which nearly says what the other says the other way round (a symmetric
    relation is its own), with how many facts of valid and test they give away. `degrees` and `confidences` are for
    drawing: how many entities stand in 1, 2–3, 4–7 … beliefs of train, and how confidence is spread over 20 bins.
    """

    parts: dict[str, dict[str, Any]]
    relations: list[dict[str, Any]]
    inverses: list[dict[str, Any]]
    degrees: list[int]
    confidences: list[int]

    def as_dict(self) -> dict[str, Any]:
        return dict(vars(self))


def inspect(path: str | Path, on_error: OnError = "raise", options: Options | None = None) -> Inspection:
    """Counts, duplicates, leaks, unseen names, near-inverse relations and the one-to-many profile.

    Of a file or a dataset folder; read block by block and kept as numbers.
    """
    entity, relation = VocabularyBuilder("entity"), VocabularyBuilder("relation")
    parts, known = {}, (0, 0)
    for name, file in files.dataset(path).parts().items():
        parts[name] = _Part.read(files.blocks(file, on_error, refuted=True, options=options), entity, relation)
        if name == "train":
            known = entity.count, relation.count
    train = parts["train"]
    facts = TripleIndex(train.triples[train.held], entity.count, relation.count)
    found = {name: part.findings(entity.count, relation.count) for name, part in parts.items()}
    pairs = distinct(facts.triples[:, 2] * facts.entities + facts.triples[:, 0])
    for name, part in parts.items():
        if name != "train":
            found[name] |= part.against(train, facts, pairs, *known)
    names = relation.vocabulary()
    later = [part.triples[part.held] for name, part in parts.items() if name != "train"]
    return Inspection(
        found,
        _profile(names, facts),
        _inverses(names, facts, np.concatenate(later) if later else np.zeros((0, 3), np.int64)),
        _degrees(train),
        train.confidences(),
    )


@dataclass(frozen=True, eq=False)
class _Part:
    """A part as columns of numbers. `rows` and `mentions` are hashes; a mention's is 0 where there is none.

    Rows that are triples and nothing else need no hash.
    """

    triples: NDArray[np.int64]
    rows: NDArray[np.uint64] | None
    mentions: NDArray[np.uint64] | None
    confidence: NDArray[np.float64] | None
    label: NDArray[np.int8] | None

    @classmethod
    def read(cls, tables: Any, entity: VocabularyBuilder, relation: VocabularyBuilder) -> _Part:
        columns: dict[str, list[NDArray[Any]]] = {}
        for table in tables:
            ids = (entity.codes(table["head"]), relation.codes(table["relation"]), entity.codes(table["tail"]))
            found: dict[str, NDArray[Any]] = {"triples": np.stack(ids, axis=1)}
            if len(table.columns) > 4:
                found["rows"] = table.drop("line").hash_rows().to_numpy()
            if "mention" in table.columns:
                hashes = table["mention"].hash()
                found["mentions"] = pl.select(
                    pl.when(table["mention"].is_null()).then(0).otherwise(hashes)
                ).to_series().to_numpy()  # fmt: skip
            if "confidence" in table.columns:
                found["confidence"] = table["confidence"].fill_null(float("nan")).to_numpy()
            if "label" in table.columns:
                found["label"] = table["label"].to_numpy()
            for name, column in found.items():
                columns.setdefault(name, []).append(column)
        whole = {name: np.concatenate(columns.pop(name)) for name in list(columns)}
        return cls(
            whole["triples"].astype(np.int64),
            whole.get("rows"),
            whole.get("mentions"),
            whole.get("confidence"),
            whole.get("label"),
        )

    @property
    def held(self) -> NDArray[np.bool_]:
        """Which are held true: not labeled false and not of confidence 0."""
        held = np.ones(len(self.triples), bool)
        if self.confidence is not None:
            held &= self.confidence != 0
        if self.label is not None:
            held &= self.label == 1
        return held

    def findings(self, entities: int, relations: int) -> dict[str, Any]:
        head, relation, tail = self.triples.T
        repeated = len(head) - len(distinct((head * relations + relation) * entities + tail))
        seen = np.zeros(entities, bool)
        seen[head] = seen[tail] = True
        found: dict[str, Any] = {
            "beliefs": len(head),
            "entities": int(seen.sum()),
            "relations": int((np.bincount(relation) > 0).sum()),
            "duplicate_lines": repeated if self.rows is None else len(head) - len(_distinct(self.rows)),
            "repeated_triples": repeated,
            "self_loops": int((head == tail).sum()),
        }
        if self.mentions is not None:
            found["with_mention"] = int((self.mentions != 0).sum())
            found["distinct_mentions"] = len(_distinct(self.mentions[self.mentions != 0]))
        if self.confidence is not None:
            found["with_confidence"] = int((~np.isnan(self.confidence)).sum())
            given = pl.DataFrame({"h": head, "r": relation, "t": tail, "c": self.confidence}).unique()
            found["triples_of_differing_confidence"] = len(
                given.group_by("h", "r", "t").len().filter(pl.col("len") > 1)
            )
        if self.label is not None:
            found["labeled_true"] = int((self.label == 1).sum())
            found["labeled_false"] = int((self.label == -1).sum())
        return found

    def against(
        self, train: _Part, facts: TripleIndex, reversed_pairs: NDArray[np.int64], entities: int, relations: int
    ) -> dict[str, Any]:
        """What this part shares with train, and what train never saw: names numbered beyond train's."""
        head, relation, tail = self.triples.T
        in_train = facts.contains(head, relation, tail)
        back = _among(head * facts.entities + tail, reversed_pairs)
        found: dict[str, Any] = {
            "with_unseen_entity": int(((head >= entities) | (tail >= entities)).sum()),
            "with_unseen_relation": int((relation >= relations).sum()),
            "already_in_train": int(in_train.sum()),
            "reversed_pair_in_train": int(back.sum()),
            "reversed_share": round(float(back.mean()), 4),
        }
        if self.label is not None:
            found["false_but_in_train"] = int((in_train & (self.label == -1)).sum())
        if self.mentions is not None and train.mentions is not None:
            seen = _among(self.mentions, _distinct(train.mentions)) & (self.mentions != 0)
            found["mention_in_train"] = int(seen.sum())
        return found

    def confidences(self) -> list[int]:
        if self.confidence is None:
            return []
        given = self.confidence[~np.isnan(self.confidence)]
        return [int(count) for count in np.histogram(given, bins=BINS, range=(0, 1))[0]]


def _profile(names: Vocabulary, facts: TripleIndex) -> list[dict[str, Any]]:
    """Every relation of train with its mapping kind, most frequent first."""
    kinds = facts.mapping_kinds()
    return [
        {
            "relation": names[relation],
            "kind": kinds[relation],
            "facts": int(facts.counts[relation]),
            "tails_per_head": round(float(facts.tails_per_head[relation]), 2),
            "heads_per_tail": round(float(facts.heads_per_tail[relation]), 2),
        }
        for relation in np.argsort(-facts.counts, kind="stable")
        if facts.counts[relation]
    ]


def _inverses(names: Vocabulary, facts: TripleIndex, later: NDArray[np.int64]) -> list[dict[str, Any]]:
    """Near-inverse pairs of relations, those that give most away first."""
    train = _table(facts.triples)
    crossed = _crossed(train, train)
    near = []
    for relation, inverse, count in crossed.iter_rows():
        share = count / max(facts.counts[relation], facts.counts[inverse])
        if relation <= inverse and share >= NEAR:
            near.append((relation, inverse, float(share)))
    given = _crossed(_table(later), train) if near and len(later) else None
    leaks = {} if given is None else {(relation, inverse): count for relation, inverse, count in given.iter_rows()}
    found = [
        {
            "relation": names[relation],
            "inverse": names[inverse],
            "share": round(share, 4),
            "given_away": leaks.get((relation, inverse), 0) + (relation != inverse) * leaks.get((inverse, relation), 0),
        }
        for relation, inverse, share in near
    ]
    return sorted(found, key=lambda pair: (-pair["given_away"], -pair["share"], pair["relation"]))


def _table(triples: NDArray[np.int64]) -> pl.DataFrame:
    return pl.DataFrame(triples.astype(np.int32), schema=["h", "r", "t"]).filter(pl.col("h") != pl.col("t"))


def _crossed(some: pl.DataFrame, others: pl.DataFrame) -> pl.DataFrame:
    """How many facts of each relation stand reversed among the others, by the relation they stand under there."""
    back = others.select(pl.col("t").alias("h"), pl.col("r").alias("s"), pl.col("h").alias("t"))
    return some.lazy().join(back.lazy(), on=["h", "t"]).group_by("r", "s").len().collect(engine="streaming")


def _degrees(train: _Part) -> list[int]:
    """How many entities stand in 1, 2–3, 4–7 … beliefs."""
    degree = np.bincount(np.concatenate([train.triples[:, 0], train.triples[:, 2]]))
    return [int(count) for count in np.bincount(np.log2(degree[degree > 0]).astype(np.int64))]


def _distinct(keys: NDArray[np.uint64]) -> NDArray[np.uint64]:
    return distinct(keys)  # type: ignore[arg-type, return-value]


def _among(keys: NDArray[Any], ordered: NDArray[Any]) -> NDArray[np.bool_]:
    """Which keys are among distinct ones in order."""
    if not len(ordered):
        return np.zeros(len(keys), bool)
    return np.asarray(ordered[np.minimum(np.searchsorted(ordered, keys), len(ordered) - 1)] == keys)
