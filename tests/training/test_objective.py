"""The objective against the reference: Eqs 4 and 5, margin ranking, term weights and regularization."""

import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from doxa.data.batch import Batch
from doxa.data.beliefs import Beliefs
from doxa.data.triples import TripleIndex
from doxa.errors import UsageError
from doxa.estimators import Candidates
from doxa.systems import build, recipe
from doxa.training.gather import SparseStep
from doxa.training.objective import batch_loss
from doxa.training.weights import TermWeighting
from tests import reference
from tests.worlds import (
    assert_gradients_equal_finite_differences,
    batch_of,
    beliefs,
    board,
    losses,
    random_beliefs,
    random_pbe,
    row_of,
    settings_of,
)

ENTITIES, RELATIONS = 7, 4
ROWS = [(0, 0, 1, [0, 2]), (5, 3, 6, []), (2, 1, 2, [4]), (3, 2, 1, [0, 1, 2, 3])]
CONFIDENCE = [0.9, 0.3, float("nan"), 1.0]
HEADS, LINKS, TAILS = [0, 2, 4], [0, 1, 3], [1, 2, 5, 6]
ALL_FOUR = {"head_weight": 0.7, "relation_weight": 1.3, "tail_weight": 0.9, "mention_weight": 0.4}
JRME = {"head_weight": 0.0, "relation_weight": 1.0, "tail_weight": 0.0, "mention_weight": 1.0}


def candidates():
    return Candidates(*(torch.tensor(ids) for ids in (HEADS, LINKS, TAILS)))


def batch():
    return batch_of(ROWS, CONFIDENCE)


def by_term(s):
    return {"head": s.head_weight, "relation": s.relation_weight, "tail": s.tail_weight, "mention": s.mention_weight}


def assert_sums_to(values, total):
    """The loss of a batch is the sum over its beliefs."""
    assert total.item() == pytest.approx(values.sum().item(), rel=1e-9)


@given(
    st.integers(0, 10_000),
    st.sampled_from([("likelihood", "sampled"), ("likelihood", "negative"), ("confidence", "negative")]),
    st.sampled_from([1, 2]),
    st.sampled_from(["weight", "ignore"]),
)
@hypothesis_settings(max_examples=40, deadline=None)
def test_every_objective_equals_the_reference(seed, kind, norm, confidence):
    objective, estimator = kind
    s = settings_of(dimension=3, scale=1.5, norm=norm, objective=objective, estimator=estimator, negative_weight=3,
                    confidence=confidence, epsilon=1e-3, eta=1e-2, **ALL_FOUR)  # fmt: skip
    pbe, world = random_pbe(seed, norm=norm)
    values = losses(pbe, batch(), candidates(), s)
    assert_sums_to(values, batch_loss(pbe, batch(), candidates(), s))
    for row, c, value in zip(ROWS, CONFIDENCE, values.tolist(), strict=True):
        terms = reference.log_estimates(world, row, (HEADS, LINKS, TAILS), estimator, 3, 1e-3, 1e-2)
        if objective == "confidence":
            expected = reference.confidence_loss(terms, by_term(s), c)
        else:
            expected = reference.likelihood_loss(terms, by_term(s), c, confidence == "weight")
        assert value == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize(("epsilon", "floor"), [(1e-2, 1e-2), (1e-4, 1e-4), (0.0, 1e-6)])
def test_a_confidence_below_epsilon_counts_as_epsilon(epsilon, floor):
    """Eq. 5 has the logarithm of the confidence; without ε the floor is 1e-6."""
    s = settings_of(dimension=3, scale=1.5, objective="confidence", negative_weight=3, epsilon=epsilon, eta=1e-2,
                    **ALL_FOUR)  # fmt: skip
    pbe, world = random_pbe(0)
    confidence = [0.0, 1e-7, 1e-3, 0.5]
    values = losses(pbe, batch_of(ROWS, confidence), candidates(), s).tolist()
    for row, c, value in zip(ROWS, confidence, values, strict=True):
        terms = reference.log_estimates(world, row, (HEADS, LINKS, TAILS), "negative", 3, epsilon, 1e-2)
        assert value == pytest.approx(reference.confidence_loss(terms, by_term(s), c, floor), rel=1e-6)


@given(st.integers(0, 10_000))
@hypothesis_settings(max_examples=20, deadline=None)
def test_confidence_as_soft_label_equals_the_reference(seed):
    """c · log Pr(1|·) + (1 − c) · log Pr(0|·) in every term; a belief without confidence has the label 1."""
    s = settings_of(dimension=3, scale=1.5, confidence="label", negative_weight=3, epsilon=1e-3, eta=1e-2)
    pbe, world = random_pbe(seed)
    values = losses(pbe, batch(), candidates(), s)
    assert_sums_to(values, batch_loss(pbe, batch(), candidates(), s))
    for row, c, value in zip(ROWS, CONFIDENCE, values.tolist(), strict=True):
        label = 1.0 if math.isnan(c) else c
        terms = reference.log_estimates(world, row, (HEADS, LINKS, TAILS), "negative", 3, 1e-3, 1e-2, label=label)
        assert value == pytest.approx(reference.likelihood_loss(terms, by_term(s), 1.0, False), abs=1e-9)


