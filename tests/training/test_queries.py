"""Steps over queries are the exact likelihood of all beliefs that answer them."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from doxa.data.beliefs import Beliefs
from doxa.errors import UsageError
from doxa.model import fit
from doxa.scores import SCORES
from doxa.slots import Slot
from doxa.systems import build
from doxa.training import query_steps, words
from doxa.training.checkpoint import Checkpoint
from doxa.training.loop import TrainingLoop
from doxa.training.plan import planned
from doxa.training.queries import Queries, known_slots
from doxa.training.query_steps import QuerySteps, steps_of
from doxa.training.race import members
from doxa.training.steps import Steps
from doxa.training.threads import Threads
from tests import reference
from tests.worlds import beliefs, board, make_score, random_beliefs, settings_of

SETTINGS = [
    {},
    {"n3": 0.2},
    {"l2": 0.3, "entity_norm": "unit"},
    {"tail_weight": 0.0, "relation_weight": 0.4},
    {"relation_weight": 0.0, "optimizer": "sgd"},
    {"head_weight": 0.0, "tail_weight": 0.0},
    {"max_answers": 1, "n3": 0.1},
    {"confidence": "ignore", "scale": 2.5},
    {"filter_negatives": True, "n3": 0.1},
]


@pytest.fixture
def small_parts(monkeypatch):
    monkeypatch.setattr(query_steps, "PART", 2)
    monkeypatch.setattr(query_steps, "BLOCK", 3)


def several_answers():
    """Beliefs with confidence in a small space, so that many queries have several answers; a few are there twice."""
    table, _ = random_beliefs(1)
    confidence = np.random.default_rng(2).uniform(0.3, 1.0, len(table))
    return replace(table, confidence=confidence.astype(table.confidence.dtype))


def one_way():
    """Entities that are never heads, and others that are never tails."""
    random = np.random.default_rng(3)
    return beliefs([(f"h{h}", f"r{r}", f"t{t}") for h, r, t in random.integers(0, (4, 2, 5), (12, 3))])


WORLDS = {"several answers": several_answers, "one way": one_way}


def steps_by(kind, train, **values):
    """Steps in float64; by default each takes all beliefs."""
    values = {"score": "complex", "dimension": 6, "batch_size": len(train), "threads": 1, "mentions": False} | values
    settings = settings_of(estimator="exact", **values)
    return kind(build(train, settings).double(), train, settings)


def run(kind, train, steps, threads=1, **values):
    """The losses of the first steps, and the weights afterwards."""
    work = steps_by(kind, train, **values)
    work.threads = Threads(threads)
    losses = [work.take(number, number / steps) for number in range(steps)]
    work.threads.close()
    return losses, {name: p.detach().clone() for name, p in work.pbe.named_parameters()}


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("score", ["complex", "distmult"])
@pytest.mark.parametrize("values", SETTINGS, ids=str)
def test_a_step_with_all_queries_is_the_exact_step_with_all_beliefs(world, score, values, small_parts):
    train = WORLDS[world]()
    losses, weights = run(Steps, train, 3, score=score, **values)
    by_queries, moved = run(QuerySteps, train, 3, score=score, batch_by="queries", **values)
    assert by_queries == pytest.approx(losses, rel=1e-9)
    for name, table in weights.items():
        torch.testing.assert_close(moved[name], table, rtol=1e-7, atol=1e-9)


def test_the_loss_is_the_exact_likelihood_by_full_sums():
    train = one_way()
    work = steps_by(QuerySteps, train, batch_by="queries")
    weights = dict(work.pbe.named_parameters())
    entity, relation = (weights[f"score.{name}.weight"].detach().numpy() for name in ("entity", "relation"))

    def score(h, r, t):
        return reference.complex_product(entity[h], relation[r], entity[t])

    total = 0.0
    for h, r, t in train.triples.tolist():
        of_head = [score(x, r, t) for x in np.unique(train.head)]
        of_relation = [score(h, x, t) for x in range(len(relation))]
        of_tail = [score(h, r, x) for x in np.unique(train.tail)]
        total += sum(np.log(reference.softmax_share(score(h, r, t), s)) for s in (of_head, of_relation, of_tail)) / 3
    assert work.take(0, 0.0) == pytest.approx(-total, rel=1e-9)


@pytest.mark.parametrize("slot", Slot)
def test_an_epoch_takes_every_answer_of_every_query_once(slot):
    train = several_answers()
    work = steps_by(QuerySteps, train, batch_by="queries", batch_size=10)
    assert work.per_epoch == -(-len(train) // 10)
    taken = []
    for number in range(work.per_epoch, 2 * work.per_epoch):
        queries = work.batch(number).queries[slot]
        known = [ids[queries.rows] for ids in queries.known]
        triples = np.zeros((len(queries.answers), 3), np.int64)
        triples[:, list(known_slots(slot))] = np.stack(known, axis=1)
        triples[:, slot] = queries.answers
        taken += [(*triple, count) for triple, count in zip(triples.tolist(), queries.beliefs, strict=True)]
    distinct, counts = np.unique(train.triples, axis=0, return_counts=True)
    assert sorted(taken) == sorted((*triple, count) for triple, count in zip(distinct.tolist(), counts, strict=True))


def test_queries_add_the_weights_of_beliefs_that_are_there_twice():
    triples = np.array([[0, 0, 1], [2, 0, 1], [0, 0, 3], [0, 0, 1]])
    queries = Queries.of(Slot.TAIL, triples, np.array([0.5, 1.0, 2.0, 0.25]))
    assert [ids.tolist() for ids in queries.known] == [[0, 2], [0, 0]]
    assert queries.bounds.tolist() == [0, 2, 3]
    assert queries.answers.tolist() == [1, 3, 1]
    assert queries.weights.tolist() == [0.75, 2.0, 1.0]
    assert queries.totals.tolist() == [2.75, 1.0]
    assert queries.beliefs.tolist() == [2.0, 1.0, 1.0]
    assert queries.take(np.array([1])).answers.tolist() == [1]


def test_the_number_of_threads_changes_no_bit(small_parts):
    runs = [run(QuerySteps, several_answers(), 6, threads, batch_by="queries", n3=0.1) for threads in (1, 2, 3)]
    for losses, weights in runs[1:]:
        assert losses == runs[0][0]
        assert all(torch.equal(weights[name], table) for name, table in runs[0][1].items())


def test_warming_up_moves_nothing():
    work = steps_by(QuerySteps, one_way(), batch_by="queries", n3=0.1)
    before = {name: p.detach().clone() for name, p in work.pbe.named_parameters()}
    work.warm_up()
    assert all(torch.equal(p, before[name]) for name, p in work.pbe.named_parameters())


def test_a_withheld_step_of_the_board_comes_first():
    table = board(6, words=False)
    row = table.rows().index(("2,2", "right", "3,2"))
    train = Beliefs.from_frame(table[[number for number in range(len(table)) if number != row]])
    model = fit(train, score="complex", dimension=32, n3=0.05, epochs=150, batch_by="queries", threads=1)
    assert model.tails("2,2", "right", top=1)[0].name == "3,2"
    assert model.heads("right", "3,2", top=1)[0].name == "2,2"


def test_bfloat16_is_near_float32_or_refused():
    train = Beliefs.from_frame(board(5, words=False))
    settings = settings_of(score="complex", dimension=16, batch_by="queries", batch_size=40, threads=1)
    weights = []
    for precision in ("float32", "bfloat16"):
        work = QuerySteps(build(train, settings), train, settings.changed(precision=precision))
        try:
            work.warm_up()
        except UsageError:
            pytest.skip("this processor cannot multiply bfloat16")
        first = work.take(0, 0.0)
        weights.append((first, *(p.detach().clone() for p in work.pbe.parameters())))
    assert weights[1][0] == pytest.approx(weights[0][0], rel=0.01)
    assert not torch.equal(weights[1][1], weights[0][1])
    # the first step of Adagrad moves a coordinate by the rate against the sign of its gradient, which is rarely rounded
    near = torch.isclose(weights[1][1], weights[0][1], atol=1e-3)
    assert near.float().mean() > 0.95


@pytest.mark.parametrize(
    "values",
    [
        {"score": "translation"},
        {"score": "complex", "estimator": "sampled"},
        {"score": "complex", "objective": "confidence"},
        {"score": "complex", "mention_term": "joint"},
        {"score": "complex", "confidence": "label"},
        {"score": "complex", "partitions": 4},
    ],
    ids=str,
)
def test_settings_that_queries_cannot_have_are_refused(values):
    with pytest.raises(UsageError, match="batch_by=queries cannot go with"):
        settings_of(batch_by="queries", **values)


def test_queries_need_a_term_of_the_score():
    with pytest.raises(UsageError, match="needs a term of the head, the relation or the tail"):
        settings_of(score="complex", batch_by="queries", head_weight=0.0, relation_weight=0.0, tail_weight=0.0)


def test_queries_are_trained_in_one_process():
    with pytest.raises(UsageError, match="trains in one process"):
        fit(board(3), score="complex", batch_by="queries", workers=2, epochs=1)


def test_words_that_are_too_many_are_named(monkeypatch):
    monkeypatch.setattr(words, "MAX_WEIGHTS", 1)
    values = {"score": "complex", "dimension": 4, "batch_by": "queries", "epochs": 1, "threads": 1}
    with pytest.raises(UsageError, match=r"\d+ words for 2 relations are too many"):
        fit(board(3), **values)
    assert fit(board(3), mentions=False, **values).pbe.mention is None


@pytest.mark.parametrize("seconds", [(1.0, 2.0), (2.0, 1.0)])
def test_bfloat16_that_is_slow_is_warned_of(monkeypatch, caplog, seconds):
    times = dict(zip((torch.bfloat16, torch.float32), seconds, strict=True))
    monkeypatch.setattr(query_steps, "seconds_of_product", times.get)
    query_steps.warn_if_slow()
    assert ("bfloat16 take 2.0 times as long" in caplog.text) == (seconds == (2.0, 1.0))


def test_bfloat16_that_cannot_be_multiplied_is_refused(monkeypatch):
    def fails(*_):
        raise RuntimeError("could not create a primitive")

    monkeypatch.setattr(query_steps, "seconds_of_product", fails)
    with pytest.raises(UsageError, match="cannot multiply matrices in bfloat16"):
        query_steps.warn_if_slow()


def test_more_steps_than_queries_and_no_false_candidate():
    """Some steps have no query of a slot; every entity is an answer."""
    train = beliefs([(h, "r", t) for h in "ab" for t in "ab"])
    losses, weights = run(QuerySteps, train, 8, batch_by="queries", batch_size=1, filter_negatives=True)
    assert np.isfinite(losses).all()
    assert all(torch.isfinite(table).all() for table in weights.values())


RESUMED = {"score": "complex", "dimension": 4, "batch_by": "queries", "batch_size": 10, "epochs": 4, "threads": 1}


def test_a_run_that_is_resumed_ends_with_the_same_bits():
    train = several_answers()

    def loop():
        settings = planned(settings_of(mentions=False, **RESUMED), len(train), len(train.vocabularies.entities))
        return TrainingLoop(steps_of(build(train, settings), train, settings))

    whole, stopped, resumed = loop(), loop(), loop()
    whole.run()
    after_step = stopped._after_step

    def stop_in_the_third_epoch(executor, end):
        stopped.interrupted = stopped.state.step > 2 * stopped.steps.per_epoch
        after_step(executor, end)

    stopped._after_step = stop_in_the_third_epoch
    stopped.run()
    assert 0 < stopped.state.step < whole.state.step
    tensors, _ = stopped.snapshots.save()
    state = {"settings": stopped.settings.as_dict(), "inputs": stopped.inputs, **stopped.state.as_dict()}
    resumed.resume(Checkpoint({name: tensor.clone() for name, tensor in tensors.items()}, state))
    resumed.run()
    for name, table in whole.pbe.named_parameters():
        assert torch.equal(dict(resumed.pbe.named_parameters())[name], table)


def test_bfloat16_needs_queries():
    with pytest.raises(UsageError, match="precision=bfloat16 needs batch_by=queries"):
        settings_of(precision="bfloat16")


def test_the_scores_of_queries_are_those_that_compare_products():
    fit_for = set()
    for name in SCORES:
        try:
            settings_of(score=name, batch_by="queries")
            fit_for.add(name)
        except UsageError:
            continue
    assert fit_for == {name for name in SCORES if make_score(name, 2, 2, dimension=4).entity_metric == "product"}


def test_a_race_by_queries_has_products_alone():
    raced = members(settings_of(score="auto", batch_by="queries").changed(batch_by="queries"))
    assert {settings.score for settings in raced.values()} == {"complex", "distmult"}
