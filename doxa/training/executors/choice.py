"""Choice of the executor: one process, or several workers where the settings ask for them."""

from __future__ import annotations

from doxa.training.executors import Executor
from doxa.training.executors.single import SingleProcess
from doxa.training.executors.workers import Workers
from doxa.training.steps import Steps


def default_executor(steps: Steps) -> Executor:
    """The executor that the settings of the steps ask for."""
    workers, threads = steps.settings.workers, steps.settings.threads
    return SingleProcess(steps, max(1, threads)) if workers == 1 else Workers(steps, workers)
