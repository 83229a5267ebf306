"""RDF: N-Triples, N-Quads, Turtle and RDF/XML. Subject, predicate and object are head, relation and tail.

Lines of N-Triples and N-Quads of the common kinds are taken apart many at once; all else goes through pyoxigraph. Graph
names are not kept.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from doxa.errors import DoxaError
from doxa.formats import packing, statements
from doxa.formats.columns import COLUMNS, TRIPLE
from doxa.formats.faults import Faults
from doxa.formats.iris import Prefixes, terms
from doxa.formats.options import Options
from doxa.formats.packing import Source
from doxa.formats.statements import ESCAPED, REIFIES, UNESCAPED, VOCABULARY, Annotations

if TYPE_CHECKING:
    from pyoxigraph import Quad

log = logging.getLogger(__name__)

UNIT = "statement"
HOLDS = COLUMNS

STATEMENTS = 100_000
"""Statements held at a time."""

IRI = r"<[A-Za-z][A-Za-z0-9+.-]*:[^\x00-\x20<>\"{}|^`\\]*>"
NODE = rf"{IRI}|_:[A-Za-z0-9]+"
VALUE = rf"{NODE}|\"[^\"\\\x00-\x1f]*\"(?:@[a-z]{{1,8}}(?:-[a-z0-9]{{1,8}})*|\^\^{IRI})?"
COMMON = rf"^[ \t]*({NODE})[ \t]+({IRI})[ \t]+({VALUE})[ \t]*"
LINES = {"nt": rf"{COMMON}\.[ \t\r]*$", "nq": rf"{COMMON}(?:(?:{NODE})[ \t]*)?\.[ \t\r]*$"}
NOTHING = r"^[ \t]*(?:#.*)?\r?$"
DOUBLE = "^^<http://www.w3.org/2001/XMLSchema#double>"
ELEMENT = r"[\p{L}_][\p{L}\p{N}_.-]*>$"
STRING = r"\^\^<http://www\.w3\.org/2001/XMLSchema#string>$"


def blocks(source: Source, options: Options, faults: Faults) -> Iterator[pl.DataFrame]:
    """Tables with a statement number and columns by name, all text."""
    lines = options.format in LINES
    if lines:
        faults.unit = "line"
    columns = ["line", *TRIPLE, *_annotated(source)]
    read = _by_lines(source, options.format, faults) if lines else _by_statements(source, options, faults)
    return statements.beliefs(read, columns, options, faults)


def write(tables: Iterable[pl.DataFrame], place: Path, name: str, options: Options) -> None:
    """Vocabularies become IRIs; mention, confidence and label become annotations."""
    if options.format == "rdf":
        return _write_xml(tables, place, name, options)
    turtle = options.format == "ttl"
    made = 0
    with packing.sink(place, name) as file:
        if turtle:
            declared = {**options.prefixes, "doxa": VOCABULARY}
            file.write("".join(f"@prefix {key}: <{iri}> .\n" for key, iri in declared.items()).encode())
        for table in tables:
            text = _turtle(table, options.prefixes) if turtle else _ntriples(table, options.prefixes, made)
            made += len(table)
            file.write(("\n".join(text) + "\n").encode())


def _annotated(source: Source) -> list[str]:
    """Which of mention, confidence and label the file may hold; a statement cannot be annotated without << or {|."""
    words = (b"<<", b"{|", b"mention", b"onfidence", b"ertainty", b"robability", b"doxa:label", b"vocabulary:label")
    quoted, braced, mention, *others = source.mentions(*words)
    if not (quoted or braced):
        return []
    there = {"mention": mention, "confidence": any(others[:3]), "label": any(others[3:])}
    return [name for name, found in there.items() if found]


def _by_lines(source: Source, form: str, faults: Faults) -> Iterator[tuple[pl.DataFrame, Annotations]]:
    """Statements of N-Triples or N-Quads, as terms."""
    annotations = Annotations()
    before = 0
    for data in source.texts():
        text, lost = _decoded(data)
        faults.report([before + line for line in lost], "not UTF-8 text", "convert the file, e.g. with iconv")
        lines = pl.Series([text.removesuffix("\n")]).str.split("\n").explode()
        numbers = pl.Series("line", range(before + 1, before + len(lines) + 1), dtype=pl.Int64)
        found, rest = _simple(lines, numbers)
        if rest.any():
            others, strange = _common(lines.filter(rest), numbers.filter(rest), form)
            parsed = _parsed_lines(strange, form, faults, annotations)
            found = pl.concat([found, others, parsed]).sort("line", maintain_order=True)
        yield _without_notes(found, annotations), annotations
        before += len(lines)


def _simple(lines: pl.Series, numbers: pl.Series) -> tuple[pl.DataFrame, pl.Series]:
    """Lines of three IRIs or blank nodes, a space between, taken apart without captures; and which lines are not."""
    parts = lines.str.splitn(" ", 4).struct.unnest()
    head, relation, tail, end = parts.get_columns()
    node, iri = rf"^(?:{NODE})$", rf"^{IRI}$"
    fits = (end == ".") & head.str.contains(node) & relation.str.contains(iri) & tail.str.contains(node)
    fits = fits.fill_null(False)
    table = pl.DataFrame([numbers, head.alias("head"), relation.alias("relation"), tail.alias("tail")])
    return (table if fits.all() else table.filter(fits)), ~fits


def _common(lines: pl.Series, numbers: pl.Series, form: str) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Lines of the other common kinds, taken apart by one pattern; and the lines that are of none."""
    found = lines.str.extract_groups(LINES[form]).struct.unnest()
    found.columns = list(TRIPLE)
    found = found.with_columns(pl.col("tail").str.replace(STRING, "")).insert_column(0, numbers)
    strange = found["head"].is_null() & ~lines.str.contains(NOTHING)
    rest = pl.DataFrame([numbers.filter(strange), lines.filter(strange).alias("text")])
    return found.filter(pl.col("head").is_not_null()), rest


def _decoded(data: bytes) -> tuple[str, list[int]]:
    """The text, and the lines (from 1) that are not UTF-8 and are left empty."""
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


def _parsed_lines(lines: pl.DataFrame, form: str, faults: Faults, annotations: Annotations) -> pl.DataFrame:
    """Lines that are not of the common kind, each with a parser of its own so that none touches the next."""
    import pyoxigraph as ox

    kind = ox.RdfFormat.N_TRIPLES if form == "nt" else ox.RdfFormat.N_QUADS
    found: list[tuple[int, str, str, str]] = []
    for number, line in lines.iter_rows():
        try:
            for quad in ox.parse(line, format=kind):
                _put(quad, number, found, annotations)
        except SyntaxError as fault:
            faults.report([number], _said(fault))
    return _table(found)


def _by_statements(source: Source, options: Options, faults: Faults) -> Iterator[tuple[pl.DataFrame, Annotations]]:
    """Statements of Turtle or RDF/XML, as terms."""
    import pyoxigraph as ox

    form = ox.RdfFormat.TURTLE if options.format == "ttl" else ox.RdfFormat.RDF_XML
    annotations = Annotations()
    found: list[tuple[int, str, str, str]] = []
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
                faults.report(line, _said(fault), unit="line", fatal=hopeless)
                continue
            except UnicodeDecodeError:
                faults.report([number + 1], "not UTF-8 text, here or soon after", fatal=True)
            if quad is None:
                break
            number += 1
            _put(quad, number, found, annotations)
            if len(found) >= STATEMENTS:
                options.prefixes.learn(parser.prefixes)
                yield _without_notes(_table(found), annotations), annotations
                found = []
        options.prefixes.learn(parser.prefixes)
    yield _without_notes(_table(found), annotations), annotations


def _put(quad: Quad, number: int, found: list[tuple[int, str, str, str]], annotations: Annotations) -> None:
    """Add a statement, or keep in mind that it is spoken of."""
    value: Any = quad.object
    predicate = str(quad.predicate)
    if hasattr(value, "subject"):
        if predicate == REIFIES:
            triple = (str(value.subject), str(value.predicate), str(value.object))
            annotations.reify(str(quad.subject), triple, number)
        return
    found.append((number, str(quad.subject), predicate, str(value)))


def _table(found: list[tuple[int, str, str, str]]) -> pl.DataFrame:
    schema = {"line": pl.Int64} | dict.fromkeys(TRIPLE, pl.String)
    return pl.DataFrame(found, schema=schema, orient="row")


def _without_notes(table: pl.DataFrame, annotations: Annotations) -> pl.DataFrame:
    """The table without what is said of reified statements, which the annotations take."""
    if not len(annotations):
        return table
    about = [reifier in annotations for reifier in table["head"]]
    for _, head, relation, tail in table.filter(about).iter_rows():
        annotations.note(head, relation, tail)
    return table.filter(~pl.Series(about, dtype=pl.Boolean))


def _said(fault: SyntaxError) -> str:
    """The parser's own words, without the place, which is told anyway."""
    text = str(fault.msg or fault)
    return f"not a statement ({text.partition(': ')[2] or text})"


def _quoted(column: pl.Series) -> pl.Series:
    return '"' + column.str.replace_many(UNESCAPED, ESCAPED) + '"'


def _notes(table: pl.DataFrame) -> dict[str, pl.Series]:
    """Per annotation its literal, null where there is none."""
    found = {}
    for name in COLUMNS[3:]:
        if name in table.columns:
            text = table[name].cast(pl.String)
            found[name] = _quoted(text) + ("" if name == "mention" else DOUBLE)
    return found


def _ntriples(table: pl.DataFrame, prefixes: Prefixes, before: int) -> pl.Series:
    """A line for the statement and, where something is said of it, lines for that."""
    head, relation, tail = (terms(table[name], prefixes, name) for name in TRIPLE)
    text = head + " " + relation + " " + tail
    notes = _notes(table)
    reifier = "_:belief" + pl.Series(range(before, before + len(table))).cast(pl.String)
    told = pl.Series([""], dtype=pl.String).new_from_index(0, len(table))
    for name, value in notes.items():
        told += ("\n" + reifier + f" <{VOCABULARY}{name}> " + value + " .").fill_null("")
    reified = "\n" + reifier + f" {REIFIES} <<( " + text + " )>> ."
    return text + " ." + pl.select(pl.when(told != "").then(reified + told).otherwise(pl.lit(""))).to_series()


def _turtle(table: pl.DataFrame, prefixes: Prefixes) -> pl.Series:
    """The same with prefixed names where they are simple, and annotations in braces."""
    parts = []
    known = "|".join(prefix for prefix in prefixes if prefix)
    for name in TRIPLE:
        column = table[name]
        simple = column.str.contains(rf"^(?:{known}):[A-Za-z][A-Za-z0-9_-]*$")
        whole = terms(column, prefixes, name)
        parts.append(pl.select(pl.when(simple).then(column).otherwise(whole)).to_series())
    told = pl.Series([""], dtype=pl.String).new_from_index(0, len(table))
    for name, value in _notes(table).items():
        told += (f" doxa:{name} " + value + " ;").fill_null("")
    braced = " {|" + told.str.strip_suffix(" ;") + " |}"
    ending = pl.select(pl.when(told != "").then(braced).otherwise(pl.lit(""))).to_series()
    return parts[0] + " " + parts[1] + " " + parts[2] + ending + " ."


def _write_xml(tables: Iterable[pl.DataFrame], place: Path, name: str, options: Options) -> None:
    import pyoxigraph as ox

    def triples() -> Iterator[ox.Triple]:
        for table in tables:
            columns = [terms(table[part], options.prefixes, part) for part in TRIPLE]
            nameless = table["relation"].filter(~columns[1].str.contains(ELEMENT))
            if len(nameless):
                raise DoxaError(
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
            raise DoxaError(f"{name}: RDF/XML cannot hold this ({fault})", "a .ttl or .nt file can") from None
