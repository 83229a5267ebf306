"""Signals: SIGTERM ends a command as Ctrl-C does, with an exit code of its own."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from doxa.cli.hints import INTERRUPTED, TERMINATED


@contextmanager
def as_interrupts() -> Iterator[list[int]]:
    """Let SIGTERM act as Ctrl-C meanwhile: nothing half-written stays, and training keeps what it has.

    Yields the signals received so far, apart from Ctrl-C.
    """
    received: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        received.append(number)
        if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:  # as in the background of a script
            raise KeyboardInterrupt
        signal.raise_signal(signal.SIGINT)

    if threading.current_thread() is not threading.main_thread():
        yield received
        return
    before = signal.signal(signal.SIGTERM, note)
    try:
        yield received
    finally:
        signal.signal(signal.SIGTERM, before)


def is_interrupt(fault: BaseException | None) -> bool:
    """Whether an error comes from Ctrl-C.

    Ctrl-C that reaches a compiled loop while it returns becomes a SystemError, whose cause is the interrupt.
    """
    return fault is not None and (isinstance(fault, KeyboardInterrupt) or is_interrupt(fault.__cause__))


def exit_code(received: list[int], code: Any) -> Any:
    """The exit code of a command: that of SIGTERM in place of that of Ctrl-C, if it was SIGTERM."""
    return TERMINATED if received and code == INTERRUPTED else code
