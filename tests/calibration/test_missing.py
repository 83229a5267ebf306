"""Missing facts: true triples that nobody knows yet are not taken for negatives."""

import numpy as np
import polars as pl
import pytest

from doxa.calibration.missing import labeled_without_missing, missing_chance
from doxa.data.beliefs import Beliefs
from doxa.data.negatives import corrupt_triples, labeled_beliefs
from doxa.data.triples import TripleIndex
from doxa.data.vocabulary import Vocabularies, Vocabulary

ENTITIES, RELATIONS = 80, 3


class World:
    """A dense graph: a triple is true with a probability that its score says; facts are split at random."""

    def __init__(self, seed, density=-1.0):
        random = np.random.default_rng(seed)
        every = np.stack(np.unravel_index(np.arange(ENTITIES**2 * RELATIONS), (ENTITIES, RELATIONS, ENTITIES)), axis=1)
        self.score = random.normal(size=len(every))
        true = random.random(len(every)) < 1 / (1 + np.exp(-(2 * self.score + density)))
        facts = random.permutation(np.flatnonzero(true))
        tenth = len(facts) // 10
        self.test, self.valid, self.train = facts[:tenth], facts[tenth : 2 * tenth], facts[2 * tenth :]
        self.vocabularies = Vocabularies(
            Vocabulary(pl.Series([f"e{i}" for i in range(ENTITIES)]), "entity"),
            Vocabulary(pl.Series([f"r{i}" for i in range(RELATIONS)]), "relation"),
            Vocabulary(pl.Series([], dtype=pl.String), "word"),
        )
        self.every = every

    def index(self, *parts):
        return TripleIndex(self.every[np.concatenate(parts)], ENTITIES, RELATIONS)

    def beliefs(self, rows):
        return Beliefs.from_triples(self.vocabularies, self.every[rows])

    def inputs(self, beliefs):
        return self.score[(beliefs.head * RELATIONS + beliefs.relation) * ENTITIES + beliefs.tail]

    def labeled(self, seed):
        facts, known = self.index(self.train), self.index(self.train, self.valid)
        return labeled_without_missing(self.beliefs(self.valid), facts, known, self.inputs, seed, "relation")


def share_of(index, beliefs):
    return index.contains(*beliefs.triples.T).mean()


@pytest.mark.parametrize("seed", range(3))
def test_the_chance_is_the_share_of_hidden_facts_among_corrupted_triples(seed):
    """Test facts are as many as validation facts, so their share at each score is known here."""
    world = World(seed)
    chance = missing_chance(world.beliefs(world.valid), world.index(world.train), world.inputs, seed)
    unknown = corrupt_triples(world.beliefs(world.valid), world.index(world.train, world.valid), seed + 100)[0]
    hidden = world.index(world.test).contains(*unknown.triples.T)
    expected = chance(world.inputs(unknown), unknown.relation)
    assert expected.mean() == pytest.approx(hidden.mean(), abs=0.05)
    high = world.inputs(unknown) > 0.5
    assert hidden[high].mean() > 2 * hidden[~high].mean()
    assert expected[high].mean() == pytest.approx(hidden[high].mean(), abs=0.12)


def test_negatives_have_the_scores_of_triples_that_are_false():
    world = World(4, density=1.0)
    valid, known = world.beliefs(world.valid), world.index(world.train, world.valid)
    true = world.index(world.train, world.valid, world.test)
    ways = (world.labeled, lambda seed: labeled_beliefs(valid, known, seed), lambda s: labeled_beliefs(valid, true, s))
    drawn = [Beliefs.concat([way(seed) for seed in range(4)]) for way in ways]
    negatives = [one.where(one.label == -1) for one in drawn]
    kept, plain, false = (world.inputs(one).mean() for one in negatives)
    assert abs(kept - false) < 0.3 * abs(plain - false)
    assert share_of(known, negatives[0]) == 0
    assert share_of(true, negatives[0]) < 0.8 * share_of(true, negatives[1])


def test_each_positive_is_followed_by_its_own_corrupted_triple():
    world = World(5)
    labeled = world.labeled(5)
    assert labeled.label.tolist() == [1, -1] * (len(labeled) // 2)
    first, second = labeled.triples[::2], labeled.triples[1::2]
    assert (first[:, 1] == second[:, 1]).all()
    assert ((first == second).sum(axis=1) == 2).all()


def test_the_same_seed_draws_the_same_negatives():
    world = World(6)
    assert world.labeled(6).triples.tolist() == world.labeled(6).triples.tolist()
    assert world.labeled(6).triples.tolist() != world.labeled(7).triples.tolist()


def test_sparse_graphs_and_labels_change_nothing():
    world = World(7, density=-5.5)
    known = world.index(world.train, world.valid)
    facts, valid = world.index(world.train), world.beliefs(world.valid)
    assert len(valid) > 20
    assert missing_chance(valid, facts, world.inputs, 7) is None
    plain = labeled_beliefs(valid, known, 7)
    assert world.labeled(7).triples.tolist() == plain.triples.tolist()
    assert labeled_without_missing(plain, facts, known, world.inputs, 7, "relation") is plain
