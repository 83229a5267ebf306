"""The paper's own algorithm: negatives drawn for each belief, SGD, averaged scalars, and the floor of the estimates."""

from contextlib import nullcontext

import numpy as np
import pytest
import torch

import doxa
from doxa.data.batch import Batch
from doxa.data.beliefs import Beliefs
from doxa.data.triples import TripleIndex
from doxa.errors import DoxaError, UsageError
from doxa.estimators import Candidates
from doxa.evaluation.protocol import ranks
from doxa.evaluation.ranks import Metrics
from doxa.slots import Slot
from doxa.systems import build, recipe
from doxa.training.candidates import draw_negatives
from doxa.training.floor import EVERY, LOOKS, FloorWatch
from doxa.training.gather import SparseStep
from doxa.training.objective import batch_loss
from doxa.training.steps import Steps
from tests import reference_negatives
from tests.worlds import batch_of, beliefs, board, random_pbe, settings_of

ROWS = [(0, 0, 1, [0, 2]), (5, 3, 6, []), (2, 1, 2, [4]), (3, 2, 1, [0, 1, 2, 3])]
LITERAL = {"estimator": "negative", "share_candidates": False, "mention_term": "joint", "scale": 1.0}
SMALL = {"system": "pbe-paper", "dimension": 8, "batch_size": 16, "epochs": 3, "threads": 1, "patience": 0}


def drawn_for(pbe, count, seed=0):
    return draw_negatives(Candidates.every(pbe), len(ROWS), count, np.random.default_rng(seed))


@pytest.mark.parametrize("norm", [1, 2])
@pytest.mark.parametrize("seed", range(3))
def test_loss_and_gradient_equal_the_reference(norm, seed):
    """By both ways: on tables that are looked up, and on gathered rows."""
    settings = settings_of(**LITERAL, norm=norm, dimension=3, negative_weight=5, epsilon=1e-3, eta=1e-2)
    pbe, world = random_pbe(seed, **LITERAL, norm=norm)
    negatives = drawn_for(pbe, 5, seed)
    lists = list(zip(*(negatives.of(slot).tolist() for slot in Slot), strict=True))
    loss, expected = reference_negatives.loss_and_gradient(world, ROWS, lists, 5, 1e-3, 1e-2)
    names = {"score.entity.weight": "entity", "score.relation.weight": "relation", "mention.word.weight": "word",
             "score.alpha": "alpha", "mention.beta": "beta"}  # fmt: skip
    for compute in (lambda *args: batch_loss(pbe, *args, settings), SparseStep(pbe, settings).loss):
        pbe.zero_grad()
        value = compute(batch_of(ROWS), negatives)
        value.backward()
        assert value.item() == pytest.approx(loss)
        for name, key in names.items():
            gradient = pbe.get_parameter(name).grad
            gradient = gradient.to_dense() if gradient.is_sparse else gradient
            assert gradient.numpy() == pytest.approx(expected[key]), name


@pytest.mark.parametrize("score", ["complex", "rotate", "distmult"])
def test_any_score_of_vectors_may_have_negatives_for_each_belief(score):
    """The candidates of a belief score as they do when all beliefs share them."""
    train = beliefs([(f"e{h}", f"r{r}", f"e{t}") for h, r, t, _ in ROWS])
    pbe, batch = build(train, settings_of(score=score, dimension=4)), Batch.of(train)
    negatives = drawn_for(pbe, 3)
    vectors = [pbe.score.entity(batch.head), pbe.score.relation(batch.relation), pbe.score.entity(batch.tail)]
    for slot in Slot:
        table = pbe.score.relation if slot is Slot.RELATION else pbe.score.entity
        scores = pbe.score.each_candidate(slot, *vectors, table(negatives.of(slot)))
        for row in range(len(ROWS)):
            alone = Batch.of_triples(*(batch.column(each)[row : row + 1] for each in Slot))
            shared = pbe.logits(slot, alone, negatives.of(slot)[row])[0] / pbe.scale
            assert torch.allclose(scores[row], shared)


