"""Errors a user can act on: what was found, where, what was expected and what to do next.

Messages name Python arguments or plain facts, never command-line options. `remedy` names the way out, so that each
surface can say it in its own words: the command line prints the option to type.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Sequence


class DoxaError(Exception):
    """A fault in what doxa received. The command line prints it without a traceback."""

    def __init__(self, message: str, *hints: str, remedy: str = "") -> None:
        super().__init__(message, *hints)
        self.message, self.hints, self.remedy = message, hints, remedy

    def rename(self, temporary: str, final: str) -> None:
        """Name a file by its final path where the message has the path of a temporary copy."""
        self.message = self.message.replace(temporary, final)
        self.hints = tuple(hint.replace(temporary, final) for hint in self.hints)

    def __str__(self) -> str:
        return "\n  ".join((self.message, *self.hints))


class UsageError(DoxaError, ValueError):
    """An argument, option or setting that makes no sense."""


class UnknownName(DoxaError, KeyError):
    """A name that a model or file does not hold."""


class BadFile(DoxaError):
    """A file of beliefs that cannot be read or written."""


class BadModel(DoxaError):
    """A model folder that is missing, damaged, unfinished or foreign."""


class BadStore(DoxaError):
    """A knowledge base that is missing, foreign, locked, read-only or out of reach."""


class CannotAnswer(DoxaError):
    """A question that this model's system does not answer."""


def resource_text(fault: BaseException) -> str:
    """What a machine ran out of, in words, for errors of the system, torch and polars; empty for any other error."""
    if isinstance(fault, MemoryError) or (isinstance(fault, RuntimeError) and "allocate memory" in str(fault)):
        return "memory ran out"
    if isinstance(fault, RuntimeError) and "No space left on device" in str(fault):
        return "no space left on device: the shared memory of the system (/dev/shm) or the disk is full"
    if isinstance(fault, OSError):
        reason = (fault.strerror or str(fault)).lower()
        return f"{reason}: {fault.filename}" if fault.filename else f"cannot read or write: {reason}"
    refused = re.search(r"IO error: (.+?) \(os error \d+\)", str(fault))  # of the system, in a message of polars
    return f"cannot read or write: {refused[1].lower()}" if refused else ""


def did_you_mean(wrong: str, names: Iterable[str]) -> str:
    """A closing question that offers the nearest names, or nothing when none is near."""
    close = difflib.get_close_matches(wrong, list(names), n=3, cutoff=0.6)
    similarity = [difflib.SequenceMatcher(None, wrong, name).ratio() for name in close]
    best = [repr(name) for name, ratio in zip(close, similarity, strict=True) if ratio >= similarity[0] - 0.05]
    return f" Did you mean {' or '.join(best)}?" if best else ""


def one_of(what: str, value: str, choices: Sequence[str]) -> None:
    """Refuse a value that is not among the choices."""
    if value not in choices:
        raise UsageError(f"{what} {value!r}; expected {' or '.join(choices)}")
