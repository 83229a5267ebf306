"""Files of PyKEEN's TriplesFactory.to_path_binary: numeric_triples.tsv.gz, entity_to_id and relation_to_id."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from doxa.data.columns import TRIPLE
from doxa.formats.faults import Faults
from doxa.formats.numbered import look_up, read_names
from doxa.formats.options import Options
from doxa.formats.packing import Source
from doxa.formats.tsv import Fields, name_columns

UNIT = "line"
HOLDS = TRIPLE


def blocks(source: Source, options: Options, faults: Faults) -> Iterator[pl.DataFrame]:
    """Frames with a line number and names in place of ids."""
    names = {}
    for what in ("entity", "relation"):
        path = source.path.with_name(f"{what}_to_id.tsv.gz")
        names[what] = read_names(Source(path, str(path)), what, "c1", "c0")
    for table in name_columns(Fields(source, "\t", faults), options):
        yield look_up(table.select("line", *TRIPLE), names, faults)
