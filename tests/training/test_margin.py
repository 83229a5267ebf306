"""Margin ranking against the slow twin: hinge, term_weights, known facts left out, constraints and penalties."""

import numpy as np
import pytest
import torch
from doxa.training.constraints import constrain, constraints
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from doxa.data.batch import Batch
from doxa.data.beliefs import Beliefs
from doxa.data.triples import TripleIndex
from doxa.errors import UsageError
from doxa.scores.pairwise import Places
from doxa.systems import build, recipe
from doxa.training.candidates import Candidates, every_candidate
from doxa.training.gather import SparseStep
from doxa.training.loop import Trainer
from doxa.training.objective import estimates, margin_estimate, objective, softmax_estimate
from doxa.training.optimizers import RowAdagrad, RowSGD
from doxa.training.weights import TermWeighting, corrupted_head_share, term_weighting
from tests import reference
from tests.worlds import assert_gradients_equal_finite_differences, beliefs, board, random_pbe, settings_of

ENTITIES, RELATIONS = 7, 4
HEADS, LINKS, TAILS = [0, 2, 4, 6], [0, 1, 3], [1, 2, 5, 6]
ALL_FOUR = {"head_weight": 0.7, "relation_weight": 1.3, "tail_weight": 0.9, "mention_weight": 0.4}
JRME = {"head_weight": 0.0, "relation_weight": 1.0, "tail_weight": 0.0, "mention_weight": 1.0}
NAMES = {"head": "head_weight", "relation": "relation_weight", "tail": "tail_weight", "said": "mention_weight"}


def candidates():
    return Candidates(*(torch.tensor(ids) for ids in (HEADS, LINKS, TAILS)))


def world(seed, count=6):
    """Beliefs whose ids are those of the random models: triples in a crowded space, some with words."""
    random = np.random.default_rng(seed)
    entities, relations = [f"e{i}" for i in range(ENTITIES)], [f"r{i}" for i in range(RELATIONS)]
    every = [(entities[i], relations[i % RELATIONS], entities[i], "w0 w1 w2 w3 w4") for i in range(ENTITIES)]
    rows = [
        (entities[h], relations[r], entities[t], " ".join(f"w{w}" for w in random.permutation(5)[: random.integers(3)]))
        for h, r, t in random.integers(0, (ENTITIES, RELATIONS, ENTITIES), (count + 40, 3))
    ]
    return beliefs([*every, *rows], ("head", "relation", "tail", "mention")), np.arange(ENTITIES, ENTITIES + count)


def plain(some, row):
    return (
        int(some.head[row]),
        int(some.relation[row]),
        int(some.tail[row]),
        some.mention.take(np.array([row])).values.tolist(),
    )


@given(
    st.lists(st.floats(-3, 3), min_size=1, max_size=8),
    st.floats(-3, 3),
    st.floats(0, 2),
    st.sets(st.integers(0, 7)),
)
def test_the_hinge_equals_the_reference(others, truth, margin, left_out):
    own = torch.tensor(sorted(x for x in left_out if x < len(others)), dtype=torch.int64)
    table, value = torch.tensor([others], dtype=torch.float64), torch.tensor([truth], dtype=torch.float64)
    found = margin_estimate(value, table, Places(torch.zeros_like(own), own), margin)
    kept = [x for i, x in enumerate(others) if i not in left_out]
    assert found.item() == pytest.approx(reference.hinge(truth, kept, margin))
    assert table.tolist() == [others]  # the scores are not spoilt for their other readers


@given(
    st.integers(0, 10_000),
    st.sampled_from([1, 2]),
    st.booleans(),
    st.sampled_from([ALL_FOUR, JRME]),
    st.booleans(),
    st.sampled_from([0, 1, 2]),
)
@hypothesis_settings(max_examples=40)
def test_margin_ranking_equals_the_reference(seed, norm, avoid_known, weights, bernoulli, crowd):
    s = settings_of(dimension=3, scale=1.5, norm=norm, objective="margin", margin=1.7, **weights)
    pbe, slow = random_pbe(seed, norm=norm)
    some, rows = world(seed)
    known = [tuple(triple) for triple in some.triples.tolist()]
    facts = TripleIndex(some.triples, ENTITIES, RELATIONS)
    drawn = candidates().without_known(some, rows, facts) if avoid_known else candidates()
    term_weights = TermWeighting(facts, bernoulli, crowd).of(Batch.of(some, rows))
    found = objective(pbe, Batch.of(some, rows), drawn, s, term_weights)
    for row, value in zip(rows, found.tolist(), strict=True):
        belief = plain(some, row)
        terms = reference.log_estimates(
            slow, belief, (HEADS, LINKS, TAILS), "margin", margin=1.7, known=known if avoid_known else ()
        )
        if bernoulli:
            of_head = reference.head_share(known, belief[1])
            terms |= {"head": 2 * of_head * terms["head"], "tail": 2 * (1 - of_head) * terms["tail"]}
        if crowd:
            of_head, of_tail = reference.heard(known, belief[:3], crowd)
            terms |= {"head": of_head * terms["head"], "tail": of_tail * terms["tail"]}
        expected = -reference.log_credence(terms, {name: weights[knob] for name, knob in NAMES.items()})
        assert value == pytest.approx(expected, rel=1e-6)


