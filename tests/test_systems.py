"""The systems of the paper: each recipe, its size, what it can answer; each trains, saves, loads and answers."""

import json
import re

import numpy as np
import pytest
import torch

import doxa
from doxa.config import Settings
from doxa.data.beliefs import Beliefs
from doxa.errors import CannotAnswer, DoxaError, UsageError
from doxa.evaluation.report import evaluate
from doxa.inference import judge
from doxa.scores import SCORES
from doxa.systems import (
    CAPABILITIES,
    SYSTEMS,
    answers,
    build,
    describe,
    describe_options,
    option_fields,
    parameters,
    recipe,
    score_options,
    why_not,
)
from tests.test_toy_world import withheld
from tests.worlds import beliefs, board, settings_of

TINY = {"dimension": 4, "epochs": 2, "batch_size": 16, "num_candidates": 8, "threads": 1}
RECIPES = {
    "pbe": ("auto", "likelihood", "uniform", "free"),
    "pbe-paper": ("translation", "likelihood", "uniform", "free"),
    "unstructured": ("unstructured", "margin", "uniform", "free"),
    "se": ("structured", "margin", "uniform", "unit"),
    "slm": ("single_layer", "margin", "uniform", "free"),
    "bilinear": ("bilinear", "margin", "uniform", "free"),
    "ntn": ("neural_tensor", "margin", "uniform", "free"),
    "transe": ("translation", "margin", "uniform", "unit"),
    "transm": ("weighted_translation", "margin", "uniform", "unit"),
    "transh": ("hyperplane", "margin", "bernoulli", "ball"),
    "jrme": ("translation", "margin", "uniform", "free"),
}
ANSWERS = dict.fromkeys(RECIPES, CAPABILITIES) | {"unstructured": ("entity", "classification"), "jrme": ("relation",)}
BLIND = r"unstructured scores all relations alike: −‖h − t‖² does not depend on r"
ONLY_RELATIONS = "jrme predicts relations alone"


def test_every_system_of_the_paper_has_its_recipe():
    assert list(SYSTEMS) == list(RECIPES)
    for name, expected in RECIPES.items():
        s = recipe({"system": name})
        assert (s.score, s.objective, s.corruption, s.entity_norm) == expected
        assert s.system == name
        assert SYSTEMS[name].score == expected[0]


def test_the_systems_before_pbe_rank_heads_and_tails_by_the_score_alone():
    for name in set(RECIPES) - {"pbe", "pbe-paper", "jrme"}:
        s = recipe({"system": name})
        terms = (s.head_weight, s.tail_weight, s.relation_weight, s.mention_weight)
        assert (terms, s.scale, s.decision_rule, s.mentions) == ((1, 1, 0, 0), 1, "score", False)
    s = recipe({"system": "jrme"})
    assert (s.head_weight, s.tail_weight, s.relation_weight, s.mention_weight) == (0, 0, 1, 1)
    assert recipe({}) == Settings()


def test_soft_constraints_and_penalties_belong_to_their_systems():
    constrained = {name for name in SYSTEMS if recipe({"system": name}).score_options.get("orthogonality")}
    assert constrained == {"transh"}
    assert {name for name in SYSTEMS if recipe({"system": name}).l2} == {"slm", "bilinear", "ntn"}


def test_values_override_the_recipe():
    s = recipe({"system": "transh", "dimension": 7, "corruption": "uniform", "orthogonality": 0.0})
    assert (s.dimension, s.corruption, score_options(s).orthogonality) == (7, "uniform", 0.0)
    assert (s.entity_norm, s.score) == ("ball", "hyperplane")


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"system": "tranh"}, r"no system 'tranh'\. Did you mean 'transh'\?"),
        ({"system": "word2vec"}, r"no system 'word2vec'\.\s+doxa\.systems\.describe\(\) lists them all"),
        ({"score": "hyperplan"}, r"no score 'hyperplan'\. Did you mean 'hyperplane'\?"),
        ({"system": "ntn", "score": "neural-tensor"}, r"no score 'neural-tensor'\. Did you mean 'neural_tensor'\?"),
        ({"system": "transe", "marign": 1.0}, r"no setting 'marign'\. Did you mean 'margin'\?"),
    ],
)
def test_an_unknown_name_is_refused_with_the_nearest(values, message):
    with pytest.raises(UsageError, match=message):
        recipe(values)
    with pytest.raises(UsageError, match=message):
        doxa.fit(Beliefs.from_frame(board(3)), **values)


@pytest.mark.parametrize("name", [name for name in SYSTEMS if name != "pbe"])
def test_a_system_has_one_score(name):
    with pytest.raises(UsageError, match=f"system {name} is built on the score {RECIPES[name][0]}, not on complex"):
        recipe({"system": name, "score": "complex"})
    assert recipe({"system": name, "score": RECIPES[name][0]}) == recipe({"system": name})


