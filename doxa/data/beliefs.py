"""Beliefs ⟨head, relation, tail, mention, confidence⟩ as columns of ids, and the names behind the ids."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from doxa.data.mentions import Ragged, encode_words, words
from doxa.errors import DoxaError, UsageError, did_you_mean

Ids = NDArray[np.int64]

TABLE = ("head", "relation", "tail", "mention", "confidence", "label")
"""The columns of a table of beliefs."""

UNKNOWN = -1
"""The id of a name the vocabulary does not hold."""


class Vocabulary:
    """Distinct names; a name's id is its place in the list."""

    def __init__(self, names: pl.Series, kind: str) -> None:
        self.names = names.cast(pl.String).alias("name")
        self.kind = kind
        if self.names.null_count() or self.names.n_unique() != len(self.names):
            raise DoxaError(f"the list of {kind} names has empty or repeated entries")

    @classmethod
    def of(cls, kind: str, *columns: pl.Series) -> Vocabulary:
        """The distinct values of some columns, in order of first appearance."""
        together = pl.concat([column.cast(pl.String).alias("name") for column in columns])
        return cls(together.drop_nulls().unique(maintain_order=True), kind)

    def __len__(self) -> int:
        return len(self.names)

    def __getitem__(self, identifier: int) -> str:
        return str(self.names[int(identifier)])

    @cached_property
    def _enum(self) -> pl.Enum:
        return pl.Enum(self.names)

    def ids(self, values: pl.Series) -> Ids:
        """The id of every value, `UNKNOWN` where the vocabulary lacks it."""
        if not len(self.names):
            return np.full(len(values), UNKNOWN, np.int64)
        codes = values.cast(pl.String).cast(self._enum, strict=False).to_physical()
        return codes.cast(pl.Int64).fill_null(UNKNOWN).to_numpy().astype(np.int64)

    def id(self, name: str) -> int:
        """The id of one name; an unknown one is an error that offers the nearest names."""
        identifier = self.names.index_of(name)
        if identifier is None:
            raise DoxaError(f"no {self.kind} {name!r} in this model.{self._suggestion(name)}")
        return int(identifier)

    def every(self, names: Sequence[str]) -> Ids:
        """The ids of several names; an unknown one is an error that offers the nearest names."""
        if len(names) == 1:
            return np.array([self.id(names[0])])
        ids = self.ids(pl.Series(names, dtype=pl.String))
        if (ids == UNKNOWN).any():
            self.id(names[int(np.argmin(ids))])
        return ids

    def _suggestion(self, name: str) -> str:
        plain = name.lower()
        lowered = self.names.str.to_lowercase()
        if (lowered == plain).any():
            return f" Did you mean {self.names.filter(lowered == plain)[0]!r}?"
        near = (lowered.str.len_chars().cast(pl.Int64) - len(plain)).abs() <= 2
        likely = self.names.filter(near & (lowered.str.slice(0, 1) == plain[:1]))
        found = did_you_mean(name, likely.head(20_000)) or did_you_mean(name, self.names.filter(near).head(20_000))
        return found or did_you_mean(name, self.names.filter(lowered.str.contains(plain, literal=True)).head(20_000))


@dataclass(frozen=True, eq=False)
class Vocabularies:
    """The three vocabularies a set of beliefs is written in."""

    entities: Vocabulary
    relations: Vocabulary
    words: Vocabulary


