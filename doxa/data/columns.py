"""Column names of beliefs, and the headings other tools use for them.

A file or frame names its triple in one of the vocabularies below, in any order and any case. A vocabulary counts only
as a whole: a row that holds `from` but neither `type` nor `to` is data, not a header.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

TRIPLE = ("head", "relation", "tail")
COLUMNS = (*TRIPLE, "mention", "confidence", "label")

HEADINGS = (
    (("head", "subject"), ("relation", "predicate"), ("tail", "object")),
    (("source",), ("edge", "relation"), ("target",)),
    (("from",), ("type", "relation"), ("to",)),
    (("h",), ("r",), ("t",)),
    (("s",), ("p",), ("o",)),
)
"""Headings for head, relation and tail. Earlier vocabularies win, and within one the earlier heading."""


def normalize(heading: str | None) -> str:
    """A heading without surrounding spaces, in lower case."""
    return (heading or "").strip().lower()


def meanings(headings: Sequence[str | None], assigned: Collection[str] = ()) -> dict[str, str]:
    """The column that each heading means; headings without a meaning are absent.

    `assigned` are columns that already have a heading. The result lacks part of the triple where no vocabulary is
    complete.
    """
    plain = [normalize(heading) for heading in headings]
    candidates = [
        {
            column: next((name for name in names if name in plain), "")
            for column, names in zip(TRIPLE, vocabulary, strict=True)
        }
        for vocabulary in HEADINGS
    ]
    best = max(candidates, key=lambda triple: sum(bool(name) or column in assigned for column, name in triple.items()))
    names = best | {column: column for column in COLUMNS if column not in TRIPLE}
    columns = {name: column for column, name in names.items() if name and column not in assigned}
    return {str(heading): columns[name] for heading, name in zip(headings, plain, strict=True) if name in columns}


def is_header(fields: Sequence[str | None]) -> bool:
    """Whether the fields of a row are headings: they name head, relation and tail in one vocabulary."""
    return set(TRIPLE) <= set(meanings(fields).values())