@pytest.mark.parametrize("score", SCORES)
def test_pbe_takes_any_score(score):
    assert recipe({"score": score}).score == score


@pytest.mark.parametrize("system", ["tranze", "transe"])
def test_ready_settings_are_checked_against_their_system(system):
    """A system nobody knows is refused; one that is known must not be a mere name over other settings."""
    with pytest.raises(UsageError, match="system"):
        doxa.fit(Beliefs.from_frame(board(3)), settings=settings_of(**TINY), system=system)
    with pytest.raises(UsageError):
        doxa.fit(Beliefs.from_frame(board(3)), settings=settings_of(system=system, **TINY))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"system": "transe", "objective": "likelihood"}, "system transe has objective=margin, not likelihood"),
        ({"system": "jrme", "head_weight": 1.0}, "system jrme has head_weight=0.0, not 1.0"),
        ({"margin": 5.0}, "setting margin has a meaning only with objective=margin"),
        ({"corruption": "bernoulli"}, "setting corruption has a meaning only with objective=margin"),
        ({"orthogonality": 1.0}, "setting orthogonality has a meaning only with the score hyperplane"),
        ({"hidden": 7}, "setting hidden has a meaning only with the scores single_layer, neural_tensor"),
        ({"system": "jrme", "stop_on": "accuracy"}, "stop_on=accuracy needs classification, which jrme cannot do"),
    ],
)
def test_settings_that_would_be_ignored_or_contradict_are_refused(values, message):
    with pytest.raises(UsageError, match=re.escape(message)):
        recipe(values)


def test_one_relation_is_enough_for_a_system_that_does_not_tell_relations_apart():
    one = beliefs([(f"a{i}", "r", f"a{(i * 3 + 1) % 7}") for i in range(7)])
    assert len(doxa.fit(one, system="transe", **TINY).tails("a1", "r")) > 0
    with pytest.raises(DoxaError, match="at least 2 are needed"):
        doxa.fit(one, system="jrme", **TINY)


def test_unseen_names_that_cannot_be_judged_are_no_fault():
    """Only an unknown relation among the unseen names; and beliefs that cannot be corrupted."""
    train = Beliefs.from_frame(board(4, words=False))
    rows = [("0,0", "right", "1,0", 1), ("0,0", "up", "3,3", -1), ("0,0", "zzz", "1,0", 1), ("0,0", "zzz", "1,1", -1)]
    valid = beliefs(rows, ("head", "relation", "tail", "label"))
    assert doxa.fit(train, valid, **TINY).calibration.unseen is None
    full = beliefs([(a, r, b) for a in "wxyz" for b in "wxyz" for r in ("r", "s")])
    with pytest.raises(DoxaError, match="have no labels and cannot be corrupted"):
        doxa.fit(full, validation_fraction=0.2, stop_on="accuracy", **TINY)


def test_what_each_system_can_answer():
    for name, able in ANSWERS.items():
        settings = recipe({"system": name})
        assert answers(settings) == able
        for task in CAPABILITIES:
            assert (why_not(settings, task) == "") is (task in able)
    assert why_not(recipe({"system": "unstructured"}), "relation").startswith(BLIND)
    assert why_not(recipe({"system": "jrme"}), "entity").startswith(ONLY_RELATIONS)


def test_on_a_score_blind_to_relations_pbe_needs_words_to_tell_them():
    assert "relation" in answers(recipe({"score": "unstructured"}), words=True)
    assert "relation" not in answers(recipe({"score": "unstructured"}))


SIZES = {
    "translation": lambda e, r, d, k: e * d + r * d,
    "weighted_translation": lambda e, r, d, k: e * d + r * d,  # the weights are counted, not trained
    "hyperplane": lambda e, r, d, k: e * d + 2 * r * d,
    "unstructured": lambda e, r, d, k: e * d,
    "structured": lambda e, r, d, k: e * d + 2 * r * d * d,
    "single_layer": lambda e, r, d, k: e * d + r * (2 * k * d + 2 * k),
    "bilinear": lambda e, r, d, k: e * d + r * d * d,
    "neural_tensor": lambda e, r, d, k: e * d + r * (k * d * d + 2 * k * d + 2 * k),
    "distmult": lambda e, r, d, k: e * d + r * d,
    "complex": lambda e, r, d, k: e * d + r * d,
    "rotate": lambda e, r, d, k: e * d + r * d,
}