@given(st.integers(0, 10_000), st.sampled_from(["sampled", "negative"]))
@hypothesis_settings(max_examples=20)
def test_every_estimator_can_leave_known_facts_out(seed, estimator):
    s = settings_of(dimension=3, scale=1.5, estimator=estimator, negative_weight=3)
    pbe, slow = random_pbe(seed)
    some, rows = world(seed)
    known = [tuple(triple) for triple in some.triples.tolist()]
    drawn = candidates().without_known(some, rows, TripleIndex(some.triples, ENTITIES, RELATIONS))
    found = estimates(pbe, Batch.of(some, rows), drawn, s)
    for i, row in enumerate(rows):
        terms = reference.log_estimates(slow, plain(some, row), (HEADS, LINKS, TAILS), estimator, 3, known=known)
        assert {name: getattr(found, name)[i].item() for name in NAMES} == pytest.approx(terms)


def test_a_known_fact_left_out_may_score_as_high_as_it_likes():
    """Only the other candidate is left beside the truth."""
    first = Places(torch.tensor([0]), torch.tensor([0]))
    for height in (0.0, 50.0, 500.0):
        found = softmax_estimate(torch.tensor([1.0]), torch.tensor([[height, 0.0]]), first)
        assert found.item() == pytest.approx(-np.log(1 + np.exp(-1)), rel=1e-5)


@pytest.mark.parametrize("norm", [1, 2])
@pytest.mark.parametrize("weights", [ALL_FOUR, JRME], ids=["all", "jrme"])
def test_the_gradient_of_margin_ranking_equals_finite_differences(norm, weights):
    s = settings_of(dimension=3, scale=1.5, norm=norm, objective="margin", margin=1.7, **weights)
    pbe, _ = random_pbe(3, norm=norm, objective="margin")
    some, rows = world(3)
    facts = TripleIndex(some.triples, ENTITIES, RELATIONS)
    drawn = candidates().without_known(some, rows, facts)
    term_weights = TermWeighting(facts, True, 2).of(Batch.of(some, rows))
    assert_gradients_equal_finite_differences(
        lambda: objective(pbe, Batch.of(some, rows), drawn, s, term_weights).sum(), pbe
    )


def test_jrme_moves_by_the_relation_and_by_the_mention_alone():
    """[γ + D(h,r′,t) − D(h,r,t)]₊ and [γ + F(r′,m) − F(r,m)]₊, no head and no tail replaced."""
    settings = recipe({"system": "jrme", "dimension": 3})
    pbe, _ = random_pbe(1)
    some, rows = world(1)
    found = estimates(pbe, Batch.of(some, rows), candidates(), settings)
    assert found.head.abs().sum() == found.tail.abs().sum() == 0
    assert (found.relation < 0).any()
    assert (found.said < 0).any()
    assert settings.mentions
    assert settings.training_estimator == "margin"


def test_no_falsehood_within_the_margin_costs_nothing():
    others = torch.tensor([[-1.0, -2.0], [0.5, -2.0]])
    nothing = Places(*torch.zeros(2, 0, dtype=torch.int64))
    truth = torch.tensor([0.0, 0.0], requires_grad=True)
    found = margin_estimate(truth, others, nothing, 1.0)
    assert found.tolist() == [0.0, -0.75]
    found.sum().backward()
    assert truth.grad.tolist() == [0.0, 0.5]


triples = st.lists(
    st.tuples(st.integers(0, ENTITIES - 1), st.integers(0, RELATIONS - 1), st.integers(0, ENTITIES - 1)),
    min_size=1,
    max_size=30,
)