@dataclass(frozen=True, eq=False)
class Beliefs:
    """Beliefs as columns of equal length. Ids point into `names`; `UNKNOWN` marks a name it lacks.

    `confidence` is NaN and a mention has no words where a belief came without; `label` is 1 or -1.
    `text` keeps the mentions as they were written.
    """

    vocabularies: Vocabularies
    head: Ids
    relation: Ids
    tail: Ids
    mention: Ragged
    confidence: NDArray[np.float64]
    label: NDArray[np.int8] | None = None
    text: pl.Series | None = None

    def __post_init__(self) -> None:
        columns = (self.relation, self.tail, self.mention, self.confidence, self.label, self.text)
        if any(column is not None and len(column) != len(self.head) for column in columns):
            raise DoxaError("the columns of these beliefs differ in length")

    @classmethod
    def from_frame(cls, table: pl.DataFrame, names: Vocabularies | None = None) -> Beliefs:
        """Encode a table with columns head, relation, tail [, mention, confidence, label].

        Without `names` the vocabulary is made from the table itself.
        """
        return cls.from_frames([table], names)

    @classmethod
    def from_frames(cls, tables: Iterable[pl.DataFrame], vocabularies: Vocabularies | None = None) -> Beliefs:
        """Encode tables of the same columns, end to end; none is kept."""
        entity = VocabularyBuilder("entity", vocabularies.entities if vocabularies else None)
        relation = VocabularyBuilder("relation", vocabularies.relations if vocabularies else None)
        word = VocabularyBuilder("word", vocabularies.words if vocabularies else None)
        columns: dict[str, list[NDArray[Any]]] = {}
        texts: list[pl.Series] = []
        rows = 0

        def put(name: str, part: NDArray[Any]) -> None:
            columns.setdefault(name, []).append(part)

        for table in tables:
            rows += len(table)
            put("head", entity.codes(table["head"]))
            put("tail", entity.codes(table["tail"]))
            put("relation", relation.codes(table["relation"]))
            if "mention" in table.columns:
                said = encode_words(words(table["mention"]), word.codes)
                put("words", said.values)
                put("lengths", said.lengths)
                texts.append(table["mention"])
            if "confidence" in table.columns:
                put("confidence", table["confidence"].cast(pl.Float64).fill_null(math.nan).to_numpy())
            if "label" in table.columns:
                put("label", table["label"].cast(pl.Int8).to_numpy())

        def whole(name: str, kind: type) -> NDArray[Any]:
            return np.concatenate(columns.pop(name), dtype=kind)

        vocabularies = vocabularies or Vocabularies(entity.vocabulary(), relation.vocabulary(), word.vocabulary())
        del entity, relation, word  # their memory serves the columns
        return cls(
            vocabularies=vocabularies,
            head=whole("head", np.int64),
            relation=whole("relation", np.int64),
            tail=whole("tail", np.int64),
            mention=Ragged.from_lengths(whole("words", np.int64), whole("lengths", np.int64))
            if texts
            else Ragged.empty(rows),
            confidence=whole("confidence", np.float64) if "confidence" in columns else certain(rows),
            label=whole("label", np.int8) if "label" in columns else None,
            text=pl.concat(texts) if texts else None,
        )

    def to_frame(self) -> pl.DataFrame:
        """The beliefs by name, with the optional columns that hold anything."""
        if not self.seen.all():
            raise DoxaError(f"{(~self.seen).sum():,} of these beliefs name something their vocabulary lacks")
        columns = {
            "head": self.vocabularies.entities.names.gather(self.head),
            "relation": self.vocabularies.relations.names.gather(self.relation),
            "tail": self.vocabularies.entities.names.gather(self.tail),
        }
        if self.text is not None:
            columns["mention"] = self.text
        if not np.isnan(self.confidence).all():
            columns["confidence"] = pl.Series(self.confidence).fill_nan(None)
        if self.label is not None:
            columns["label"] = pl.Series(self.label)
        return pl.DataFrame([column.alias(name) for name, column in columns.items()])

    def frames(self, rows: int = 500_000) -> Iterator[pl.DataFrame]:
        """The same as `to_frame` gives, so many rows at a time and all with the same columns."""
        for start in range(0, len(self), rows):
            table = self.take(np.arange(start, min(start + rows, len(self)))).to_frame()
            if not np.isnan(self.confidence).all() and "confidence" not in table.columns:
                table = table.with_columns(pl.lit(None, pl.Float64).alias("confidence"))
            yield table.select(name for name in TABLE if name in table.columns)

    def __len__(self) -> int:
        return len(self.head)

    def __repr__(self) -> str:
        parts = [
            f"{len(self):,} beliefs",
            f"{len(self.vocabularies.entities):,} entities",
            f"{len(self.vocabularies.relations):,} relations",
        ]
        if len(self.mention.values):
            parts.append(
                f"{np.count_nonzero(self.mention.lengths):,} mentions of {len(self.vocabularies.words):,} words"
            )
        if not np.isnan(self.confidence).all():
            parts.append(f"{np.count_nonzero(~np.isnan(self.confidence)):,} confidences")
        if self.label is not None:
            parts.append(f"{np.count_nonzero(self.label == 1):,} labeled true")
        return f"Beliefs({', '.join(parts)})"

    @property
    def triples(self) -> NDArray[np.int64]:
        """(n, 3): head, relation, tail."""
        return np.stack([self.head, self.relation, self.tail], axis=1)

    @property
    def seen(self) -> NDArray[np.bool_]:
        """Which beliefs name only entities and relations the vocabulary holds."""
        return np.asarray((self.head >= 0) & (self.relation >= 0) & (self.tail >= 0))

    def take(self, rows: Ids) -> Beliefs:
        """These rows, in this order."""
        return replace(
            self,
            head=self.head[rows],
            relation=self.relation[rows],
            tail=self.tail[rows],
            mention=self.mention.take(rows),
            confidence=self.confidence[rows],
            label=None if self.label is None else self.label[rows],
            text=None if self.text is None else self.text.gather(rows),
        )

    def where(self, mask: NDArray[np.bool_]) -> Beliefs:
        return self.take(np.flatnonzero(mask))

    def positives(self) -> Beliefs:
        """The beliefs held true, without labels: those not labeled false and not of confidence 0."""
        held = self.confidence != 0
        if self.label is not None:
            held &= self.label == 1
        return replace(self if held.all() else self.where(held), label=None)

    def uses_all_names(self) -> bool:
        """Whether every entity and relation of the vocabulary occurs."""
        entities = len(np.union1d(self.head, self.tail))
        return entities == len(self.vocabularies.entities) and len(np.unique(self.relation)) == len(
            self.vocabularies.relations
        )

    def compact(self) -> Beliefs:
        """The same beliefs in a vocabulary of just the names they use."""
        return Beliefs.from_frame(self.to_frame())

    def without_mentions(self) -> Beliefs:
        return replace(self, mention=Ragged.empty(len(self)), text=None)

    def encode(self, vocabularies: Vocabularies) -> Beliefs:
        """The same beliefs in another vocabulary; what it lacks becomes `UNKNOWN`, unknown words drop out."""
        if vocabularies is self.vocabularies:
            return self
        entities = _translation(self.vocabularies.entities, vocabularies.entities)
        relations = _translation(self.vocabularies.relations, vocabularies.relations)
        return replace(
            self,
            vocabularies=vocabularies,
            head=entities[self.head],
            relation=relations[self.relation],
            tail=entities[self.tail],
            mention=self.mention.mapped(_translation(self.vocabularies.words, vocabularies.words)),
        )

    def checksum(self) -> str:
        """SHA-256 of everything that is learnt from, by name and in order: what a model says it was trained on."""
        digest = hashlib.sha256()
        for vocabulary in (self.vocabularies.entities, self.vocabularies.relations, self.vocabularies.words):
            digest.update("\n".join(vocabulary.names.to_list()).encode())
        for column in (self.triples, self.mention.values, self.mention.offsets, self.confidence):
            digest.update(np.ascontiguousarray(column).tobytes())
        return digest.hexdigest()


