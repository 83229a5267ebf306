"""Errors a user can act on: what was found, where, what was expected, what to do next."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence


class DoxaError(Exception):
    """A fault in what doxa was given. The command line prints it without a traceback."""

    exit_code = 1

    def __init__(self, message: str, *hints: str) -> None:
        super().__init__("\n  ".join((message, *hints)))


class UsageError(DoxaError):
    """The question itself was put wrongly (exit code 2)."""

    exit_code = 2


def did_you_mean(wrong: str, names: Iterable[str]) -> str:
    """A closing question that offers the nearest name and those about as near, or nothing when none is near."""
    close = difflib.get_close_matches(wrong, list(names), n=3, cutoff=0.6)
    likeness = [difflib.SequenceMatcher(None, wrong, name).ratio() for name in close]
    best = [repr(name) for name, ratio in zip(close, likeness, strict=True) if ratio >= likeness[0] - 0.05]
    return f" Did you mean {' or '.join(best)}?" if best else ""


def one_of(what: str, value: str, choices: Sequence[str]) -> None:
    """Refuse a value that is not among the choices."""
    if value not in choices:
        raise UsageError(f"{what} {value!r}; expected {' or '.join(choices)}")