@pytest.mark.parametrize(
    ("term", "parameter"),
    [("head_weight", "entity"), ("tail_weight", "entity"), ("relation_weight", "relation"), ("mention_weight", "word")],
)
def test_every_term_of_the_objective_moves_its_vectors(term, parameter):
    """With all other terms off, the one left still has a gradient of its own kind."""
    off = dict.fromkeys(ALL_FOUR, 0.0)
    s = settings_of(dimension=3, scale=1.5, **(off | {term: 1.0}))
    pbe, world = random_pbe(12)
    loss = batch_loss(pbe, batch(), candidates(), s)
    loss.backward()
    table = {"entity": pbe.score.entity, "relation": pbe.score.relation, "word": pbe.mention.word}[parameter]
    assert table.weight.grad.to_dense().abs().sum() > 0.01
    expected = 0.0
    for row, c in zip(ROWS, CONFIDENCE, strict=True):
        terms = reference.log_estimates(world, row, (HEADS, LINKS, TAILS), "sampled")
        expected -= (1.0 if math.isnan(c) else c) * terms[term.removesuffix("_weight")] / 3
    assert loss.item() == pytest.approx(expected)


def test_corrected_candidates_count_for_all_that_they_stand_for():
    s = settings_of(dimension=3, scale=1.5)
    pbe, world = random_pbe(12)
    shares = (7 / 4, 4 / 3, 5 / 2)
    drawn = replace(candidates(), log_share=tuple(math.log(share) for share in shares))
    expected = 0.0
    for row, c in zip(ROWS, CONFIDENCE, strict=True):
        terms = reference.log_estimates(world, row, (HEADS, LINKS, TAILS), "sampled", shares=shares)
        expected -= (1.0 if math.isnan(c) else c) * sum(terms.values()) / 3
    assert batch_loss(pbe, batch(), drawn, s).item() == pytest.approx(expected)


KINDS = [
    {"estimator": "sampled"},
    {"estimator": "negative"},
    {"estimator": "exact"},
    {"confidence": "label"},
    {"objective": "confidence", "estimator": "negative"},
]


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("norm", [1, 2])
def test_the_gradient_of_the_objective_equals_finite_differences(kind, norm):
    s = settings_of(dimension=3, scale=1.5, norm=norm, negative_weight=3, **kind)
    pbe, _ = random_pbe(13, norm=norm, **kind)
    drawn = Candidates.every(pbe) if s.estimator == "exact" else candidates()
    assert pbe.score.alpha.requires_grad is (s.training_estimator == "negative")
    assert_gradients_equal_finite_differences(lambda: batch_loss(pbe, batch(), drawn, s), pbe)


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("norm", [1, 2])
def test_the_gradient_of_a_sparse_step_equals_finite_differences(kind, norm):
    """The path that training takes: vectors gathered once, tables fused with their estimates, α trained."""
    s = settings_of(dimension=3, scale=1.5, norm=norm, negative_weight=3, **kind)
    pbe, _ = random_pbe(14, norm=norm, **kind)
    drawn = Candidates.every(pbe) if s.estimator == "exact" else candidates()
    step = SparseStep(pbe, s)
    assert_gradients_equal_finite_differences(lambda: step.loss(batch(), drawn), pbe)


@pytest.mark.parametrize("score", ["translation", "complex"])
@pytest.mark.parametrize("scale", [1.0, 1000.0])
def test_the_fused_loss_equals_the_plain_one_at_any_scale(score, scale):
    """Also where exponentials overflow in float32."""
    train = beliefs([("a", "r", "b"), ("b", "s", "c"), ("c", "r", "d"), ("d", "t", "a")])
    s = settings_of(score=score, dimension=4, scale=scale)
    pbe = build(train, s)
    every = Candidates.every(pbe)
    step = SparseStep(pbe, s).loss(Batch.of(train), every)
    step.backward()
    fused = pbe.score.entity.weight.grad.to_dense()
    pbe.zero_grad()
    whole = batch_loss(pbe, Batch.of(train), every, s)
    whole.backward()
    assert step.item() == pytest.approx(whole.item(), rel=1e-5)
    assert torch.isfinite(fused).all()
    assert torch.allclose(fused, pbe.score.entity.weight.grad, rtol=1e-3, atol=1e-4 * scale)