def test_negatives_are_drawn_from_their_slot_for_each_belief():
    pbe, _ = random_pbe(0, entities=21)
    counts = torch.zeros(21)
    random = np.random.default_rng(0)
    for _ in range(100):
        drawn = draw_negatives(Candidates.every(pbe), 20, 4, random)
        counts += torch.bincount(drawn.heads.reshape(-1), minlength=21)
    assert drawn.heads.shape == drawn.relations.shape == drawn.tails.shape == (20, 4)
    assert counts[-1] == 0  # never seen as head
    assert (counts[:-1] - 400).abs().max() < 90  # mean 400, standard deviation 19
    assert len({tuple(row) for row in drawn.tails.tolist()}) > 10
    nothing = draw_negatives(Candidates(*(torch.zeros(0, dtype=torch.int64),) * 3), 20, 4, random)
    assert nothing.heads.shape == (20, 0)


def test_known_facts_and_the_truth_do_not_count_as_false():
    batch = batch_of(ROWS)
    rows = torch.tensor
    negatives = Candidates(rows([[0, 3], [1, 2], [2, 2], [4, 5]]), rows([[1, 2]] * 4), rows([[1, 6]] * 4))
    places = negatives.true_places(batch)
    assert [tuple(place) for place in torch.stack(places[Slot.HEAD]).T.tolist()] == [(0, 0), (2, 0), (2, 1)]
    known = TripleIndex(np.array([[3, 0, 1], [0, 0, 1], [4, 2, 1]]), 7, 4)
    places = negatives.without_known(batch, known).true_places(batch)
    assert [tuple(place) for place in torch.stack(places[Slot.HEAD]).T.tolist()] == [(0, 0), (0, 1), (3, 0)]


def test_a_step_of_sgd_moves_rows_by_sums_and_scalars_by_means():
    train = Beliefs.from_frame(board(5))
    settings = recipe(SMALL | {"learning_rate": 0.1, "schedule": "constant"})
    steps = Steps(build(train, settings), train, settings)
    pbe = steps.pbe
    batch = Batch.of(train, steps._rows(0))
    batch_loss(pbe, batch, steps._candidates(0, batch), settings).backward()
    expected = {}
    for name, parameter in pbe.named_parameters():
        gradient = parameter.grad.to_dense() if parameter.grad.is_sparse else parameter.grad
        share = 1 / (len(batch) * (1 + settings.negative_weight)) if parameter.ndim == 0 else 1.0
        expected[name] = parameter.detach() - 0.1 * share * gradient
    pbe.zero_grad()
    steps.take(0, 0.0)
    assert {name for name, number in expected.items() if number.ndim == 0} == {"score.alpha", "mention.beta"}
    for name, parameter in pbe.named_parameters():
        assert torch.allclose(parameter.detach(), expected[name], atol=1e-6), name


@pytest.mark.parametrize("share", [True, False])
def test_the_bias_stays_in_the_range_of_the_logistic_function(share):
    """With the sum of all gradients of a batch it would be below −20 after a step."""
    train = Beliefs.from_frame(board(12))
    settings = recipe({"score": "translation", "estimator": "negative", "optimizer": "sgd", "scale": 1.0,
                       "share_candidates": share, "dimension": 8, "batch_size": 256, "num_candidates": 32,
                       "learning_rate": 0.1, "mentions": False})  # fmt: skip
    steps = Steps(build(train, settings), train, settings)
    steps.take(0, 0.0)
    assert 3 < steps.pbe.score.alpha.item() < 4


@pytest.mark.parametrize("more", [{}, {"objective": "confidence"}, {"epochs": 3}])
def test_a_run_on_the_floor_of_the_estimates_is_an_error(more):
    """Steps of such a length drive every score below the floor at once."""
    table = board(5).with_columns(confidence=0.8)
    with pytest.raises(DoxaError, match="on the floor epsilon=1e-20") as fault:
        doxa.fit(table, **(SMALL | {"learning_rate": 1e4, "epochs": 200} | more))
    assert "learning_rate=1000" in fault.value.hints[0]


FLOOR_BATCH = [(0, 0, 1, []), (5, 3, 6, []), (2, 1, 2, [])]


