"""The race: its members, its rungs and their work, its choice, and what remains of it in the model."""

import json
import math
import re

import numpy as np
import pytest

import doxa
from doxa import formats, systems
from doxa.config import Settings
from doxa.data.beliefs import Beliefs
from doxa.data.splits import split
from doxa.errors import DoxaError, UsageError
from doxa.model import Model
from doxa.systems import AUTO, RACED, recipe, without_race
from doxa.training import race, rungs
from doxa.training.loop import TrainingLoop
from doxa.training.plan import automatic
from doxa.training.race import PORTFOLIO, Attempt, members, ranking
from doxa.training.rungs import SHARE, Sizes
from doxa.training.steps import Steps
from tests import reference_race as reference
from tests.conftest import ROOT
from tests.worlds import beliefs, board

FIXED = ({"score": "complex", "n3": 0.03}, {"score": "translation"})
QUICK = {"dimension": 8, "epochs": 150, "patience": 0, "threads": 1, "batch_size": 16, "num_candidates": 8}


@pytest.fixture
def racing(monkeypatch):
    """Races as users have them, with few members."""
    few = ({"score": "translation"}, {"score": "complex", "n3": 0.001}, {"score": "complex", "n3": 0.1})
    monkeypatch.setattr(race, "FEWEST_POSITIVES", 20)
    monkeypatch.setattr(race, "PORTFOLIO", few)
    monkeypatch.setattr(systems, "FIXED", FIXED)
    monkeypatch.setattr(rungs, "FEWEST_STEPS", 2)


@pytest.fixture
def symmetric():
    """Two symmetric relations on a circle: a translation cannot tell a step from the step back, complex can."""
    size = 24
    rows = [(f"e{a}", name, f"e{(a + step * way) % size}")
            for name, step in (("near", 1), ("far", 5)) for a in range(size) for way in (1, -1)]  # fmt: skip
    return split(beliefs(rows), (0.3,), seed=0)


def attempt(member, *figures, score="translation", n3=0.0):
    return Attempt(1, member, {"score": score, "n3": n3}, 10, *figures)


def test_the_portfolio_has_scores_that_may_race():
    assert {member["score"] for member in PORTFOLIO} <= set(RACED)
    assert len(members(recipe({}))) == len(PORTFOLIO)


def test_the_docs_list_the_members():
    rows = re.findall(r"^\| (.+) \| `score=(.+)` \|$", (ROOT / "docs/systems.md").read_text(), re.MULTILINE)
    assert [(name, settings) for name, settings in rows] == [
        (race.name_of(values), " ".join(f"{value}" if name == "score" else f"{name}={value:g}"
                                        for name, value in values.items())) for values in PORTFOLIO
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("values", "names"),
    [
        ({"n3": 0.01}, ["complex", "translation", "rotate", "distmult"]),
        ({"n3": 0.0}, ["complex", "translation", "rotate", "distmult"]),
        ({"norm": 1}, ["translation"]),
        ({"dimension": 5}, ["translation", "distmult n3=0.1"]),
    ],
)
def test_named_settings_hold_for_every_member(values, names):
    """Members that become equal are merged; members whose score cannot take an option are left out."""
    raced = members(recipe(values))
    assert list(raced) == names
    for settings in raced.values():
        assert settings.as_dict().items() >= values.items()


def test_settings_that_equal_a_default_are_named_all_the_same():
    assert recipe({"n3": 0.0}).is_named("n3")
    assert not recipe({}).is_named("n3")
    assert Settings(n3=0.2).is_named("n3")
    assert "named" not in recipe({"n3": 0.0}).as_dict()


FIGURES = [
    [(0.50, 0.2, 0.9), (0.495, 0.3, 0.1), (0.48, 0.9, 0.9)],
    [(0.50, 0.30, 0.7), (0.495, 0.295, 0.8), (0.1, 0.9, 0.9)],
    [(0.1, 0.1, 0.1), (0.9, 0.9, 0.9), (0.5, 0.5, 0.5), (-1.0, -1.0, -1.0)],
]


