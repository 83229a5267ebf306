"""Growth: an entity is folded in from a few beliefs, and nothing trained is changed."""

from dataclasses import replace

import numpy as np
import polars as pl
import pytest
import torch

from doxa.calibration.rules import RuleWeights
from doxa.curation import fold_in as folding
from doxa.curation.fold_in import fold_in
from doxa.curation.grow import make_room
from doxa.curation.refit import MovableRows, Refit
from doxa.data.batch import Batch
from doxa.data.beliefs import Beliefs
from doxa.errors import UnknownName, UsageError
from doxa.model import fit
from tests import reference_curation
from tests.test_toy_world import SETTINGS
from tests.worlds import beliefs, board, ragged_rows, random_model


def without(square, size=6):
    """The board without one square, and the steps to and from it."""
    table = board(size, words=False)
    about = (pl.col("head") == square) | (pl.col("tail") == square)
    return Beliefs.from_frame(table.filter(~about)), table.filter(about)


@pytest.mark.parametrize(
    "score", ["translation", "complex", "distmult", "rotate", "structured", "weighted_translation"]
)
def test_a_square_is_folded_in_and_the_model_stays_as_it_was(score):
    train, steps = without("2,2")
    model = fit(train, seed=0, threads=1, **(SETTINGS | {"epochs": 20, "score": score}))
    before = {name: tensor.clone() for name, tensor in model.pbe.state_dict().items()}
    vocabularies, facts = model.vocabularies, model.train.copy()
    new = Beliefs.from_frame(steps)
    grown = fold_in(model, steps)
    for name, tensor in model.pbe.state_dict().items():
        assert (tensor == before[name]).all()
        kept = grown.pbe.state_dict()[name]
        kept = kept[: len(tensor)] if tensor.dim() else kept
        if name not in ("seen_heads", "seen_tails", "score.weight.weight"):
            assert (kept == tensor).all()
    assert model.vocabularies is vocabularies
    assert (model.train == facts).all()
    assert grown.vocabularies.entities.names.to_list() == [*vocabularies.entities.names.to_list(), "2,2"]
    assert type(grown) is type(model)
    assert len(grown.known) == len(model.known) + 4
    assert np.isfinite(grown.credence(new)).all()


def test_the_answer_about_a_folded_in_square_is_the_forced_one():
    """Known from three of its four steps, the fourth follows."""
    train, steps = without("2,2")
    model = fit(train, seed=0, threads=1, **SETTINGS)
    for left_out in range(4):
        head, relation, tail = steps.row(left_out)
        new = Beliefs.from_frame(steps[[row for row in range(4) if row != left_out]])
        grown = fold_in(model, new)
        answer = grown.tails("2,2", relation, top=3) if head == "2,2" else grown.heads(relation, "2,2", top=3)
        assert (tail if head == "2,2" else head) in [candidate.name for candidate in answer]


@pytest.mark.parametrize("seed", range(4))
def test_a_folded_in_vector_is_that_of_the_slow_twin(seed):
    model, world = random_model(seed, scale=1.0)
    new = [("new", "r1", "e1"), ("e2", "r0", "new"), ("new", "r3", "e5")]
    put = make_room(model, beliefs(new))[0].pbe.score.entity.weight[-1].detach().double().numpy()
    spread = float(np.sqrt(((world.entity - world.entity.mean(0)) ** 2).mean()))
    expected = reference_curation.settled(
        world, [(None, 1, 1), (2, 0, None), (None, 3, 5)], put, spread, folding.STEPS, folding.RATE,
        folding.OTHER_WEIGHT, folding.SHRINKAGE, folding.SHARPNESS,
    )  # fmt: skip
    with torch.no_grad():  # which must not matter
        fitted = fold_in(model, new).pbe.score.entity.weight[-1].double().numpy()
    np.testing.assert_allclose(fitted, expected, atol=1e-3)


