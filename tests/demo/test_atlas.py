"""Properties of the embedded knowledge base (docs/atlas.md)."""

import numpy as np
import polars as pl
import pytest

from doxa.data.beliefs import Beliefs
from doxa.data.triples import TripleIndex
from doxa.demo import atlas
from doxa.demo.run import QUESTIONS
from tools.atlas.phrases import CLEAR, VAGUE


@pytest.fixture(scope="module")
def world():
    return atlas.load()


@pytest.fixture(scope="module")
def everything(world):
    true = world.train.filter(pl.Series(~world.planted))
    return pl.concat([true, world.valid, world.test])


def test_sizes_and_kinds(world, everything):
    beliefs = Beliefs.from_frame(everything)
    assert 4_000 <= len(beliefs.vocabularies.entities) <= 8_000
    assert 20_000 <= len(world.train) + len(world.valid) + len(world.test) <= 40_000
    assert len(beliefs.vocabularies.relations) >= 20
    facts = TripleIndex(beliefs.triples, len(beliefs.vocabularies.entities), len(beliefs.vocabularies.relations))
    kinds = facts.mapping_kinds()
    assert set(kinds) == {"1-1", "1-N", "N-1", "N-N"}
    assert atlas.ATLAS.stat().st_size < 1_000_000


def test_about_one_in_twenty_of_train_is_a_planted_false_belief(world, everything):
    assert 0.04 <= world.planted.mean() <= 0.06
    triple = ["head", "relation", "tail"]
    planted = world.train.filter(pl.Series(world.planted)).select(triple)
    assert len(planted.join(everything.select(triple), on=triple)) == 0
    confidence = world.train["confidence"].to_numpy()
    assert confidence[world.planted].mean() < confidence[~world.planted].mean() - 0.1
    assert confidence.min() > 0
    assert confidence.max() <= 1


def test_nothing_unseen_and_no_pair_crosses_the_splits(world):
    train = Beliefs.from_frame(world.train)
    pairs = []
    for table in (world.train.filter(pl.Series(~world.planted)), world.valid, world.test):
        assert Beliefs.from_frame(table, train.vocabularies).seen.all()
        ends = zip(table["head"], table["tail"], strict=True)
        pairs.append({frozenset(pair) for pair in ends})
    assert not pairs[0] & pairs[1]
    assert not pairs[0] & pairs[2]
    assert not pairs[1] & pairs[2]


def test_words_are_shared_and_ambiguous(everything):
    for relation in set(everything["relation"]):
        shared = [phrase for phrase, relations in VAGUE.items() if relation in relations]
        assert len(set(CLEAR[relation]) | set(shared)) >= 8
    assert set(everything["mention"]) <= set(VAGUE) | {phrase for phrases in CLEAR.values() for phrase in phrases}
    relations_by_phrase = everything.group_by("mention").agg(pl.col("relation").n_unique())
    ambiguous = relations_by_phrase.filter(pl.col("relation") >= 2)["mention"]
    assert everything["mention"].is_in(ambiguous.implode()).mean() > 0.5


def test_the_demo_asks_for_facts_outside_train(world):
    known = set(world.train.select("head", "relation", "tail").rows())
    withheld = world.test.select("head", "relation", "tail").rows()
    for head, relation, tail, _ in QUESTIONS:
        answers = [
            row for row in withheld if all(a in ("?", b) for a, b in zip((head, relation, tail), row, strict=True))
        ]
        assert answers
        assert not known & set(answers)


def test_planted_false_beliefs_are_marked_for_train_only(world):
    assert len(world.planted) == len(world.train)
    assert "planted" not in world.train.columns
    assert np.asarray(world.planted).dtype == bool
