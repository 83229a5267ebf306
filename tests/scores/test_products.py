"""DistMult, ComplEx and RotatE against the reference, and the N3 penalty."""

import pytest
import torch

from doxa.data.batch import Batch
from doxa.errors import UsageError
from doxa.estimators import Candidates
from doxa.systems import build
from tests import reference
from tests.worlds import beliefs, losses, make_score, settings_of


def make(name):
    score = make_score(name, 5, 3, torch.Generator().manual_seed(0), dimension=6).double()
    with torch.no_grad():
        for parameter in score.parameters():
            parameter.normal_(generator=torch.Generator().manual_seed(1))
    return score


@pytest.mark.parametrize("name", ["distmult", "complex", "rotate"])
def test_each_score_equals_its_formula(name):
    score = make(name)
    for h, r, t in [(0, 0, 1), (2, 1, 2), (4, 2, 0)]:
        vectors = [score.entity.weight[h].tolist(), score.relation.weight[r].tolist(), score.entity.weight[t].tolist()]
        expected = {
            "distmult": lambda v: reference.distmult(*v),
            "complex": lambda v: reference.complex_product(*v),
            "rotate": lambda v: reference.rotation(*v, score.alpha.item()),
        }[name](vectors)
        assert score(*(torch.tensor([i]) for i in (h, r, t))).item() == pytest.approx(expected)
        cubes = score.cubes(score.rows(*(torch.tensor([i]) for i in (h, r, t)))).item()
        assert cubes == pytest.approx(reference.n3(vectors, of_complex=name == "complex"))


def test_distmult_is_symmetric_and_complex_is_not():
    h, r, t = torch.tensor([0]), torch.tensor([1]), torch.tensor([3])
    assert make("distmult")(h, r, t).item() == pytest.approx(make("distmult")(t, r, h).item())
    assert make("complex")(h, r, t).item() != pytest.approx(make("complex")(t, r, h).item())


@pytest.mark.parametrize("name", ["complex", "rotate"])
def test_complex_vectors_need_an_even_dimension(name):
    with pytest.raises(UsageError, match="even dimension, not 5"):
        build(beliefs([("a", "r", "b"), ("b", "s", "a")]), settings_of(score=name, dimension=5))


def test_the_penalty_joins_the_objective():
    train = beliefs([("a", "r", "b"), ("b", "s", "c")])
    plain, penalized = settings_of(score="complex", dimension=4), settings_of(score="complex", dimension=4, n3=0.3)
    pbe, batch = build(train, plain), Batch.of(train)
    drawn = Candidates.every(pbe)
    more = losses(pbe, batch, drawn, penalized) - losses(pbe, batch, drawn, plain)
    assert torch.allclose(more, 0.1 * pbe.score.cubes(pbe.score.rows(batch.head, batch.relation, batch.tail)))


@pytest.mark.parametrize(("name", "scale"), [("translation", 4.0), ("complex", 1.0), ("rotate", 4.0)])
def test_each_score_brings_its_own_scale(name, scale):
    train = beliefs([("a", "r", "b"), ("b", "s", "c")])
    assert build(train, settings_of(score=name, dimension=4)).scale == scale
    assert build(train, settings_of(score=name, dimension=4, scale=2.5)).scale == 2.5
