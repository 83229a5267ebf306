"""Evidence: sources, runs, beliefs and their assertions, and the import of many of them."""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
import sqlalchemy as sa
from numpy.typing import NDArray
from sqlalchemy.engine import Connection, Row

from doxa.data.iris import Prefixes
from doxa.data.vocabulary import VocabularyBuilder
from doxa.storage.store import bulk, log, prefixes
from doxa.storage.store.connect import now
from doxa.storage.store.names import NameIds
from doxa.storage.store.schema import SPLITS, assertion, belief, belief_state, entity, relation, run, source

TRIPLE = ("head", "relation", "tail")
DETAILS = ("mention", "confidence", "extractor", "valid_from", "valid_to")

incoming = sa.Table(
    "incoming",
    sa.MetaData(),
    sa.Column("position", sa.BigInteger),
    *(sa.Column(name, sa.BigInteger) for name in TRIPLE),
    sa.Column("split", sa.SmallInteger),
    *(sa.Column(name, sa.Float(53) if name == "confidence" else sa.Text) for name in DETAILS),
    prefixes=["TEMPORARY"],
)


@dataclass(frozen=True)
class Splitter:
    """Which split a new fact belongs to: by a hash of its names, so that it never changes as the store grows.

    With `by="pair"` all facts between two entities, inverse ones too, are in one split.
    """

    valid: float = 0.05
    test: float = 0.05
    by: str = "fact"

    @classmethod
    def of(cls, settings: Mapping[str, str]) -> Splitter:
        return cls(float(settings["valid"]), float(settings["test"]), settings["split_by"])

    def splits(self, frame: pl.DataFrame, hashes: NameHashes | None = None) -> pl.Series:
        """The split of each fact of a frame with the columns head, relation and tail."""
        hashes = hashes or NameHashes()
        heads, relations, tails = (hashes.of(frame[name]) for name in TRIPLE)
        with np.errstate(over="ignore"):
            mixed = _mix(heads) + _mix(tails) if self.by == "pair" else _mix(_mix(_mix(heads) + relations) + tails)
        share = _mix(mixed) / 2.0**64
        return pl.Series(
            "split", np.where(share < self.test, 2, np.where(share < self.test + self.valid, 1, 0)), pl.Int8
        )


class NameHashes:
    """A number of 64 bits for each name, the same on every machine and in every version; each is computed once."""

    def __init__(self) -> None:
        self._names, self._hashes = VocabularyBuilder("name"), np.empty(0, np.uint64)

    def of(self, column: pl.Series) -> NDArray[np.uint64]:
        codes = self._names.codes(column)
        new = np.flatnonzero(codes >= len(self._hashes))
        if len(new):
            names = column.gather(new[np.unique(codes[new], return_index=True)[1]])
            numbers = [int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), "big") for name in names]
            self._hashes = np.append(self._hashes, np.array(numbers, np.uint64))
        return self._hashes[codes]


