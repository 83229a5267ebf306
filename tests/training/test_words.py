"""The separate mention term: a regression of the relation on the words, trained by itself."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from doxa.data.batch import Batch
from doxa.data.beliefs import Beliefs
from doxa.errors import UsageError
from doxa.evaluation.report import evaluate
from doxa.model import fit
from doxa.scores import Mention, SeparateMention
from doxa.storage.folders import signed
from doxa.systems import build, parameters, recipe
from doxa.training import words
from doxa.training.words import Regression, cross_validated, fit_words, prepare_words, update_words
from tests import reference_words
from tests.worlds import board, ragged_rows, random_beliefs, settings_of

QUICK = {"score": "translation", "dimension": 8, "epochs": 3, "threads": 1}


def random_regression(seed, confidence="weight"):
    table = random_beliefs(seed)[0]
    table = replace(table, confidence=np.random.default_rng(seed).uniform(0.1, 1.0, len(table)))
    return table, Regression.of(table, 4, settings_of(confidence=confidence))


@pytest.mark.parametrize("confidence", ["weight", "ignore"])
@pytest.mark.parametrize("centered", [True, False])
def test_the_loss_equals_the_reference_and_its_gradient_finite_differences(confidence, centered):
    table, problem = random_regression(1, confidence)
    stated = table.where(table.mention.lengths > 0)
    generator = torch.Generator().manual_seed(0)
    weights, center = (torch.randn(6, 4, generator=generator) for _ in range(2))
    importance = stated.confidence if confidence == "weight" else np.ones(len(stated))

    def slow(numbers):
        rows = ragged_rows(stated.mention)
        slow_center = center.double().numpy() if centered else None
        return reference_words.regression_loss(numbers, rows, stated.relation, importance, 0.7, slow_center)

    value, gradient = problem.loss(weights, 0.7, center if centered else None)
    assert float(value) == pytest.approx(slow(weights.double().numpy()), rel=1e-5)
    for place in [(0, 0), (3, 2), (5, 1)]:
        ahead, behind = weights.double().numpy().copy(), weights.double().numpy().copy()
        ahead[place] += 1e-4
        behind[place] -= 1e-4
        assert float(gradient[place]) == pytest.approx((slow(ahead) - slow(behind)) / 2e-4, abs=1e-4)


def test_the_solution_is_the_minimum_and_repeats():
    _, problem = random_regression(2)
    weights = problem.solve(1.0, problem.zeros())
    _, gradient = problem.loss(weights, 1.0)
    assert float(gradient.abs().max()) < 2e-3
    assert torch.equal(weights, problem.solve(1.0, problem.zeros()))


def test_a_separate_term_is_a_sum_of_word_addends_and_one_number_per_relation():
    table, rows = random_beliefs(3)
    pbe = build(table, settings_of(mention_term="separate", dimension=8))
    assert isinstance(pbe.mention, SeparateMention)
    generator = torch.Generator().manual_seed(0)
    pbe.mention.word.weight.normal_(generator=generator)
    pbe.mention.beta.copy_(torch.arange(4.0))
    logits = pbe.mention_logits(Batch.of(table, rows))
    for row, ids in enumerate(ragged_rows(table.mention.take(rows))):
        addends = pbe.word_addends(torch.tensor(ids, dtype=torch.int64))
        expected = addends.sum(0) + pbe.mention.beta if ids else torch.zeros(4)
        assert torch.allclose(logits[row], expected, atol=1e-6)
    narrow = pbe.mention_logits(Batch.of(table, rows), torch.tensor([2, 0]))
    assert torch.equal(narrow, logits[:, [2, 0]])


def test_steps_of_the_score_leave_separate_words_alone():
    model = fit(Beliefs.from_frame(board(4)), validation_fraction=0.2, **QUICK)
    mention = model.pbe.mention
    assert model.settings.mention_term == "separate"
    assert isinstance(mention, SeparateMention)
    other = fit(Beliefs.from_frame(board(4)), validation_fraction=0.2, **QUICK | {"epochs": 1, "score": "complex"})
    assert torch.equal(other.pbe.mention.word.weight, mention.word.weight)


def test_words_that_decide_the_relation_decide_it_for_unseen_entities_too():
    model = fit(Beliefs.from_frame(board(5)), validation_fraction=0.2, **QUICK)
    rows = [("x", "up", "y", "one step up"), ("x", "right", "1,1", "one step to the right")]
    report = evaluate(model, Beliefs.of(rows), tasks=["relation"], popularity=False).relation
    assert report.raw.hits[1] == report.words.raw.hits[1] == 1.0
    assert report.entities.raw.hits[1] == 0.0
    assert report.entities.raw.mr == 1.5
    assert set(report.as_dict()) == {"raw", "filtered", "entities", "words"}


def test_the_mention_term_is_separate_unless_the_objective_or_the_size_forbids(monkeypatch):
    table = Beliefs.from_frame(board(3))

    def term(**values):
        return prepare_words(table, recipe(values))[1].mention_term

    assert term() == "separate"
    assert term(mention_term="joint") == "joint"
    assert term(objective="confidence") == term(estimator="negative") == term(system="jrme") == "joint"
    with pytest.raises(UsageError, match="mention_term=separate needs"):
        recipe({"mention_term": "separate", "estimator": "negative"})
    monkeypatch.setattr(words, "MAX_WEIGHTS", 2 * len(table.vocabularies.words))
    unmarked, settings = prepare_words(table, recipe({}))
    assert settings.mention_term == "separate"
    assert not settings.mention_places
    assert unmarked is table
    monkeypatch.setattr(words, "MAX_WEIGHTS", 1)
    assert term() == "joint"


def test_a_joint_term_is_as_before_and_its_words_move_with_the_score():
    model = fit(Beliefs.from_frame(board(4)), mention_term="joint", **QUICK)
    assert isinstance(model.pbe.mention, Mention)
    assert not model.vocabularies.places
    assert model.pbe.mention.word.weight.shape[1] == 8
    assert model.pbe.mention.word.weight.abs().sum() > 0


def test_without_weight_the_words_stay_at_zero():
    model = fit(Beliefs.from_frame(board(4)), mention_weight=0.0, **QUICK)
    assert not model.pbe.mention.word.weight.any()


def test_an_update_moves_words_towards_new_beliefs_from_where_they_are():
    table, settings = prepare_words(Beliefs.from_frame(board(5)), recipe(QUICK))
    pbe = build(table, settings)
    fit_words(pbe, table, None, settings)
    before = pbe.mention.word.weight.clone()
    new = Beliefs.of([("0,0", "up", "0,1", "its right side touches")] * 5).encode(table.vocabularies)
    update_words(pbe, new, settings)
    up, word = table.vocabularies.relations.id("up"), table.vocabularies.words.id("touches")
    assert pbe.mention.word.weight[word, up] > before[word, up]
    unused = np.setdiff1d(np.arange(len(before)), new.mention.values)
    assert torch.allclose(pbe.mention.word.weight[unused], before[unused], atol=1e-6)
    unmoved = pbe.mention.word.weight.clone()
    update_words(pbe, new.without_mentions(), settings)
    assert torch.equal(pbe.mention.word.weight, unmoved)


def test_validation_decides_whether_the_words_of_names_count():
    """Names that tell the relation are used; names that tell another one than in validation are not."""
    phrases = {"r0": "is put into", "r1": "comes out of"}
    rows = [(f"a{i % 4} x{i % 2}", f"r{i % 2}", f"b{i % 3}", "so it is") for i in range(120)]
    used = _named(Beliefs.of(rows), Beliefs.of(rows[:60]))
    assert used["head=x0"].abs().sum() > 0.1
    rows = [(f"a{i % 4} x{i % 2}", f"r{i % 2}", f"b{i % 3}", phrases[f"r{i % 2}"]) for i in range(120)]
    misled = _named(Beliefs.of(rows), Beliefs.of([(f"x{1 - i % 2}", *row[1:]) for i, row in enumerate(rows[:60])]))
    assert not misled["head=x0"].any()
    assert misled["put"].any()


def test_without_validation_words_that_decide_get_large_weights_and_names_none():
    rows = [(f"a{i % 5}", f"r{i % 2}", f"b{i % 2}", ("is put into", "comes out of")[i % 2]) for i in range(20)]
    weights = _named(Beliefs.of(rows), None)
    assert weights["put"].abs().max() > 0.5
    assert weights["tail=b0"].abs().max() == 0.0


def test_cross_validation_chooses_the_strength_that_the_reference_does():
    random = np.random.default_rng(0)
    drawn = [(f"r{r}", f"w{r if random.random() < 0.7 else random.integers(4)}") for r in random.integers(0, 3, 40)]
    table = Beliefs.of([(f"a{i % 7}", relation, f"b{i}", word) for i, (relation, word) in enumerate(drawn)])
    names = np.zeros(len(table.vocabularies.words), bool)
    fold = words.folds(table, np.random.default_rng(3))
    strengths = (*words.STRENGTHS, *words.WEAK_STRENGTHS)
    losses = [sum(_withheld_loss(table, fold == one, strength) for one in range(words.FOLDS)) for strength in strengths]
    assert 0 < np.argmin(losses) < len(strengths) - 1
    assert cross_validated(table, names, 3, settings_of(seed=3)) == strengths[np.argmin(losses)]


def _withheld_loss(table, withheld, strength):
    """−log likelihood of the withheld beliefs after training on the others to this strength."""
    problem = Regression.of(table.where(~withheld), 3, settings_of())
    weights, rest = problem.solve(strength, problem.zeros()).double().numpy(), table.where(withheld)
    return reference_words.regression_loss(
        weights, ragged_rows(rest.mention), rest.relation, np.ones(len(rest)), 0.0, None
    ) * len(rest)


def test_mentions_of_a_triple_are_in_one_fold_and_a_single_triple_has_nothing_to_choose_by():
    table = Beliefs.of([("a", "r", f"b{i % 8}", f"it is w{i}") for i in range(32)])
    fold = words.folds(table, np.random.default_rng(0))
    assert all(len(set(fold[table.tail == tail])) == 1 for tail in np.unique(table.tail))
    assert set(fold) == set(range(words.FOLDS))
    one = table.where(table.tail == table.tail[0])
    assert cross_validated(one, np.zeros(len(table.vocabularies.words), bool), 1, settings_of()) == words.UNVALIDATED


def _named(train, valid):
    """The weights of each word after training on one set and validating on the other."""
    table, settings = prepare_words(train, recipe(QUICK))
    pbe = build(table, settings)
    fit_words(pbe, table, None if valid is None else valid.encode(table.vocabularies), settings)
    return dict(zip(table.vocabularies.words.names, pbe.mention.word.weight, strict=True))


def test_separate_words_count_as_parameters():
    joint = parameters(settings_of(mention_term="joint", dimension=5), 10, 4)
    assert parameters(settings_of(mention_term="separate", dimension=5), 10, 4, 7) == joint + 7 * 4 + 4


def test_a_saved_model_answers_the_same_and_a_folder_without_the_setting_is_joint(tmp_path):
    model = fit(Beliefs.from_frame(board(4)), validation_fraction=0.2, **QUICK)
    model.save(tmp_path / "m")
    loaded = type(model).load(tmp_path / "m")
    question = [("x", "?", "1,2", "one step up")]
    assert loaded.vocabularies.places
    assert loaded.ask(question)[0].as_dict() == model.ask(question)[0].as_dict()
    fit(Beliefs.from_frame(board(4)), mention_term="joint", **QUICK).save(tmp_path / "old")
    manifest = json.loads((tmp_path / "old" / "model.json").read_text())
    del manifest["settings"]["mention_term"], manifest["settings"]["mention_places"], manifest["judge"]["sentence"]
    (tmp_path / "old" / "model.json").write_text(signed(manifest))
    old = type(model).load(tmp_path / "old")
    assert isinstance(old.pbe.mention, Mention)
    assert not old.vocabularies.places