@given(triples)
def test_the_bernoulli_rule_is_counted_from_the_facts(known):
    facts = TripleIndex(np.array([*known, known[0]]), ENTITIES, RELATIONS)
    expected = [reference.head_share(known, r) for r in range(RELATIONS)]
    assert corrupted_head_share(facts).tolist() == pytest.approx(expected)


def test_a_one_to_many_relation_has_mostly_its_head_replaced():
    facts = TripleIndex(np.array([(0, 0, t) for t in range(1, 5)] + [(h, 1, 0) for h in range(1, 5)]), 5, 2)
    assert corrupted_head_share(facts).tolist() == pytest.approx([0.8, 0.2])


@given(triples, st.integers(0, 99))
def test_exactly_the_known_candidates_are_left_out(known, seed):
    some = beliefs([(f"e{h}", f"r{r}", f"e{t}") for h, r, t in known])
    random = np.random.default_rng(seed)
    rows = random.integers(0, len(some), 5)
    sizes = len(some.vocabularies.entities), len(some.vocabularies.relations), len(some.vocabularies.entities)
    drawn = Candidates(*(torch.from_numpy(np.flatnonzero(random.random(n) < 0.7)) for n in sizes))
    if not all(map(len, (drawn.heads, drawn.relations, drawn.tails))):
        return
    found = drawn.without_known(some, rows, TripleIndex(some.triples, sizes[0], sizes[1]))
    facts = set(map(tuple, some.triples.tolist()))
    for column, ids, places in (
        (0, drawn.heads, found.own.heads),
        (1, drawn.relations, found.own.relations),
        (2, drawn.tails, found.own.tails),
    ):
        expected = set()
        for i, row in enumerate(rows):
            for j, x in enumerate(ids.tolist()):
                triple = some.triples[row].tolist()
                triple[column] = x
                if tuple(triple) in facts:
                    expected.add((i, j))
        assert set(zip(*(part.tolist() for part in places), strict=True)) == expected
        assert len(places.rows) == len(expected)
    assert torch.equal(found.heads, drawn.heads)


SMALL = {"dimension": 4, "epochs": 2, "batch_size": 16, "num_candidates": 8}


def trainer(some, **values):
    settings = recipe(SMALL | values)
    return Trainer(build(some, settings), some, settings)


@pytest.mark.parametrize("avoid_known", [True, False])
def test_where_everything_is_known_nothing_is_held_against_it(avoid_known):
    """Every triple of three entities is a fact: without known ones there is no falsehood left to learn from."""
    some = beliefs([(h, r, t) for h in "abc" for r in "xy" for t in "abc"])
    run = trainer(some, system="transe", filter_negatives=avoid_known, entity_norm="free")
    before = run.pbe.score.entity.weight.clone()
    run.run()
    assert (run.memory.curve[0].loss == 0) is avoid_known
    assert torch.equal(run.pbe.score.entity.weight, before) is avoid_known


def test_ranking_corrupts_with_any_entity_and_both_sides_alike():
    """c is never a head, yet it is a falsehood as good as another; likelihoods keep to E_h and E_t."""
    some = beliefs([("a", "r", "b"), ("a", "s", "c"), ("b", "r", "c")])
    ranking = trainer(some, system="transe", learning_rate=1.0, num_candidates=512, entity_norm="free")
    drawn = ranking._candidates(0, np.arange(3))
    assert drawn.heads.tolist() == drawn.tails.tolist() == [0, 1, 2]
    one = trainer(some, system="transe", num_candidates=1)._candidates(5, np.arange(3))
    assert one.heads.tolist() == one.tails.tolist()
    pbe = trainer(some, num_candidates=512)
    assert pbe._candidates(0, np.arange(3)).heads.tolist() == np.unique(some.head).tolist()


def test_a_question_with_a_crowd_of_answers_counts_as_if_it_had_fewer():
    """Four heads of (r, x) count as two together, its own tails and the fifth belief in full."""
    some = beliefs([(h, "r", "x") for h in "abcd"] + [("a", "s", "b")])
    found = TermWeighting(TripleIndex(some.triples, 5, 2), False, 2).of(Batch.of(some))
    assert found.head.tolist() == [0.5] * 4 + [1.0]
    assert found.tail.tolist() == [1.0] * 5


def test_facts_are_counted_only_where_some_terms_count_more():
    for alike in ({}, {"objective": "margin"}, {"objective": "margin", "corruption": "uniform"}):
        assert term_weighting(settings_of(**alike), lambda: pytest.fail("counted")) is None


