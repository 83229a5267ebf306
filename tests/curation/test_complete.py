"""Completion equals scoring every candidate, in blocks of any size."""

from dataclasses import replace

import numpy as np
import pytest

from doxa.calibration.curves import Curve
from doxa.curation import search
from doxa.curation.complete import complete
from doxa.errors import DoxaError, UsageError
from doxa.pbe import PBE
from doxa.slots import Slot
from tests import reference
from tests.worlds import random_model


def known_of(model):
    return set(map(tuple, model.train.tolist()))


@pytest.mark.parametrize("any_entity", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_the_same_as_scoring_every_candidate(seed, any_entity):
    model, world = random_model(seed)
    expected = reference.completion(world, known_of(model), world.relations, 25, any_entity)
    for rows in (0, 1, 3, 100):
        proposals = complete(model, min_credence=0, top=25, rows=rows, any_entity=any_entity)
        assert list(map(tuple, proposals.triples.tolist())) == expected
    terms = [
        (
            reference.pr_head(world, h, r, t),
            reference.pr_relation(world, h, r, t),
            reference.pr_tail(world, h, r, t),
        )
        for h, r, t in expected
    ]
    assert np.allclose(proposals.terms, terms)
    assert not known_of(model) & set(expected)


def test_the_list_may_grow_past_what_is_gathered_at_a_time(monkeypatch):
    model, _ = random_model(1)
    whole = complete(model, min_credence=0, top=30)
    monkeypatch.setattr(search, "GATHER", 0)
    assert complete(model, min_credence=0, top=30, rows=2).triples.tolist() == whole.triples.tolist()


def test_a_curve_of_steps_per_relation_decides_the_order():
    model, _ = random_model(2)
    steps = (np.array([-3.0, -1.0]), np.array([0.2, 0.9]))
    slopes, offsets = np.array([1.0, 2.0, 0.5, -1.0]), np.array([0.5, 0.0, -0.5, 0.0])
    curve = Curve("isotonic by relation", 1.0, 0.0, slopes, offsets, steps)
    model = replace(model, calibration=replace(model.calibration, curve=curve))
    every = complete(model, min_credence=0, top=10_000)
    assert 3 not in every.triples[:, 1]  # credence that falls with the evidence means nothing
    beliefs = every.beliefs
    assert np.allclose(model.credence(beliefs), every.credence)
    assert (np.diff(every.credence.round(9)) <= 0).all()
    for rows in (1, 5):
        part = complete(model, min_credence=0.3, top=17, rows=rows)
        assert part.triples.tolist() == every.triples[every.credence >= 0.3][:17].tolist()


def test_relations_and_entities_asked_for():
    model, _ = random_model(3)
    every = complete(model, min_credence=0, top=10_000)
    part = complete(model, min_credence=0, top=10_000, relations=["r2", "r0"], entities=["e3", "e5"], rows=2)
    of_relation = np.isin(every.triples[:, 1], [0, 2]) & np.isin(every.triples[:, [0, 2]], [3, 5]).any(axis=1)
    assert part.triples.tolist() == every.triples[of_relation].tolist()
    with pytest.raises(DoxaError, match="no entity 'x'"):
        complete(model, entities=["x"])
    with pytest.raises(UsageError, match="min_credence"):
        complete(model, min_credence=2)


@pytest.mark.parametrize("rule", ["entities", "tail", "score", "learned"])
def test_models_with_other_decision_rules(rule):
    model, _ = random_model(4)
    model = replace(model, calibration=replace(model.calibration, rule=rule))
    every = complete(model, min_credence=0, top=10_000)
    assert np.allclose(model.credence(every.beliefs), every.credence)
    assert complete(model, min_credence=0, top=12, rows=1).triples.tolist() == every.triples[:12].tolist()


def test_a_stopped_search_goes_on_where_it_was(tmp_path):
    model, _ = random_model(5, checkpoint_seconds=0.0)
    path = tmp_path / "part"
    whole = complete(model, min_credence=0, top=20)
    seen = []

    def stop(advance):
        seen.append(advance.relation)
        if advance.relation == "r2":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        complete(model, min_credence=0, top=20, report=stop, checkpoint=path)
    seen.clear()
    again = complete(
        model, min_credence=0, top=20, report=lambda a: seen.append(a.relation), checkpoint=path, resume=True
    )
    assert seen[0] == "r2"
    assert again.triples.tolist() == whole.triples.tolist()
    with pytest.raises(DoxaError, match="other options"):
        complete(model, min_credence=0, top=21, checkpoint=path, resume=True)


def test_memory_bounds_every_table_of_scores(memory_limits):
    model, _ = random_model(5)
    complete(model, min_credence=0, top=20, memory=12_345)
    assert 12_345 in memory_limits
    assert 0 not in memory_limits


def test_a_second_answer_is_not_proposed_where_the_relation_has_one():
    model, _ = random_model(0, entities=40, facts=5)
    capitals = np.array([[head, 0, head + 20] for head in range(15)])
    neighbors = np.array([[head, 1, tail] for head in range(12) for tail in (20, 21, 22)])
    model = replace(model, train=np.concatenate([capitals, neighbors[1:]]))
    every = complete(model, min_credence=0, top=10_000)
    assert set(every.triples[:, 1].tolist()) == {0, 1}
    proposals = complete(model, min_credence=0, top=10_000, contradicting=False)
    assert proposals.triples.tolist() == [[0, 1, 20]]


def test_ranks_count_the_unknown_that_are_better():
    model, world = random_model(6)
    proposals = complete(model, min_credence=0, top=5)
    for (h, r, t), rank in zip(proposals.triples.tolist(), proposals.tail_rank, strict=True):
        scores = [reference.score(world, h, r, x) for x in range(len(world.entity))]
        drop = {x for a, b, x in known_of(model) if (a, b) == (h, r)}
        assert rank == reference.rank(scores, t, drop)
    table = proposals.to_frame()
    assert table.columns == [
        "head", "relation", "tail", "rank", "credence", "pr_head", "pr_relation", "pr_tail", "head_rank", "tail_rank",
    ]  # fmt: skip


def test_the_terms_come_from_the_one_softmax_and_the_score_is_eq_1(monkeypatch):
    model, _ = random_model(0)
    slots, scored = [], []
    distribution, log_credence = PBE.distribution, search.log_credence

    def counted(pbe, slot, batch):
        slots.append(slot)
        return distribution(pbe, slot, batch)

    monkeypatch.setattr(PBE, "distribution", counted)
    monkeypatch.setattr(search, "log_credence", lambda terms: scored.append(len(terms)) or log_credence(terms))
    proposals = complete(model, min_credence=0, top=10)
    assert set(slots) == set(Slot)
    assert sum(scored) >= len(proposals)
    assert np.allclose(np.log(proposals.terms).mean(axis=1), np.log(proposals.credence / (1 - proposals.credence)))
