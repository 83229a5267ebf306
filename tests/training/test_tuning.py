import tomllib

import numpy as np
import pytest

from doxa.config import read_toml
from doxa.data.beliefs import Beliefs
from doxa.errors import UsageError
from doxa.systems import SYSTEMS, recipe
from doxa.training.tuning import BEST, space, tune
from tests.worlds import board

GIVEN = {"dimension": 8, "epochs": 3, "batch_size": 16, "num_candidates": 128, "patience": 0, "threads": 1}


def world():
    table = board(5).drop("mention")
    order = np.random.default_rng(0).permutation(len(table)).tolist()
    return Beliefs.from_frame(table[order[8:]]), Beliefs.from_frame(table[order[:8]])


@pytest.mark.parametrize("system", SYSTEMS)
def test_every_draw_of_a_space_makes_settings(system):
    """The ends of every range and every choice are settings the system accepts."""
    base = {"system": system}
    for name, knob in space(recipe(base), words=True).items():
        for value in knob.of if hasattr(knob, "of") else (knob.low, knob.high):
            recipe(base | {name: value})


def test_words_are_weighed_where_there_are_any():
    assert "mention_weight" in space(recipe({}), words=True)
    assert "mention_weight" in space(recipe({"system": "jrme"}), words=True)
    assert "mention_weight" not in space(recipe({}), words=False)
    assert "mention_weight" not in space(recipe({"mentions": False}), words=True)
    assert "mention_weight" not in space(recipe({"system": "transe"}), words=True)


def test_the_best_trial_is_kept_as_settings(tmp_path):
    train, valid = world()
    seen = []
    found = tune(train, valid, tmp_path, given=GIVEN, seconds=60, trials=6, report=lambda *now: seen.append(now))
    qualities = [one.quality for one in found.trials if one.state == "finished"]
    assert found.quality == max(qualities)
    assert len(found.trials) == 6
    assert len({one.values["learning_rate"] for one in found.trials}) == 4
    own = recipe(GIVEN)
    first, *others = (one.values for one in found.trials[:3])
    own_values = {"learning_rate": own.learning_rate, "relation_weight": 1.0, "scale": 4.0, "entity_norm": "free"}
    assert first == own_values | {"max_answers": 0}
    assert others == [first | {"max_answers": 16}, first | {"entity_norm": "unit"}]
    assert read_toml(tmp_path / BEST) == found.best
    assert found.best.items() >= GIVEN.items()
    assert recipe(found.best).scale == found.best["scale"]
    assert any(progress is None for _, _, progress in seen)


def test_a_search_goes_on_where_it_was(tmp_path):
    train, valid = world()
    first = tune(train, valid, tmp_path, given=GIVEN, seconds=60, trials=2)
    more = tune(train, valid, tmp_path, given=GIVEN, seconds=60, trials=1)
    assert [one.values for one in more.trials[:2]] == [one.values for one in first.trials]
    assert len(more.trials) == 3
    with pytest.raises(UsageError, match="other settings"):
        tune(train, valid, tmp_path, given=GIVEN | {"dimension": 4}, seconds=60, trials=1)
    with pytest.raises(UsageError, match="other beliefs"):
        tune(valid, None, tmp_path, given=GIVEN, seconds=60, trials=1)


def test_what_was_given_is_not_turned(tmp_path):
    train, valid = world()
    held = GIVEN | {"learning_rate": 0.2, "scale": 3.0, "relation_weight": 1.0, "max_answers": 0}
    found = tune(train, valid, tmp_path, given=held, seconds=60, trials=1)
    assert set(found.trials[0].values) == {"entity_norm"}
    assert "candidates" in space(recipe({}), words=False)
    assert "candidates" not in space(recipe({"estimator": "exact"}), words=False)
    with pytest.raises(UsageError, match="nothing to search"):
        tune(train, valid, tmp_path / "n", given=held | {"entity_norm": "free"}, seconds=60)


def test_a_trial_that_falls_behind_is_given_up(tmp_path):
    train, valid = world()
    given = GIVEN | {"epochs": 10, "score": "complex", "dimension": 16}
    found = tune(train, valid, tmp_path, given=given, seconds=120, trials=14)
    assert any(one.state == "given up" for one in found.trials)
    best = tomllib.loads((tmp_path / BEST).read_text())["settings"]
    assert best["score"] == "complex"
