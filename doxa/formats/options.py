"""How to read or write a file, beyond what its name says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from doxa.data.iris import Prefixes
from doxa.errors import UsageError, did_you_mean, one_of

CHOICES = {
    "header": ("auto", "yes", "no"),
    "literals": ("keep", "drop"),
    "escapes": ("no", "yes"),
    "formulas": ("keep", "quote"),
}
NAMES = ("delimiter", "header", "columns", "literals", "patterns", "prefix", "escapes", "formulas")


@dataclass(frozen=True)
class Options:
    r"""Options of the formats.

    - `format`: the name of the format, if the file's ending does not say it.
    - `delimiter`: the character between fields of tsv and csv. Default: TAB for tsv, detected for csv.
    - `header`: yes, no or auto.
    - `columns`: the columns in order (`head,relation,tail,-,confidence`), or column=heading pairs for files with
      headings (`head=subject_id,relation=p`).
    - `literals`: keep RDF literals as tails, or drop their statements.
    - `patterns`: the number of patterns per belief of a NELL dump that become mentions.
    - `prefixes`: RDF prefixes and their namespaces. Reading a Turtle file adds those before its first statement.
    - `escapes`: with yes, \t, \n, \r and \\ in a tsv file stand for TAB, line breaks and a backslash.
    - `formulas`: with quote, csv and tsv cells that a spreadsheet would run as a formula are written after a quote.
    """

    format: str = ""
    delimiter: str = ""
    header: str = "auto"
    columns: str = ""
    literals: str = "keep"
    patterns: int = 3
    prefixes: Prefixes = field(default_factory=Prefixes)
    escapes: str = "no"
    formulas: str = "keep"

    def __post_init__(self) -> None:
        for name, choices in CHOICES.items():
            one_of(name, getattr(self, name), choices)
        if self.delimiter and (len(self.delimiter) != 1 or self.delimiter in '\n\r"' or not self.delimiter.isascii()):
            raise UsageError(f"delimiter={self.delimiter!r}; expected one character, or \\t")
        if self.patterns < 1:
            raise UsageError(f"patterns={self.patterns}; expected 1 or more")

    def parse(self, assignments: Sequence[str]) -> Options:
        """The same options with the changes of texts such as `delimiter=;` and `prefix=ex=http://example.org/`."""
        values: dict[str, Any] = {}
        prefixes = Prefixes(self.prefixes)
        for assignment in assignments:
            name, equals, value = assignment.partition("=")
            if not equals or name not in NAMES:
                raise UsageError(
                    f"no option {name!r} for files.{did_you_mean(name, NAMES)}",
                    f"expected NAME=VALUE, NAME one of {', '.join(NAMES)}",
                )
            if name == "prefix":
                prefix, namespace = _prefix(value)
                prefixes[prefix] = namespace
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
            "for example prefix=ex=http://example.org/",
            remedy="prefix",
        )
    return name, iri
