"""RDF statements to beliefs: annotations of a statement become its confidence, mention and label.

An annotation stands on a *reifier* r of the statement: `r rdf:reifies <<( s p o )>>` and `r …/confidence 0.9`, which is
also what Turtle's `s p o {| :confidence 0.9 |}` and `<< s p o >> :confidence 0.9` say. It is given to the nearest such
statement before it, or failing that after it; one that finds none is a belief of its own.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import polars as pl

from doxa.formats.faults import Faults
from doxa.formats.iris import names
from doxa.formats.options import Options

log = logging.getLogger(__name__)

VOCABULARY = "urn:doxa:vocabulary:"
REIFIES = "<http://www.w3.org/1999/02/22-rdf-syntax-ns#reifies>"
MEANINGS = {"confidence": "confidence", "certainty": "confidence", "probability": "confidence", "mention": "mention"}
"""What an annotation means, by the last part of its IRI."""

HELD = 64
"""Statements held back at the end of a block, since what is said of them may come with the next."""

ESCAPED = ['\\"', "\\\\", "\\n", "\\r", "\\t"]
UNESCAPED = ['"', "\\", "\n", "\r", "\t"]

Triple = tuple[str, str, str]


@dataclass
class Reified:
    """A statement that something is said of: where, and what."""

    triple: Triple
    line: int
    notes: dict[str, str] = field(default_factory=dict)


class Annotations:
    """What is said of statements, kept until the statement is found."""

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
        meaning = meaning_of(predicate)
        if meaning:
            self._open[reifier].notes[meaning] = value
        else:
            self.ignored += 1

    def settle(self, table: pl.DataFrame, until: int) -> pl.DataFrame:
        """Give annotations to the statements of a table; those on lines up to `until` that find none stay open."""
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
        given: dict[int, dict[str, str]] = {}
        for reifier, reified in list(self._open.items()):
            places = index.get(reified.triple)
            if not places or reified.line > until:
                continue
            before = [place for place in places if lines[place] <= reified.line]
            place = before[-1] if before else places[0]
            places.remove(place)
            given[place] = reified.notes
            del self._open[reifier]
        columns = [name for name in ("mention", "confidence", "label") if name in table.columns]
        for column in columns:
            known = [(place, notes[column]) for place, notes in given.items() if column in notes]
            if known:
                values = pl.Series([value for _, value in known], dtype=pl.String)
                table = table.with_columns(table[column].scatter([place for place, _ in known], values))
        return table

    def left(self, columns: list[str]) -> pl.DataFrame:
        """The statements spoken of that were never made, as beliefs of their own."""
        rows = [
            {"line": one.line, **dict(zip(("head", "relation", "tail"), one.triple, strict=True)), **one.notes}
            for one in self._open.values()
            if one.notes
        ]
        self._open = {}
        schema = {name: pl.Int64 if name == "line" else pl.String for name in columns}
        return pl.DataFrame(rows, schema=schema)


def meaning_of(predicate: str) -> str:
    """Which column an annotation is of, if any."""
    iri = predicate[1:-1]
    if iri.startswith(VOCABULARY):
        return iri.removeprefix(VOCABULARY)
    return MEANINGS.get(iri.replace("#", "/").replace(":", "/").rpartition("/")[2].lower(), "")


def beliefs(
    blocks: Iterable[tuple[pl.DataFrame, Annotations]], columns: list[str], options: Options, faults: Faults
) -> Iterator[pl.DataFrame]:
    """Tables of beliefs by name from blocks of statements as terms, each with the annotations read so far."""
    held = pl.DataFrame(schema={name: pl.Int64 if name == "line" else pl.String for name in columns})
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
        table = pl.concat([held, table.with_columns(pl.lit(None, pl.String).alias(name) for name in columns[4:])])
        if annotated and len(table):
            table = annotations.settle(table, int(table["line"][-1]))
            held, table = table.tail(HELD), table.head(-HELD)
        if len(table):
            yield finished(table)
    if len(annotations):
        held = annotations.settle(held, 2**62)
    if len(held):
        yield finished(held)
    left = annotations.left(columns) if len(annotations) else pl.DataFrame()
    if len(left):
        log.warning("%s: %s annotated statements are not made themselves, or far away; each is read as a belief",
                    faults.name.rpartition("/")[2], f"{len(left):,}")  # fmt: skip
        yield finished(left)
    _tell(faults.name.rpartition("/")[2], literals, dropped, annotations.ignored)


def _tell(name: str, literals: int, dropped: int, ignored: int) -> None:
    if literals:
        log.warning("%s: %s tails are literals; to leave them out: --read literals=drop", name, f"{literals:,}")
    if dropped:
        log.warning("%s: %s statements with a literal dropped, as told", name, f"{dropped:,}")
    if ignored:
        log.warning("%s: %s annotations are neither confidence nor mention and were ignored", name, f"{ignored:,}")


def _named(table: pl.DataFrame, options: Options) -> pl.DataFrame:
    table = table.with_columns(names(table[name], options.prefixes, name) for name in ("head", "relation", "tail"))
    plain = [
        pl.col(name).str.extract(r'^"([\s\S]*)"', 1).str.replace_many(ESCAPED, UNESCAPED).replace("", None).alias(name)
        for name in table.columns[4:]
    ]
    return table.with_columns(plain)
