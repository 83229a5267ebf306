"""Beliefs ⟨head, relation, tail, mention, confidence⟩ as columns of ids."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from doxa.data.columns import COLUMNS
from doxa.data.mentions import Ragged, encode_words, words
from doxa.data.places import MARKED, encode_with_places, plain_words, with_places
from doxa.data.sources import as_frame
from doxa.data.vocabulary import Ids, NumberedNames, Vocabularies, Vocabulary, VocabularyBuilder, id_map
from doxa.errors import DoxaError
from doxa.slots import Slot

FIRST_ROWS = 20
"""Beliefs that a notebook shows."""

CHECKED_ROWS = 2**20
"""Rows that a checksum takes up at a time."""


@dataclass(frozen=True, eq=False)
class Beliefs:
    """Beliefs as columns of equal length. Ids point into `vocabularies`; `UNKNOWN` marks a missing name.

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
    def from_frame(cls, frame: pl.DataFrame, vocabularies: Vocabularies | None = None) -> Beliefs:
        """Encode a frame with the columns head, relation, tail [, mention, confidence, label].

        Without `vocabularies` they are made from the frame itself.
        """
        return cls.from_frames([frame], vocabularies)

    @classmethod
    def of(cls, source: Any, vocabularies: Vocabularies | None = None) -> Beliefs:
        """Beliefs of any source: `Beliefs`, a frame, a NumPy array of rows, or a list of tuples or dictionaries."""
        if isinstance(source, cls):
            return source if vocabularies is None else source.encode(vocabularies)
        return cls.from_frame(as_frame(source), vocabularies)

    @classmethod
    def from_triples(cls, vocabularies: Vocabularies, triples: NDArray[np.int64]) -> Beliefs:
        """Triples of ids, (n, 3), as beliefs without mention or confidence."""
        head, relation, tail = (np.ascontiguousarray(triples[:, slot]) for slot in Slot)
        return cls(vocabularies, head, relation, tail, Ragged.empty(len(triples)), no_confidence(len(triples)))

    @classmethod
    def from_frames(
        cls,
        frames: Iterable[pl.DataFrame],
        vocabularies: Vocabularies | None = None,
        numbered: tuple[NumberedNames, NumberedNames] | None = None,
    ) -> Beliefs:
        """Encode frames of the same columns, one after the other; none is kept in memory.

        With `numbered`, the frames have numbers for entities and relations, and `numbered` has their names.
        """
        entity, relation = numbered or (
            VocabularyBuilder("entity", vocabularies.entities if vocabularies else None),
            VocabularyBuilder("relation", vocabularies.relations if vocabularies else None),
        )
        word = VocabularyBuilder("word", vocabularies.words if vocabularies else None)
        columns: dict[str, list[NDArray[Any]]] = {}
        texts: list[pl.Series] = []
        rows = 0

        def put(name: str, part: NDArray[Any]) -> None:
            columns.setdefault(name, []).append(part)

        for table in frames:
            rows += len(table)
            put("head", entity.codes(table["head"]))
            put("tail", entity.codes(table["tail"]))
            put("relation", relation.codes(table["relation"]))
            if "mention" in table.columns:
                if vocabularies is not None and vocabularies.places:
                    names = (table["head"], table["tail"])
                    mention = encode_with_places(table["mention"], *names, vocabularies.words)
                else:
                    mention = encode_words(words(table["mention"]), word.codes)
                put("words", mention.values)
                put("lengths", mention.lengths)
                texts.append(table["mention"])
            if "confidence" in table.columns:
                put("confidence", table["confidence"].cast(pl.Float64).to_numpy())
            if "label" in table.columns:
                put("label", table["label"].cast(pl.Int8).to_numpy())

        vocabularies = vocabularies or Vocabularies(entity.vocabulary(), relation.vocabulary(), word.vocabulary())
        del entity, relation, word, numbered  # their memory serves the columns
        return cls.from_columns(vocabularies, columns, texts, rows)

    @classmethod
    def from_columns(
        cls, vocabularies: Vocabularies, columns: dict[str, list[NDArray[Any]]], texts: list[pl.Series], rows: int
    ) -> Beliefs:
        """Beliefs of columns in parts, which are joined one after the other and leave `columns`: ids of head, relation
        and tail, with mentions `words` and their `lengths`, and where there are any confidence and label."""

        def whole(name: str, kind: type) -> NDArray[Any]:
            return np.concatenate(columns.pop(name), dtype=kind)

        return cls(
            vocabularies=vocabularies,
            head=whole("head", np.int64),
            relation=whole("relation", np.int64),
            tail=whole("tail", np.int64),
            mention=Ragged.from_lengths(whole("words", np.int64), whole("lengths", np.int64))
            if texts
            else Ragged.empty(rows),
            confidence=whole("confidence", np.float64) if "confidence" in columns else no_confidence(rows),
            label=whole("label", np.int8) if "label" in columns else None,
            text=pl.concat(texts) if texts else None,
        )

    def to_frame(self, unknown_names: bool = False) -> pl.DataFrame:
        """The beliefs by name, with the optional columns that hold anything.

        A name that the vocabulary lacks is an error, or with `unknown_names` null.
        """
        if not unknown_names and not self.seen.all():
            raise DoxaError(f"{(~self.seen).sum():,} of these beliefs name something their vocabulary lacks")
        columns = {
            "head": self.vocabularies.entities.names_of(self.head),
            "relation": self.vocabularies.relations.names_of(self.relation),
            "tail": self.vocabularies.entities.names_of(self.tail),
        }
        if self.text is not None:
            columns["mention"] = self.text
        if not np.isnan(self.confidence).all():
            columns["confidence"] = pl.Series(self.confidence, nan_to_null=True)
        if self.label is not None:
            columns["label"] = pl.Series(self.label)
        return pl.DataFrame([column.alias(name) for name, column in columns.items()])

    def as_dict(self) -> dict[str, Any]:
        """The beliefs by name as plain data that JSON can hold; a name that the vocabulary lacks is null."""
        return {"beliefs": self.to_frame(unknown_names=True).to_dicts()}

    def frames(self, rows: int = 500_000) -> Iterator[pl.DataFrame]:
        """What `to_frame` gives, in frames of at most `rows` rows that all have the same columns."""
        for start in range(0, len(self), rows):
            table = self.take(np.arange(start, min(start + rows, len(self)))).to_frame()
            if not np.isnan(self.confidence).all() and "confidence" not in table.columns:
                table = table.with_columns(pl.lit(None, pl.Float64).alias("confidence"))
            yield table.select(name for name in COLUMNS if name in table.columns)

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
                f"{np.count_nonzero(self.mention.lengths):,} mentions of {plain_words(self.vocabularies.words):,} words"
            )
        if not np.isnan(self.confidence).all():
            parts.append(f"{np.count_nonzero(~np.isnan(self.confidence)):,} confidences")
        if self.label is not None:
            parts.append(f"{np.count_nonzero(self.label == 1):,} labeled true")
        return f"Beliefs({', '.join(parts)})"

    def _repr_html_(self) -> str:
        from doxa.render.pages import result_html

        first = self.take(np.arange(min(len(self), FIRST_ROWS)))
        return result_html(repr(self), first.to_frame(unknown_names=True))

    @property
    def triples(self) -> NDArray[np.int64]:
        """(n, 3): head, relation, tail."""
        return np.stack([self.head, self.relation, self.tail], axis=1)

    @property
    def seen(self) -> NDArray[np.bool_]:
        """Which beliefs name only entities and relations the vocabulary holds."""
        return np.asarray((self.head >= 0) & (self.relation >= 0) & (self.tail >= 0))

    @classmethod
    def concat(cls, parts: Sequence[Beliefs]) -> Beliefs:
        """The beliefs of several parts in the same vocabularies, in order.

        Labels, and mentions as they were written, are kept where every part has them.
        """
        labels = [part.label for part in parts if part.label is not None]
        texts = [part.text for part in parts if part.text is not None]
        return cls(
            vocabularies=parts[0].vocabularies,
            head=np.concatenate([part.head for part in parts]),
            relation=np.concatenate([part.relation for part in parts]),
            tail=np.concatenate([part.tail for part in parts]),
            mention=Ragged.concat([part.mention for part in parts]),
            confidence=np.concatenate([part.confidence for part in parts]),
            label=np.concatenate(labels) if len(labels) == len(parts) else None,
            text=pl.concat(texts) if len(texts) == len(parts) else None,
        )

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
        """The rows where the mask is true."""
        return self.take(np.flatnonzero(mask))

    def positives(self) -> Beliefs:
        """The true beliefs, without labels: neither labeled false nor of confidence 0."""
        true = self.confidence != 0
        if self.label is not None:
            true &= self.label == 1
        return replace(self if true.all() else self.where(true), label=None)

    def uses_all_names(self) -> bool:
        """Whether every entity and relation of the vocabulary occurs."""
        relations = np.zeros(len(self.vocabularies.relations), bool)
        relations[self.relation] = True
        return bool(self.named_entities().all() and relations.all())

    def named_entities(self) -> NDArray[np.bool_]:
        """Whether each entity of the vocabulary occurs, in any slot; all names must be known."""
        named = np.zeros(len(self.vocabularies.entities), bool)
        named[self.head] = named[self.tail] = True
        return named

    def compact(self) -> Beliefs:
        """The same beliefs in vocabularies of only the names they use."""
        return Beliefs.from_frame(self.to_frame()).with_prefixes(self.vocabularies.prefixes)

    def with_prefixes(self, prefixes: Mapping[str, str]) -> Beliefs:
        """The same beliefs, whose names are also recognized by their IRIs under these RDF prefixes."""
        return replace(self, vocabularies=self.vocabularies.with_prefixes(prefixes)) if prefixes else self

    def without_mentions(self) -> Beliefs:
        """The same beliefs without their mentions."""
        return replace(self, mention=Ragged.empty(len(self)), text=None)

    def encode(self, vocabularies: Vocabularies) -> Beliefs:
        """The same beliefs in other vocabularies; missing names become `UNKNOWN`, unknown words drop out."""
        if vocabularies is self.vocabularies:
            return self
        entities = id_map(self.vocabularies.entities, vocabularies.entities)
        relations = id_map(self.vocabularies.relations, vocabularies.relations)
        if vocabularies.places and not self.vocabularies.places and self.text is not None:
            names = self.vocabularies.entities
            ends = names.names_of(self.head), names.names_of(self.tail)
            mention = encode_with_places(self.text, *ends, vocabularies.words)
        else:
            mention = self.mention.mapped(id_map(self.vocabularies.words, vocabularies.words))
        return replace(
            self,
            vocabularies=vocabularies,
            head=entities[self.head],
            relation=relations[self.relation],
            tail=entities[self.tail],
            mention=mention,
        )

    def with_places(self, fewest: int = 2) -> Beliefs:
        """The same beliefs with words also marked by their place around the names of the entities.

        Marked words of fewer than `fewest` beliefs are left out, plain words never.
        """
        if self.text is None or self.vocabularies.places:
            return self
        names, plain = self.vocabularies.entities, self.vocabularies.words
        flat = with_places(self.text, names.names_of(self.head), names.names_of(self.tail)).explode(empty_as_null=False)
        marked = flat.filter(flat.str.contains(MARKED)).value_counts(name="beliefs")
        marked = marked.filter(pl.col("beliefs") >= fewest).sort("beliefs", marked.columns[0], descending=[True, False])
        words = Vocabulary(pl.concat([plain.names, marked[marked.columns[0]].alias("name")]), plain.kind)
        return self.encode(replace(self.vocabularies, words=words, places=True))

    def checksum(self) -> str:
        """SHA-256 of all that training reads, by name and in order; a model keeps it as its origin."""
        digest = hashlib.sha256()
        for vocabulary in (self.vocabularies.entities, self.vocabularies.relations, self.vocabularies.words):
            for start in range(0, len(vocabulary), CHECKED_ROWS):
                digest.update(b"\n" * bool(start))
                digest.update("\n".join(vocabulary.names[start : start + CHECKED_ROWS].to_list()).encode())
        for start in range(0, len(self), CHECKED_ROWS):
            rows = slice(start, start + CHECKED_ROWS)
            digest.update(np.stack([self.head[rows], self.relation[rows], self.tail[rows]], axis=1).tobytes())
        for column in (self.mention.values, self.mention.offsets, self.confidence):
            for start in range(0, len(column), CHECKED_ROWS):
                digest.update(column[start : start + CHECKED_ROWS].tobytes())
        return digest.hexdigest()


def no_confidence(rows: int) -> NDArray[np.float64]:
    """The confidence column of beliefs that came without, NaN throughout, without taking up memory."""
    return np.broadcast_to(np.float64(math.nan), rows)