@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("words", [True, False])
def test_parameters_are_those_of_the_model_that_is_built(score, words):
    train = Beliefs.from_frame(board(3, words))
    vocabularies = train.vocabularies
    s = recipe({"score": score, "dimension": 6} | ({"hidden": 5} if score in ("single_layer", "neural_tensor") else {}))
    entities, relations = len(vocabularies.entities), len(vocabularies.relations)
    counted = parameters(s, entities, relations, len(vocabularies.words))
    assert counted == sum(p.numel() for p in build(train, s).parameters() if p.requires_grad)
    of_mentions = 0 if "relation" in SCORES[score].relation_tables else relations * 6
    of_words = len(vocabularies.words) * 6 + 1 + of_mentions if words else 0
    assert counted == SIZES[score](entities, relations, 6, 5) + of_words


def test_alpha_counts_where_it_is_trained():
    assert parameters(settings_of(estimator="negative"), 9, 2) == parameters(settings_of(), 9, 2) + 1


def test_counting_parameters_makes_none():
    assert parameters(recipe({"system": "ntn", "dimension": 100}), 10**6, 10**5) > 4e9  # 16 GiB, were they made


@pytest.fixture(scope="module")
def train():
    return Beliefs.from_frame(board(4))


@pytest.fixture(scope="module", params=SYSTEMS)
def model(request, train):
    return doxa.fit(train, system=request.param, validation_fraction=0.2, **TINY)


def test_each_system_trains_saves_loads_and_answers_what_it_can(model, train, tmp_path):
    model.save(tmp_path / "m")
    loaded = doxa.load(tmp_path / "m")
    system = model.settings.system
    assert loaded.settings == model.settings
    assert repr(loaded) == repr(model)
    assert repr(model).startswith(f"Model({system} on {model.settings.score}, ")
    assert model.settings.score == (RECIPES[system][0] if system != "pbe" else "translation")
    questions = {
        "entity": [lambda m: m.tails("0,0", "up", top=99), lambda m: m.heads("up", "1,1", top=99)],
        "relation": [lambda m: m.relations("0,0", "0,1", mention="one step up")],
        "classification": [lambda m: m.credence(train)],
    }
    for task, queries in questions.items():
        for ask in queries:
            if task in ANSWERS[system]:
                assert np.array_equal(ask(loaded), ask(model))
            else:
                with pytest.raises(CannotAnswer, match="this model cannot answer that: ") as refusal:
                    ask(loaded)
                assert why_not(model.settings, task) in str(refusal.value)
                assert "lists what each system can answer" in str(refusal.value)


def test_evaluation_skips_what_the_system_cannot_answer_and_says_why(model, train):
    evaluation = evaluate(model, train)
    able = ANSWERS[model.settings.system]
    tasks = {"entity": "entity", "relation": "relation", "classification": "classification",
             "calibration": "classification"}  # fmt: skip
    for task, question in tasks.items():
        assert (getattr(evaluation, task) is not None) is (question in able)
        assert evaluation.skipped.get(task, "") == why_not(model.settings, question)
    assert evaluation.skipped["confidence"] == "the beliefs carry no confidence"
    report = json.loads(json.dumps(evaluation.as_dict()))
    assert set(report["skipped"]) & set(report) == set()
    assert evaluate(model, train, ["relation"]).skipped.keys() <= {"relation"}


def test_only_a_model_that_saw_confidence_is_evaluated_by_it(train):
    confident = Beliefs.from_frame(board(4).with_columns(confidence=0.5))
    evaluation = evaluate(doxa.fit(train, system="transe", **TINY), confident, ["confidence", "entity"])
    assert evaluation.confidence is None
    assert evaluation.skipped == {"confidence": "no validation belief of the model carried confidence"}


def test_validation_ranks_what_the_system_answers_and_nothing_else(train):
    """The metric of the last epoch is the filtered MRR of heads, relations and tails, as far as they are asked."""
    train, valid = doxa.split(train, (0.3,), seed=0)
    for system in ("pbe", "unstructured", "jrme"):
        model = doxa.fit(train, valid, system=system, **(TINY | {"epochs": 1, "validation_fraction": 0.0}))
        result = evaluate(model, valid, ["entity", "relation"])
        entity = [result.entity.filtered_heads.mrr, result.entity.filtered_tails.mrr] if result.entity else []
        expected = entity + ([result.relation.filtered.mrr] if result.relation else [])
        assert len(expected) == {"pbe": 3, "unstructured": 2, "jrme": 1}[system]
        assert model.curve[-1]["metric"] == pytest.approx(np.mean(expected))


BALL = {"dimension": 4, "batch_size": 16, "num_candidates": 64, "learning_rate": 0.5, "validation_fraction": 0.0,
        "threads": 1, "entity_norm": "ball", "epochs": 80}  # fmt: skip


