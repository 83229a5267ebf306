"""NELL's dump of "every belief in the KB": TAB-separated, with a header; Entity, Relation, Value are the triple.

Probability is the confidence (the largest, where several are listed). Candidate Source lists the patterns of text in
which NELL's reader CPL saw the pair. Each of the most frequent patterns becomes a belief with that mention. A
`generalizations` row names an entity's category; its relation becomes `category`. The prefix `concept:` is removed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from urllib.parse import quote_plus, unquote_plus

import polars as pl

from doxa.data.columns import TRIPLE
from doxa.errors import BadFile
from doxa.formats import packing
from doxa.formats.faults import Faults
from doxa.formats.options import Options
from doxa.formats.packing import Source
from doxa.formats.tsv import Fields

UNIT = "line"
HOLDS = (*TRIPLE, "mention", "confidence")

HEADINGS = {
    "entity": "head",
    "relation": "relation",
    "value": "tail",
    "probability": "confidence",
    "candidate source": "source",
}
HEADER = "Entity\tRelation\tValue\tIteration of Promotion\tProbability\tSource\tCandidate Source"
CATEGORY, GENERALIZATIONS = "category", "generalizations"
CONCEPT = "concept:"
PATTERNS = re.compile(r"CPL-Iter:\d+-[^<]*<token=[^>]*>-(.*?)(?=, [A-Za-z]+-Iter:|\]?$)", re.DOTALL)
EDGES = re.compile(r"^(?:arg[12]|_) | (?:arg[12]|_)$")


def is_header(fields: list[str]) -> bool:
    """Whether the fields of a row are the headings of a dump."""
    return {"entity", "relation", "value"} <= {field.strip().lower() for field in fields}


def blocks(source: Source, options: Options, faults: Faults) -> Iterator[pl.DataFrame]:
    """Frames with a line number and named columns, all text."""
    names: dict[str, str] = {}
    for table in Fields(source, "\t", faults, is_header):
        if not names:
            if not len(table):
                continue
            headings = [(heading or "").strip().lower() for heading in table.drop("line").row(0)]
            if not is_header(headings):
                raise BadFile(
                    f"{source.name}, line {table['line'][0]}: no header of a NELL dump", f"expected: {HEADER}"
                )
            twice = [heading for heading in HEADINGS if headings.count(heading) > 1]
            if twice:
                raise BadFile(
                    f"{source.name}, line {table['line'][0]}: the header names {twice[0]!r} twice",
                    f"expected: {HEADER}",
                )
            names = {f"c{number}": HEADINGS[name] for number, name in enumerate(headings) if name in HEADINGS}
            table = table.slice(1)
        yield _beliefs(table.select("line", *names).rename(names), options.patterns)


def write(tables: Iterable[pl.DataFrame], place: Path, name: str, options: Options) -> None:
    """Mentions are written as patterns of CPL."""
    with packing.sink(place, name) as file:
        file.write(f"{HEADER}\n".encode())
        for table in tables:
            for column in (name for name in HOLDS[:4] if name in table.columns):
                if table[column].str.contains(r"[\t\n\r]").any():
                    raise BadFile(f"{name}: a {column} holds a TAB or line break, which a NELL dump cannot carry")
            category = pl.col("relation") == CATEGORY
            rows = table.select(
                (CONCEPT + pl.col("head")).alias("head"),
                pl.when(category)
                .then(pl.lit(GENERALIZATIONS))
                .otherwise(CONCEPT + pl.col("relation"))
                .alias("relation"),
                (CONCEPT + pl.col("tail")).alias("tail"),
                pl.lit("0").alias("iteration"),
                pl.col("confidence").cast(pl.String)
                if "confidence" in table.columns
                else pl.lit("").alias("confidence"),
                pl.lit("doxa").alias("source"),
                _source(table).alias("candidates"),
            )
            rows.write_csv(file, separator="\t", quote_style="never", include_header=False)


def _beliefs(table: pl.DataFrame, most: int) -> pl.DataFrame:
    relation = table["relation"]
    table = table.with_columns(
        table["head"].str.strip_prefix(CONCEPT),
        table["tail"].str.strip_prefix(CONCEPT),
        pl.select(
            pl.when(relation == GENERALIZATIONS).then(pl.lit(CATEGORY)).otherwise(relation.str.strip_prefix(CONCEPT))
        ).to_series().alias("relation"),
    )  # fmt: skip
    if "confidence" in table.columns:
        table = table.with_columns(_largest(table["confidence"]))
    if "source" in table.columns:
        texts = [patterns(text, most) if text and "CPL" in text else None for text in table["source"]]
        mention = pl.Series("mention", texts, dtype=pl.List(pl.String))
        table = table.drop("source").with_columns(mention).explode("mention")
    return table


def patterns(source: str, most: int) -> list[str] | None:
    """The patterns of a Candidate Source, most frequent first, without the placeholders of the pair.

    Patterns and counts follow CPL's heading: `arg1 is the capital of arg2 <TAB> 12 <TAB> …`. The field may be
    percent-encoded, as it is in the dumps.
    """
    match = PATTERNS.search(source if "<token=" in source else unquote_plus(source))
    if not match:
        return None
    fields = match[1].split("\t")
    counts: dict[str, int] = {}
    for pattern, count in zip(fields[::2], fields[1::2], strict=False):
        text = _without_placeholders(pattern)
        if text:
            counts[text] = counts.get(text, 0) + (int(count.strip()) if count.strip().isdecimal() else 0)
    ordered = sorted(counts, key=lambda pattern: -counts[pattern])
    return ordered[:most] or None


def _without_placeholders(pattern: str) -> str:
    for _ in range(2):
        pattern = EDGES.sub("", pattern, count=1)
    return pattern


def _largest(probability: pl.Series) -> pl.Series:
    """The number, or the largest of a list such as [0.5, 0.75]."""
    listed = probability.str.contains(r"^\s*\[").fill_null(False)
    if not listed.any():
        return probability
    numbers = (
        probability.str.strip_chars("[] ")
        .str.split(",")
        .list.eval(pl.element().str.strip_chars().cast(pl.Float64, strict=False))
    )
    return (
        pl.select(pl.when(listed).then(numbers.list.max().cast(pl.String)).otherwise(probability))
        .to_series()
        .alias(probability.name)
    )


def _source(table: pl.DataFrame) -> pl.Series:
    if "mention" not in table.columns:
        return pl.repeat("[]", len(table), eager=True)
    sources = [
        "[]" if mention is None else quote_plus(f"[CPL-Iter:0-<token=>-arg1 {mention} arg2\t1]")
        for mention in table["mention"]
    ]
    return pl.Series(sources, dtype=pl.String)
