"""The deadline of a command, and the part of it that is kept for judging and saving."""

import math
from types import SimpleNamespace

import numpy as np
import pytest

from doxa.calibration import cost
from doxa.calibration.judge import FEWEST_JUDGED, Judge, sample_size
from doxa.data.beliefs import Beliefs
from doxa.data.splits import split
from doxa.data.triples import TripleIndex
from doxa.model import fit
from doxa.systems import build
from doxa.training import deadline as deadlines
from doxa.training import reserve as reserves
from doxa.training.deadline import Deadline
from doxa.training.fit import fit_to_folder, train
from doxa.training.reserve import JUDGING_SHARE, LEAST_EFFORT, Reserve
from tests.training.test_loop import SMALL, loop_of, set_clock
from tests.worlds import board

SETTINGS = SMALL.changed(epochs=2, threads=1)


@pytest.fixture
def parts():
    return split(Beliefs.from_frame(board(8)), (0.2,), seed=0)


def at(monkeypatch, moment):
    monkeypatch.setattr(deadlines, "time", SimpleNamespace(monotonic=lambda: moment))


def test_a_deadline_counts_from_where_the_command_began(monkeypatch):
    at(monkeypatch, 103.0)
    deadline = Deadline(10.0, began=100.0)
    assert (deadline.limited, deadline.end, deadline.left()) == (True, 110.0, 7.0)
    deadline.spend(2.0)
    assert (deadline.end, deadline.left()) == (108.0, 5.0)
    assert Deadline(10.0).end == 113.0


def test_without_seconds_there_is_no_end():
    deadline = Deadline()
    assert not deadline.limited
    assert deadline.left() == deadline.end == math.inf


@pytest.mark.parametrize("resumed", [0.0, 4.0])
def test_training_ends_early_enough_for_what_follows(monkeypatch, resumed):
    """A step takes a second and a validation two; of 20 seconds, three went by and five are kept."""
    clock = SimpleNamespace(now=103.0)
    set_clock(monkeypatch, SimpleNamespace(monotonic=lambda: clock.now))
    settings = SMALL.changed(batch_size=8, time_budget=20.0)
    loop = loop_of(settings, deadline=Deadline(20.0, began=100.0), reserve=lambda: 5.0)
    loop.state.seconds = resumed
    take = loop.steps.take

    def timed(step, fallen):
        clock.now += 1
        return take(step, fallen)

    def validate():
        clock.now += 2
        return 0.5

    loop.steps.take, loop.validate = timed, validate
    state = loop.run()
    assert state.finished
    assert 113 <= clock.now + resumed <= 115


def reserve_of(parts, seconds, monkeypatch, per_query):
    monkeypatch.setattr(reserves, "seconds_per_query", lambda *_: per_query)
    beliefs, valid = parts
    pbe = build(beliefs, SETTINGS)
    facts = TripleIndex(beliefs.triples, pbe.entities, pbe.relations)
    return Reserve(pbe, facts, valid, Deadline(seconds), held_out=True, can_classify=True)


def test_the_reserve_is_the_time_of_the_queries_up_to_a_quarter_of_the_budget(parts, monkeypatch):
    dear = reserve_of(parts, 1000.0, monkeypatch, 1e3)
    assert dear() == pytest.approx(dear.saving + JUDGING_SHARE * 1000.0)
    assert dear.effort() == LEAST_EFFORT
    cheap = reserve_of(parts, 1000.0, monkeypatch, 1e-4)
    assert cheap() == pytest.approx(cheap.saving + cheap.queries * 1e-4)
    assert cheap.effort() == 1
    at(monkeypatch, cheap.deadline.end - cheap.saving - cheap.queries * 1e-4 / 2)
    assert cheap.effort() == pytest.approx(0.5)


def test_no_time_left_is_the_least_effort(parts, monkeypatch):
    reserve = reserve_of(parts, 1.0, monkeypatch, 1.0)
    at(monkeypatch, reserve.deadline.end + 10)
    assert reserve.effort() == LEAST_EFFORT


def test_the_queries_of_a_judge_are_counted(parts):
    """Each distinct query of the beliefs, and one more for each negative."""
    beliefs, valid = parts
    pbe = build(beliefs, SETTINGS.changed(mentions=False))
    facts = TripleIndex(beliefs.triples, pbe.entities, pbe.relations)
    count = cost.judging_queries(pbe, facts, valid, held_out=False)
    pairs = [len(np.unique(valid.triples[:, columns], axis=0)) for columns in ((0, 1), (1, 2))]
    assert count == pytest.approx(sum(pairs) + len(valid) + 2 * cost.LABEL * len(valid))
    assert cost.judging_queries(pbe, facts, valid, held_out=False, can_classify=False) == 0
    assert cost.judging_queries(pbe, facts, valid) > count
    assert cost.seconds_per_query(pbe, valid) > 0


def test_less_effort_means_smaller_samples():
    assert sample_size(100, 30_000) == 30_000
    assert sample_size(10**6, 30_000) == 20_000
    assert sample_size(10**6, 30_000, 0.5) == 10_000
    assert sample_size(10**6, 30_000, 0.0) == FEWEST_JUDGED
    assert sample_size(100, 300, 0.0) == 300


def test_less_effort_leaves_proposals_to_completion(parts):
    result = train(*parts, settings=SETTINGS)
    for effort, fitted in ((1.0, True), (0.9, False)):
        stages = []
        Judge.fit(result.pbe, result.settings, result.facts, result.valid, effort=effort,
                  report=lambda stage, done, stages=stages: stages.append(stage))  # fmt: skip
        assert ("proposals" in stages) == fitted
        assert "calibration" in stages


def test_progress_names_every_stage(parts, tmp_path):
    reports = []
    fit_to_folder(*parts, tmp_path / "m", settings=SETTINGS, report=reports.append)
    stages = list(dict.fromkeys(report.stage for report in reports))
    assert stages == ["training", "thresholds", "calibration", "proposals", "saving"]
    for stage in stages:
        fractions = [report.fraction for report in reports if report.stage == stage]
        assert fractions == sorted(fractions)
        assert 0 <= min(fractions) <= max(fractions) <= 1


def test_settings_are_announced_before_training(parts):
    calls = []
    train(*parts, settings=SETTINGS.changed(epochs=0, time_budget=0.01), announce=calls.append, report=calls.append)
    assert calls[0].epochs == 200
    assert len(calls) > 1


def test_a_time_budget_reaches_the_judge(parts, monkeypatch):
    efforts = []
    monkeypatch.setattr(Reserve, "effort", lambda self: efforts.append(self.deadline.seconds) or 0.5)
    fit(*parts, settings=SETTINGS, time_budget=0.5)
    fit(*parts, settings=SETTINGS)
    assert efforts == [0.5]