def _mix(x: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The finalizer of splitmix64: every bit of the input changes half of the output."""
    with np.errstate(over="ignore"):
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return x ^ (x >> np.uint64(31))


def source_id(connection: Connection, uri: str, license: str | None = None, sha256: str | None = None) -> int:
    """The id of a source; a new one is recorded."""
    same = sa.select(source.c.id).where(source.c.uri == uri, source.c.sha256.is_not_distinct_from(sha256))
    present = connection.execute(same).scalar()
    if present is None:
        values = {"uri": uri, "license": license, "sha256": sha256}
        present = connection.execute(sa.insert(source).values(values).returning(source.c.id)).scalar_one()
    return int(present)


def start_run(
    connection: Connection,
    command: str,
    *,
    model: str | None = None,
    settings: Mapping[str, Any] | None = None,
    source: int | None = None,
) -> int:
    """Record a run; its assertions count as soon as a decision activates it."""
    text = json.dumps(dict(settings), sort_keys=True, ensure_ascii=False) if settings else None
    values = {
        "command": command,
        "model": model,
        "settings": text,
        "source_id": source,
        "started": now(),
        "active": False,
    }
    return int(connection.execute(sa.insert(run).values(values).returning(run.c.id)).scalar_one())


class Import:
    """Assertions on their way into the store, block by block, for one run; they count after `finish`."""

    def __init__(
        self, connection: Connection, run_id: int, source: int, splitter: Splitter, declared: Prefixes | None = None
    ) -> None:
        self.connection, self.run_id, self.source = connection, run_id, source
        self.facts = Facts(connection, splitter, declared)
        self.rows, self.time = 0, now()
        self.dropped = bulk.drop_checks(connection, (belief, assertion, belief_state))

    def add(self, frame: pl.DataFrame, part: str | None = None) -> None:
        """Add a block with the columns head, relation, tail and any of DETAILS; `part` sets the split of new facts."""
        constants = {"run_id": self.run_id, "source_id": self.source, "recorded_at": self.time}
        with self.facts.loaded(frame, part):
            stated = (
                sa.select(
                    belief.c.id,
                    *(incoming.c[name] for name in DETAILS),
                    *(sa.literal(value) for value in constants.values()),
                )
                .join(belief, SAME_FACT)
                .order_by(incoming.c.position)
            )
            self.connection.execute(sa.insert(assertion).from_select(["belief_id", *DETAILS, *constants], stated))
        self.rows += len(frame)

    def finish(self, verdict: str, curator: str, at: int | None = None, **columns: Any) -> int:
        """Record the decision that makes the assertions count, and the prefixes of the file; the decision's number."""
        prefixes.keep(self.connection, self.facts.entities.declared)
        number = log.record(self.connection, verdict, curator, at, run_id=self.run_id, **columns)
        bulk.create_checks(self.connection, self.dropped)
        if self.rows >= bulk.ROWS:
            bulk.count_values(self.connection, (entity, relation, belief, assertion, belief_state))
        return number


SAME_FACT = sa.and_(*(belief.c[name] == incoming.c[name] for name in TRIPLE))


class Facts:
    """Rows of beliefs for facts by name, made where they are new."""

    def __init__(self, connection: Connection, splitter: Splitter, declared: Prefixes | None = None) -> None:
        self.connection, self.splitter = connection, splitter
        declared = prefixes.read(connection) if declared is None else declared
        self.entities = NameIds(connection, "entity", declared)
        self.relations = NameIds(connection, "relation", declared)
        self.hashes = NameHashes()

    @contextlib.contextmanager
    def loaded(self, frame: pl.DataFrame, part: str | None = None) -> Iterator[None]:
        """Within the block, the table `incoming` has the rows of the frame by id, and a belief for each of them."""
        splits = self._splits(frame, part)
        columns = [pl.Series("position", np.arange(len(frame)))]
        columns += [self._ids(name, frame[name]).alias(name) for name in TRIPLE]
        columns += [splits.alias("split"), *(frame[name] for name in DETAILS if name in frame.columns)]
        incoming.create(self.connection, checkfirst=False)
        bulk.insert_frame(self.connection, "incoming", pl.DataFrame(columns))
        names = [*TRIPLE, "split"]
        rows = sa.select(*(incoming.c[name] for name in names)).where(sa.true()).order_by(incoming.c.position)
        bulk.insert_new(self.connection, belief, names, rows)
        yield
        incoming.drop(self.connection)

    def _splits(self, frame: pl.DataFrame, part: str | None) -> pl.Series:
        """The part, or the column `split` where the frame has one, else by the hash of each fact."""
        if part is not None:
            return pl.repeat(SPLITS[part], len(frame), dtype=pl.Int8, eager=True)
        splits = self.splitter.splits(frame, self.hashes)
        return frame.select(pl.coalesce("split", splits))["split"] if "split" in frame.columns else splits

    def _ids(self, name: str, column: pl.Series) -> pl.Series:
        return (self.relations if name == "relation" else self.entities).ids(column)

    def ids(self, frame: pl.DataFrame) -> pl.Series:
        """The id of the belief of each row."""
        with self.loaded(frame):
            query = sa.select(belief.c.id).join(incoming, SAME_FACT).order_by(incoming.c.position)
            return bulk.frame(self.connection, query, {"id": pl.Int64})["id"]


def triple_id(connection: Connection, triple: Iterable[int]) -> int | None:
    """The id of a fact by the ids of its names; None if the store has no row for it."""
    same = (belief.c[name] == number for name, number in zip(TRIPLE, triple, strict=True))
    number = connection.execute(sa.select(belief.c.id).where(*same)).scalar()
    return None if number is None else int(number)


def equivalent(connection: Connection, roots: Sequence[int]) -> Sequence[Row[Any]]:
    """The beliefs that count as one fact after merges, with their state: id, status, decision; the first row first."""
    conditions = []
    for name, number in zip(TRIPLE, roots, strict=True):
        table = relation if name == "relation" else entity
        same = sa.select(table.c.id).where(sa.or_(table.c.id == number, table.c.merged_into == number))
        conditions.append(belief.c[name].in_(same))
    query: sa.Select[Any] = (
        sa.select(belief.c.id, belief_state.c.status, belief_state.c.decision_id)
        .outerjoin(belief_state, belief_state.c.belief_id == belief.c.id)
        .where(*conditions)
        .order_by(belief.c.id)
    )
    return connection.execute(query).all()


def holds(rows: Sequence[Row[Any]]) -> bool:
    """Whether a fact holds: by the last decision about any of its beliefs, else if one of them is asserted."""
    decided = [row for row in rows if row.decision_id is not None]
    if decided:
        return bool(max(decided, key=lambda row: row.decision_id).status > 0)
    return any(row.status is not None for row in rows)
