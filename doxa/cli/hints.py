"""Errors on the command line: which option to type, and the exit code.

The library raises a `DoxaError` whose `remedy` names the way out. Here it becomes the option that provides it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from doxa.errors import DoxaError, UsageError, resource_text
from doxa.render.plain import visible

FAILURE, WRONG_USAGE, INTERRUPTED, TERMINATED = 1, 2, 130, 143
"""Exit codes: a fault in the data or a model, a wrong command, Ctrl-C, SIGTERM."""

REMEDIES = {
    "skip_errors": "to skip such lines and count them, pass --on-error skip",
    "not_strict": "leave --strict out to count such beliefs and go on",
    "force": "pass --force to replace it",
    "resume": "repeat `doxa train` with --resume to continue it, or with --force to start again",
    "resume_failed": "what is trained so far is kept: repeat the command with --resume to continue",
    "train": "to make one: doxa train DATA --out MODEL",
    "lower_rate": "for example: --set learning_rate=0.01",
    "new_search": "repeat `doxa complete` without --resume to start a new search",
    "columns": "name yours, for example: --read columns=head=subject_id,relation=property,tail=object_id",
    "prefix": "declare the prefix, for example: --read prefix=ex=http://example.org/",
    "out": "choose another place with --out",
    "url": "if the archive is elsewhere, pass --from URL",
    "question": "for example: doxa ask MODEL Lyon 'located in' '?'",
    "keep_known": "to compare on known facts all the same, pass --keep-known",
    "index": "build one: doxa index MODEL",
    "exact": "or answer without the index: --exact",
    "list_settings": "`doxa settings` lists them all",
    "list_systems": "`doxa systems` lists all systems and scores, and what each can answer",
    "list_experiments": "`doxa reproduce list` lists them all",
}
"""What to type, by the remedy of an error."""

PYTHON = re.compile(r"\b[a-z_]+=(True|False|None|[\"'])|\b(doxa|model)(\.[a-z_]+)+\(|\('")
"""Python in a hint, such as force=True, doxa.config.describe() or a tuple: the remedy says the same in words of the
command line."""


def error_text(fault: DoxaError) -> str:
    """The lines to print for an error: what is wrong, the library's hints, the option to type."""
    option = REMEDIES.get(fault.remedy, "")
    if not option:
        return visible(str(fault))
    hints = [hint for hint in fault.hints if hint != option and not PYTHON.search(hint)]
    return visible("\n  ".join((fault.message, *hints, option)))


@contextmanager
def faults_of_data() -> Iterator[None]:
    """Count a `UsageError` in this block as a fault of data or files: the command itself was right."""
    try:
        yield
    except UsageError as fault:
        raise DoxaError(fault.message, *fault.hints, remedy=fault.remedy) from fault


def system_text(fault: BaseException) -> str:
    """The lines to print for an error of the system, such as a full disk; empty for any other."""
    if isinstance(fault, UnicodeEncodeError):
        symbol = fault.object[fault.start : fault.start + 1]
        message = f"the encoding {fault.encoding} of the terminal or file cannot show {symbol!a}"
        return f"{message}\n  set PYTHONUTF8=1, or a UTF-8 locale such as LC_ALL=C.UTF-8"
    return resource_text(fault)


def unexpected_text(fault: BaseException) -> str:
    """The lines to print for an error that doxa did not foresee."""
    message = f"unexpected {type(fault).__name__}: {visible(str(fault))}"
    return f"{message}\n  this is a fault in doxa; `doxa --debug …` shows where"


def exit_code(fault: Exception) -> int:
    """2 for wrong usage, 1 for everything else."""
    return WRONG_USAGE if isinstance(fault, UsageError) else FAILURE