@pytest.mark.parametrize(("corruption", "crowd"), [("uniform", 0), ("uniform", 1), ("bernoulli", 0), ("bernoulli", 1)])
def test_touched_rows_give_the_same_losses_and_gradients(corruption, crowd):
    """With term_weights and places of known facts, the step's short tables still give the objective itself."""
    values = {"score": "hyperplane", "objective": "margin", "dimension": 3, "corruption": corruption, "crowd": crowd}
    s = recipe(values | ALL_FOUR)
    some, _ = world(4)
    rows = np.flatnonzero(some.relation >= 2)[-6:]  # the first relations have no row in the short tables
    facts = TripleIndex(some.triples, ENTITIES, RELATIONS)
    pbe = build(some, s).double()
    with torch.no_grad():
        pbe.mention.word.weight.normal_(generator=torch.Generator().manual_seed(0))
    batch, counted = Batch.of(some, rows), term_weighting(s, lambda: facts)
    term_weights = counted and counted.of(batch)
    if term_weights:
        assert len(term_weights.head.unique()) > 1
    drawn = Candidates(torch.tensor([2, 5]), torch.tensor([2, 3]), torch.tensor([2, 6])).without_known(
        some, rows, facts
    )
    expected = objective(pbe, batch, drawn, s, term_weights)
    expected.sum().backward()
    dense = {name: p.grad.to_dense().clone() for name, p in pbe.named_parameters() if p.grad is not None}
    pbe.zero_grad()
    loss = SparseStep(pbe, s, counted).loss(batch, drawn)
    loss.backward()
    assert torch.allclose(loss, expected.sum())
    for name, gradient in dense.items():
        assert torch.allclose(pbe.get_parameter(name).grad.to_dense(), gradient), name


def test_the_trainer_takes_its_emphasis_from_the_settings():
    """One head with many tails: with the Bernoulli rule the loss leans on the replaced head, with a crowd it falls."""
    some = beliefs([("a", "r", t) for t in "bcde"] + [("b", "s", "c")])
    first = {}
    for corruption, crowd in (("uniform", 0), ("bernoulli", 0), ("uniform", 2)):
        run = trainer(some, system="transe", corruption=corruption, max_answers=crowd, num_candidates=512)
        drawn, batch = run._candidates(0, np.arange(5)), Batch.of(some)
        term_weights = TermWeighting(TripleIndex(some.triples, 5, 2), corruption == "bernoulli", crowd).of(batch)
        expected = objective(run.pbe, batch, drawn, run.settings, term_weights).sum().item()
        first[corruption, crowd] = run.step(0, np.arange(5), 0.0)
        assert first[corruption, crowd] == pytest.approx(expected, rel=1e-5)
    assert first["uniform", 0] != pytest.approx(first["bernoulli", 0])
    assert first["uniform", 2] < 0.9 * first["uniform", 0]


@pytest.mark.parametrize(
    ("rule", "lengths"), [("free", [0.5, 2.0, 3.0]), ("unit", [1.0, 1.0, 1.0]), ("ball", [0.5, 1.0, 1.0])]
)
def test_constraints_put_entities_back_and_nothing_else(rule, lengths):
    pbe, _ = random_pbe(0)
    table = pbe.score.entity.weight
    with torch.no_grad():
        table[:3] = torch.nn.functional.normalize(table[:3], dim=1) * torch.tensor([[0.5], [2.0], [3.0]])
    before, relations = table.detach().clone(), pbe.score.relation.weight.detach().clone()
    constrain(pbe, rule)
    assert table[:3].norm(dim=1).tolist() == pytest.approx(lengths)
    assert torch.allclose(torch.cosine_similarity(table, before), torch.ones(len(table)).double())
    assert torch.equal(pbe.score.relation.weight, relations)


@pytest.mark.parametrize("kind", [RowAdagrad, RowSGD])
def test_a_step_puts_back_the_rows_it_moved_and_no_other(kind):
    pbe, _ = random_pbe(0)
    table = pbe.score.entity.weight
    before = table.detach().clone()
    optimizer = kind(pbe, constraints(pbe, "unit"))
    rows = torch.tensor([[1, 3]])
    table.grad = torch.sparse_coo_tensor(
        rows, torch.ones(2, table.shape[1], dtype=table.dtype), table.shape, check_invariants=True
    )
    optimizer.step(0.1)
    assert table[[1, 3]].norm(dim=1).tolist() == pytest.approx([1.0, 1.0])
    others = [0, 2, 4, 5, 6]
    assert torch.equal(table[others], before[others])
    assert table[others].norm(dim=1).tolist() != pytest.approx([1.0] * 5)