def test_other_scores_are_fitted_whether_or_not_gradients_are_on():
    train = Beliefs.from_frame(board(4))
    model, new = fit(train, score="bilinear", dimension=4, epochs=3), beliefs([("new", "right", "1,1")])
    expected = fold_in(model, new).pbe.score.entity.weight[-1]
    start = make_room(model, new)[0].pbe.score.entity.weight[-1]
    with torch.no_grad():
        fitted = fold_in(model, new).pbe.score.entity.weight[-1]
    assert torch.equal(fitted, expected)
    assert not torch.allclose(fitted, start)


def test_what_cannot_be_folded_in_is_refused():
    model, _ = random_model(0)
    with pytest.raises(UnknownName, match="no relation 'zz'"):
        fold_in(model, beliefs([("new", "zz", "e1")]))
    with pytest.raises(UsageError, match="no new entity"):
        fold_in(model, beliefs([("e2", "r1", "e1")]))


def test_room_for_new_names_changes_no_old_answer():
    model, _ = random_model(1)
    new = beliefs([("new", "new relation", "e1", "w1 fresh"), ("e2", "r1", "newer", None)],
                   ("head", "relation", "tail", "mention"))  # fmt: skip
    weights = RuleWeights(np.arange(16.0).reshape(4, 4), np.ones(4))
    model = replace(model, calibration=replace(model.calibration, weights=weights))
    grown, added = make_room(model, new)
    assert [len(v) for v in (grown.vocabularies.entities, grown.vocabularies.relations, grown.vocabularies.words)] == [
        14,
        5,
        6,
    ]
    assert added.triples.tolist() == [[12, 4, 1], [2, 1, 13]]
    assert ragged_rows(added.mention)[0] == [1, 5]
    batch = Batch.of_triples(*(torch.tensor([part]) for part in (1, 2, 5)))
    assert model.pbe.logit(batch).item() == grown.pbe.logit(batch).item()
    assert grown.calibration.curve.slopes.shape == (5,)
    assert np.isnan(grown.calibration.thresholds.by_relation[4])
    assert grown.calibration.weights.by_relation[4].tolist() == [1.0] * 4


def test_only_rows_that_may_move_do():
    model, _ = random_model(2)
    before = {name: tensor.clone() for name, tensor in model.pbe.state_dict().items()}
    chosen = np.array([3, 4])
    refit = Refit(model.pbe, model.settings, MovableRows.of(model.pbe, chosen), model.trained_facts)
    new = beliefs([("e3", "r1", "e4"), ("e3", "r2", "e7")]).encode(model.vocabularies)
    refit.step(new, np.arange(2), 0.1, np.random.default_rng(0))
    after = model.pbe.state_dict()
    moved = (after["score.entity.weight"] != before["score.entity.weight"]).any(dim=1)
    assert moved.nonzero().squeeze(1).tolist() == [3, 4]
    for name in ("score.relation.weight", "mention.word.weight", "mention.beta"):
        assert (after[name] == before[name]).all()


def test_room_keeps_what_was_seen_in_order():
    model, _ = random_model(4)
    new = beliefs([("new", "r1", "e1"), ("e11", "r2", "newer"), ("e11", "r2", "new")])
    grown, added = make_room(model, new)
    for seen, before, ids in ((grown.pbe.seen_heads, model.pbe.seen_heads, added.head),
                              (grown.pbe.seen_tails, model.pbe.seen_tails, added.tail)):  # fmt: skip
        assert seen.tolist() == sorted({*before.tolist(), *ids.tolist()})


def test_facts_grow_without_being_sorted_again():
    model, _ = random_model(3)
    assert (model.trained_facts.grow(13, 4, np.zeros((0, 3), np.int64)).triples == model.trained_facts.triples).all()
    more = np.array([[13, 5, 2], [1, 0, 13], model.train[4].tolist()])
    grown = model.trained_facts.grow(14, 6, more)
    expected = {tuple(row) for row in np.concatenate([model.train, more]).tolist()}
    assert list(map(tuple, grown.triples.tolist())) == sorted(expected)
    less = grown.without(more[:1])
    assert list(map(tuple, less.triples.tolist())) == sorted(expected - {(13, 5, 2)})
