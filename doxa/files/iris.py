"""Names and IRIs: an IRI is shortened to a name on reading, and a name restored to its IRI on writing.

    <http://dbpedia.org/resource/Lyon>   dbr:Lyon               its namespace has a prefix
    <http://example.org/Lyon>            http://example.org/Lyon
    <mailto:a@b>                         <mailto:a@b>           a name that looked like something else
    <urn:doxa:New%20York>                New York               a name that never was an IRI
    _:b1, "Lyon"@fr                      as they are            blank nodes and literals

What is on the left are *terms*, as N-Triples writes them. `terms(names(x)) = x` for every term, `names(terms(x)) = x`
for every name, as long as the prefixes stay the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from urllib.parse import quote, unquote

import polars as pl

BASE = "urn:doxa:"
"""The namespace of names that never were IRIs."""

KNOWN = {
    "rdf": "http://www.w3.org/1999/02/22-rdf-syntax-ns#",
    "rdfs": "http://www.w3.org/2000/01/rdf-schema#",
    "owl": "http://www.w3.org/2002/07/owl#",
    "xsd": "http://www.w3.org/2001/XMLSchema#",
    "skos": "http://www.w3.org/2004/02/skos/core#",
    "foaf": "http://xmlns.com/foaf/0.1/",
    "dcterms": "http://purl.org/dc/terms/",
    "schema": "http://schema.org/",
    "dbr": "http://dbpedia.org/resource/",
    "dbo": "http://dbpedia.org/ontology/",
    "wd": "http://www.wikidata.org/entity/",
    "wdt": "http://www.wikidata.org/prop/direct/",
}

PLAIN = r"A-Za-z0-9\-._~\p{L}\p{M}\p{N}"
"""Characters that stand for themselves anywhere in an IRI (for use inside brackets)."""

PIECE = rf"(?:[{PLAIN}!$&'()*+,;=@]|%[0-9A-Fa-f]{{2}})"
PREFIXED = rf"^([A-Za-z][A-Za-z0-9_-]*)?:({PIECE}+)$"
HIERARCHIC = rf"^[a-z][a-z0-9+.-]*://[{PLAIN}]*(?::[0-9]+)?(?:/(?:{PIECE}|[:/])*)?(?:\?(?:{PIECE}|[:/?])*)?(?:#(?:{PIECE}|[:/?])*)?$"
BLANK = r"^_:[A-Za-z0-9]+$"
LITERAL = r'^"(?:[^"\\\x00-\x1f\x7f]|\\[nrt"\\])*"(?:@[a-z]{1,8}(?:-[a-z0-9]{1,8})*|\^\^<http://[A-Za-z0-9./_-]+#[A-Za-z0-9_-]+>)?$'
PLAIN_STRING = r"\^\^<http://www\.w3\.org/2001/XMLSchema#string>$"
NOT_LITERAL = rf"{PLAIN_STRING}|\^\^<http://www\.w3\.org/1999/02/22-rdf-syntax-ns#\w*[sS]tring>$"

SPECIAL = [character for character in map(chr, range(128)) if not (character.isalnum() or character in "-._~")]
ESCAPES = [f"%{ord(character):02X}" for character in SPECIAL]


class Prefixes(dict[str, str]):
    """Prefixes and the namespaces they stand for: the well-known ones, and those declared since."""

    def __init__(self, others: Mapping[str, str] | None = None) -> None:
        super().__init__(KNOWN if others is None else others)

    def declare(self, prefix: str, namespace: str) -> None:
        """Let a prefix stand for a namespace from now on."""
        self[prefix] = namespace

    def learn(self, declared: Mapping[str, str]) -> None:
        """Take on what a file declares, where it agrees with what is already known."""
        for prefix, namespace in declared.items():
            if namespace[-1:] in ("/", "#", ":") and prefix not in self:
                self[prefix] = namespace


def names(terms: pl.Series, prefixes: Prefixes, place: str) -> pl.Series:
    """The names of terms that stand in the place of head, relation or tail."""
    shorter = {namespace: prefix for prefix, namespace in reversed(prefixes.items())}
    frame = terms.alias("term").to_frame()
    frame = frame.with_columns(
        pl.col("term").str.extract(r"^<(.*[/#:])[^/#:]*>$").alias("namespace"),
        pl.col("term").str.extract(r"^<.*[/#:]([^/#:]*)>$").alias("local"),
        pl.col("term").str.extract(r"^<(.*)>$").alias("iri"),
    )
    prefix = pl.col("namespace").replace_strict(shorter, default=None, return_dtype=pl.String)
    short = prefix + ":" + pl.col("local")
    found = frame.select(
        pl.when(pl.col("iri").is_null())
        .then(pl.col("term"))
        .when(short.str.contains(PREFIXED))
        .then(short)
        .when(pl.col("iri").str.contains(HIERARCHIC))
        .then(pl.col("iri"))
        .otherwise(pl.col("term"))
    ).to_series()
    minted = (frame["namespace"] == BASE).fill_null(False)
    if minted.any():
        wanted = frame["term"].filter(minted)
        restored = _decoded(frame["local"].filter(minted))
        same = (restored != "").fill_null(False) & (_terms(restored, prefixes, place) == wanted).fill_null(False)
        found = (
            found.to_frame("name")
            .with_columns(minted.alias("minted"))
            .to_series(0)
            .scatter(minted.arg_true(), pl.select(pl.when(same).then(restored).otherwise(wanted)).to_series())
        )
    return found.alias(terms.name)


def terms(values: pl.Series, prefixes: Prefixes, place: str) -> pl.Series:
    """The terms of names; only a tail can be a literal, and no relation a blank node."""
    return _terms(values, prefixes, place).alias(values.name)


def _terms(values: pl.Series, prefixes: Prefixes, place: str) -> pl.Series:
    name = pl.col("name")
    frame = values.alias("name").to_frame().with_columns(
        name.str.extract(PREFIXED, 1).fill_null("").replace_strict(dict(prefixes), default=None, return_dtype=pl.String)
        .alias("namespace"),
        name.str.extract(PREFIXED, 2).alias("local"),
    )  # fmt: skip
    bracketed = values.str.contains(r"^<[^<>\s]+>$")
    if bracketed.any():
        bracketed &= _mapped(values, bracketed, lambda value: value if is_iri(value[1:-1]) else "") == values
    kept = bracketed if place == "relation" else values.str.contains(BLANK) | bracketed
    if place == "tail":
        kept |= values.str.contains(LITERAL) & ~values.str.contains(NOT_LITERAL)
    whole = frame.select(
        pl.when(kept)
        .then(name)
        .when(pl.col("namespace").is_not_null() & pl.col("local").is_not_null())
        .then("<" + pl.col("namespace") + pl.col("local") + ">")
        .when(name.str.contains(HIERARCHIC))
        .then("<" + name + ">")
    ).to_series()
    if not whole.null_count():
        return whole
    return whole.fill_null(f"<{BASE}" + _encoded(values) + ">")


def is_iri(text: str) -> bool:
    """Whether a text is an absolute IRI by the book."""
    from pyoxigraph import NamedNode

    try:
        NamedNode(text)
    except ValueError:
        return False
    return True


def _encoded(values: pl.Series) -> pl.Series:
    """Percent-encoded, all but letters, digits and -._~ of any script."""
    simple = values.str.contains(rf"^[\x00-\x7f{PLAIN}]*$")
    found = values.str.replace_many(SPECIAL, ESCAPES)
    return _mapped(values, ~simple, lambda value: quote(value, safe=""), found)


def _decoded(values: pl.Series) -> pl.Series:
    """The reverse; null where it is not UTF-8."""
    foreign = values.str.contains("%[89a-fA-F]")
    return _mapped(values, foreign, _unquoted, values.str.replace_many(ESCAPES, SPECIAL))


def _unquoted(value: str) -> str | None:
    try:
        return unquote(value, errors="strict")
    except UnicodeDecodeError:
        return None


def _mapped(
    values: pl.Series, where: pl.Series, change: Callable[[str], str | None], others: pl.Series | None = None
) -> pl.Series:
    """The values with some of them changed, each distinct one once; the `others` as given."""
    others = values if others is None else others
    if not where.any():
        return others
    distinct = values.filter(where).unique()
    made = pl.Series([change(value) for value in distinct], dtype=pl.String)
    return others.scatter(where.arg_true(), values.filter(where).replace_strict(distinct, made, return_dtype=pl.String))
