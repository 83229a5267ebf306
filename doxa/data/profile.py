"""Profile of a dataset: what a data engineer checks before training."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from doxa.data.results import Result
from doxa.data.triples import TripleIndex, distinct
from doxa.data.vocabulary import Vocabulary, VocabularyBuilder
from doxa.errors import UsageError

NEAR_INVERSE = 0.8
"""Two relations are near-inverse if this share of the facts of either holds reversed under the other."""

BINS = 20
"""Bins of the histogram of confidence."""


@dataclass(frozen=True, repr=False)
class Profile(Result):
    """Profile of the parts of a dataset, as plain data.

    - `parts`: counts per part, such as duplicate lines, unseen entities and facts that train already holds.
    - `relations`: one record per relation of train, with its mapping kind (1-1, 1-N, N-1, N-N), most frequent first.
    - `inverses`: near-inverse relation pairs, with the number of valid and test facts they leak. A symmetric relation
      is its own inverse.
    - `degrees`: the number of entities in 1, 2–3, 4–7 … beliefs of train.
    - `confidences`: histogram of the confidence in train over 20 bins from 0 to 1.
    - `lookalikes`: groups of names of one kind that differ only in spaces, case or Unicode form. They count as
      different names.
    """

    parts: dict[str, dict[str, Any]]
    relations: list[dict[str, Any]]
    inverses: list[dict[str, Any]]
    degrees: list[int]
    confidences: list[int]
    lookalikes: list[dict[str, Any]]

    def to_frame(self) -> pl.DataFrame:
        """The relations of train: relation, kind, facts, tails_per_head, heads_per_tail."""
        return pl.DataFrame(self.relations, schema=RELATIONS)

    def as_dict(self) -> dict[str, Any]:
        """All fields, as JSON holds them."""
        return dict(vars(self))

    def __repr__(self) -> str:
        beliefs = ", ".join(f"{part['beliefs']:,} {name}" for name, part in self.parts.items())
        return f"Profile({beliefs}; {len(self.relations):,} relations, {len(self.inverses):,} near-inverse pairs)"


RELATIONS = {
    "relation": pl.String,
    "kind": pl.String,
    "facts": pl.Int64,
    "tails_per_head": pl.Float64,
    "heads_per_tail": pl.Float64,
}


def profile(parts: Mapping[str, Iterable[pl.DataFrame]]) -> Profile:
    """Profile the parts of a dataset, each an iterable of frames of beliefs; the first part is `train`.

    Frames have the columns head, relation, tail and optionally mention, confidence, label. Only ids and hashes stay in
    memory.
    """
    entity, relation = VocabularyBuilder("entity"), VocabularyBuilder("relation")
    encoded, known = {}, (0, 0)
    for name, frames in parts.items():
        encoded[name] = _Part.encode(frames, entity, relation)
        if name == "train":
            known = entity.count, relation.count
    if "train" not in encoded:
        raise UsageError(f"no part train among {', '.join(parts) or 'no parts'}")
    train = encoded["train"]
    facts = TripleIndex(train.triples[train.positive], entity.count, relation.count)
    counts = {name: part.counts(entity.count, relation.count) for name, part in encoded.items()}
    pairs = distinct(facts.triples[:, 2] * facts.entities + facts.triples[:, 0])
    later = {name: part for name, part in encoded.items() if name != "train"}
    for name, part in later.items():
        counts[name] |= part.overlap(train, facts, pairs, *known)
    names = relation.vocabulary()
    held_out = [part.triples[part.positive] for part in later.values()]
    return Profile(
        counts,
        _relations(names, facts),
        _inverses(names, facts, np.concatenate(held_out) if held_out else np.zeros((0, 3), np.int64)),
        _degrees(train),
        train.confidence_histogram(),
        [*_lookalikes(entity.vocabulary()), *_lookalikes(names)],
    )


@dataclass(frozen=True, eq=False)
class _Part:
    """A part as columns of numbers. `rows` and `mentions` are hashes; a missing mention has hash 0.

    `rows` is None where the rows are triples only.
    """

    triples: NDArray[np.int64]
    rows: NDArray[np.uint64] | None
    mentions: NDArray[np.uint64] | None
    confidence: NDArray[np.float64] | None
    label: NDArray[np.int8] | None

    @classmethod
    def encode(cls, frames: Iterable[pl.DataFrame], entity: VocabularyBuilder, relation: VocabularyBuilder) -> _Part:
        columns: dict[str, list[NDArray[Any]]] = {"triples": []}
        for frame in frames:
            frame = frame.drop("line", strict=False)
            ids = (entity.codes(frame["head"]), relation.codes(frame["relation"]), entity.codes(frame["tail"]))
            block: dict[str, NDArray[Any]] = {"triples": np.stack(ids, axis=1)}
            if len(frame.columns) > 3:
                block["rows"] = frame.hash_rows().to_numpy()
            if "mention" in frame.columns:
                missing, hashes = frame["mention"].is_null(), frame["mention"].hash()
                block["mentions"] = pl.select(pl.when(missing).then(0).otherwise(hashes)).to_series().to_numpy()
            if "confidence" in frame.columns:
                block["confidence"] = frame["confidence"].fill_null(float("nan")).to_numpy()
            if "label" in frame.columns:
                block["label"] = frame["label"].to_numpy()
            for name, column in block.items():
                columns.setdefault(name, []).append(column)
        if not columns["triples"]:
            raise UsageError("no beliefs to profile")
        whole = {name: np.concatenate(columns.pop(name)) for name in list(columns)}
        return cls(
            whole["triples"].astype(np.int64),
            whole.get("rows"),
            whole.get("mentions"),
            whole.get("confidence"),
            whole.get("label"),
        )

    @property
    def positive(self) -> NDArray[np.bool_]:
        """Which beliefs are positive: neither labeled false nor of confidence 0."""
        positive = np.ones(len(self.triples), bool)
        if self.confidence is not None:
            positive &= self.confidence != 0
        if self.label is not None:
            positive &= self.label == 1
        return positive

    def counts(self, entities: int, relations: int) -> dict[str, Any]:
        head, relation, tail = self.triples.T
        repeated = len(head) - len(distinct((head * relations + relation) * entities + tail))
        seen = np.zeros(entities, bool)
        seen[head] = seen[tail] = True
        counts: dict[str, Any] = {
            "beliefs": len(head),
            "entities": int(seen.sum()),
            "relations": int((np.bincount(relation) > 0).sum()),
            "duplicate_lines": repeated if self.rows is None else len(head) - len(_distinct(self.rows)),
            "repeated_triples": repeated,
            "self_loops": int((head == tail).sum()),
        }
        if self.mentions is not None:
            counts["with_mention"] = int((self.mentions != 0).sum())
            counts["distinct_mentions"] = len(_distinct(self.mentions[self.mentions != 0]))
        if self.confidence is not None:
            counts["with_confidence"] = int((~np.isnan(self.confidence)).sum())
            rows = pl.DataFrame({"h": head, "r": relation, "t": tail, "c": self.confidence}).unique()
            differing = rows.group_by("h", "r", "t").len().filter(pl.col("len") > 1)
            counts["triples_of_differing_confidence"] = len(differing)
        if self.label is not None:
            counts["labeled_true"] = int((self.label == 1).sum())
            counts["labeled_false"] = int((self.label == -1).sum())
        return counts

    def overlap(
        self, train: _Part, facts: TripleIndex, reversed_pairs: NDArray[np.int64], entities: int, relations: int
    ) -> dict[str, Any]:
        """What this part shares with train, and what train lacks: ids from `entities` and `relations` on."""
        head, relation, tail = self.triples.T
        in_train = facts.contains(head, relation, tail)
        back = _among(head * facts.entities + tail, reversed_pairs)
        counts: dict[str, Any] = {
            "with_unseen_entity": int(((head >= entities) | (tail >= entities)).sum()),
            "with_unseen_relation": int((relation >= relations).sum()),
            "already_in_train": int(in_train.sum()),
            "reversed_pair_in_train": int(back.sum()),
            "reversed_share": round(float(back.mean()), 4),
        }
        if self.label is not None:
            counts["false_but_in_train"] = int((in_train & (self.label == -1)).sum())
        if self.mentions is not None and train.mentions is not None:
            seen = _among(self.mentions, _distinct(train.mentions)) & (self.mentions != 0)
            counts["mention_in_train"] = int(seen.sum())
        return counts

    def confidence_histogram(self) -> list[int]:
        if self.confidence is None:
            return []
        known = self.confidence[~np.isnan(self.confidence)]
        return [int(count) for count in np.histogram(known, bins=BINS, range=(0, 1))[0]]


def _relations(names: Vocabulary, facts: TripleIndex) -> list[dict[str, Any]]:
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


def _inverses(names: Vocabulary, facts: TripleIndex, held_out: NDArray[np.int64]) -> list[dict[str, Any]]:
    """Near-inverse relation pairs, in descending order of the held-out facts they leak."""
    train = _frame(facts.triples)
    near = []
    for relation, inverse, count in _count_reversed(train, train).iter_rows():
        share = count / max(facts.counts[relation], facts.counts[inverse])
        if relation <= inverse and share >= NEAR_INVERSE:
            near.append((relation, inverse, float(share)))
    leaks: dict[tuple[int, int], int] = {}
    if near and len(held_out):
        counts = _count_reversed(_frame(held_out), train)
        leaks = {(relation, inverse): count for relation, inverse, count in counts.iter_rows()}
    pairs = [
        {
            "relation": names[relation],
            "inverse": names[inverse],
            "share": round(share, 4),
            "leaked": leaks.get((relation, inverse), 0) + (relation != inverse) * leaks.get((inverse, relation), 0),
        }
        for relation, inverse, share in near
    ]
    return sorted(pairs, key=lambda pair: (-pair["leaked"], -pair["share"], pair["relation"]))


def _frame(triples: NDArray[np.int64]) -> pl.DataFrame:
    """The triples as a frame, without self loops."""
    return pl.DataFrame(triples.astype(np.int32), schema=["h", "r", "t"]).filter(pl.col("h") != pl.col("t"))


def _count_reversed(facts: pl.DataFrame, train: pl.DataFrame) -> pl.DataFrame:
    """For relations r and s, the number of facts (h, r, t) for which train holds (t, s, h)."""
    back = train.select(pl.col("t").alias("h"), pl.col("r").alias("s"), pl.col("h").alias("t"))
    return facts.lazy().join(back.lazy(), on=["h", "t"]).group_by("r", "s").len().collect(engine="streaming")


def _lookalikes(names: Vocabulary) -> list[dict[str, Any]]:
    """Groups of names that are equal in lower case, without outer and repeated spaces, in one Unicode form."""
    plain = names.names.str.normalize("NFKC").str.to_lowercase().str.replace_all(r"\s+", " ").str.strip_chars()
    groups = pl.DataFrame({"plain": plain, "name": names.names}).filter(pl.col("plain").is_duplicated())
    alike = groups.group_by("plain", maintain_order=True).agg("name")["name"]
    return [{"kind": names.kind, "names": group.to_list()} for group in alike]


def _degrees(train: _Part) -> list[int]:
    """The number of entities in 1, 2–3, 4–7 … beliefs."""
    degree = np.bincount(np.concatenate([train.triples[:, 0], train.triples[:, 2]]))
    return [int(count) for count in np.bincount(np.log2(degree[degree > 0]).astype(np.int64))]


def _distinct(keys: NDArray[np.uint64]) -> NDArray[np.uint64]:
    return distinct(keys)  # type: ignore[arg-type, return-value]


def _among(keys: NDArray[Any], ordered: NDArray[Any]) -> NDArray[np.bool_]:
    """Which keys are among the distinct, sorted ones."""
    if not len(ordered):
        return np.zeros(len(keys), bool)
    return np.asarray(ordered[np.minimum(np.searchsorted(ordered, keys), len(ordered) - 1)] == keys)
