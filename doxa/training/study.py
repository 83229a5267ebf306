"""The journal of a search: a file of lines, of which a killed process or a full disk may tear the last one."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from doxa.data.atomic import locked, sweep
from doxa.errors import BadFile, DoxaError

if TYPE_CHECKING:
    from optuna import Study
    from optuna.storages.journal import JournalFileBackend

LEAST_TRIALS = 4
"""Finished trials before any trial is pruned."""


CUT = "interrupted"
"""Attribute of a trial that Ctrl-C cut short."""


class Interrupted(Exception):
    """Ctrl-C cut a trial short: it is neither finished nor pruned."""


@contextmanager
def opened(path: Path, seed: int) -> Iterator[Study]:
    """The study of a journal, new or as it was left; no other process may write to its folder meanwhile.

    A torn last line is removed. A trial that was cut short is marked as failed and queued again.
    """
    journal = _Journal(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with locked(path.parent):
            sweep(path.parent)
            _mend(path)
            study = _study(journal, seed)
            _requeue(study)
            yield study
    except DoxaError:
        raise
    except Exception as fault:
        failed = fault if isinstance(fault, OSError) else journal.failed
        if failed is None:
            raise
        kept = "the finished trials are kept; repeat the command to go on"
        raise BadFile(f"cannot write {failed.filename or path}: {failed.strerror or failed}", kept) from fault


def enqueue(study: Study, trials: Iterable[dict[str, Any]]) -> None:
    """Queue trials with these values, unless the study has them already."""
    queued = [trial.system_attrs.get("fixed_params") for trial in study.trials]
    for values in trials:
        if values not in queued:
            study.enqueue_trial(values)


def was_interrupted(study: Study) -> bool:
    """Whether Ctrl-C cut the last trial short."""
    last = [trial for trial in study.trials if trial.state.name != "WAITING"][-1:]
    return bool(last) and CUT in last[0].user_attrs


def _study(journal: _Journal, seed: int) -> Study:
    import optuna

    try:
        return optuna.create_study(
            storage=optuna.storages.JournalStorage(journal),  # type: ignore[arg-type]
            study_name="doxa",
            load_if_exists=True,
            direction="maximize",
            sampler=optuna.samplers.TPESampler(seed=seed, n_startup_trials=LEAST_TRIALS),
            pruner=optuna.pruners.MedianPruner(n_startup_trials=LEAST_TRIALS, n_warmup_steps=2),
        )
    except (ValueError, LookupError, TypeError) as fault:
        raise BadFile(f"{journal.path} is not the journal of a search ({fault})", "choose another folder") from fault


class _Journal:
    """Optuna's file, which takes no more lines after a write that failed: it may have torn a line.

    Optuna goes on after such an error, and raises others while it handles it; `failed` is the first.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.failed: OSError | None = None

    @cached_property
    def _file(self) -> JournalFileBackend:
        from optuna.storages.journal import JournalFileBackend

        return JournalFileBackend(str(self.path), lock_obj=_NoLock())  # type: ignore[arg-type]

    def read_logs(self, log_number_from: int) -> Iterable[dict[str, Any]]:
        return self._file.read_logs(log_number_from)

    def append_logs(self, logs: list[dict[str, Any]]) -> None:
        if self.failed is not None:
            raise self.failed
        try:
            self._file.append_logs(logs)
        except OSError as fault:
            self.failed = fault
            raise


class _NoLock:
    """The folder is locked as a whole; a lock of the journal's own would outlive a killed process."""

    def acquire(self) -> bool:
        return True

    def release(self) -> None:
        pass


def _mend(path: Path) -> None:
    """Remove what follows the last whole line, and a lock that a killed process of an earlier version left."""
    for lock in path.parent.glob(f"{path.name}.lock*"):
        lock.unlink(missing_ok=True)
    if not path.is_file():
        return
    content = path.read_bytes()
    whole = content.rfind(b"\n") + 1
    last = content.rfind(b"\n", 0, max(whole - 1, 0)) + 1
    if not _is_json(content[last:whole]):
        whole = last
    if whole < len(content):
        with path.open("r+b") as journal:
            journal.truncate(whole)


def _is_json(line: bytes) -> bool:
    try:
        json.loads(line)
    except ValueError:
        return False
    return True


def _requeue(study: Study) -> None:
    """Mark trials that a killed process left running as failed; queue the values of trials that were cut again."""
    from optuna.trial import TrialState

    cut = [trial for trial in study.trials if trial.user_attrs.get(CUT) or trial.state is TrialState.RUNNING]
    for trial in cut:
        if trial.state is TrialState.RUNNING:
            study.tell(trial.number, state=TrialState.FAIL)
    others = [trial for trial in study.trials if trial.state is not TrialState.FAIL]
    present = [trial.params or trial.system_attrs.get("fixed_params") for trial in others]
    for trial in cut:
        if trial.params and trial.params not in present:
            study.enqueue_trial(trial.params)
            present.append(trial.params)
