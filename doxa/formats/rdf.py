"""RDF: N-Triples, N-Quads, Turtle and RDF/XML. Subject, predicate and object are head, relation and tail.

Common lines of N-Triples and N-Quads are split in bulk; pyoxigraph parses all others. Graph names are dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from doxa.data.columns import COLUMNS, TRIPLE
from doxa.data.iris import Prefixes, terms
from doxa.errors import BadFile
from doxa.formats import packing, statements
from doxa.formats.anonymous import Anonymous
from doxa.formats.entities import refuse_entity_bomb
from doxa.formats.faults import NOT_UTF8, Faults
from doxa.formats.options import Options
from doxa.formats.packing import Source
from doxa.formats.statements import ESCAPED, REIFIES, UNESCAPED, VOCABULARY, Annotations

if TYPE_CHECKING:
    from pyoxigraph import Quad

UNIT = "statement"
HOLDS = COLUMNS

STATEMENTS = 100_000
"""Statements per block."""

IRI = r"<[A-Za-z][A-Za-z0-9+.-]*:[^\x00-\x20<>\"{}|^`\\]*>"
NODE = rf"{IRI}|_:[A-Za-z0-9]+"
VALUE = rf"{NODE}|\"[^\"\\\x00-\x1f]*\"(?:@[a-z]{{1,8}}(?:-[a-z0-9]{{1,8}})*|\^\^{IRI})?"
COMMON = rf"^[ \t]*({NODE})[ \t]+({IRI})[ \t]+({VALUE})[ \t]*"
LINES = {"nt": rf"{COMMON}\.[ \t\r]*$", "nq": rf"{COMMON}(?:(?:{NODE})[ \t]*)?\.[ \t\r]*$"}
NOTHING = r"^[ \t]*(?:#.*)?\r?$"
DOUBLE = "^^<http://www.w3.org/2001/XMLSchema#double>"
ELEMENT = r"[\p{L}_][\p{L}\p{N}_.-]*>$"
STRING = r"\^\^<http://www\.w3\.org/2001/XMLSchema#string>$"

LONG = "a name or value of more than 16 MB"

Row = tuple[int, str, str, str]
"""Number, subject, predicate and object of a statement."""


def blocks(source: Source, options: Options, faults: Faults) -> Iterator[pl.DataFrame]:
    """Frames with a statement number and named columns, all text."""
    lines = options.format in LINES
    if lines:
        faults.unit = "line"
    if options.format == "rdf":
        refuse_entity_bomb(source)
    columns = ["line", *TRIPLE, *_annotated(source)]
    read = _by_lines(source, options.format, faults) if lines else _by_statements(source, options, faults)
    return statements.beliefs(read, columns, options, faults)


def write(tables: Iterable[pl.DataFrame], place: Path, name: str, options: Options) -> None:
    """Names become IRIs; mention, confidence and label become annotations."""
    if options.format == "rdf":
        return _write_xml(tables, place, name, options)
    turtle = options.format == "ttl"
    count = 0
    with packing.sink(place, name) as file:
        if turtle:
            declared = {**options.prefixes, "doxa": VOCABULARY}
            file.write("".join(f"@prefix {key}: <{iri}> .\n" for key, iri in declared.items()).encode())
        for table in tables:
            text = _turtle(table, options.prefixes) if turtle else _ntriples(table, options.prefixes, count)
            count += len(table)
            file.write(("\n".join(text) + "\n").encode())


def _annotated(source: Source) -> list[str]:
    """Which of mention, confidence and label the file may hold; every annotation needs << or {|."""
    words = (b"<<", b"{|", b"mention", b"onfidence", b"ertainty", b"robability", b"doxa:label", b"vocabulary:label")
    quoted, braced, mention, *others = source.contains(*words)
    if not (quoted or braced):
        return []
    there = {"mention": mention, "confidence": any(others[:3]), "label": any(others[3:])}
    return [name for name, present in there.items() if present]


def _by_lines(source: Source, form: str, faults: Faults) -> Iterator[tuple[pl.DataFrame, Annotations]]:
    """Statements of N-Triples or N-Quads, as terms."""
    annotations = Annotations()
    before = 0
    for data in source.texts():
        text, lost = _decoded(data)
        faults.report([before + line for line in lost], "not UTF-8 text", NOT_UTF8)
        lines = pl.Series([text.removesuffix("\n")]).str.split("\n").explode()
        numbers = pl.Series("line", range(before + 1, before + len(lines) + 1), dtype=pl.Int64)
        table, rest = _simple(lines, numbers)
        if rest.any():
            others, uncommon = _common(lines.filter(rest), numbers.filter(rest), form)
            parsed = _parse_lines(uncommon, form, faults, annotations)
            table = pl.concat([table, others, parsed]).sort("line", maintain_order=True)
        yield _without_notes(table, annotations), annotations
        before += len(lines)


def _simple(lines: pl.Series, numbers: pl.Series) -> tuple[pl.DataFrame, pl.Series]:
    """Split lines of three IRIs or blank nodes with single spaces; also the mask of all other lines."""
    parts = lines.str.splitn(" ", 4).struct.unnest()
    head, relation, tail, end = parts.get_columns()
    node, iri = rf"^(?:{NODE})$", rf"^{IRI}$"
    fits = (end == ".") & head.str.contains(node) & relation.str.contains(iri) & tail.str.contains(node)
    fits = fits.fill_null(False)
    table = pl.DataFrame([numbers, head.alias("head"), relation.alias("relation"), tail.alias("tail")])
    return (table if fits.all() else table.filter(fits)), ~fits


def _common(lines: pl.Series, numbers: pl.Series, form: str) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Split lines of the other common kinds with one pattern; also the lines that do not match."""
    table = lines.str.extract_groups(LINES[form]).struct.unnest()
    table.columns = list(TRIPLE)
    table = table.with_columns(pl.col("tail").str.replace(STRING, "")).insert_column(0, numbers)
    uncommon = table["head"].is_null() & ~lines.str.contains(NOTHING)
    rest = pl.DataFrame([numbers.filter(uncommon), lines.filter(uncommon).alias("text")])
    return table.filter(pl.col("head").is_not_null()), rest


def _decoded(data: bytes) -> tuple[str, list[int]]:
    """The text, and the numbers (from 1) of lines that are not UTF-8, which become empty."""
    try:
        return data.decode(), []
    except UnicodeDecodeError:
        lines, lost = data.split(b"\n"), []
        for number, line in enumerate(lines):
            try:
                line.decode()
            except UnicodeDecodeError:
                lost.append(number + 1)
                lines[number] = b""
        return b"\n".join(lines).decode(), lost


def _parse_lines(lines: pl.DataFrame, form: str, faults: Faults, annotations: Annotations) -> pl.DataFrame:
    """Parse uncommon lines one by one, so that a fault does not affect the next line."""
    import pyoxigraph as ox

    kind = ox.RdfFormat.N_TRIPLES if form == "nt" else ox.RdfFormat.N_QUADS
    rows: list[Row] = []
    for number, line in lines.iter_rows():
        try:
            for quad in ox.parse(line, format=kind):
                _add(quad, number, rows, annotations, str)
        except SyntaxError as fault:
            faults.report([number], _reason(fault))
        except MemoryError:
            faults.report([number], LONG)
    return _table(rows)


def _by_statements(source: Source, options: Options, faults: Faults) -> Iterator[tuple[pl.DataFrame, Annotations]]:
    """Statements of Turtle or RDF/XML, as terms."""
    import pyoxigraph as ox

    form = ox.RdfFormat.TURTLE if options.format == "ttl" else ox.RdfFormat.RDF_XML
    annotations, anonymous = Annotations(), Anonymous(source)
    rows: list[Row] = []
    with source.stream() as stream:
        parser = ox.parse(stream, format=form)
        number, failed = 0, 0
        while True:
            try:
                quad = next(parser, None)
            except SyntaxError as fault:
                failed += 1
                line = [fault.lineno or 1]
                hopeless = options.format == "rdf" or failed > 1000
                faults.report(line, _reason(fault), unit="line", fatal=hopeless)
                continue
            except UnicodeDecodeError:
                faults.report([number + 1], "not UTF-8 text, here or soon after", fatal=True)
            except MemoryError:
                faults.report([number + 1], LONG, fatal=True)
            if quad is None:
                break
            number += 1
            if number == 1:  # names depend on the prefixes before the first statement alone, not on the size of blocks
                options.prefixes.add_declared(parser.prefixes)
            _add(quad, number, rows, annotations, anonymous)
            if len(rows) >= STATEMENTS:
                yield _without_notes(_table(rows), annotations), annotations
                rows = []
    yield _without_notes(_table(rows), annotations), annotations


def _add(quad: Quad, number: int, rows: list[Row], annotations: Annotations, text: Callable[[Any], str]) -> None:
    """Add a statement to the rows, or a reification to the annotations; `text` writes a term."""
    value: Any = quad.object
    predicate = str(quad.predicate)
    if hasattr(value, "subject"):
        if predicate == REIFIES:
            triple = (text(value.subject), str(value.predicate), text(value.object))
            annotations.reify(text(quad.subject), triple, number)
        return
    rows.append((number, text(quad.subject), predicate, text(value)))


def _table(rows: list[Row]) -> pl.DataFrame:
    schema = {"line": pl.Int64} | dict.fromkeys(TRIPLE, pl.String)
    return pl.DataFrame(rows, schema=schema, orient="row")


def _without_notes(table: pl.DataFrame, annotations: Annotations) -> pl.DataFrame:
    """Move statements about reifiers from the table to the annotations."""
    if not len(annotations):
        return table
    about = [reifier in annotations for reifier in table["head"]]
    for _, head, relation, tail in table.filter(about).iter_rows():
        annotations.note(head, relation, tail)
    return table.filter(~pl.Series(about, dtype=pl.Boolean))


def _reason(fault: SyntaxError) -> str:
    """The parser's message without the place, which the report adds."""
    text = str(fault.msg or fault)
    return f"not a statement ({text.partition(': ')[2] or text})"


def _quoted(column: pl.Series) -> pl.Series:
    return '"' + column.str.replace_many(UNESCAPED, ESCAPED) + '"'


def _notes(table: pl.DataFrame) -> dict[str, pl.Series]:
    """The literals of each annotation, null where there is none."""
    literals = {}
    for name in COLUMNS[3:]:
        if name in table.columns:
            text = table[name].cast(pl.String)
            literals[name] = _quoted(text) + ("" if name == "mention" else DOUBLE)
    return literals


def _ntriples(table: pl.DataFrame, prefixes: Prefixes, before: int) -> pl.Series:
    """A line per statement, followed by the lines of its annotations."""
    head, relation, tail = (terms(table[name], prefixes, name) for name in TRIPLE)
    text = head + " " + relation + " " + tail
    notes = _notes(table)
    reifier = "_:belief" + pl.Series(range(before, before + len(table))).cast(pl.String)
    annotated = pl.Series([""], dtype=pl.String).new_from_index(0, len(table))
    for name, value in notes.items():
        annotated += ("\n" + reifier + f" <{VOCABULARY}{name}> " + value + " .").fill_null("")
    reified = "\n" + reifier + f" {REIFIES} <<( " + text + " )>> ."
    return text + " ." + pl.select(pl.when(annotated != "").then(reified + annotated).otherwise(pl.lit(""))).to_series()


def _turtle(table: pl.DataFrame, prefixes: Prefixes) -> pl.Series:
    """A line per statement, with prefixed names where they are simple and annotations in braces."""
    parts = []
    known = "|".join(prefix for prefix in prefixes if prefix)
    for name in TRIPLE:
        column = table[name]
        simple = column.str.contains(rf"^(?:{known}):[A-Za-z][A-Za-z0-9_-]*$")
        whole = terms(column, prefixes, name)
        parts.append(pl.select(pl.when(simple).then(column).otherwise(whole)).to_series())
    annotated = pl.Series([""], dtype=pl.String).new_from_index(0, len(table))
    for name, value in _notes(table).items():
        annotated += (f" doxa:{name} " + value + " ;").fill_null("")
    braced = " {|" + annotated.str.strip_suffix(" ;") + " |}"
    ending = pl.select(pl.when(annotated != "").then(braced).otherwise(pl.lit(""))).to_series()
    return parts[0] + " " + parts[1] + " " + parts[2] + ending + " ."


def _write_xml(tables: Iterable[pl.DataFrame], place: Path, name: str, options: Options) -> None:
    import pyoxigraph as ox

    def triples() -> Iterator[ox.Triple]:
        for table in tables:
            columns = [terms(table[part], options.prefixes, part) for part in TRIPLE]
            nameless = table["relation"].filter(~columns[1].str.contains(ELEMENT))
            if len(nameless):
                raise BadFile(
                    f"{name}: RDF/XML cannot hold the relation {nameless[0]!r}, since it does not end like a name",
                    "a .ttl or .nt file can",
                )
            lines = columns[0] + " " + columns[1] + " " + columns[2] + " .\n"
            for quad in ox.parse("".join(lines), format=ox.RdfFormat.N_TRIPLES):
                yield quad.triple

    caught: list[BaseException] = []

    def watched() -> Iterator[ox.Triple]:
        try:
            yield from triples()
        except BaseException as fault:
            caught.append(fault)
            raise

    with packing.sink(place, name) as file:
        try:
            ox.serialize(watched(), file, format=ox.RdfFormat.RDF_XML, prefixes=dict(options.prefixes))
        except (ValueError, OSError) as fault:
            if caught:
                raise caught[0] from None
            raise BadFile(f"{name}: RDF/XML cannot hold this ({fault})", "a .ttl or .nt file can") from None