@pytest.mark.parametrize(("figures", "best"), [(figures, 1) for figures in FIGURES])
def test_members_within_a_hundredth_are_ordered_by_the_next_figure(figures, best):
    order = ranking([attempt(str(number), *row) for number, row in enumerate(figures)])
    assert [int(one.member) for one in order] == reference.order(figures, 0.01, [("translation", 0.0)] * len(figures))
    assert int(order[0].member) == best


def test_of_equal_members_of_one_score_the_most_regularized_comes_first():
    """A score that is equal, too, is not preferred for its regularization."""
    figures = [(0.641, 0.945, 0.844), (0.639, 0.947, 0.841), (0.638, 0.944, 0.840), (0.5, 0.9, 0.9)]
    kinds = [("complex", 0.003), ("complex", 0.01), ("distmult", 0.1), ("complex", 0.3)]
    tried = [attempt(str(number), *row, score=kinds[number][0], n3=kinds[number][1])
             for number, row in enumerate(figures)]  # fmt: skip
    order = [int(one.member) for one in ranking(tried)]
    assert order == reference.order(figures, 0.01, kinds)
    assert order == [1, 0, 2, 3]


def test_relations_come_first_where_most_beliefs_have_mentions():
    one, other = attempt("entities", 0.9, 0.2, 0.5), attempt("relations", 0.3, 0.8, 0.5)
    assert ranking([one, other])[0] is one
    assert ranking([one, other], words_first=True)[0] is other
    assert race.mostly_mentions(Beliefs.from_frame(board(3)), Settings())
    assert not race.mostly_mentions(Beliefs.from_frame(board(3)), Settings(mentions=False))
    assert not race.mostly_mentions(Beliefs.from_frame(board(3, words=False)), Settings())


@pytest.mark.parametrize("values", [{}, {"estimator": "exact"}, {"dimension": 64, "epochs": 90}])
@pytest.mark.parametrize("sizes", [(8_000, 100, 25), (270_000, 14_000, 237), (80_000, 40_000, 11), (20_000, 500, 2000)])
def test_a_race_has_at_most_a_quarter_of_the_work(sizes, values):
    sizes = Sizes(*sizes)
    raced = [automatic(one, sizes.beliefs, sizes.entities)
             for one in members(recipe({"epochs": 100} | values)).values()]  # fmt: skip
    plan = rungs.planned(raced, sizes, valid=3000)
    one = raced[0]
    exact = values.get("estimator") == "exact"
    candidates = sizes.entities if exact else min(512, sizes.entities)
    relations = sizes.relations if exact else min(512, sizes.relations)
    parts = (one.batch_size, candidates, relations, one.dimension, sizes.entities)
    runs = [steps for rung, steps in enumerate(plan.steps) for _ in range(plan.starters(rung))]
    epochs = one.epochs * math.ceil(sizes.beliefs / one.batch_size)
    spent, rest = reference.work(runs, *parts, plan.validation), reference.work([epochs], *parts, 0)
    assert 0.15 < spent / (spent + rest) <= SHARE
    assert plan.steps == tuple(plan.steps[0] * 2**rung for rung in range(3))
    assert [plan.starters(rung) for rung in range(4)] == [8, 4, 2, 1]
    assert rungs.LARGE <= plan.beliefs <= sizes.beliefs or plan.beliefs == sizes.beliefs


def test_odd_numbers_of_members_are_halved_upward():
    assert [rungs.halved(7, times) for times in range(4)] == [7, 4, 2, 1]
    assert [rungs.rungs_of(count) for count in (2, 3, 4, 5, 8)] == [1, 2, 2, 3, 3]


def test_beside_a_short_training_only_the_first_members_race():
    raced = [automatic(one, 8000, 100) for one in members(recipe({"epochs": 30})).values()]
    plan = rungs.planned(raced, Sizes(8000, 100, 25), 800)
    assert 2 <= plan.members < len(PORTFOLIO)
    assert plan.steps[0] >= rungs.FEWEST_STEPS


def test_too_short_a_training_has_no_race():
    raced = [automatic(one, 500, 30) for one in members(recipe({"epochs": 1})).values()]
    assert rungs.planned(raced, Sizes(500, 30, 3), 100) is None


