"""The average of models is one model whose score is the mean of theirs."""

import polars as pl
import pytest
import torch

import doxa
from doxa.data.batch import Batch
from doxa.data.beliefs import Beliefs
from doxa.errors import UsageError
from doxa.slots import Slot
from tests.worlds import board

VALUES = {"score": "complex", "dimension": 8, "epochs": 3, "threads": 1}


@pytest.fixture(scope="module")
def parts():
    table = board(8)
    rows = range(len(table))
    train, valid = (table[[row for row in rows if (row % 4 == 3) == held_out]] for held_out in (False, True))
    return Beliefs.from_frame(train), Beliefs.from_frame(valid)


def trained(parts, **values):
    train, valid = parts
    return doxa.fit(train, valid, **(VALUES | values))


@pytest.mark.parametrize("score", ["complex", "distmult"])
def test_the_score_is_the_mean_of_the_scores(parts, score):
    models = [trained(parts, score=score, seed=seed, dimension=d) for seed, d in ((0, 8), (1, 4), (2, 8))]
    model = doxa.average(models, parts[1])
    batch = Batch.of(parts[0].encode(model.vocabularies))
    for slot in Slot:
        mean = sum(one.pbe.logits(slot, batch) for one in models) / 3
        torch.testing.assert_close(model.pbe.logits(slot, batch), mean, atol=1e-5, rtol=1e-5)
    assert model.settings.dimension == model.pbe.score.dimension == 20
    assert model.origin["averaged"] == 3
    assert model.origin["seeds"] == [0, 1, 2]


def test_it_is_an_ordinary_model(parts, tmp_path):
    model = doxa.average([trained(parts, seed=seed) for seed in (0, 1)], parts[1])
    model.save(tmp_path / "m")
    loaded = doxa.load(tmp_path / "m")
    assert loaded.tails("1,1", "up", top=3).as_dict() == model.tails("1,1", "up", top=3).as_dict()
    assert len(loaded.known) == len(model.known) == len(board(8))
    assert loaded.relations("1,1", "1,2", mention="up", top=1)[0].probability > 0


def test_the_judge_is_fitted_to_the_mean(parts):
    models = [trained(parts, seed=seed) for seed in (0, 1)]
    model = doxa.average(models, parts[1])
    assert model.calibration.thresholds.overall != models[0].calibration.thresholds.overall


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"score": "distmult"}, "model 2 has other score"),
        ({"scale": 2.0}, "model 2 has other scale"),
    ],
)
def test_models_of_other_kinds_are_refused(parts, values, message):
    with pytest.raises(UsageError, match=message):
        doxa.average([trained(parts), trained(parts, **values)], parts[1])


def test_models_of_other_beliefs_are_refused(parts):
    other = doxa.fit(Beliefs.from_frame(board(8)[7:]), parts[1], **VALUES)
    with pytest.raises(UsageError, match=r"model 2 has other (training beliefs|entities) than the first"):
        doxa.average([trained(parts), other], parts[1])


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"score": "translation"}, "score translation cannot be averaged"),
        ({"mention_term": "joint"}, "mention_term=joint"),
    ],
)
def test_models_that_have_no_mean_are_refused(parts, values, message):
    model = trained(parts, **values)
    with pytest.raises(UsageError, match=message):
        doxa.average([model, model], parts[1])


def test_one_model_has_no_average(parts):
    with pytest.raises(UsageError, match="at least two models"):
        doxa.average([trained(parts)], parts[1])


def test_an_update_of_the_mean_regularizes_no_more_than_that_of_a_member(parts):
    """A belief that is learned with strong N3 leaves the vectors of its entities about as long as with one model."""
    models = [trained(parts, seed=seed, n3=0.2, epochs=20, learning_rate=0.3) for seed in range(3)]
    new = Beliefs.from_frame(board(8)[:1].with_columns(tail=pl.lit("7,7")))
    ratios = []
    for model in (models[0], doxa.average(models, parts[1])):
        ids = [model.vocabularies.entities.id(name) for name in ("7,7", board(8).row(0)[0])]
        before = model.pbe.score.entity.weight[ids].norm()
        after = model.update(new).model.pbe.score.entity.weight[ids].norm()
        ratios.append(float(after / before))
    assert ratios[1] == pytest.approx(ratios[0], rel=0.15)
