"""Settings are declared once: parsed, checked, grouped, migrated, listed; open values are chosen automatically."""

import os

import pytest

from doxa.config import (
    FIELDS,
    GROUPS,
    RENAMED,
    RENAMED_VALUES,
    Settings,
    describe,
    migrate,
    read_toml,
)
from doxa.data.synthetic import generate
from doxa.errors import BadFile, DoxaError, UsageError
from doxa.model import fit
from doxa.systems import checked, from_saved, option_fields, parse_assignments, recipe
from doxa.training import plan
from doxa.training.plan import automatic, cores, planned, summary
from tests.worlds import settings_of

OLD_SETTINGS = {
    "candidates": ("num_candidates", 64),
    "negatives": ("negative_weight", 3),
    "avoid_known": ("filter_negatives", True),
    "holdout": ("validation_fraction", 0.1),
    "validate_by": ("stop_on", "accuracy"),
    "optimiser": ("optimizer", "sgd"),
    "batch": ("batch_size", 32),
    "crowd": ("max_answers", 16),
    "diffusion": ("graph_smoothing", 8),
    "falsehoods": ("negatives_from", "all"),
    "verdict": ("decision_rule", "tail"),
}
"""Old name → new name and a value other than the default."""


def test_assignments_take_the_type_of_their_setting():
    values = parse_assignments(["dimension=50", "learning_rate=1e-3", "mentions=no", "objective = confidence"])
    assert values == {"dimension": 50, "learning_rate": 0.001, "mentions": False, "objective": "confidence"}


def test_assignments_name_options_of_scores_too():
    values = parse_assignments(["norm=1", "alpha=2", "learn_alpha=false", "hidden=7", "orthogonality=0.5"])
    assert values == {"norm": 1, "alpha": 2.0, "learn_alpha": False, "hidden": 7, "orthogonality": 0.5}
    assert [type(value) for value in values.values()] == [int, float, bool, int, float]
    assert recipe(parse_assignments(["norm=1"])).score_options == {"norm": 1}


@pytest.mark.parametrize(
    ("assignment", "message"),
    [
        ("dimensions=50", "no setting 'dimensions'. Did you mean 'dimension'?"),
        ("dimension", "a setting is name=value, not 'dimension'"),
        ("dimension=ten", "setting dimension='ten'; expected a whole number"),
        ("norm=two", "setting norm='two'; expected a whole number"),
        ("mentions=maybe", "expected true or false"),
        ("scale=wide", "expected a number"),
        ("nrom=1", "no setting 'nrom'. Did you mean 'norm'?"),
        ("score_options=norm", "no setting 'score_options'."),
    ],
)
def test_wrong_assignments_are_explained(assignment, message):
    with pytest.raises(UsageError) as fault:
        parse_assignments([assignment])
    assert message in str(fault.value)
    assert "Did you mean 'score_options'" not in str(fault.value)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"dimension": 0}, "setting dimension is 0; expected at least 1"),
        ({"norm": 3}, "setting norm is 3; expected one of 1, 2"),
        ({"objective": "confidence", "estimator": "exact"}, "cannot use estimator=exact"),
        ({"dimension": 2.5}, "expected a whole number"),
        ({"learning_rate": float("nan")}, "expected a finite number"),
        ({"alpha": float("inf")}, "expected a finite number"),
        ({"scale": 1e308}, "up to 1e+30"),
        ({"scale": 10**400}, "up to 1e+30"),
        ({"seed": 2**64}, "below 2^63"),
        ({"validation_fraction": 1.0}, "expected a share below 1"),
        ({"scale": True}, "expected a number"),
    ],
)
def test_values_out_of_range_are_refused(values, message):
    with pytest.raises(DoxaError) as fault:
        checked(Settings().changed(**values))
    assert message in str(fault.value)


def test_auto_resolves_to_what_the_objective_needs():
    assert Settings().training_estimator == "sampled"
    assert settings_of(objective="confidence").training_estimator == "negative"
    assert settings_of(confidence="label").training_estimator == "negative"
    assert settings_of(estimator="exact").training_estimator == "exact"
    assert Settings().metric == "ranking"
    assert settings_of(objective="confidence").metric == "confidence"
    assert settings_of(stop_on="accuracy").metric == "accuracy"


def test_settings_survive_a_round_trip_and_all_have_a_meaning():
    changed = settings_of(dimension=7, norm=1)
    assert from_saved(changed.as_dict()) == changed
    assert all(about for *_, about in describe())


def test_every_setting_belongs_to_one_of_four_groups():
    assert GROUPS == ("model", "training", "judging", "running")
    rows = describe()
    assert {group for group, *_ in rows} == set(GROUPS)
    assert [group for group, *_ in rows] == sorted((group for group, *_ in rows), key=GROUPS.index)
    by_group = [set(settings_of(norm=1).group(group)) for group in GROUPS]
    assert sum(len(names) for names in by_group) == len(set().union(*by_group))
    assert set().union(*by_group) == (FIELDS.keys() - {"score_options"}) | {"norm"}
    assert settings_of(norm=1).group("model")["norm"] == 1
    assert "workers" in settings_of().group("running")


def test_options_of_scores_do_not_share_a_name_with_settings():
    assert not option_fields().keys() & FIELDS.keys()
    assert not RENAMED.keys() & (FIELDS.keys() | option_fields().keys())


def test_every_old_name_is_migrated():
    assert {old: new for old, (new, _) in OLD_SETTINGS.items()} == RENAMED
    for old, (new, value) in OLD_SETTINGS.items():
        assert migrate({old: value, "dimension": 9}) == {new: value, "dimension": 9}
        assert getattr(from_saved({old: value}), new) == value != getattr(Settings(), new)
        assert migrate({new: value}) == {new: value}


