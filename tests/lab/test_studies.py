"""Studies: one per system and dataset, on validation beliefs alone; they write trials and the experiment's settings."""

import json
from dataclasses import replace

import numpy as np
import pytest

from doxa import formats
from doxa.errors import UsageError
from doxa.lab import experiments, studies
from doxa.lab.selection import COMPARED, LABELED
from doxa.systems import recipe
from doxa.training import VERSION
from tests.worlds import board


@pytest.fixture
def data(tmp_path):
    """A dataset whose test file would be an error to read."""
    table = board(5)
    order = np.random.default_rng(0).permutation(len(table)).tolist()
    for name, rows in (("train", order[8:]), ("valid", order[:8])):
        formats.write(table[rows], tmp_path / "webnlg" / f"{name}.tsv")
    (tmp_path / "webnlg" / "test.tsv").write_text("one field\n")
    return tmp_path


def test_a_study_writes_its_trials_and_the_settings_of_its_experiments(data, monkeypatch):
    whole = studies.named("webnlg-pbe")
    study = replace(whole, plan=replace(whole.plan, trial_epochs=1, epochs=3))
    target = data / "experiments"
    target.mkdir()
    tuning = studies.perform(study, data, data / "out", seconds=2.0, experiments=target)
    stored = json.loads((data / "out" / "webnlg-pbe.json").read_text())
    assert stored["doxa"]["training"] == VERSION
    assert (stored["budget_processor_seconds"], stored["best"]) == (2.0, tuning.best)
    assert len(stored["trials"]) == len(tuning.trials) >= 1
    assert {"graph_smoothing", "learning_rate", "scale"} <= set(stored["trials"][0]["values"])
    written = experiments.every(target)
    assert set(written) == {"webnlg-pbe", *(name for name in studies.DERIVED if name.startswith("webnlg"))}
    made = written["webnlg-pbe"]
    assert made["settings"] == tuning.best | {"epochs": 3}
    assert (made["seeds"], made["tasks"]) == ([0, 1, 2], ["entity", "relation", "classification"])
    assert written["webnlg-pbe-without-head"]["settings"] == made["settings"] | {"head_weight": 0.0}
    assert not any(name.startswith("mention_") for name in written["webnlg-pbe-without-mentions"]["settings"])
    monkeypatch.setattr(studies, "PLANS", (study.plan,))
    of_study = [name for name, one in written.items() if studies.chosen(name, one["settings"], data / "out")]
    assert set(of_study) == set(written)
    assert not studies.chosen("webnlg-pbe", made["settings"] | {"epochs": 4}, data / "out")
    assert not studies.chosen("webnlg-pbe", made["settings"], data / "experiments")
    assert not studies.chosen("nell-confidence-label", {}, data / "out")
    more = studies.perform(study, data, data / "out", seconds=2.0, experiments=target)
    assert [trial.values for trial in more.trials[: len(tuning.trials)]] == [trial.values for trial in tuning.trials]


def test_every_system_of_a_dataset_has_the_same_time_and_epochs():
    known = studies.every()
    assert {name for names in COMPARED.values() for name in names.values()} <= set(known)
    assert {f"wn11-{system}" for system in LABELED} <= set(known)
    assert set(known) <= set(experiments.every())
    for study in known.values():
        recipe(study.fixed | {"graph_smoothing": 0})
        assert study.fixed["epochs"] == study.plan.trial_epochs
        assert ("graph_smoothing" in study.more) == (study.system != "pbe-paper")
    assert known["wn11-jrme-published"].tasks == ("relation",)
    assert known["wn11-pbe"].tasks == ("classification", "calibration")
    with pytest.raises(UsageError, match="Did you mean 'fb15k-pbe'"):
        studies.named("fb15k-pb")
