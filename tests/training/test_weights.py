"""Term weights: the Bernoulli rule and the cap on a query's weight, against the reference."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from doxa.data.batch import Batch
from doxa.data.triples import TripleIndex
from doxa.training.weights import TermWeighting, head_corruption_share, term_weighting
from tests import reference
from tests.worlds import beliefs, settings_of

ENTITIES, RELATIONS = 7, 4
triples = st.lists(
    st.tuples(st.integers(0, ENTITIES - 1), st.integers(0, RELATIONS - 1), st.integers(0, ENTITIES - 1)),
    min_size=1,
    max_size=30,
)


@given(triples)
def test_the_bernoulli_rule_is_counted_from_the_facts(known):
    facts = TripleIndex(np.array([*known, known[0]]), ENTITIES, RELATIONS)
    expected = [reference.head_share(known, r) for r in range(RELATIONS)]
    assert head_corruption_share(facts).tolist() == pytest.approx(expected)


def test_a_one_to_many_relation_has_mostly_its_head_replaced():
    facts = TripleIndex(np.array([(0, 0, t) for t in range(1, 5)] + [(h, 1, 0) for h in range(1, 5)]), 5, 2)
    assert head_corruption_share(facts).tolist() == pytest.approx([0.8, 0.2])


@given(triples, st.booleans(), st.integers(0, 3))
def test_term_weights_equal_the_reference(known, bernoulli, cap):
    rows = np.unique(np.array(known), axis=0)
    train = beliefs([(f"e{h}", f"r{r}", f"e{t}") for h, r, t in rows.tolist()])
    facts = TripleIndex(train.triples, len(train.vocabularies.entities), len(train.vocabularies.relations))
    weights = TermWeighting(facts, bernoulli, cap).of(Batch.of(train))
    for i, (h, r, t) in enumerate(train.triples.tolist()):
        share = reference.head_share(train.triples.tolist(), r) if bernoulli else 0.5
        of_head, of_tail = reference.answer_caps(train.triples.tolist(), (h, r, t), cap) if cap else (1, 1)
        assert weights["head"][i].item() == pytest.approx(2 * share * of_head)
        assert weights["tail"][i].item() == pytest.approx(2 * (1 - share) * of_tail)


def test_a_query_with_many_answers_counts_as_if_it_had_fewer():
    """Four heads of (r, x) count as two together; their tails and the fifth belief count in full."""
    train = beliefs([(h, "r", "x") for h in "abcd"] + [("a", "s", "b")])
    weights = TermWeighting(TripleIndex(train.triples, 5, 2), False, 2).of(Batch.of(train))
    assert weights["head"].tolist() == [0.5] * 4 + [1.0]
    assert weights["tail"].tolist() == [1.0] * 5


def test_facts_are_counted_only_where_terms_differ_in_weight():
    for alike in ({}, {"objective": "margin"}, {"objective": "margin", "corruption": "uniform"}):
        assert term_weighting(settings_of(**alike), lambda: pytest.fail("counted")) is None
