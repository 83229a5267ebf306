"""How a file is to be read or written, beyond what its name tells."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from doxa.errors import UsageError, did_you_mean, one_of
from doxa.formats.faults import OnError
from doxa.formats.iris import Prefixes

CHOICES = {"header": ("auto", "yes", "no"), "literals": ("keep", "drop"), "on_error": ("raise", "skip")}


@dataclass(frozen=True)
class Options:
    """What `--read` and `--write` can say; the fields are their names.

    `format` by name if the ending does not tell. Of delimited text: `delimiter` between fields (TAB for .tsv, found by
    itself for .csv); `header` yes, no or auto; `columns` in order (`head,relation,tail,-,confidence`), or for files
    whose columns have names, ours=theirs. Of RDF: `literals` kept as tails or dropped; `prefix` NAME=IRI, as often as
    need be. Of NELL's dump: at most so many `patterns` of a belief become mentions.
    """

    format: str = ""
    on_error: OnError = "raise"
    refuted: bool = False
    delimiter: str = ""
    header: str = "auto"
    columns: str = ""
    literals: str = "keep"
    patterns: int = 3
    prefixes: Prefixes = field(default_factory=Prefixes)

    def __post_init__(self) -> None:
        for name, choices in CHOICES.items():
            one_of(name, getattr(self, name), choices)
        if self.delimiter and (len(self.delimiter) != 1 or self.delimiter in '\n\r"' or not self.delimiter.isascii()):
            raise UsageError(f"delimiter={self.delimiter!r}; expected one character, or \\t")
        if self.patterns < 1:
            raise UsageError(f"patterns={self.patterns}; expected 1 or more")

    def told(self, assignments: Sequence[str]) -> Options:
        """The same with what `name=value` says changed."""
        values: dict[str, Any] = {}
        prefixes = Prefixes(self.prefixes)
        names = ("delimiter", "header", "columns", "literals", "patterns", "prefix")
        for assignment in assignments:
            name, equals, value = assignment.partition("=")
            if not equals or name not in names:
                raise UsageError(
                    f"no option {name!r} for files.{did_you_mean(name, names)}",
                    f"expected NAME=VALUE, NAME one of {', '.join(names)}",
                )
            if name == "prefix":
                prefixes.declare(*_prefix(value))
            elif name == "patterns":
                if not value.isdecimal():
                    raise UsageError(f"patterns={value}; expected a number")
                values[name] = int(value)
            else:
                values[name] = "\t" if value == "\\t" else value
        return replace(self, prefixes=prefixes, **values)


def _prefix(value: str) -> tuple[str, str]:
    name, equals, iri = value.partition("=")
    if not equals or ":" not in iri or iri[-1] not in "/#:":
        raise UsageError(
            f"prefix={value}; expected NAME=IRI with an IRI that ends in / or # or :",
            "for example: --read prefix=ex=http://example.org/",
        )
    return name, iri