@pytest.mark.parametrize(("system", "seed", "margin"), [("transe", 0, 0.25), ("transm", 1, 0.36)])
def test_a_withheld_step_comes_first(system, seed, margin):
    """Right for all of 30 seeds. On the unit sphere, where both are at home, no two steps of a row are alike."""
    train, (head, relation, tail) = withheld(seed)
    model = doxa.fit(train, system=system, seed=seed, margin=margin, **BALL)
    assert model.tails(head, relation, top=1)[0].name == tail
    assert model.heads(relation, tail, top=1)[0].name == head
    assert model.relations(head, tail, top=1)[0].name == relation
    lengths = model.pbe.score.entity.weight.norm(dim=1)
    assert lengths.max() < 1 + 1e-5
    forth, back = model.credence(beliefs([(head, relation, tail), (tail, relation, head)]))
    assert forth > back


def test_unstructured_cannot_tell_direction(train):
    model = doxa.fit(train, system="unstructured", **TINY)
    table = train.to_frame()
    back = Beliefs.from_frame(table.rename({"head": "tail", "tail": "head"}))
    one, other = judge(model, train), judge(model, back)
    assert np.array_equal(one.credence, other.credence)
    assert np.array_equal(one.verdict, other.verdict)
    assert len(np.unique(one.credence)) > 10


RANKING_RELATIONS = {"dimension": 8, "batch_size": 16, "num_candidates": 64, "learning_rate": 0.5, "epochs": 40,
                     "validation_fraction": 0.0, "threads": 1}  # fmt: skip


def test_jrme_tells_relations_by_entities():
    """One is born in cities and works for companies, whichever they are. Right for all of 30 seeds."""
    rows = [(f"p{i}", "born", f"city{i % 3}") for i in range(16)]
    rows += [(f"p{i}", "works", f"company{(i + 1) % 3}") for i in range(16)]
    model = doxa.fit(beliefs(rows), system="jrme", seed=0, **RANKING_RELATIONS)
    for i in range(16):
        for j in range(3):
            assert model.relations(f"p{i}", f"city{j}", top=1)[0].name == "born"
            assert model.relations(f"p{i}", f"company{j}", top=1)[0].name == "works"


def test_jrme_tells_relations_by_mention():
    """Words decide where the graph cannot. Right for all of 30 seeds."""
    mentions = {"born": "was born in", "lives": "has a flat in"}
    by_turns = [list(mentions)[i % 2] for i in range(12)]
    rows = [(f"p{i}", relation, f"c{i % 4}", mentions[relation]) for i, relation in enumerate(by_turns)]
    model = doxa.fit(beliefs(rows, ("head", "relation", "tail", "mention")), system="jrme", seed=0, **RANKING_RELATIONS)
    for person in ("p0", "p1"):
        for relation, words in mentions.items():
            assert model.relations(person, "c3", mention=words, top=1)[0].name == relation


def test_jrme_has_no_thresholds(train):
    model = doxa.fit(train, system="jrme", **TINY)
    assert np.isnan(model.calibration.thresholds.by_relation).all()


@pytest.mark.parametrize("system", ["se", "slm", "bilinear", "ntn"])
def test_validation_may_consist_of_heads_that_were_never_heads(system):
    train = beliefs([(f"a{i}", f"r{i % 2}", f"b{i * 3 % 7}") for i in range(20)])
    valid = beliefs([(f"b{i % 7}", f"r{i % 2}", f"a{i}") for i in range(12)])
    assert len(doxa.fit(train, valid, system=system, **TINY).tails("a0", "r0")) > 0


def test_each_system_is_repeatable_from_its_seed(train):
    for system in ("transh", "ntn"):
        one, two, other = (doxa.fit(train, system=system, seed=seed, **TINY).pbe.state_dict() for seed in (0, 0, 1))
        assert all(torch.equal(one[name], two[name]) for name in one)
        assert not torch.equal(one["score.entity.weight"], other["score.entity.weight"])


def test_describe_lists_every_system_and_score():
    lists = describe(entities=10, relations=3)
    assert [row["system"] for row in lists["systems"]] == list(SYSTEMS)
    assert [row["score"] for row in lists["scores"]] == list(SCORES)
    sizes = describe(entities=10, relations=3, dimension=5)["scores"]
    by_score = {row["score"]: row["parameters"] for row in sizes}
    assert by_score["translation"] == 10 * 5 + 3 * 5
    assert by_score["complex"] is None  # needs an even dimension


def test_every_option_of_a_score_is_described_with_its_scores():
    rows = describe_options()
    assert {name for _, name, *_ in rows} == option_fields().keys()
    assert all(about for *_, about in rows)
    scores = {name: names.split(", ") for names, name, *_ in rows if name != "hidden"}
    assert scores["norm"] == ["translation", "weighted_translation"]
    assert scores["orthogonality"] == ["hyperplane"]
    hidden = {names: default for names, name, default, *_ in rows if name == "hidden"}
    assert hidden == {"single_layer": "50", "neural_tensor": "4"}