def test_a_dense_gradient_moves_all_rows_and_puts_them_back():
    pbe, _ = random_pbe(0)
    table = pbe.score.entity.weight
    before = table.detach().clone()
    table.grad = torch.ones_like(table)
    RowSGD(pbe, constraints(pbe, "unit")).step(0.1)
    expected = torch.nn.functional.normalize(before - 0.1, dim=1)
    assert torch.allclose(table, expected)


def test_a_vector_without_length_stays_what_it_is():
    pbe, _ = random_pbe(0)
    with torch.no_grad():
        pbe.score.entity.weight[2] = 0.0
    constrain(pbe, "unit")
    assert pbe.score.entity.weight[2].tolist() == [0.0, 0.0, 0.0]


@pytest.mark.parametrize("rule", ["unit", "ball"])
def test_constraints_hold_from_the_start_and_after_every_step(rule):
    some = Beliefs.from_frame(board(3))
    run = trainer(some, system="transe", entity_norm=rule, learning_rate=2.0, num_candidates=2, schedule="constant")

    def kept():
        lengths = run.pbe.score.entity.weight.norm(dim=1)
        return (lengths - 1).abs().max() < 1e-5 if rule == "unit" else lengths.max() < 1 + 1e-5

    assert kept()
    before = run.pbe.score.entity.weight.clone()
    for number in range(4):
        run.step(number % run.steps_per_epoch, run.order(0), 0.0)
        assert kept()
    assert not torch.equal(run.pbe.score.entity.weight, before)


@pytest.mark.parametrize("score", ["translation", "hyperplane", "structured", "bilinear", "neural_tensor"])
def test_the_l2_penalty_joins_the_objective(score):
    """The squares of every number the score of a belief is made of; an entity that is head and tail counts twice."""
    some = beliefs([("a", "r", "b"), ("b", "s", "b")])
    settings = settings_of(score=score, dimension=4, hidden=2, objective="margin")
    pbe, batch = build(some, settings).double(), Batch.of(some)
    every = every_candidate(pbe)
    more = objective(pbe, batch, every, settings.changed(l2=0.3)) - objective(pbe, batch, every, settings)
    for i, (h, r, t) in enumerate(some.triples.tolist()):
        of_relation = [pbe.score.get_parameter(f"{name}.weight")[r] for name in pbe.score.relation_tables]
        vectors = [pbe.score.entity.weight[h], pbe.score.entity.weight[t], *of_relation]
        assert more[i].item() == pytest.approx(0.3 * reference.squares(v.tolist() for v in vectors))


def test_the_slant_of_hyperplanes_joins_the_objective():
    some = beliefs([("a", "r", "b"), ("b", "s", "b"), ("a", "r", "c")])
    settings = settings_of(score="hyperplane", dimension=4, objective="margin")
    pbe, batch = build(some, settings).double(), Batch.of(some)
    every = every_candidate(pbe)
    more = objective(pbe, batch, every, settings.changed(orthogonality=0.2)) - objective(pbe, batch, every, settings)
    slants = [
        reference.slant(pbe.score.relation.weight[r].detach().numpy(), pbe.score.normal.weight[r].detach().numpy())
        for r in some.relation
    ]
    assert min(slants) > 0
    assert more.tolist() == pytest.approx([0.2 * slant for slant in slants])


@pytest.mark.parametrize("estimator", ["sampled", "negative", "exact"])
def test_margin_ranking_has_no_use_for_an_estimator(estimator):
    with pytest.raises(UsageError, match=f"has no use for estimator={estimator}"):
        recipe({"system": "transe", "estimator": estimator})


def test_confidence_weighs_the_ranking_when_asked():
    table = board(3).with_columns(confidence=0.25)
    some, settings = Beliefs.from_frame(table), recipe({"system": "jrme", "dimension": 4})
    pbe, batch = build(some, settings), Batch.of(some)
    weighed = objective(pbe, batch, every_candidate(pbe), settings.changed(confidence="weight"))
    ignored = objective(pbe, batch, every_candidate(pbe), settings)
    assert torch.allclose(weighed, 0.25 * ignored)
    assert ignored.sum() > 0