def look_twice(watch, batch):
    """Two looks at a batch, the first error of which is that of the second."""
    for number in range(LOOKS * EVERY - 1):
        watch.observe(number, batch)
    watch.observe(LOOKS * EVERY - 1, batch)


@pytest.mark.parametrize(("alpha", "share"), [(-100.0, 1), (100.0, 1), (2.0, 0)])
def test_the_floor_is_where_no_derivative_is_left(alpha, share):
    """α far below 0: every truth is refused; far above: every negative is accepted."""
    settings = settings_of(**LITERAL, dimension=3)
    pbe, _ = random_pbe(0, **LITERAL)
    with torch.no_grad():
        pbe.score.alpha.fill_(alpha)
    watch = FloorWatch(pbe, settings, 10**6)
    assert watch.shares(batch_of(FLOOR_BATCH)) == {"epsilon": share}
    with pytest.raises(DoxaError, match="floor epsilon=1e-06") if share else nullcontext():
        look_twice(watch, batch_of(FLOOR_BATCH))
    alone = FloorWatch(pbe, settings, 10**6).shares(batch_of(FLOOR_BATCH[:1]))
    assert alone == {"epsilon": float(alpha < 0)}  # a belief is not its own negative
    assert not FloorWatch(pbe, settings_of(dimension=3), 10**6).active


@pytest.mark.parametrize(("beta", "share"), [(-100.0, 1), (100.0, 1), (0.0, 0)])
def test_words_have_a_floor_of_their_own(beta, share):
    """β far from 0: every F is on the floor η, though no D is on the floor ε."""
    settings = settings_of(**LITERAL, dimension=3)
    pbe, _ = random_pbe(0, **LITERAL)
    with torch.no_grad():
        pbe.mention.beta.fill_(beta)
    batch, watch = batch_of([(0, 0, 1, [0, 1]), (5, 3, 6, []), (2, 1, 2, [2])]), FloorWatch(pbe, settings, 10**6)
    assert watch.shares(batch) == {"epsilon": 0, "eta": share}
    with pytest.raises(DoxaError, match="floor eta=1e-06") if share else nullcontext():
        look_twice(watch, batch)
    assert "eta" not in FloorWatch(pbe, settings.changed(mention_weight=0.0), 10**6).shares(batch)


def test_each_epoch_ends_with_a_look():
    settings = settings_of(**LITERAL, dimension=3)
    pbe, _ = random_pbe(0, **LITERAL)
    with torch.no_grad():
        pbe.score.alpha.fill_(-100.0)
    watch, batch = FloorWatch(pbe, settings, 3), batch_of(FLOOR_BATCH)
    for number in range(5):
        watch.observe(number, batch)
    with pytest.raises(DoxaError, match="floor"):
        watch.observe(5, batch)


def test_the_algorithm_of_the_paper_fits_a_board():
    """Right and up on a board: SGD with five negatives for each belief fits every step."""
    train = Beliefs.from_frame(board(4, words=False))
    settings = recipe(SMALL | {"epochs": 100, "negative_weight": 5})
    steps = Steps(build(train, settings), train, settings)
    count = settings.epochs * steps.per_epoch
    for number in range(count):
        steps.take(number, number / count)
    known = TripleIndex(train.triples, steps.pbe.entities, steps.pbe.relations)
    for slot in Slot:
        assert Metrics.of(ranks(steps.pbe, slot, train, known).filtered).mrr > 0.9


def test_negatives_for_each_belief_belong_to_negative_sampling():
    with pytest.raises(UsageError, match="share_candidates=false needs the negative estimator, not sampled"):
        recipe({"share_candidates": False})
    with pytest.raises(UsageError, match="system pbe-paper has optimizer=sgd, not adagrad"):
        recipe({"system": "pbe-paper", "optimizer": "adagrad"})
    with pytest.raises(UsageError, match="system pbe-paper has objective=likelihood, not margin"):
        recipe({"system": "pbe-paper", "objective": "margin", "estimator": "auto", "share_candidates": True})
    assert recipe({"system": "pbe-paper", "objective": "confidence"}).training_estimator == "negative"
