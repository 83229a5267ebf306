"""Vocabularies: the names of entities, relations and words, and their ids."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from doxa.data.forks import codes, count_distinct, is_forked
from doxa.data.iris import spellings
from doxa.errors import DoxaError, UnknownName, did_you_mean

log = logging.getLogger(__name__)

Ids = NDArray[np.int64]

UNKNOWN = -1
"""The id of a name that the vocabulary does not hold."""

FEW = 1000
"""Names that are looked up one by one, at most."""

SMALL = 10_000
"""Names of a vocabulary that always has a dictionary, at most."""

SINGLE = 100
"""Names that are read one by one, at most: gathering costs as much as reading that many."""

SUGGESTIONS = 20_000
"""Names that a suggestion is looked for among, at most."""


class Vocabulary:
    """Distinct names of one kind (entity, relation or word); a name's id is its position in the list.

    `prefixes` are the RDF prefixes that names use beside the well-known ones: a name is also recognized by its IRI.
    """

    def __init__(self, names: pl.Series, kind: str, prefixes: Mapping[str, str] | None = None) -> None:
        self.names = names.cast(pl.String).alias("name")
        self.kind, self.prefixes = kind, dict(prefixes or {})
        if self.names.null_count() or count_distinct(self.names) != len(self.names):
            raise DoxaError(f"the list of {kind} names has empty or repeated entries")

    def __len__(self) -> int:
        return len(self.names)

    def __getitem__(self, identifier: int) -> str:
        return str(self.names[int(identifier)])

    @cached_property
    def _enum(self) -> pl.Enum:
        return pl.Enum(self.names)

    def renamed(self, names: Mapping[str, str]) -> Vocabulary:
        """The same ids, where names on the left became those on the right."""
        return Vocabulary(self.names.replace(dict(names)), self.kind, self.prefixes)

    @cached_property
    def lookup(self) -> dict[str, int]:
        """The id of each name. Once it has been read, a few names are looked up without work on all names."""
        return {name: number for number, name in enumerate(self.names.to_list())}

    @property
    def _is_indexed(self) -> bool:
        """`lookup` has been read, or costs nothing."""
        return "lookup" in self.__dict__ or len(self.names) <= SMALL

    @cached_property
    def _texts(self) -> list[str]:
        """The names as a list, with the strings of `lookup`."""
        return list(self.lookup)

    def ids_of(self, names: Sequence[str]) -> Ids:
        """The id of each of a few names, as `ids`."""
        if self._is_indexed:
            ids = [self.lookup.get(name, UNKNOWN) for name in names]
            if UNKNOWN not in ids:
                return np.array(ids, np.int64)
        return self.ids(pl.Series(names, dtype=pl.String))

    def ids(self, values: pl.Series, prefixes: Mapping[str, str] | None = None) -> Ids:
        """The id of every value, `UNKNOWN` where the vocabulary lacks it.

        An IRI may be written whole or with a prefix of this vocabulary, of `prefixes` or a well-known one.
        """
        values = values.cast(pl.String)
        ids = self._exact_ids(values)
        if self.kind == "word" or not len(self.names):
            return ids
        missing = np.flatnonzero(ids == UNKNOWN)
        others = [
            (row, spelling)
            for row, name in zip(missing.tolist(), values[missing].to_list(), strict=True)
            if ":" in (name or "")
            for spelling in spellings(name, self.prefixes, prefixes or {})
        ]
        if others:
            rows, names = zip(*others, strict=True)
            known = self._exact_ids(pl.Series(names, dtype=pl.String))
            for row, identifier in zip(reversed(rows), known[::-1].tolist(), strict=True):
                ids[row] = identifier if identifier != UNKNOWN else ids[row]
        return ids

    def _exact_ids(self, values: pl.Series) -> Ids:
        """The id of every value as it is written."""
        if not len(self.names):
            return np.full(len(values), UNKNOWN, np.int64)
        if self._is_indexed and len(values) <= FEW:
            return np.array([self.lookup.get(name, UNKNOWN) for name in values.to_list()], np.int64)
        if len(values) <= FEW:
            return self._ids_by_hash(values)
        return codes(values.cast(self._enum, strict=False), UNKNOWN)

    def _ids_by_hash(self, values: pl.Series) -> Ids:
        """The id of each of a few values: a cast would read all names again."""
        hashes, order = self._sorted_hashes
        wanted, texts, ids = _hashes(values), values.to_list(), np.full(len(values), UNKNOWN, np.int64)
        first, last = np.searchsorted(hashes, wanted), np.searchsorted(hashes, wanted, "right")
        for row, text in enumerate(texts):
            for candidate in order[first[row] : last[row]].tolist():  # several where names have the same hash
                if self.names[candidate] == text:
                    ids[row] = candidate
        return ids

    @cached_property
    def _sorted_hashes(self) -> tuple[NDArray[np.uint64], Ids]:
        """The hashes of all names in order, and the id of each."""
        hashes = _hashes(self.names)
        order = np.argsort(hashes, kind="stable")
        return hashes[order], order

    def __getstate__(self) -> dict[str, Any]:
        """Hashes may be others in another process, and texts are soon made again."""
        return {name: value for name, value in self.__dict__.items() if name not in ("_sorted_hashes", "_texts")}

    def names_of(self, ids: Ids) -> pl.Series:
        """The name of every id, null for `UNKNOWN`."""
        known = ids != UNKNOWN
        return self.names.gather(ids if known.all() else pl.Series(ids).set(pl.Series(~known), None))

    def texts_of(self, ids: Ids) -> list[str]:
        """The name of each of a few ids, none of them `UNKNOWN`."""
        if self._is_indexed:
            return [self._texts[number] for number in ids.tolist()]
        if len(ids) <= SINGLE:
            return [self.names[number] for number in ids.tolist()]
        return self.names.gather(ids).to_list()

    def id(self, name: str) -> int:
        """The id of one name; an unknown name is an error that offers the nearest names."""
        name = str(name)
        same = np.flatnonzero((self.names == name).to_numpy())
        identifier = int(same[0]) if len(same) else int(self.ids_of([name])[0])
        if identifier == UNKNOWN:
            raise UnknownName(f"no {self.kind} {name!r} in this model.{self._suggestion(name)}")
        return identifier

    def require(self, names: Sequence[str] | str) -> Ids:
        """The ids of several names or of one; an unknown name is an error that offers the nearest names."""
        names = [names] if isinstance(names, str) else [str(name) for name in names]
        if len(names) == 1:
            return np.array([self.id(names[0])])
        ids = self.ids_of(names)
        if (ids == UNKNOWN).any():
            self.id(names[int(np.argmin(ids))])
        return ids

    def _suggestion(self, name: str) -> str:
        if is_forked():
            return did_you_mean(name, self.names.to_list()[:SUGGESTIONS])
        plain = name.lower()
        lowered = self.names.str.to_lowercase()
        if (lowered == plain).any():
            return f" Did you mean {self.names.filter(lowered == plain)[0]!r}?"
        near = (lowered.str.len_chars().cast(pl.Int64) - len(plain)).abs() <= 2
        for likely in (near & (lowered.str.slice(0, 1) == plain[:1]), near, lowered.str.contains(plain, literal=True)):
            suggestion = did_you_mean(name, self.names.filter(likely).head(SUGGESTIONS))
            if suggestion:
                return suggestion
        return ""


@dataclass(frozen=True, eq=False)
class Vocabularies:
    """The three vocabularies that a set of beliefs is written in.

    `places` says whether the words of a mention are also marked by their place around the names of its entities
    (`doxa.data.places`).
    """

    entities: Vocabulary
    relations: Vocabulary
    words: Vocabulary
    places: bool = False

    @classmethod
    def empty(cls) -> Vocabularies:
        """Without any name, for ids whose names are elsewhere."""
        nothing = pl.Series([], dtype=pl.String)
        return cls(Vocabulary(nothing, "entity"), Vocabulary(nothing, "relation"), Vocabulary(nothing, "word"))

    @property
    def prefixes(self) -> dict[str, str]:
        """The RDF prefixes that names use, beside the well-known ones."""
        return self.entities.prefixes

    def with_prefixes(self, prefixes: Mapping[str, str]) -> Vocabularies:
        """The same names, also recognized by their IRIs."""
        entities = Vocabulary(self.entities.names, self.entities.kind, prefixes)
        return replace(self, entities=entities, relations=Vocabulary(self.relations.names, "relation", prefixes))


def report_outer_spaces(names: Vocabulary) -> None:
    """Log how many names begin or end with a space: a reader takes them for the same names without the space."""
    if is_forked():  # a notice is not worth a plain twin of these operations
        return
    spaced = names.names.filter(names.names != names.names.str.strip_chars())
    if len(spaced):
        log.warning("%s of the %s names begin or end with a space, such as %r; without the space it is another name",
                    f"{len(spaced):,}", names.kind, spaced[0])  # fmt: skip


class VocabularyBuilder:
    """Names to ids: those of a vocabulary (`UNKNOWN` for others), or new ids in order of first appearance."""

    def __init__(self, kind: str, vocabulary: Vocabulary | None = None) -> None:
        self.kind, self._vocabulary = kind, vocabulary
        self._type = pl.Categorical(pl.Categories.random("doxa"))
        self.count = 0
        self._anchor = pl.Series([], dtype=self._type)
        """Polars forgets the codes when no series has them any more."""

    def codes(self, values: pl.Series) -> NDArray[np.int32]:
        if self._vocabulary is not None:
            return self._vocabulary.ids(values).astype(np.int32)
        numbers = codes(values.cast(pl.String).cast(self._type), UNKNOWN).astype(np.int32)
        self.count = max(self.count, int(numbers.max(initial=-1)) + 1)
        return numbers

    def vocabulary(self) -> Vocabulary:
        names = pl.Series(np.arange(self.count, dtype=np.uint32)).cat.to(self._type)
        return Vocabulary(names.cast(pl.String), self.kind)


class NumberedNames:
    """What `VocabularyBuilder` does for columns of numbers, such as the ids of a store, which is faster.

    `names` has the name of each number: index with a number.
    """

    def __init__(self, kind: str, names: pl.Series) -> None:
        self.kind, self._names = kind, names
        self._codes = np.full(len(names), UNKNOWN, np.int32)
        self._numbers = np.empty(0, np.int64)

    def codes(self, values: pl.Series) -> NDArray[np.int32]:
        numbers: Ids = values.to_numpy()
        unseen = numbers[self._codes[numbers] == UNKNOWN]
        if len(unseen):
            new = unseen[np.sort(np.unique(unseen, return_index=True)[1])]
            self._codes[new] = np.arange(len(self._numbers), len(self._numbers) + len(new))
            self._numbers = np.append(self._numbers, new)
        return self._codes[numbers]

    def vocabulary(self) -> Vocabulary:
        return Vocabulary(self._names.gather(self._numbers), self.kind)


def _hashes(names: pl.Series) -> NDArray[np.uint64]:
    return names.hash().to_numpy()


def id_map(source: Vocabulary, target: Vocabulary) -> Ids:
    """For each id of `source` its id in `target`; one more entry at the end keeps `UNKNOWN` at `UNKNOWN`."""
    return np.append(target.ids(source.names, source.prefixes), UNKNOWN)
