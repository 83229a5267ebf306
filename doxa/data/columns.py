"""Column names of beliefs, doxa's own and those that other tools write."""

TRIPLE = ("head", "relation", "tail")
COLUMNS = (*TRIPLE, "mention", "confidence", "label")

ALIASES = {"subject": "head", "predicate": "relation", "object": "tail"}
"""Names that others use."""


def meaning(name: str | None) -> str:
    """The column that a heading means; a heading that means none is returned in lower case."""
    plain = (name or "").strip().lower()
    return ALIASES.get(plain, plain)
