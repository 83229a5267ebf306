"""The journal of a search: torn lines, cut trials, one writer."""

import errno
import json

import pytest

from doxa.data.atomic import Busy
from doxa.data.beliefs import Beliefs
from doxa.errors import BadFile
from doxa.training import tuning
from doxa.training.fit import TrainingResult
from doxa.training.study import enqueue, opened
from doxa.training.tuning import tune
from tests.worlds import board


@pytest.fixture
def journal(tmp_path):
    """A study with one finished trial."""
    with opened(tmp_path / "study.log", 0) as study:
        enqueue(study, [{"x": 0.5}])
        study.optimize(lambda trial: trial.suggest_float("x", 0, 1), n_trials=1)
    return tmp_path / "study.log"


@pytest.mark.parametrize("torn", [b'{"op_code": 4, "wor', b'{"op_code": 4, "wor\n', b"\n"])
def test_a_torn_last_line_is_removed(journal, torn):
    whole = journal.read_bytes()
    journal.write_bytes(whole + torn)
    with opened(journal, 0) as study:
        assert [trial.value for trial in study.trials] == [0.5]
    assert journal.read_bytes().startswith(whole)
    assert journal.read_bytes().endswith(b"}\n")


def test_a_trial_that_a_kill_left_running_is_queued_again_once(journal):
    with opened(journal, 0) as study:
        study.enqueue_trial({"x": 0.25})
        study.ask().suggest_float("x", 0, 1)
    for _ in range(2):
        with opened(journal, 0) as study:
            assert [trial.state.name for trial in study.trials] == ["COMPLETE", "FAIL", "WAITING"]
    with opened(journal, 0) as study:
        assert study.ask().suggest_float("x", 0, 1) == 0.25


def test_a_lock_of_an_earlier_version_goes(journal):
    (journal.parent / "study.log.lock").symlink_to(journal)
    with opened(journal, 0):
        pass
    assert [path.name for path in journal.parent.iterdir()] == ["study.log"]


def test_two_searches_in_one_folder(journal):
    with opened(journal, 0), pytest.raises(Busy), opened(journal, 0):
        pass


def test_a_file_that_is_no_journal(tmp_path):
    (tmp_path / "study.log").write_text("a\nb\n")
    with pytest.raises(BadFile, match="not the journal of a search"), opened(tmp_path / "study.log", 0):
        pass


def test_ctrl_c_does_not_record_the_trial_under_way_as_finished(tmp_path, monkeypatch):
    real, count = tuning.train_model, []

    def train(*arguments, **options):
        result = real(*arguments, **options)
        count.append(1)
        return TrainingResult(**(vars(result) | {"interrupted": len(count) == 2}))

    monkeypatch.setattr(tuning, "train_model", train)
    beliefs = Beliefs.from_frame(board(4, words=False))
    values = {"score": "translation", "dimension": 4, "epochs": 1, "threads": 1, "batch_size": 16}
    study = tune(beliefs, folder=tmp_path, trials=4, **values)
    assert study.interrupted
    assert [trial.state for trial in study.trials] == ["finished", "failed"]
    again = tune(beliefs, folder=tmp_path, trials=1, **values)
    assert not again.interrupted
    assert [trial.state for trial in again.trials if trial.state != "failed"] == ["finished"] * 2


def fail_a_write(monkeypatch, journal, failing, torn):
    """Let one write of the journal fail as on a full disk, after so many bytes; the list of all writes."""
    from optuna.storages.journal import JournalFileBackend

    plain, seen = JournalFileBackend.append_logs, []

    def append(backend, logs):
        seen.append(logs)
        if len(seen) == failing:
            with journal.open("ab") as file:
                file.write(json.dumps(logs[0]).encode()[:torn])
            raise OSError(errno.ENOSPC, "No space left on device")
        plain(backend, logs)

    monkeypatch.setattr(JournalFileBackend, "append_logs", append)
    return seen


@pytest.mark.parametrize("failing", range(1, 7))
@pytest.mark.parametrize("torn", [0, 9])
def test_a_failed_write_of_the_journal_is_named_and_its_last(journal, monkeypatch, failing, torn):
    """Whichever write it is: Optuna raises errors of its own while it handles some of them, and would append more."""
    seen = fail_a_write(monkeypatch, journal, failing, torn)

    def search():
        with opened(journal, 0) as study:
            study.optimize(lambda trial: trial.suggest_float("x", 0, 1), n_trials=3)
            return [trial.state.name for trial in study.trials].count("COMPLETE")

    with pytest.raises(BadFile, match="No space left on device"):
        search()
    assert len(seen) == failing
    assert search() >= 3


def test_a_fault_of_a_trial_is_not_a_failed_write(journal):
    with pytest.raises(ZeroDivisionError), opened(journal, 0) as study:
        study.optimize(lambda trial: 1 / 0, n_trials=1)
