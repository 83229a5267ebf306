"""Search for settings: the space of every system, the kept best, resumed and refused searches."""

import itertools
import tomllib

import numpy as np
import pytest

from doxa.config import read_toml
from doxa.data.beliefs import Beliefs
from doxa.errors import UsageError
from doxa.systems import SYSTEMS, recipe
from doxa.training.tuning import BEST, search_space, seconds_spent, tune
from tests.worlds import board

FIXED = {"score": "translation", "dimension": 8, "epochs": 3, "batch_size": 16, "num_candidates": 128, "patience": 0,
         "threads": 1}  # fmt: skip


def world():
    table = board(5).drop("mention")
    order = np.random.default_rng(0).permutation(len(table)).tolist()
    return Beliefs.from_frame(table[order[8:]]), Beliefs.from_frame(table[order[:8]])


@pytest.mark.parametrize("system", SYSTEMS)
def test_every_draw_of_a_space_makes_settings(system):
    """The system accepts the ends of every range and every choice."""
    base = {"system": system}
    for name, choice in search_space(recipe(base), words=True).items():
        for value in choice.values if hasattr(choice, "values") else (choice.low, choice.high):
            recipe(base | {name: value})


def test_the_mention_weight_is_searched_where_there_are_mentions():
    assert "mention_weight" in search_space(recipe({}), words=True)
    assert "mention_weight" in search_space(recipe({"system": "jrme"}), words=True)
    assert "mention_weight" not in search_space(recipe({}), words=False)
    assert "mention_weight" not in search_space(recipe({"mentions": False}), words=True)
    assert "mention_weight" not in search_space(recipe({"system": "transe"}), words=True)


def test_the_best_trial_is_kept_as_settings(tmp_path):
    train, valid = world()
    seen = []
    tuning = tune(train, valid, tmp_path, **FIXED, seconds=60, trials=6, report=lambda *now: seen.append(now))
    assert tuning.metric == max(trial.metric for trial in tuning.trials if trial.state == "finished")
    assert len(tuning.trials) == 6
    assert len({trial.values["learning_rate"] for trial in tuning.trials}) == 4
    defaults = {"learning_rate": recipe(FIXED).learning_rate, "relation_weight": 1.0, "scale": 4.0}
    first, *others = (trial.values for trial in tuning.trials[:3])
    assert first == defaults | {"entity_norm": "free", "max_answers": 0}
    assert others == [first | {"max_answers": 16}, first | {"entity_norm": "unit"}]
    assert read_toml(tmp_path / BEST) == tuning.best
    assert tuning.best.items() >= FIXED.items()
    assert recipe(tuning.best).scale == tuning.best["scale"]
    assert any(progress is None for _, _, progress in seen)


def test_a_search_ends_by_its_own_clock(tmp_path):
    train, valid = world()
    ticks = itertools.count()
    tuning = tune(train, valid, tmp_path, **FIXED, seconds=5.0, clock=lambda: float(next(ticks)))
    assert [trial.seconds for trial in tuning.trials] == [1.0, 1.0]  # a tick each, and one after each
    assert seconds_spent(tmp_path) == 2.0


def test_a_search_resumes_where_it_stopped(tmp_path):
    train, valid = world()
    first = tune(train, valid, tmp_path, **FIXED, seconds=60, trials=2)
    more = tune(train, valid, tmp_path, **FIXED, seconds=60, trials=1)
    assert [trial.values for trial in more.trials[:2]] == [trial.values for trial in first.trials]
    assert len(more.trials) == 3
    with pytest.raises(UsageError, match="other settings"):
        tune(train, valid, tmp_path, **(FIXED | {"dimension": 4}), seconds=60, trials=1)
    with pytest.raises(UsageError, match="other beliefs"):
        tune(valid, None, tmp_path, **FIXED, seconds=60, trials=1)


def test_fixed_settings_are_not_searched(tmp_path):
    train, valid = world()
    fixed = FIXED | {"learning_rate": 0.2, "scale": 3.0, "relation_weight": 1.0, "max_answers": 0}
    tuning = tune(train, valid, tmp_path, **fixed, seconds=60, trials=1)
    assert set(tuning.trials[0].values) == {"entity_norm"}
    assert "num_candidates" in search_space(recipe({}), words=False)
    assert "num_candidates" not in search_space(recipe({"estimator": "exact"}), words=False)
    with pytest.raises(UsageError, match="nothing to search"):
        tune(train, valid, tmp_path / "n", **(fixed | {"entity_norm": "free"}), seconds=60)


def test_a_trial_that_falls_behind_is_pruned(tmp_path):
    train, valid = world()
    fixed = FIXED | {"epochs": 10, "score": "complex", "dimension": 16}
    tuning = tune(train, valid, tmp_path, **fixed, seconds=120, trials=14)
    assert any(trial.state == "pruned" for trial in tuning.trials)
    best = tomllib.loads((tmp_path / BEST).read_text())["settings"]
    assert best["score"] == "complex"
