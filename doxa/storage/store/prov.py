"""The log as PROV-O: beliefs and sources are entities, decisions and imports are activities, curators are agents."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import polars as pl
from pyoxigraph import Literal, NamedNode, RdfFormat, Triple, serialize
from sqlalchemy.engine import Connection

from doxa.data.atomic import written
from doxa.data.iris import BASE, KNOWN, Prefixes, terms
from doxa.errors import UsageError
from doxa.storage.store import prefixes
from doxa.storage.store.evidence import TRIPLE
from doxa.storage.store.exchange import log_rows
from doxa.storage.store.history import time_text

PROV, VOCABULARY = "http://www.w3.org/ns/prov#", f"{BASE}vocabulary:"
RDF, RDFS, XSD = KNOWN["rdf"], KNOWN["rdfs"], KNOWN["xsd"]
TYPE = NamedNode(f"{RDF}type")
FORMATS = {".ttl": RdfFormat.TURTLE, ".nt": RdfFormat.N_TRIPLES}
PARTS = dict(zip(TRIPLE, ("subject", "predicate", "object"), strict=True))
NEGATIVE = ("reject", "retract", "replace")


def write(connection: Connection, path: Path) -> int:
    """Write the log as RDF, all or nothing; the number of statements."""
    if path.suffix not in FORMATS:
        raise UsageError(f"cannot write PROV-O to {path.name}", f"expected a file that ends in {' or '.join(FORMATS)}")
    count = 0

    def counted() -> Iterator[Triple]:
        nonlocal count
        declared = prefixes.read(connection)
        for table in log_rows(connection):
            for statement in _statements(table, declared):
                count += 1
                yield statement

    shown = {"prov": PROV, "rdf": RDF, "rdfs": RDFS, "xsd": XSD, "doxa": VOCABULARY}
    with written(path) as unfinished, unfinished.open("wb") as file:
        serialize(counted(), file, FORMATS[path.suffix], prefixes=shown if path.suffix == ".ttl" else None)
    return count


def _node(*parts: str) -> NamedNode:
    return NamedNode(BASE + ":".join(quote(part, safe="") for part in parts))


def _prov(name: str) -> NamedNode:
    return NamedNode(PROV + name)


def _statements(table: pl.DataFrame, declared: Prefixes) -> Iterator[Triple]:
    """The statements of a decision, or of the assertions of an import."""
    names = {part: terms(table[part].fill_null(""), declared, "relation") for part in TRIPLE}
    for place, row in enumerate(table.iter_rows(named=True)):
        activity = _node("decision", str(row["decision"]))
        if row["verdict"] != "assert":
            yield from _activity(activity, row)
        if row["head"] is None:
            continue
        belief = _node("belief", *(row[part] for part in TRIPLE))
        yield Triple(belief, TYPE, _prov("Entity"))
        yield Triple(belief, TYPE, NamedNode(f"{RDF}Statement"))
        for part, property_ in PARTS.items():
            yield Triple(belief, NamedNode(RDF + property_), NamedNode(names[part][place][1:-1]))
        if row["verdict"] in ("assert", "add", "accept"):
            yield Triple(belief, _prov("wasGeneratedBy"), activity)
        elif row["verdict"] in NEGATIVE:
            yield Triple(belief, _prov("wasInvalidatedBy"), activity)
        else:
            yield Triple(belief, _prov("wasInfluencedBy"), activity)
        if row["verdict"] == "replace":
            right = _node("belief", row["head"], row["relation"], row["replacement"])
            yield Triple(right, _prov("wasGeneratedBy"), activity)
            yield Triple(right, _prov("wasRevisionOf"), belief)


def _activity(activity: NamedNode, row: dict[str, Any]) -> Iterator[Triple]:
    """A decision: what, when, by whom, why, from which source."""
    curator = _node("curator", row["curator"])
    yield Triple(activity, TYPE, _prov("Activity"))
    yield Triple(activity, NamedNode(f"{RDFS}label"), Literal(row["verdict"]))
    yield Triple(activity, _prov("endedAtTime"), Literal(time_text(row["at"]), datatype=NamedNode(f"{XSD}dateTime")))
    yield Triple(activity, _prov("wasAssociatedWith"), curator)
    yield Triple(curator, TYPE, _prov("Agent"))
    for name in ("reason", "note", "name", "into", "old_name", "new_name"):
        if row[name] is not None:
            yield Triple(activity, NamedNode(VOCABULARY + name), Literal(row[name]))
    if row["credence"] is not None:
        yield Triple(activity, NamedNode(f"{VOCABULARY}credence"), Literal(row["credence"]))
    if row["undoes"] is not None:
        yield Triple(activity, _prov("wasInformedBy"), _node("decision", str(row["undoes"])))
    if row["source"] is not None:
        source = _node("source", row["source"])
        yield Triple(activity, _prov("used"), source)
        yield Triple(source, TYPE, _prov("Entity"))
        if row["license"] is not None:
            yield Triple(source, NamedNode(f"{KNOWN['dcterms']}license"), Literal(row["license"]))
