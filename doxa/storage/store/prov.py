"""The log as PROV-O: beliefs are entities, decisions and imports are activities, curators and sources their agents."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import polars as pl
from pyoxigraph import Literal, NamedNode, RdfFormat, Triple, serialize
from sqlalchemy.engine import Connection

from doxa.data.atomic import written
from doxa.errors import UsageError
from doxa.storage.store.exchange import log_rows
from doxa.storage.store.history import time_text

PROV, BASE = "http://www.w3.org/ns/prov#", "urn:doxa:"
RDF_TYPE = NamedNode("http://www.w3.org/1999/02/22-rdf-syntax-ns#type")
RDFS_LABEL = NamedNode("http://www.w3.org/2000/01/rdf-schema#label")
TIME = NamedNode("http://www.w3.org/2001/XMLSchema#dateTime")
FORMATS = {".ttl": RdfFormat.TURTLE, ".nt": RdfFormat.N_TRIPLES}


def write(connection: Connection, path: Path) -> int:
    """Write the log as RDF, all or nothing; the number of statements."""
    if path.suffix not in FORMATS:
        raise UsageError(f"cannot write PROV-O to {path.name}", f"expected a file that ends in {' or '.join(FORMATS)}")
    count = 0

    def counted() -> Iterator[Triple]:
        nonlocal count
        for table in log_rows(connection):
            for statement in _statements(table):
                count += 1
                yield statement

    with written(path) as unfinished, unfinished.open("wb") as file:
        serialize(counted(), file, FORMATS[path.suffix])
    return count


def _node(*parts: str) -> NamedNode:
    return NamedNode(BASE + ":".join(quote(part, safe="") for part in parts))


def _prov(name: str) -> NamedNode:
    return NamedNode(PROV + name)


def _statements(table: pl.DataFrame) -> Iterator[Triple]:
    """The statements of a decision, or of the assertions of an import."""
    for row in table.iter_rows(named=True):
        activity = _node("decision", str(row["decision"]))
        if row["verdict"] != "assert":
            curator = _node("curator", row["curator"])
            yield Triple(activity, RDF_TYPE, _prov("Activity"))
            yield Triple(activity, RDFS_LABEL, Literal(row["verdict"]))
            yield Triple(activity, _prov("endedAtTime"), Literal(time_text(row["at"]), datatype=TIME))
            yield Triple(activity, _prov("wasAssociatedWith"), curator)
            yield Triple(curator, RDF_TYPE, _prov("Agent"))
            if row["undoes"] is not None:
                yield Triple(activity, _prov("wasInformedBy"), _node("decision", str(row["undoes"])))
            if row["source"] is not None:
                yield Triple(activity, _prov("used"), _node("source", row["source"]))
        if row["head"] is not None:
            belief = _node("belief", row["head"], row["relation"], row["tail"])
            yield Triple(belief, RDF_TYPE, _prov("Entity"))
            relation = "wasInvalidatedBy" if row["verdict"] in ("reject", "retract", "replace") else "wasInfluencedBy"
            yield Triple(belief, _prov("wasGeneratedBy" if row["verdict"] in ("assert", "add") else relation), activity)
