"""The promises every score keeps, none exempt."""

import numpy as np
import pytest
import torch

from doxa.data.batch import Batch
from doxa.data.triples import TripleIndex
from doxa.estimators import Candidates
from doxa.model import Model, fit
from doxa.scores import SCORES
from doxa.systems import build
from doxa.training.candidates import draw_candidates
from doxa.training.gather import SparseStep
from doxa.training.optimizers import RowAdagrad
from tests.worlds import (
    assert_gradients_equal_finite_differences,
    beliefs,
    heads,
    make_score,
    relations,
    settings_of,
    tails,
)

ENTITIES, RELATIONS = 8, 4
VARIANTS = [(name, {}) for name in SCORES] + [
    ("translation", {"norm": 1}),
    ("weighted_translation", {"norm": 1}),
    ("hyperplane", {"orthogonality": 0.1}),
    ("bilinear", {"l2": 0.01}),
    ("neural_tensor", {"l2": 0.01, "hidden": 3}),
    ("distmult", {"n3": 0.01}),
    ("complex", {"n3": 0.01}),
]
TOLERANCE = {torch.float64: 1e-7, torch.float32: 2e-3}


@pytest.fixture(params=VARIANTS, ids=lambda variant: f"{variant[0]}-{variant[1]}")
def variant(request):
    return request.param


def make(variant, dtype=torch.float64, seed=0):
    name, options = variant
    generator = torch.Generator().manual_seed(seed)
    score = make_score(name, ENTITIES, RELATIONS, generator, dimension=6, **options).to(dtype)
    triples = np.random.default_rng(seed).integers(0, (ENTITIES, RELATIONS, ENTITIES), (30, 3))
    score.prepare(TripleIndex(triples, ENTITIES, RELATIONS))
    return score


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
def test_one_by_one_equals_all_candidates(variant, dtype):
    score = make(variant, dtype)
    h, r, t = torch.tensor([0, 3, 3]), torch.tensor([1, 0, 3]), torch.tensor([2, 3, 0])
    for entities in (None, torch.tensor([5, 0, 3])):
        ids = torch.arange(ENTITIES) if entities is None else entities
        each = torch.stack([score(h, r, x.expand(3)) for x in ids], dim=1)
        assert torch.allclose(tails(score, h, r, entities), each, atol=TOLERANCE[dtype])
        each = torch.stack([score(x.expand(3), r, t) for x in ids], dim=1)
        assert torch.allclose(heads(score, r, t, entities), each, atol=TOLERANCE[dtype])
    for chosen in (None, torch.tensor([2, 0])):
        ids = torch.arange(RELATIONS) if chosen is None else chosen
        each = torch.stack([score(h, x.expand(3), t) for x in ids], dim=1)
        assert torch.allclose(relations(score, h, t, chosen), each, atol=TOLERANCE[dtype])


def test_gradients_equal_finite_differences(variant):
    """Also where head and tail are the same entity, and where it is a candidate too."""
    score = make(variant)
    h, r, t = torch.tensor([0, 4, 2]), torch.tensor([1, 3, 0]), torch.tensor([0, 1, 2])
    candidates = torch.tensor([2, 5, 0])
    mix = torch.randn(3, 10, dtype=torch.float64, generator=torch.Generator().manual_seed(1))

    def value():
        parts = [score(h, r, t)[:, None], tails(score, h, r, candidates), heads(score, r, t, candidates)]
        return (torch.cat([*parts, relations(score, h, t, torch.tensor([1, 0, 2]))], dim=1) * mix).sum()

    assert_gradients_equal_finite_differences(value, score)


@pytest.mark.parametrize("gap", [0.0, 1e-5, 1e-3, 1e-2])
def test_gradients_stay_bounded_where_vectors_almost_meet(variant, gap):
    """In float32, with vectors of ordinary length: rounding must not blow up a step."""
    for seed in range(20):
        near, ordinary = (_gradient_at(variant, seed, apart) for apart in (gap, 1.0))
        assert torch.isfinite(near).all()
        assert near.norm() < 2 * ordinary.norm() + 1


def _gradient_at(variant, seed, gap, dimension=200):
    """The gradient of one query's scores when one candidate lies `gap` from where the score is highest."""
    name, options = variant
    generator = torch.Generator().manual_seed(seed)
    score = make_score(name, ENTITIES, RELATIONS, generator, dimension=dimension, **options)
    with torch.no_grad():
        score.entity.weight.normal_(std=2 / dimension**0.5, generator=generator)
        if "relation" in score.relation_tables:
            score.relation.weight[0] = score.entity.weight[1] - score.entity.weight[0] + gap / dimension**0.5
        else:
            score.entity.weight[1] = score.entity.weight[0] + gap / dimension**0.5
    tails(score, torch.tensor([0]), torch.tensor([0])).sum().backward()
    return score.entity.weight.grad


def world():
    rows = [(f"e{i}", f"r{i % 3}", f"e{(i * i + 1) % 9}") for i in range(9)]
    return beliefs([*rows, ("e1", "r0", "e1")])


def test_only_gathered_rows_move(variant):
    name, options = variant
    settings = settings_of(score=name, dimension=6, num_candidates=2, **options)
    train = world()
    pbe = build(train, settings)
    before = {key: value.clone() for key, value in pbe.state_dict().items()}
    batch = Batch.of(train, np.array([0]))
    candidates = draw_candidates(Candidates.every(pbe), 2, np.random.default_rng(0))
    SparseStep(pbe, settings).loss(batch, candidates).backward()
    RowAdagrad(pbe).step(0.1)
    gathered = {int(batch.head), int(batch.tail), *candidates.heads.tolist(), *candidates.tails.tolist()}
    moved = (pbe.score.entity.weight != before["score.entity.weight"]).any(1)
    assert set(torch.nonzero(moved).flatten().tolist()) <= gathered
    assert moved[int(batch.head)]
    of_relations = {int(batch.relation), *candidates.relations.tolist()}
    for name in pbe.score.relation_tables:
        moved = (pbe.score.get_parameter(f"{name}.weight") != before[f"score.{name}.weight"]).any(1)
        assert set(torch.nonzero(moved).flatten().tolist()) <= of_relations


def quick(variant, train, **more):
    name, options = variant
    return fit(
        train,
        score=name,
        dimension=6,
        epochs=3,
        batch_size=4,
        num_candidates=4,
        validation_fraction=0.0,
        threads=1,
        **options,
        **more,
    )


def test_save_then_load_answers_the_same(variant, tmp_path):
    model = quick(variant, world())
    model.save(tmp_path / "m")
    loaded = Model.load(tmp_path / "m")
    assert loaded.tails("e1", "r0", top=99) == model.tails("e1", "r0", top=99)
    assert loaded.heads("r1", "e5", top=99) == model.heads("r1", "e5", top=99)
    if model.pbe.score.tells_relations:
        assert loaded.relations("e1", "e2", top=99) == model.relations("e1", "e2", top=99)
    assert np.array_equal(loaded.credence(world()), model.credence(world()))


def test_relabeling_changes_nothing_but_names(variant):
    model = quick(variant, world())
    table = world().to_frame()
    renamed = table.select(
        ("X" + table["head"]).alias("head"),
        ("Y" + table["relation"]).alias("relation"),
        ("X" + table["tail"]).alias("tail"),
    )
    other = quick(variant, type(world()).from_frame(renamed))
    ours, theirs = model.tails("e1", "r0", top=99), other.tails("Xe1", "Yr0", top=99)
    assert ["X" + answer.name for answer in ours] == [answer.name for answer in theirs]
    assert [answer.probability for answer in ours] == [answer.probability for answer in theirs]
