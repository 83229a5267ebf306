"""What PyKEEN's TriplesFactory.to_path_binary leaves: numeric_triples.tsv.gz beside entity_to_id and relation_to_id."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from doxa.formats.columns import TRIPLE, is_header
from doxa.formats.faults import Faults
from doxa.formats.numbered import listed, looked_up
from doxa.formats.options import Options
from doxa.formats.packing import Source
from doxa.formats.tsv import Fields, named

UNIT = "line"
HOLDS = TRIPLE


def blocks(source: Source, options: Options, faults: Faults) -> Iterator[pl.DataFrame]:
    """Tables with a line number and names in place of numbers."""
    names = {}
    for what in ("entity", "relation"):
        path = source.path.with_name(f"{what}_to_id.tsv.gz")
        names[what] = listed(Source(path, str(path)), f"an {what}"[what == "relation" :], "c1", "c0", passed=1)
    for table in named(Fields(source, "\t", faults, is_header), options):
        yield looked_up(table.select("line", *TRIPLE), names, faults)
