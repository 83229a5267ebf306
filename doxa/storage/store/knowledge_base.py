"""The knowledge base as an object: `doxa.open("kb.db")`. Its methods are thin; each names the module that works."""

from __future__ import annotations

import getpass
from collections.abc import Iterator, Mapping
from copy import copy
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import Any

import polars as pl
from sqlalchemy.engine import Connection

from doxa.data.beliefs import Beliefs
from doxa.data.iris import Prefixes
from doxa.data.sources import as_frame
from doxa.errors import UnknownName, UsageError, one_of
from doxa.storage.store import evidence, log, names, versions
from doxa.storage.store.accounts import Accounts
from doxa.storage.store.connect import TIMEOUT, connect
from doxa.storage.store.evidence import DETAILS, TRIPLE, Facts, Import, Splitter
from doxa.storage.store.moment import ROWS, Moment, active_runs, present_details
from doxa.storage.store.place import PARTS, Place, require_place, require_whole
from doxa.storage.store.prefixes import read as stored_prefixes
from doxa.storage.store.publishing import Jobs, ModelVersions
from doxa.storage.store.queue import ReviewQueue
from doxa.storage.store.records import KIND_OF_SLOT, Records

Triple = tuple[str, str, str]
Frames = Iterator[pl.DataFrame]


def default_curator() -> str:
    """The name of the user of this machine."""
    try:
        return getpass.getuser()
    except (KeyError, OSError, ImportError):
        return "curator"