OLD_RULE = "weighed"


def test_every_old_value_is_migrated():
    assert RENAMED_VALUES == {("decision_rule", OLD_RULE): "learned"}
    assert migrate({"verdict": OLD_RULE}) == migrate({"decision_rule": OLD_RULE}) == {"decision_rule": "learned"}
    assert from_saved({"verdict": OLD_RULE}).decision_rule == "learned"
    assert migrate({"objective": OLD_RULE}) == {"objective": OLD_RULE}


def test_a_hidden_width_of_zero_meant_the_default_of_the_score():
    assert from_saved({"score": "neural_tensor", "hidden": 0}).score_options == {}
    assert from_saved({"score": "neural_tensor", "hidden": 3}).score_options == {"hidden": 3}


@pytest.mark.parametrize("old", RENAMED)
def test_an_old_name_is_refused_with_its_new_one(old):
    message = f"setting {old!r} is called {RENAMED[old]!r} now"
    _, value = OLD_SETTINGS[old]
    with pytest.raises(UsageError, match=message):
        Settings().changed(**{old: value})
    with pytest.raises(UsageError, match=message):
        recipe({old: value})
    with pytest.raises(UsageError, match=message):
        parse_assignments([f"{old}={value}"])


def test_saved_settings_of_other_scores_are_dropped_silently(caplog):
    saved = {"score": "complex", "norm": 2, "alpha": 4.0, "learn_alpha": True, "orthogonality": 0.0, "hidden": 0}
    settings = from_saved(saved | {"dimension": 8})
    assert settings == settings_of(score="complex", dimension=8)
    assert caplog.text == ""
    assert from_saved(saved | {"score": "translation"}).score_options == {"norm": 2, "alpha": 4.0, "learn_alpha": True}
    assert caplog.text == ""


def test_saved_settings_that_nobody_knows_are_dropped_with_a_notice(caplog):
    settings = from_saved({"dimension": 8, "warp": 9, "ballast": 1})
    assert settings == settings_of(dimension=8)
    assert "ignoring settings that this version does not know: ballast, warp" in caplog.text


def test_a_file_of_settings_is_read_under_the_names_of_today(tmp_path):
    path = tmp_path / "best.toml"
    path.write_text(f'[settings]\ncandidates = 64\nverdict = "{OLD_RULE}"\nnorm = 1\n')
    values = read_toml(path)
    assert values == {"num_candidates": 64, "decision_rule": "learned", "norm": 1}
    assert recipe(values).num_candidates == 64
    for content, message in (("settings = 3", "has no \\[settings\\]"), ("[settings", "cannot read settings")):
        path.write_text(content)
        with pytest.raises(BadFile, match=message):
            read_toml(path)
    with pytest.raises(BadFile, match="cannot read settings"):
        read_toml(tmp_path / "nowhere.toml")


@pytest.mark.parametrize(
    ("beliefs", "values", "batch_size"),
    [
        (100, {}, 16),
        (2000, {}, 100),
        (20_000, {}, 512),
        (30_000, {"objective": "margin"}, 1024),
        (100, {"batch_size": 64}, 64),
    ],
)
def test_an_epoch_has_at_least_twenty_steps(beliefs, values, batch_size):
    assert automatic(settings_of(**values), beliefs, 50).batch_size == batch_size


def test_there_are_no_more_candidates_than_entities():
    assert automatic(Settings(), 100, 50).num_candidates == 50
    assert automatic(Settings(), 100, 5000).num_candidates == 512
    assert automatic(settings_of(num_candidates=7), 100, 50).num_candidates == 7


def test_one_worker_uses_every_core_and_several_use_one_each():
    assert automatic(Settings(), 100, 50).threads == cores()
    assert automatic(settings_of(threads=3), 100, 50).threads == 3
    assert automatic(settings_of(workers=2), 100, 50).threads == 1


def test_the_summary_states_what_was_chosen():
    def words(**values):
        return summary(planned(settings_of(**values), 100, 50))

    assert words(workers=2) == "200 epochs, 16 beliefs per step, 50 candidates, 2 workers"
    assert words(threads=1, estimator="exact", epochs=7) == "7 epochs, 16 beliefs per step, all candidates, 1 thread"
    by_queries = words(threads=1, score="complex", batch_by="queries", epochs=7)
    assert by_queries == "7 epochs, 16 beliefs per step, all candidates by queries, 1 thread"
    assert words(threads=3, time_budget=60.0) == "60 seconds, 16 beliefs per step, 50 candidates, 3 threads"


@pytest.mark.parametrize(
    ("variable", "expected"),
    [("", 6), ("2", 2), ("1", 1), ("64", 6), ("3,2", 3), ("0", 6), ("many", 6), ("-1", 6)],
)
def test_omp_num_threads_lowers_the_cores(monkeypatch, variable, expected):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(6)), raising=False)
    monkeypatch.setenv("OMP_NUM_THREADS", variable)
    assert cores() == expected
    assert automatic(Settings(), 100, 50).threads == expected


def test_cores_without_affinity_are_those_of_the_machine(monkeypatch):
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr(plan.os, "cpu_count", lambda: 5)
    assert cores() == 5
    monkeypatch.setattr(plan.os, "cpu_count", lambda: None)
    assert cores() == 1


def test_a_model_remembers_the_automatic_settings():
    model = fit(generate(400, 50, 3), epochs=1, dimension=4)
    assert (model.settings.batch_size, model.settings.num_candidates) == (19, 50)