@given(
    st.integers(0, 10_000),
    st.sampled_from([1, 2]),
    st.booleans(),
    st.sampled_from([ALL_FOUR, JRME]),
    st.booleans(),
    st.sampled_from([0, 1, 2]),
)
@hypothesis_settings(max_examples=40)
def test_margin_ranking_equals_the_reference(seed, norm, filtered, weights, bernoulli, cap):
    s = settings_of(dimension=3, scale=1.5, norm=norm, objective="margin", margin=1.7, **weights)
    pbe, world = random_pbe(seed, norm=norm)
    train, rows = random_beliefs(seed)
    known = [tuple(triple) for triple in train.triples.tolist()]
    facts, drawn = TripleIndex(train.triples, ENTITIES, RELATIONS), candidates()
    if filtered:
        drawn = drawn.without_known(Batch.of(train, rows), facts)
    term_weights = TermWeighting(facts, bernoulli, cap).of(Batch.of(train, rows))
    values = losses(pbe, Batch.of(train, rows), drawn, s, term_weights)
    assert_sums_to(values, batch_loss(pbe, Batch.of(train, rows), drawn, s, term_weights))
    for row, value in zip(rows, values.tolist(), strict=True):
        belief = row_of(train, row)
        terms = reference.log_estimates(
            world, belief, (HEADS, LINKS, TAILS), "margin", margin=1.7, known=known if filtered else ()
        )
        if bernoulli:
            of_head = reference.head_share(known, belief[1])
            terms |= {"head": 2 * of_head * terms["head"], "tail": 2 * (1 - of_head) * terms["tail"]}
        if cap:
            of_head, of_tail = reference.answer_caps(known, belief[:3], cap)
            terms |= {"head": of_head * terms["head"], "tail": of_tail * terms["tail"]}
        assert value == pytest.approx(-reference.log_credence(terms, by_term(s)), rel=1e-6)


@pytest.mark.parametrize("norm", [1, 2])
@pytest.mark.parametrize("weights", [ALL_FOUR, JRME], ids=["all", "jrme"])
def test_the_gradient_of_margin_ranking_equals_finite_differences(norm, weights):
    s = settings_of(dimension=3, scale=1.5, norm=norm, objective="margin", margin=1.7, **weights)
    pbe, _ = random_pbe(3, norm=norm, objective="margin")
    train, rows = random_beliefs(3)
    facts = TripleIndex(train.triples, ENTITIES, RELATIONS)
    drawn = candidates().without_known(Batch.of(train, rows), facts)
    term_weights = TermWeighting(facts, True, 2).of(Batch.of(train, rows))
    assert_gradients_equal_finite_differences(
        lambda: batch_loss(pbe, Batch.of(train, rows), drawn, s, term_weights), pbe
    )


@pytest.mark.parametrize("score", ["translation", "hyperplane", "structured", "bilinear", "neural_tensor"])
def test_the_l2_penalty_joins_the_objective(score):
    """The squares of every parameter that the score of a belief uses; an entity that is head and tail counts twice."""
    train = beliefs([("a", "r", "b"), ("b", "s", "b")])
    hidden = {"hidden": 2} if score == "neural_tensor" else {}
    settings = settings_of(score=score, dimension=4, objective="margin", **hidden)
    pbe = build(train, settings).double()
    more = added(pbe, train, settings, l2=0.3)
    for i, (h, r, t) in enumerate(train.triples.tolist()):
        of_relation = [pbe.score.get_parameter(f"{name}.weight")[r] for name in pbe.score.relation_tables]
        vectors = [pbe.score.entity.weight[h], pbe.score.entity.weight[t], *of_relation]
        assert more[i].item() == pytest.approx(0.3 * reference.squares(v.tolist() for v in vectors))


def added(pbe, train, settings, **values):
    """What other values add to the loss of each belief, in a whole batch as in batches of one."""
    every, whole = Candidates.every(pbe), Batch.of(train)
    other = settings.changed(**values)
    difference = losses(pbe, whole, every, other) - losses(pbe, whole, every, settings)
    assert_sums_to(difference, batch_loss(pbe, whole, every, other) - batch_loss(pbe, whole, every, settings))
    return difference


def test_the_soft_constraint_of_hyperplanes_joins_the_objective():
    train = beliefs([("a", "r", "b"), ("b", "s", "b"), ("a", "r", "c")])
    settings = settings_of(score="hyperplane", dimension=4, objective="margin")
    plain, constrained = build(train, settings).double(), build(train, settings.changed(orthogonality=0.2)).double()
    every, whole = Candidates.every(plain), Batch.of(train)
    more = losses(constrained, whole, every, settings) - losses(plain, whole, every, settings)
    vectors = [
        [table.weight[r].detach().numpy() for r in train.relation]
        for table in (plain.score.relation, plain.score.normal)
    ]
    penalties = [reference.slant_penalty(step, normal) for step, normal in zip(*vectors, strict=True)]
    assert min(penalties) > 0
    assert more.tolist() == pytest.approx([0.2 * penalty for penalty in penalties])


@pytest.mark.parametrize("estimator", ["sampled", "negative", "exact"])
def test_margin_ranking_has_no_use_for_an_estimator(estimator):
    with pytest.raises(UsageError, match=f"has no use for estimator={estimator}"):
        recipe({"system": "transe", "estimator": estimator})


def test_confidence_weights_the_ranking_when_asked():
    train = Beliefs.from_frame(board(3).with_columns(confidence=0.25))
    settings = recipe({"system": "jrme", "dimension": 4})
    pbe, whole = build(train, settings), Batch.of(train)
    every = Candidates.every(pbe)
    weighted = losses(pbe, whole, every, settings.changed(confidence="weight"))
    ignored = losses(pbe, whole, every, settings)
    assert torch.allclose(weighted, 0.25 * ignored)
    assert ignored.sum() > 0