class KnowledgeBase(Records):
    """A living knowledge base in SQLite or PostgreSQL: beliefs, their evidence, and every decision about them.

    Every method is one transaction. `curator` is the name that decisions are signed with.
    """

    def __init__(
        self, path: str | Path | Place, *, curator: str | None = None, read_only: bool = False, timeout: float = TIMEOUT
    ) -> None:
        self.place = require_place(path)
        self.curator = curator or default_curator()
        if not self.place.is_postgres and not self.place.path.is_file():
            versions.refuse_missing(self.place)
        self.engine = connect(self.place, read_only, timeout)
        self.settings = versions.check(self.engine, self.place)
        self.splitter = Splitter.of(self.settings)
        self._add_parts()

    def _add_parts(self) -> None:
        self.queue, self.models = ReviewQueue(self), ModelVersions(self)
        self.accounts, self.jobs = Accounts(self), Jobs(self)

    def signed_by(self, curator: str) -> KnowledgeBase:
        """The same knowledge base on the same connections; its decisions are signed with another name."""
        twin = copy(self)
        twin.curator = curator
        twin._add_parts()
        return twin

    @classmethod
    def create(
        cls,
        path: str | Path | Place,
        *,
        valid: float = 0.05,
        test: float = 0.05,
        split_by: str = "fact",
        curator: str | None = None,
        timeout: float = TIMEOUT,
    ) -> KnowledgeBase:
        """Make an empty knowledge base. `valid` and `test` are shares of the facts, chosen by a hash of each.

        With `split_by="pair"`, all facts between two entities are in one split, so that inverse facts are not divided.
        """
        place = require_place(path)
        require_whole(place)
        one_of("split_by", split_by, ("fact", "pair"))
        if valid < 0 or test < 0 or valid + test >= 1:
            raise UsageError(f"valid={valid}, test={test}; expected shares that leave something for train")
        settings = {"valid": repr(float(valid)), "test": repr(float(test)), "split_by": split_by}
        versions.create(connect(place, timeout=timeout), place, settings)
        return cls(place, curator=curator, timeout=timeout)

    def __repr__(self) -> str:
        return f"KnowledgeBase({str(self.place)!r})"

    # Moments

    def snapshot(self, moment: str | int | datetime | None = None) -> int:
        """The snapshot of a moment: a number of the log, a time (local time without a zone), or now."""
        with self.reading() as connection:
            return self._snapshot(connection, self.place.moment or None if moment is None else moment)

    @staticmethod
    def _snapshot(connection: Connection, moment: str | int | datetime | None) -> int:
        last = log.head(connection)
        if moment is None:
            return last
        if isinstance(moment, int) or (isinstance(moment, str) and moment.isdecimal()):
            if int(moment) > last or int(moment) < 0:
                raise UnknownName(f"no snapshot {moment}; the last one is {last}")
            return int(moment)
        return log.snapshot_at(connection, as_time(moment))

    # Reading beliefs

    def frames(self, part: str | None = None, at: str | int | datetime | None = None, *, iris: bool = False) -> Frames:
        """The beliefs at a moment as frames: head, relation, tail, mention, confidence, one row per assertion.

        `part` is train, valid or test; without it the column `split` tells the number of the part. With `iris`, an
        entity or relation that has an IRI is named by the IRI in brackets, which survives renames.
        """
        for table in self.blocks(part, at, iris=iris):
            absent = [pl.lit(None, kind).alias(name) for name, kind in ROWS.items() if name not in table.columns]
            rest = ["split"] if "split" in table.columns else []
            yield table.with_columns(absent).select(*ROWS, *rest)

    def blocks(self, part: str | None = None, at: str | int | datetime | None = None, *, iris: bool = False) -> Frames:
        """What `frames` gives, without mention or confidence where no belief has one."""
        part = part or self.place.part or None
        if part is not None:
            one_of("part", part, PARTS)
        with self.reading() as connection:
            snapshot = self._snapshot(connection, at if at is not None else self.place.moment or None)
            yield from Moment.of(connection, snapshot, iris).frames(connection, part)

    def beliefs(self, part: str | None = None, at: str | int | datetime | None = None) -> Beliefs:
        """The beliefs of a moment, or of one part of it."""
        blocks = self.blocks(part, at)
        first = next(blocks, pl.DataFrame(schema=dict.fromkeys(TRIPLE, pl.String)))
        beliefs = Beliefs.from_frames(table.drop("split", strict=False) for table in chain([first], blocks))
        return beliefs.with_prefixes(self.prefixes())

    def prefixes(self) -> dict[str, str]:
        """The RDF prefixes that imported files declared, beside the well-known ones."""
        with self.reading() as connection:
            return stored_prefixes(connection).declared

    def details(self, at: str | int | datetime | None = None) -> list[str]:
        """Which of mention and confidence any belief has at a moment."""
        with self.reading() as connection:
            snapshot = self._snapshot(connection, at if at is not None else self.place.moment or None)
            runs = active_runs(connection, snapshot, log.undone_at(connection, snapshot))
            return present_details(connection, runs)

    def parts(self, at: str | int | datetime | None = None) -> list[str]:
        """Which of train, valid and test have beliefs at a moment."""
        with self.reading() as connection:
            return Moment.of(connection, self._snapshot(connection, at), named=False).parts(connection)

    def labels(self, after: int = 0, at: str | int | datetime | None = None) -> pl.DataFrame:
        """The facts whose proposals were decided after a snapshot: triple, credence shown, label 1 or -1."""
        with self.reading() as connection:
            return Moment.of(connection, self._snapshot(connection, at)).labels(after)

    def settled(self) -> pl.DataFrame:
        """The facts that need no proposal, because they hold or a curator has decided about them."""
        with self.reading() as connection:
            moment = Moment.of(connection, log.head(connection))
            parts = [frame.select(TRIPLE) for frame in moment.frames(connection)]
            return pl.concat([moment.decided(), *parts]).unique(maintain_order=True)

    # Changing beliefs

    def import_beliefs(
        self,
        beliefs: Any,
        *,
        source: str | None = None,
        license: str | None = None,
        sha256: str | None = None,
        extractor: str | None = None,
        valid_from: str | None = None,
        valid_to: str | None = None,
        prefixes: Mapping[str, str] | None = None,
        at: int | None = None,
        report: Any = None,
    ) -> int:
        """Import beliefs as assertions of a source: frames, `Beliefs`, a list of tuples, or frames by part.

        Returns the number of the decision, which can be undone. Beliefs that are known gain an assertion; a belief that
        a curator rejected stays rejected. `extractor`, `valid_from` and `valid_to` may also be columns. `prefixes` are
        the RDF prefixes of the names.
        """
        parts = beliefs if isinstance(beliefs, Mapping) else {None: beliefs}
        if prefixes is None and isinstance(beliefs, Beliefs):
            prefixes = beliefs.vocabularies.prefixes
        constants = {"extractor": extractor, "valid_from": valid_from, "valid_to": valid_to}
        constants = {name: value for name, value in constants.items() if value is not None}
        with self.writing(unchecked=True) as connection:
            declared = Prefixes.of(prefixes)
            declared.update(stored_prefixes(connection).declared)
            origin = evidence.source_id(connection, source or "import", license, sha256)
            run = evidence.start_run(connection, "import", source=origin, settings=constants)
            batch = Import(connection, run, origin, self.splitter, declared)
            for part, tables in parts.items():
                for table in _frames(tables):
                    columns = [pl.lit(value, pl.String).alias(name) for name, value in constants.items()]
                    batch.add(_positives(table).with_columns(columns), part)
                    if report:
                        report(batch.rows)
            if not batch.rows:
                raise UsageError("nothing to import: there is no belief that is not labeled false")
            return batch.finish("import", self.curator, at)

    def add(
        self,
        head: str,
        relation: str,
        tail: str,
        *,
        mention: str | None = None,
        confidence: float | None = None,
        valid_from: str | None = None,
        valid_to: str | None = None,
        source: str | None = None,
        note: str | None = None,
        at: int | None = None,
    ) -> int:
        """State a belief; the number of the decision."""
        if confidence is not None and not 0 < confidence <= 1:
            raise UsageError(f"the confidence is {confidence:g}", "expected a number above 0 and at most 1")
        row = as_frame(
            [{"head": head, "relation": relation, "tail": tail, "mention": mention, "confidence": confidence}]
        ).with_columns(valid_from=pl.lit(valid_from, pl.String), valid_to=pl.lit(valid_to, pl.String))
        with self.writing() as connection:
            origin = evidence.source_id(connection, source or f"curator:{self.curator}")
            run = evidence.start_run(connection, "add", source=origin)
            batch = Import(connection, run, origin, self.splitter)
            batch.add(row)
            number = batch.facts.ids(row)[0]
            return batch.finish("add", self.curator, at, belief_id=number, note=note)

    def retract(
        self, head: str, relation: str, tail: str, *, reason: str | None = None, note: str | None = None
    ) -> int:
        """Remove a belief that holds; `reason` and `note` may say why. The number of the decision."""
        return self.decide(head, relation, tail, "retract", reason=reason, note=note)

    def decide(
        self,
        head: str,
        relation: str,
        tail: str,
        verdict: str,
        *,
        replacement: str | None = None,
        reason: str | None = None,
        note: str | None = None,
        at: int | None = None,
    ) -> int:
        """Accept, reject, retract or replace a belief, with `replacement` as the right tail; the decision's number."""
        one_of("verdict", verdict, ("accept", "reject", "retract", "replace"))
        if reason is not None:
            one_of("reason", reason, log.REASONS)
        if (verdict == "replace") != (replacement is not None):
            raise UsageError("replace needs a replacement, and only replace takes one")
        with self.writing() as connection:
            if verdict == "retract":
                for kind, name in zip(KIND_OF_SLOT, (head, relation, tail), strict=True):
                    names.require(connection, kind, name)
            if verdict == "retract" and not self._holds(connection, (head, relation, tail)):
                raise UnknownName(
                    f"the knowledge base does not hold {head} · {relation} · {tail}", "nothing to retract"
                )
            tails = [tail] if replacement is None else [tail, replacement]
            rows = as_frame([(head, relation, one) for one in tails])
            ids = Facts(connection, self.splitter).ids(rows).to_list()
            other = ids[1] if len(ids) > 1 else None
            return log.record(
                connection, verdict, self.curator, at, belief_id=ids[0], replacement_id=other, reason=reason, note=note
            )

    def holds(self, head: str, relation: str, tail: str) -> bool:
        """Whether a belief is in the knowledge base at present."""
        with self.reading() as connection:
            return self._holds(connection, (head, relation, tail))

    def _holds(self, connection: Connection, triple: Triple) -> bool:
        ids = [names.find(connection, kind, name) for kind, name in zip(KIND_OF_SLOT, triple, strict=True)]
        known = [number for number in ids if number is not None]
        if len(known) < len(ids):
            return False
        roots = [names.root(connection, kind, number) for kind, number in zip(KIND_OF_SLOT, known, strict=True)]
        return evidence.holds(evidence.equivalent(connection, roots))

    def rename(
        self, old: str, new: str, *, kind: str = "entity", note: str | None = None, at: int | None = None
    ) -> int:
        """Give an entity or relation another name; the old one stays an alias. The number of the decision."""
        if not new.strip() or old == new:
            raise UsageError(f"cannot rename {old!r} to {new!r}", "expected another name")
        with self.writing() as connection:
            number = names.require(connection, kind, old)
            target = names.root(connection, kind, number)
            if target != number:
                into = names.name_of(connection, kind, target)
                raise UsageError(f"{old!r} is merged into {into!r}", f"rename {into!r}, or undo the merge")
            names.check_free(connection, kind, number, [new])
            present = names.name_of(connection, kind, number)
            return log.record(
                connection,
                "rename",
                self.curator,
                at,
                kind=kind,
                subject=number,
                old_name=present,
                new_name=new,
                note=note,
            )

    def merge(
        self, name: str, into: str, *, kind: str = "entity", note: str | None = None, at: int | None = None
    ) -> int:
        """Let an entity or relation count as another one; the number of the decision."""
        with self.writing() as connection:
            subject, target = (names.require(connection, kind, one) for one in (name, into))
            root = names.root(connection, kind, subject)
            if root != subject:
                raise UsageError(f"{name!r} is already merged into {names.name_of(connection, kind, root)!r}")
            if names.root(connection, kind, target) == subject:
                raise UsageError(f"{into!r} and {name!r} are already the same {kind}")
            return log.record(
                connection, "merge", self.curator, at, kind=kind, subject=subject, object=target, note=note
            )

    def undo(self, decision: int, *, note: str | None = None, at: int | None = None) -> int:
        """Undo an effective decision; undoing an undo is a redo. The number of the new decision."""
        with self.writing() as connection:
            return log.undo(connection, decision, self.curator, note, at)

    def rollback(self, moment: str | int | datetime, *, note: str | None = None) -> list[int]:
        """Undo and redo decisions until the state is that of a moment; the log keeps everything."""
        with self.writing() as connection:
            return log.roll_back(connection, self._snapshot(connection, moment), self.curator, note)