def split(beliefs: Beliefs, shares: tuple[float, ...], seed: int = 0, apart: Sequence[str] = ()) -> tuple[Beliefs, ...]:
    """Train and one further part per share, none of which holds an entity or relation unseen in train.

    Rows of the same triple stay together, and those that share what is to be kept `apart`: a pair of entities in
    either order (`pair`), a mention (`mention`), a head or a tail. The first belief (in random order) of every entity
    and relation goes to train with all that stays with it, so a part can come out smaller than its share.
    """
    if any(share < 0 for share in shares) or sum(shares) >= 1:
        raise DoxaError(f"cannot split into shares {shares}; expected positive ones that leave something for train")
    first, triple = np.unique(beliefs.triples, axis=0, return_index=True, return_inverse=True)[1:]
    group = _groups(beliefs, triple.reshape(-1), apart)
    groups = int(group.max(initial=-1)) + 1
    sizes = np.bincount(group[first], minlength=groups)
    order = np.random.default_rng([seed, 0]).permutation(groups)
    place = np.empty(groups, np.int64)
    place[order] = np.arange(groups)
    rows = np.argsort(place[group], kind="stable")
    needed = np.zeros(groups, bool)
    both_ends = np.stack([beliefs.head[rows], beliefs.tail[rows]], axis=1).reshape(-1)
    needed[group[rows[np.unique(both_ends, return_index=True)[1] // 2]]] = True
    needed[group[rows[np.unique(beliefs.relation[rows], return_index=True)[1]]]] = True
    free = order[~needed[order]]
    part_of_group = np.zeros(groups, np.int64)
    held = np.cumsum(sizes[free])
    start, taken = 0, 0
    for number, share in enumerate(shares, start=1):
        end = max(start, int(np.searchsorted(held, taken + round(share * len(first)), side="right")))
        part_of_group[free[start:end]] = number
        start, taken = end, int(held[end - 1]) if end else 0
    part = part_of_group[group]
    return tuple(beliefs.where(part == number) for number in range(len(shares) + 1))


def _groups(beliefs: Beliefs, triple: Ids, apart: Sequence[str]) -> Ids:
    """Which rows stay together: those of one triple, and those linked through what is to be kept apart."""
    group = triple
    entities = len(beliefs.vocabularies.entities)
    for key in apart:
        if key == "pair":
            pair = np.minimum(beliefs.head, beliefs.tail) * entities + np.maximum(beliefs.head, beliefs.tail)
            shared = np.unique(pair, return_inverse=True)[1]
        elif key in ("head", "tail"):
            shared = np.unique(getattr(beliefs, key), return_inverse=True)[1]
        elif key == "mention":
            if beliefs.text is None:
                raise DoxaError("these beliefs have no mentions to keep apart")
            said = beliefs.text.rank("dense").cast(pl.Int64)
            shared = said.fill_null(pl.Series(np.arange(len(beliefs)) + len(beliefs) + 1)).to_numpy()
            shared = np.unique(shared, return_inverse=True)[1]
        else:
            raise UsageError(f"cannot keep {key!r} apart; expected pair, mention, head or tail")
        group = _linked(group, shared)
    return group


def _linked(some: Ids, others: Ids) -> Ids:
    """Groups of rows connected through either of two groupings."""
    from scipy.sparse import coo_matrix
    from scipy.sparse.csgraph import connected_components

    size = int(some.max(initial=-1)) + 1
    whole = size + int(others.max(initial=-1)) + 1
    links = coo_matrix((np.ones(len(some), np.int8), (some, others + size)), shape=(whole, whole))
    component = connected_components(links, directed=False)[1]
    return np.unique(component[some], return_inverse=True)[1].astype(np.int64)


def certain(rows: int) -> NDArray[np.float64]:
    """No confidence for any of so many beliefs, without taking up memory."""
    return np.broadcast_to(np.float64(math.nan), rows)


class VocabularyBuilder:
    """Vocabularies to codes: those of a vocabulary (`UNKNOWN` for others), or new ones in order of first appearance."""

    def __init__(self, kind: str, vocabulary: Vocabulary | None = None) -> None:
        self.kind, self._vocabulary = kind, vocabulary
        self._type = pl.Categorical(pl.Categories.random("doxa"))
        self.count = 0
        self._anchor = pl.Series([], dtype=self._type)
        """Codes are forgotten when no series has them any more."""

    def codes(self, values: pl.Series) -> NDArray[np.int32]:
        if self._vocabulary is not None:
            return self._vocabulary.ids(values).astype(np.int32)
        codes = values.cast(pl.String).cast(self._type).to_physical().cast(pl.Int32).fill_null(UNKNOWN).to_numpy()
        self.count = max(self.count, int(codes.max(initial=-1)) + 1)
        return codes

    def vocabulary(self) -> Vocabulary:
        names = pl.Series(np.arange(self.count, dtype=np.uint32)).cat.to(self._type)
        return Vocabulary(names.cast(pl.String), self.kind)


def _translation(source: Vocabulary, target: Vocabulary) -> Ids:
    """For each id of `source` its id in `target`; one more place at the end keeps UNKNOWN at UNKNOWN."""
    return np.append(target.ids(source.names), UNKNOWN)
