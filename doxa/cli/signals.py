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
def as_interrupts(received: list[int]) -> Iterator[None]:
    """Let SIGTERM act as Ctrl-C meanwhile: nothing half-written stays, and training keeps what it has.

    Adds the signals to `received`, apart from a Ctrl-C that a part of the command takes for itself.
    """

    def note(number: int, frame: FrameType | None) -> None:
        received.append(number)
        ignored = signal.getsignal(signal.SIGINT) == signal.SIG_IGN  # as in the background of a script
        if number == signal.SIGINT or ignored:
            raise KeyboardInterrupt
        signal.raise_signal(signal.SIGINT)

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {signal.SIGTERM: signal.signal(signal.SIGTERM, note)}
    if signal.getsignal(signal.SIGINT) in (signal.default_int_handler, signal.SIG_DFL):
        before[signal.SIGINT] = signal.signal(signal.SIGINT, note)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def exit_code(received: list[int], code: Any) -> Any:
    """The exit code of a command: that of SIGTERM in place of that of Ctrl-C, if it was SIGTERM."""
    return TERMINATED if signal.SIGTERM in received and code == INTERRUPTED else code
