"""Threads that share the work of a step. Products, compiled loops and torch operations run at the same time."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from queue import SimpleQueue
from typing import Any, TypeVar

import torch
from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]

Result = TypeVar("Result")


@contextmanager
def torch_threads(count: int) -> Iterator[None]:
    """Let torch and the matrix products of compiled loops use this many threads meanwhile."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        with _blas().limit(limits=count):
            yield
    finally:
        torch.set_num_threads(before)


@cache
def _blas() -> ThreadpoolController:
    """The library that multiplies matrices in compiled loops, which is SciPy's."""
    import_module("scipy.linalg.cython_blas")  # loads it
    controller: ThreadpoolController = ThreadpoolController().select(user_api="blas")
    return controller


class Threads:
    """Runs tasks in `count` threads, the calling one among them. Each thread lets torch use no further ones."""

    def __init__(self, count: int = 1) -> None:
        self.count = count
        self._jobs: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._helpers = [threading.Thread(target=self._help, daemon=True) for _ in range(count - 1)]
        for helper in self._helpers:
            helper.start()

    def run(self, tasks: Sequence[Callable[[], Result]]) -> list[Result]:
        """The results of the tasks, in their order; the first error of a task is raised when all have ended."""
        helpers = min(len(self._helpers), len(tasks) - 1)
        results: list[Any] = [None] * len(tasks)
        if helpers < 1:
            for number, task in enumerate(tasks):
                results[number] = task()
            return results
        numbers, faults = itertools.count(), []
        ended: SimpleQueue[None] = SimpleQueue()

        def work() -> None:
            while (number := next(numbers)) < len(tasks):
                try:
                    results[number] = tasks[number]()
                except BaseException as fault:
                    faults.append((number, fault))

        def help_out() -> None:
            work()
            ended.put(None)

        for _ in range(helpers):
            self._jobs.put(help_out)
        work()
        for _ in range(helpers):
            ended.get()
        if faults:
            raise min(faults, key=lambda fault: fault[0])[1]
        return results

    def close(self) -> None:
        """End the threads; no task runs after that."""
        for _ in self._helpers:
            self._jobs.put(None)
        for helper in self._helpers:
            helper.join()
        self._helpers = []

    def _help(self) -> None:
        torch.set_num_threads(1)
        while (job := self._jobs.get()) is not None:
            job()


ALONE = Threads()
"""The calling thread alone."""
