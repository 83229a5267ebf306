"""RDF statements to beliefs: annotations of a statement become its confidence, mention and label.

An annotation describes a *reifier* r of the statement: `r rdf:reifies <<( s p o )>>` and `r …/confidence 0.9`. Turtle
abbreviates this as `s p o {| :confidence 0.9 |}` or `<< s p o >> :confidence 0.9`. The annotation belongs to the
nearest equal statement before it, else to the nearest one after it. Without one it becomes a separate belief.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import polars as pl

from doxa.data.columns import TRIPLE
from doxa.data.iris import names
from doxa.formats.faults import Faults
from doxa.formats.options import Options

log = logging.getLogger(__name__)

VOCABULARY = "urn:doxa:vocabulary:"
REIFIES = "<http://www.w3.org/1999/02/22-rdf-syntax-ns#reifies>"
MEANINGS = {"confidence": "confidence", "certainty": "confidence", "probability": "confidence", "mention": "mention"}
"""The column of an annotation, by the last part of its IRI."""

PENDING = 64
"""Statements at the end of a block that wait for annotations in the next block."""

ESCAPED = ['\\"', "\\\\", "\\n", "\\r", "\\t"]
UNESCAPED = ['"', "\\", "\n", "\r", "\t"]

Triple = tuple[str, str, str]


@dataclass
class Reified:
    """An annotated statement: its line and its annotations."""

    triple: Triple
    line: int
    notes: dict[str, str] = field(default_factory=dict)


class Annotations:
    """Annotations that wait for their statements."""

    def __init__(self) -> None:
        self._open: dict[str, Reified] = {}
        self.ignored = 0

    def reify(self, reifier: str, triple: Triple, line: int) -> None:
        self._open[reifier] = Reified(triple, line)

    def __contains__(self, reifier: str) -> bool:
        return reifier in self._open

    def __len__(self) -> int:
        return len(self._open)

    def note(self, reifier: str, predicate: str, value: str) -> None:
        column = column_of(predicate)
        if column:
            self._open[reifier].notes[column] = value
        else:
            self.ignored += 1

    def attach(self, table: pl.DataFrame, count: int) -> pl.DataFrame:
        """Fill in the annotations of the first `count` statements of a table; those of the others stay open.

        Annotations follow their statement, so the last statements wait for the rest of theirs.
        """
        if not self._open:
            return table
        wanted = {reified.triple for reified in self._open.values()}
        index: dict[Triple, list[int]] = {}
        keys = pl.DataFrame(list(wanted), schema=["head", "relation", "tail"], orient="row")
        rows = table.with_row_index("row").join(
            keys, on=["head", "relation", "tail"], how="semi", maintain_order="left"
        )
        for row, head, relation, tail in rows.select("row", "head", "relation", "tail").iter_rows():
            index.setdefault((head, relation, tail), []).append(row)
        lines = table["line"]
        notes_of_row: dict[int, dict[str, str]] = {}
        for reifier, reified in list(self._open.items()):
            places = index.get(reified.triple)
            if not places:
                continue
            before = [place for place in places if lines[place] <= reified.line]
            place = before[-1] if before else places[0]
            places.remove(place)
            if place < count:
                notes_of_row[place] = reified.notes
                del self._open[reifier]
        columns = [name for name in ("mention", "confidence", "label") if name in table.columns]
        for column in columns:
            known = [(place, notes[column]) for place, notes in notes_of_row.items() if column in notes]
            if known:
                values = pl.Series([value for _, value in known], dtype=pl.String)
                table = table.with_columns(table[column].scatter([place for place, _ in known], values))
        return table

    def unattached(self, columns: list[str]) -> pl.DataFrame:
        """The annotated statements that the file does not make, as separate beliefs."""
        rows = [
            {"line": reified.line, **dict(zip(TRIPLE, reified.triple, strict=True)), **reified.notes}
            for reified in self._open.values()
            if reified.notes
        ]
        self._open = {}
        schema = {name: pl.Int64 if name == "line" else pl.String for name in columns}
        return pl.DataFrame(rows, schema=schema)


def column_of(predicate: str) -> str:
    """The column of an annotation, or nothing."""
    iri = predicate[1:-1]
    if iri.startswith(VOCABULARY):
        return iri.removeprefix(VOCABULARY)
    return MEANINGS.get(iri.replace("#", "/").replace(":", "/").rpartition("/")[2].lower(), "")


def beliefs(
    blocks: Iterable[tuple[pl.DataFrame, Annotations]], columns: list[str], options: Options, faults: Faults
) -> Iterator[pl.DataFrame]:
    """Turn blocks of statements, each with the annotations so far, into frames of beliefs."""
    pending = pl.DataFrame(schema={name: pl.Int64 if name == "line" else pl.String for name in columns})
    literals, dropped, annotations = 0, 0, Annotations()
    annotated = len(columns) > 4

    def finished(table: pl.DataFrame) -> pl.DataFrame:
        nonlocal literals, dropped
        literal = table["tail"].str.starts_with('"')
        if options.literals == "drop":
            dropped += int(literal.sum())
            table = table.filter(~literal)
        else:
            literals += int(literal.sum())
        return _named(table, options)

    for table, annotations in blocks:
        table = pl.concat([pending, table.with_columns(pl.lit(None, pl.String).alias(name) for name in columns[4:])])
        if annotated and len(table):
            table = annotations.attach(table, len(table) - PENDING)
            pending, table = table.tail(PENDING), table.head(-PENDING)
        if len(table):
            yield finished(table)
    if len(annotations):
        pending = annotations.attach(pending, len(pending))
    if len(pending):
        yield finished(pending)
    unattached = annotations.unattached(columns) if len(annotations) else pl.DataFrame()
    if len(unattached):
        log.warning("%s: %s annotated statements are missing or far away; each is read as a belief",
                    faults.name.rpartition("/")[2], f"{len(unattached):,}")  # fmt: skip
        yield finished(unattached)
    _log_counts(faults.name.rpartition("/")[2], literals, dropped, annotations.ignored)


def _log_counts(name: str, literals: int, dropped: int, ignored: int) -> None:
    if literals:
        log.warning(
            "%s: %s tails are literals; the reading option literals=drop leaves them out", name, f"{literals:,}"
        )
    if dropped:
        log.warning("%s: %s statements with a literal dropped", name, f"{dropped:,}")
    if ignored:
        log.warning("%s: %s annotations are neither confidence nor mention and were ignored", name, f"{ignored:,}")


def _named(table: pl.DataFrame, options: Options) -> pl.DataFrame:
    table = table.with_columns(names(table[name], options.prefixes, name) for name in TRIPLE)
    plain = [
        pl.col(name).str.extract(r'^"([\s\S]*)"', 1).str.replace_many(ESCAPED, UNESCAPED).replace("", None).alias(name)
        for name in table.columns[4:]
    ]
    return table.with_columns(plain)