def open(path: str | Path, *, curator: str | None = None, read_only: bool = False) -> KnowledgeBase:
    """Open a knowledge base: a SQLite file such as `kb.db`, or `postgresql://user@host/database`."""
    return KnowledgeBase(path, curator=curator, read_only=read_only)


def as_time(moment: str | datetime) -> int:
    """Microseconds since 1970 of an ISO time; without a zone it is local time."""
    if isinstance(moment, str):
        try:
            moment = datetime.fromisoformat(moment.strip())
        except ValueError:
            raise UsageError(
                f"no moment {moment!r}", "expected a snapshot number, or a time such as 2026-03-01T12:00"
            ) from None
    exact = moment.astimezone(UTC) - datetime(1970, 1, 1, tzinfo=UTC)
    return (exact.days * 86_400 + exact.seconds) * 1_000_000 + exact.microseconds


def _frames(beliefs: Any) -> Iterator[pl.DataFrame]:
    if isinstance(beliefs, Iterator) or (
        isinstance(beliefs, list) and all(isinstance(x, pl.DataFrame) for x in beliefs)
    ):
        yield from beliefs
    elif isinstance(beliefs, Beliefs):
        yield from beliefs.frames()
    else:
        yield as_frame(beliefs)


def _positives(table: pl.DataFrame) -> pl.DataFrame:
    """The rows that are not labeled false, with the columns of the store."""
    if "label" in table.columns:
        table = table.filter(pl.col("label") == 1)
    if "confidence" in table.columns:
        table = table.filter(pl.col("confidence").fill_null(1.0) > 0)
    return table.select(name for name in (*TRIPLE, *DETAILS) if name in table.columns)