def test_a_large_graph_is_raced_on_its_core(monkeypatch):
    monkeypatch.setattr(rungs, "LARGE", 100)
    random = np.random.default_rng(0)
    dense = [(f"d{a}", f"r{a % 3}", f"d{b}") for a, b in random.integers(0, 12, (300, 2))]
    sparse = [(f"s{number}", "r0", f"s{number + 1}") for number in range(300)]
    train, valid = split(beliefs(list(dict.fromkeys([*dense, *sparse]))), (0.1,), 0)
    plan = rungs.Plan((10, 20), 3, 60, 30)
    data = rungs.race_data(train, valid, plan, seed=0)
    assert 55 <= len(data.train) + len(data.valid) <= 60 + len(valid)
    assert all(name.startswith("d") for name in data.train.vocabularies.entities.names)
    assert 0 < len(data.valid) <= 30
    assert data.valid.seen.all()
    held_out = set(map(tuple, data.valid.triples.tolist()))
    assert not held_out & set(map(tuple, data.train.triples.tolist()))
    assert data.known.contains(*data.valid.triples.T).all()


def test_the_race_prefers_a_score_that_fits_the_data(racing, symmetric):
    """A translation needs r = 0 for a symmetric relation, so that it cannot tell near from far."""
    stages, metrics = [], {}

    def report(now):
        stages.append(now.stage)
        metrics[now.stage] = now.metric

    model = doxa.fit(*symmetric, **QUICK, report=report)
    assert model.settings.score == "complex"
    record = model.origin["race"]
    assert record["winner"].startswith("complex n3=")
    assert record["share_of_work"] <= SHARE
    assert [one["rung"] for one in record["rungs"]] == [1, 1, 1, 2, 2]
    assert record["rungs"][0].keys() >= {"member", "settings", "entity_mrr", "relation_mrr", "accuracy", "steps"}
    assert stages[0].startswith("race 1/2: ")
    last = f"race: {record['winner']} is best"
    assert stages.index("training") > stages.index(last)
    of_winner = [one["entity_mrr"] for one in record["rungs"] if one["member"] == record["winner"]]
    assert metrics[last] == pytest.approx(of_winner[-1], abs=1e-4)


def test_the_choice_repeats_from_the_seed(racing, symmetric):
    one, other = (doxa.fit(*symmetric, **QUICK).origin["race"] for _ in range(2))
    assert one | {"seconds": 0} == other | {"seconds": 0}


def test_the_race_is_kept_in_the_model_folder_and_shown(racing, symmetric, tmp_path, doxa):
    for name, part in zip(("train", "valid"), symmetric, strict=True):
        formats.write(part.to_frame(), tmp_path / "data" / f"{name}.tsv")
    options = [word for name, value in QUICK.items() for word in ("--set", f"{name}={value}")]
    code, text, err = doxa("train", tmp_path / "data", "--out", tmp_path / "m", *options)
    model = Model.load(tmp_path / "m")
    assert (code, f"Race: {model.origin['race']['winner']} is the best of 3 on " in text) == (0, True)
    assert "race: complex" in err
    assert model.settings.score == "complex"
    assert json.loads(doxa("info", tmp_path / "m", "--json")[1])["training"]["race"] == model.origin["race"]
    text = doxa("info", tmp_path / "m")[1]
    assert f"Race: {model.origin['race']['winner']} is the best of 3 on " in text
    assert "translation" in text


def test_a_named_score_does_not_race(racing, symmetric):
    model = doxa.fit(*symmetric, score="distmult", **(QUICK | {"epochs": 1}))
    assert model.settings.score == "distmult"
    assert "race" not in model.origin


@pytest.mark.parametrize(
    ("values", "score", "reason"),
    [
        ({"objective": "confidence"}, "translation", "likelihood with a softmax"),
        ({"confidence": "label"}, "translation", "likelihood with a softmax"),
        ({"norm": 1}, "translation", "only one score"),
        ({"epochs": 1, "batch_size": 4096}, "complex", "too short"),
        ({"validation_fraction": 0.01}, "complex", "too few"),
    ],
)
def test_without_a_race_the_score_is_fixed_and_named_in_one_line(racing, caplog, values, score, reason):
    table = board(6).with_columns(confidence=0.5)
    model = doxa.fit(table, **(QUICK | {"epochs": 1, "validation_fraction": 0.4} | values))
    assert model.settings.score == score
    assert [reason in record.message for record in caplog.records if record.name == "doxa.training.race"] == [True]
    assert "race" not in model.origin


