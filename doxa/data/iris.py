"""Names and IRIs: reading shortens an IRI to a name, and writing restores the IRI of a name.

    <http://dbpedia.org/resource/Lyon>   dbr:Lyon               its namespace has a prefix
    <http://example.org/Lyon>            http://example.org/Lyon
    <mailto:a@b>                         <mailto:a@b>           an IRI that would read as something else
    <urn:doxa:New%20York>                New York               a name that is no IRI
    _:b1, "Lyon"@fr                      as they are            blank nodes and literals

The left column shows *terms*, as N-Triples writes them. With the same prefixes, `terms(names(x)) = x` for every term
and `names(terms(x)) = x` for every name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from urllib.parse import quote, unquote

import polars as pl

BASE = "urn:doxa:"
"""The namespace of names that are no IRIs."""

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
"""Characters that need no escape in an IRI (for use inside brackets of a regular expression)."""

PIECE = rf"(?:[{PLAIN}!$&'()*+,;=@]|%[0-9A-Fa-f]{{2}})"
PREFIXED = rf"^([A-Za-z][A-Za-z0-9_-]*)?:({PIECE}+)$"
HIERARCHIC = rf"^[a-z][a-z0-9+.-]*://[{PLAIN}]*(?::[0-9]+)?(?:/(?:{PIECE}|[:/])*)?(?:\?(?:{PIECE}|[:/?])*)?(?:#(?:{PIECE}|[:/?])*)?$"
BLANK = r"^_:[A-Za-z0-9]+$"
LITERAL = r'^"(?:[^"\\\x00-\x1f\x7f]|\\[nrt"\\])*"(?:@[a-z]{1,8}(?:-[a-z0-9]{1,8})*|\^\^<http://[A-Za-z0-9./_-]+#[A-Za-z0-9_-]+>)?$'
PLAIN_STRING = r"\^\^<http://www\.w3\.org/2001/XMLSchema#string>$"
NOT_LITERAL = rf"{PLAIN_STRING}|\^\^<http://www\.w3\.org/1999/02/22-rdf-syntax-ns#\w*[sS]tring>$"

SPECIAL = [character for character in map(chr, range(128)) if not (character.isalnum() or character in "-._~")]
ESCAPES = [f"%{ord(character):02X}" for character in SPECIAL]


FEW = 1000
"""Columns longer than this are searched for repeated values."""


class Prefixes(dict[str, str]):
    """Prefixes and their namespaces: the well-known ones, and those that files declare."""

    def __init__(self, others: Mapping[str, str] | None = None) -> None:
        super().__init__(KNOWN if others is None else others)

    @classmethod
    def of(cls, prefixes: Mapping[str, str] | None) -> Prefixes:
        """The well-known prefixes and these; a `Prefixes` is taken as it is, so that reading can add to it."""
        return prefixes if isinstance(prefixes, Prefixes) else cls(KNOWN | dict(prefixes or {}))

    @property
    def declared(self) -> dict[str, str]:
        """The prefixes that are not well-known."""
        return {prefix: namespace for prefix, namespace in self.items() if KNOWN.get(prefix) != namespace}

    def add_declared(self, declared: Mapping[str, str]) -> None:
        """Add the prefixes that a file declares; a prefix that is known keeps its namespace.

        Names of the namespace `BASE` are written without a prefix, so it gets none.
        """
        for prefix, namespace in declared.items():
            if namespace[-1:] in ("/", "#", ":") and namespace != BASE and prefix not in self:
                self[prefix] = namespace


def names(terms: pl.Series, prefixes: Prefixes, place: str) -> pl.Series:
    """The names of terms; `place` is head, relation or tail."""
    if place == "relation" and len(terms) > FEW:
        return _each(terms, lambda distinct: names(distinct, prefixes, place))
    result = terms
    left = terms.str.starts_with("<")
    for prefix, namespace in [("", BASE), *prefixes.items()]:
        here = left & terms.str.starts_with(f"<{namespace}")
        if not here.any():
            continue
        matching = terms.filter(here)
        local = matching.str.slice(len(namespace) + 1, matching.str.len_chars() - len(namespace) - 2)
        fits = ~local.str.contains("[/#:]")
        if namespace == BASE:
            name = _unminted(matching, local, prefixes, place)
        else:
            name = (prefix + ":") + local
            name = _where(name.str.contains(PREFIXED), name, _plain(matching))
        if not fits.all():
            name = _where(fits, name, matching)
        result = _put(result, here, name)
        left = _put(left, here, ~fits)
        if not left.any():
            break
    if left.any():
        result = _put(result, left, _plain(terms.filter(left)))
    return result.alias(terms.name)


def terms(values: pl.Series, prefixes: Prefixes, place: str) -> pl.Series:
    """The terms of names; only a tail can be a literal, and no relation a blank node."""
    if place == "relation" and len(values) > FEW:
        return _each(values, lambda distinct: terms(distinct, prefixes, place))
    special = values.str.contains(":", literal=True) | values.str.starts_with("<") | values.str.starts_with('"')
    if not special.any():
        return (f"<{BASE}" + _encoded(values) + ">").alias(values.name)
    plain = values.filter(~special)
    result = _put(values, ~special, f"<{BASE}" + _encoded(plain) + ">") if len(plain) else values
    return _put(result, special, _special(values.filter(special), prefixes, place)).alias(values.name)


def spellings(name: str, prefixes: Mapping[str, str], others: Mapping[str, str]) -> list[str]:
    """Other names of the same IRI: as `prefixes` and the well-known ones write it, then whole, plain and in brackets.

    The name may be a whole IRI or use a prefix of `others`; nothing for a name that is no IRI.
    """
    known = KNOWN | dict(prefixes)
    prefix, _, local = name.partition(":")
    if name.startswith("<") and name.endswith(">"):
        iri = name[1:-1]
    elif prefix in known | dict(others) and not local.startswith("//"):
        iri = (known | dict(others))[prefix] + local
    elif local.startswith("//") or name.startswith(BASE):
        iri = name
    else:
        return []
    short = [f"{key}:{iri[len(space) :]}" for key, space in known.items() if iri.startswith(space)]
    minted = [unquote(iri[len(BASE) :])] if iri.startswith(BASE) else []
    return [*short, *minted, iri, f"<{iri}>"]


def _each(values: pl.Series, change: Callable[[pl.Series], pl.Series]) -> pl.Series:
    """Change each distinct value once, because relations are few."""
    distinct = values.unique()
    changed = pl.concat([change(part.to_series()) for part in distinct.to_frame().iter_slices(FEW)])
    return values.replace_strict(distinct, changed, return_dtype=pl.String)


def _special(values: pl.Series, prefixes: Prefixes, place: str) -> pl.Series:
    """The terms of names that may be IRIs, prefixed names, blank nodes or literals."""
    parts = values.str.extract_groups(PREFIXED).struct.unnest()
    prefix, local = parts.get_columns()
    namespace = prefix.fill_null("").replace_strict(dict(prefixes), default=None, return_dtype=pl.String)
    bracketed = values.str.contains(r"^<[^<>\s]+>$")
    if bracketed.any():
        bracketed &= _mapped(values, bracketed, lambda value: value if is_iri(value[1:-1]) else "") == values
    kept = bracketed if place == "relation" else values.str.contains(BLANK) | bracketed
    if place == "tail":
        kept |= values.str.contains(LITERAL) & ~values.str.contains(NOT_LITERAL)
    whole = _where(values.str.contains(HIERARCHIC), "<" + values + ">", f"<{BASE}" + _encoded(values) + ">")
    expanded = "<" + namespace + local + ">"
    return _where(kept, values, _where(expanded.is_not_null(), expanded, whole))


def _plain(terms: pl.Series) -> pl.Series:
    """IRIs without their brackets, where the rest is still recognized as an IRI."""
    inner = terms.str.slice(1, terms.str.len_chars() - 2)
    return _where(inner.str.contains(HIERARCHIC), inner, terms)


def _unminted(terms_: pl.Series, local: pl.Series, prefixes: Prefixes, place: str) -> pl.Series:
    """The names behind IRIs of the namespace `BASE`, where writing the name gives the same IRI."""
    restored = _decoded(local)
    filled = restored.fill_null("")
    same = (filled != "") & (terms(filled, prefixes, place) == terms_)
    return _where(same, filled, terms_)


def _put(values: pl.Series, where: pl.Series, others: pl.Series) -> pl.Series:
    """The values, with `others` where the mask is true."""
    return others if where.all() else values.clone().scatter(where.arg_true(), others)


def _where(condition: pl.Series, yes: pl.Series, no: pl.Series) -> pl.Series:
    return pl.select(pl.when(condition).then(yes).otherwise(no)).to_series()


def is_iri(text: str) -> bool:
    """Whether a text is an absolute IRI by RFC 3987."""
    from pyoxigraph import NamedNode

    try:
        NamedNode(text)
    except ValueError:
        return False
    return True


def _encoded(values: pl.Series) -> pl.Series:
    """Percent-encode all but -._~ and the letters and digits of any script."""
    encoded = values.str.replace_many(SPECIAL, ESCAPES)
    foreign = values.str.len_bytes() != values.str.len_chars()
    if foreign.any():
        foreign &= ~values.str.contains(rf"^[\x00-\x7f{PLAIN}]*$")
    return _mapped(values, foreign, lambda value: quote(value, safe=""), encoded)


def _decoded(values: pl.Series) -> pl.Series:
    """Undo `_encoded`; null where the result is not UTF-8."""
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
    """Change the values where the mask is true, each distinct value once; elsewhere take `others`."""
    others = values if others is None else others
    if not where.any():
        return others
    others = others.clone()
    distinct = values.filter(where).unique()
    changed = pl.Series([change(value) for value in distinct], dtype=pl.String)
    return others.scatter(
        where.arg_true(), values.filter(where).replace_strict(distinct, changed, return_dtype=pl.String)
    )