def test_a_resumed_run_does_not_race_again(racing, symmetric, tmp_path, monkeypatch):
    """What the race chose, and its record, come from the checkpoint."""
    whole = doxa.fit(*symmetric, **QUICK)
    checkpoint, after = tmp_path / "checkpoint.safetensors", TrainingLoop._after_step

    def stop(loop, executor, end):
        loop.interrupted = loop.state.step >= 50
        after(loop, executor, end)

    monkeypatch.setattr(TrainingLoop, "_after_step", stop)
    assert doxa.fit(*symmetric, **QUICK, checkpoint=checkpoint).origin["interrupted"]
    monkeypatch.setattr(TrainingLoop, "_after_step", after)
    monkeypatch.setattr(race, "_race", None)
    resumed = doxa.fit(*symmetric, **QUICK, checkpoint=checkpoint, resume=True)
    assert resumed.settings == whole.settings
    assert resumed.origin["race"]["rungs"] == whole.origin["race"]["rungs"]
    with pytest.raises(UsageError, match="other settings"):
        doxa.fit(*symmetric, **QUICK, n3=0.5, checkpoint=checkpoint, resume=True)


def test_a_member_that_diverges_loses(racing, symmetric, monkeypatch):
    take = Steps.take

    def fail(steps, number, fraction):
        if steps.settings.score == "complex" and steps.settings.n3 == 0.1 and number == 3:
            raise DoxaError("the loss became inf")
        return take(steps, number, fraction)

    monkeypatch.setattr(Steps, "take", fail)
    record = doxa.fit(*symmetric, **QUICK).origin["race"]
    assert record["rungs"][2]["entity_mrr"] == -1
    assert record["winner"] != "complex n3=0.1"


def test_a_time_budget_limits_the_race_by_the_clock(racing, symmetric, monkeypatch):
    monkeypatch.setattr(race, "_seconds_per_step", lambda settings, train: 0.002)
    record = doxa.fit(*symmetric, **(QUICK | {"epochs": 3}), time_budget=3.0).origin["race"]
    assert record["by_clock"]
    assert record["rungs"]


def test_when_the_time_is_up_the_last_whole_rung_decides(racing, symmetric, monkeypatch):
    monkeypatch.setattr(race._Track, "out_of_time", property(lambda track: track.done > 0))
    record = doxa.fit(*symmetric, **QUICK).origin["race"]
    assert [one["member"] for one in record["rungs"]] == ["translation"]
    assert record["winner"] == "translation"


def test_ctrl_c_in_the_race_ends_the_command(racing, symmetric, tmp_path, monkeypatch, doxa):
    def interrupt(steps, number, fraction):
        raise KeyboardInterrupt

    monkeypatch.setattr(Steps, "take", interrupt)
    (tmp_path / "b.tsv").write_text("".join("\t".join(row) + "\n" for row in symmetric[0].to_frame().rows()))
    options = ("--set", "epochs=150", "--set", "dimension=8", "--set", "validation_fraction=0.4")
    code, _, err = doxa("train", tmp_path / "b.tsv", "--out", tmp_path / "m", *options)
    assert (code, "Stopped before there was a model" in err) == (130, True)
    assert not (tmp_path / "m").exists()


def test_auto_is_never_built(symmetric):
    with pytest.raises(UsageError, match="name a score"):
        systems.build(symmetric[0], recipe({}))
    assert recipe({"score": AUTO, "system": "transe"}).score == "translation"
    assert without_race(recipe({"score": "rotate"})).score == "rotate"


def test_a_race_takes_the_steps_of_few_beliefs():
    whole = automatic(recipe({}), 500_000, 1000)
    assert (whole.batch_size, race._small_steps(recipe({}), whole).batch_size) == (1024, 512)
    named = recipe({"batch_size": 2048})
    assert race._small_steps(named, automatic(named, 500_000, 1000)).batch_size == 2048
    few = automatic(recipe({}), 1000, 100)
    assert race._small_steps(recipe({}), few) == few
