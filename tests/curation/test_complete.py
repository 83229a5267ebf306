"""Completion: the candidates of all relations, the most credible first."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import doxa
from doxa.calibration.candidates import BEST, Pools, candidates
from doxa.calibration.proposals import MISSING, MOST, ProposalCurve, missing_facts
from doxa.curation import complete as completion
from doxa.curation.complete import complete
from doxa.errors import CannotAnswer, DoxaError, UsageError
from doxa.slots import ENTITY_SLOTS
from tests import reference, reference_curation
from tests.worlds import board_model, random_model

OLD = Path(__file__).parents[1] / "data_old"


def fitted(model):
    """The same model with the curve of proposals that its validation facts give."""
    curve, _ = ProposalCurve.fit(model.pbe, model.trained_facts, model.valid)
    return replace(model, calibration=replace(model.calibration, proposals=curve))


@pytest.fixture(scope="module")
def board():
    """A calibrated model of a board, and the steps it does not know."""
    model, withheld = board_model(26)
    return fitted(model), set(map(tuple, withheld.tolist()))


def triples_of(proposals):
    return list(map(tuple, proposals.triples.tolist()))


def facts_of(model):
    return set(map(tuple, model.train.tolist()))


def completion_twin(model, world):
    """Every candidate of a model without validation facts, by scoring all pairs: [(credence, triple, ranks)]."""
    facts, scored = facts_of(model), []
    for relation in world.relations:
        for triple, (log_pr, ranks, _) in reference_curation.candidates(world, facts, facts, relation).items():
            scored.append((float(np.exp(sum(log_pr) / 2)), triple, ranks))
    return sorted(scored, key=lambda one: (-one[0], one[1]))


@pytest.mark.parametrize("seed", range(3))
def test_the_same_as_scoring_every_pair(seed):
    """A self-loop is proposed only where the relation has as many as an answer like any other needs."""
    model, world = random_model(seed)
    expected = completion_twin(model, world)
    assert any(h == t and world.loop_factor[r] < 1 for _, (h, r, t), _ in expected)
    expected = [row for row in expected if row[1][0] != row[1][2] or world.loop_factor[row[1][1]] == 1]
    proposals = complete(model, min_credence=0)
    assert triples_of(proposals) == [triple for _, triple, _ in expected]
    assert np.allclose(proposals.credence, [credence for credence, *_ in expected])
    assert np.stack([proposals.head_rank, proposals.tail_rank], 1).tolist() == [ranks for *_, ranks in expected]
    assert max(proposals.head_rank.max(), proposals.tail_rank.max()) == BEST + 1
    terms = [
        (
            reference.pr_head(world, h, r, t),
            reference.pr_relation(world, h, r, t),
            reference.pr_tail(world, h, r, t),
        )
        for h, r, t in triples_of(proposals)
        if h in world.seen_heads and t in world.seen_tails
    ]
    seen = [h in world.seen_heads and t in world.seen_tails for h, _, t in triples_of(proposals)]
    assert np.allclose(proposals.terms[seen], terms)


def test_without_validation_facts_the_credence_has_an_order_and_no_size():
    model, _ = random_model(0)
    proposals = complete(model, min_credence=0, top=5)
    assert (proposals.hidden, proposals.expected_right) == (0, None)
    assert proposals.basis.startswith("not calibrated: too few validation facts")
    assert "expected" not in repr(proposals)
    assert proposals.as_dict()["expected_right"] is None


def test_withheld_steps_come_first_and_with_high_credence(board):
    model, withheld = board
    proposals = complete(model, base_rate=len(withheld) / (len(withheld) + len(model.train)), min_credence=0.001)
    right = np.array([triple in withheld for triple in triples_of(proposals)])
    assert right.sum() > 0.8 * len(withheld)
    assert right[: right.sum()].all()
    assert proposals.credence[right].min() > 0.5
    assert proposals.credence[~right].mean() < 0.1
    assert proposals.expected_right == pytest.approx(right.sum(), rel=0.1)
    assert proposals.expected_right == pytest.approx(proposals.credence.sum())
    assert not model.known.contains(*proposals.triples.T).any()


def test_the_credence_is_that_of_the_curve_at_the_base_rate(board):
    model, _ = board
    odds = {}
    for relation in range(2):
        table = candidates(model.pbe, model.known, Pools(model.trained_facts), relation)
        pairs = zip(map(tuple, table.triples.tolist()), model.calibration.proposals.odds(table), strict=True)
        odds |= dict(pairs)
    for base_rate in (None, 0.02, 0.5):
        missing = len(model.train) * (base_rate or MISSING) / (1 - (base_rate or MISSING))
        assert missing == pytest.approx(missing_facts(len(model.train), base_rate or MISSING))
        proposals = complete(model, min_credence=0.05, base_rate=base_rate)
        expected = {triple: min(missing / len(model.valid) * value, MOST) for triple, value in odds.items()}
        assert set(triples_of(proposals)) == {triple for triple, credence in expected.items() if credence >= 0.05}
        assert np.allclose(proposals.credence, [expected[triple] for triple in triples_of(proposals)])
        assert proposals.base_rate == (base_rate or 0.1)
        assert f"if {proposals.base_rate:.2g} of the facts are missing" in proposals.basis
        assert f"{len(model.valid)} validation facts" in proposals.basis


def test_certain_proposals_are_ordered_by_their_odds(board):
    model, _ = board
    every = complete(model, min_credence=0.001, base_rate=0.1)
    certain = complete(model, min_credence=0.001, base_rate=0.999)
    assert (certain.credence == MOST).sum() > 10 > (every.credence == MOST).sum()
    first = [triple for triple in triples_of(certain) if triple in set(triples_of(every))]
    assert first == triples_of(every)


@pytest.mark.parametrize("curve", [True, False])
def test_top_and_least_credence_cut_the_same_order(board, curve):
    model = board[0] if curve else random_model(1)[0]
    every = complete(model, min_credence=0)
    assert (np.diff(every.credence.round(9)) <= 0).all()
    least = float(every.credence[12])
    part = complete(model, min_credence=least, top=9)
    assert triples_of(part) == triples_of(every)[:9]
    enough = complete(model, min_credence=least)
    assert triples_of(enough) == [t for t, c in zip(triples_of(every), every.credence, strict=True) if c >= least]
    assert len(enough) < len(every)


def test_the_least_credence_is_a_fifth(board):
    model, _ = board
    assert triples_of(complete(model)) == triples_of(complete(model, min_credence=0.2))
    assert complete(model, min_credence=0.001).credence.min() < 0.2 <= complete(model).credence.min()


def test_the_list_may_grow_past_what_is_gathered_at_a_time(monkeypatch):
    model, _ = random_model(1)
    whole = complete(model, min_credence=0, top=30)
    monkeypatch.setattr(completion, "GATHER", 0)
    assert triples_of(complete(model, min_credence=0, top=30)) == triples_of(whole)


def test_relations_and_entities_asked_for():
    """The same as in the whole list, but for entities that are no answers since training lacks them in that slot."""
    model, _ = random_model(3)
    part = complete(model, min_credence=0, relations=["r2", "r0", "r2"], entities=["e3", "e5"])
    every = complete(model, min_credence=0)
    expected = [(h, r, t) for h, r, t in triples_of(every) if r in (0, 2) and {h, t} & {3, 5}]
    answers = [set(model.pbe.seen[slot].tolist()) for slot in ENTITY_SLOTS]
    able = [(h, r, t) for h, r, t in expected if h in answers[0] and t in answers[1]]
    assert [triple for triple in triples_of(part) if triple in set(able)] == able
    assert set(triples_of(part)) <= set(expected)
    assert able
    one = complete(model, min_credence=0, relations="r1")
    assert triples_of(one) == [triple for triple in triples_of(every) if triple[1] == 1]


def test_wrong_options_are_named():
    model, _ = random_model(3)
    with pytest.raises(DoxaError, match="no entity 'x'"):
        complete(model, entities=["x"])
    with pytest.raises(DoxaError, match="no relation 'x'"):
        complete(model, relations="x")
    for least in (-0.1, 1.1, float("nan")):
        with pytest.raises(UsageError, match=r"min_credence is .*; expected a number from 0 to 1"):
            complete(model, min_credence=least)
    for rate in (0.0, 1.0, -1.0, float("nan")):
        with pytest.raises(UsageError, match=r"base_rate is .*; expected a number between 0 and 1"):
            complete(model, base_rate=rate)
    with pytest.raises(UsageError, match="top is 0; expected at least 1"):
        complete(model, top=0)


def test_a_system_that_cannot_classify_proposes_nothing():
    model, _ = random_model(0)
    with pytest.raises(CannotAnswer):
        complete(replace(model, settings=model.settings.changed(system="jrme")))


def test_a_stopped_search_goes_on_where_it_was(tmp_path):
    model, _ = random_model(5, checkpoint_seconds=0.0)
    path = tmp_path / "part"
    whole = complete(model, min_credence=0, top=20)
    asked = []

    def stop(now):
        asked.append(now.relation)
        if now.relation == "r2":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        complete(model, min_credence=0, top=20, report=stop, checkpoint=path)
    assert asked == ["r0", "r1", "r2"]
    asked.clear()
    again = complete(
        model, min_credence=0, top=20, report=lambda now: asked.append(now.relation), checkpoint=path, resume=True
    )
    assert asked == ["r2", "r3", "probabilities"]
    assert triples_of(again) == triples_of(whole)
    assert np.allclose(again.credence, whole.credence)
    assert np.allclose(again.terms, whole.terms)
    assert again.head_rank.tolist() == whole.head_rank.tolist()
    for other in ({"top": 21}, {"top": 20, "base_rate": 0.3}, {"top": 20, "contradicting": False}):
        with pytest.raises(DoxaError, match="other options"):
            complete(model, min_credence=0, checkpoint=path, resume=True, **other)


def test_progress_rises_to_the_end():
    model, _ = random_model(5)
    steps = []
    complete(model, min_credence=0, top=3, report=steps.append)
    fractions = [step.fraction for step in steps]
    assert fractions[0] == 0
    assert fractions[-1] == 1
    assert fractions == sorted(fractions)
    assert steps[-1].count == 3


@pytest.mark.parametrize("memory", [1, 500])
def test_memory_bounds_every_table_of_scores(memory, memory_limits):
    model, _ = random_model(5)
    expected = triples_of(complete(model, min_credence=0, top=20))
    memory_limits.clear()
    assert triples_of(complete(model, min_credence=0, top=20, memory=memory)) == expected
    assert memory_limits == {memory}


def test_a_second_answer_is_not_proposed_where_the_relation_has_one():
    model, _ = random_model(0, entities=40, facts=5)
    capitals = np.array([[head, 0, head + 20] for head in range(15)])
    neighbors = np.array([[head, 1, tail] for head in range(12) for tail in (20, 21, 22)])
    model = replace(model, train=np.concatenate([capitals, neighbors]))
    every, part = (complete(model, min_credence=0, contradicting=answer) for answer in (True, False))
    heads, tails = set(range(15)), set(range(20, 35))
    first = [(h, r, t) for h, r, t in triples_of(every) if r == 1 or (h not in heads and t not in tails)]
    assert triples_of(part) == first
    relations = [r for _, r, _ in triples_of(every)]
    assert relations.count(0) > 10
    assert {1} == {r for _, r, _ in triples_of(part)}


def test_a_model_that_was_saved_without_a_curve_fits_it(board):
    model, _ = board
    without = replace(model, calibration=replace(model.calibration, proposals=None))
    steps = []
    again = complete(without, min_credence=0.1, report=lambda now: steps.append(now.relation))
    assert triples_of(again) == triples_of(complete(model, min_credence=0.1))
    assert again.hidden == len(model.valid)
    assert steps[0] == "calibration"


@pytest.mark.parametrize("name", ["pbe", "label", "transh"])
def test_folders_of_version_1_complete(name):
    model = doxa.load(OLD / name)
    assert model.calibration.proposals is None
    proposals = complete(model, min_credence=0, top=5)
    assert len(proposals) == 5
    assert not model.known.contains(*proposals.triples.T).any()


def test_a_saved_model_proposes_the_same(board, tmp_path):
    model, _ = board
    model.save(tmp_path / "m")
    again = doxa.load(tmp_path / "m")
    assert again.calibration.proposals is not None
    one, other = complete(model), again.complete()
    assert triples_of(one) == triples_of(other)
    assert np.allclose(one.credence, other.credence)
    assert one.basis == other.basis


def test_proposals_as_a_table_and_as_plain_data(board):
    model, _ = board
    proposals = complete(model, top=4)
    table = proposals.to_frame()
    assert table.columns == [
        "head", "relation", "tail", "rank", "credence", "pr_head", "pr_relation", "pr_tail", "head_rank", "tail_rank",
    ]  # fmt: skip
    assert table["rank"].to_list() == [1, 2, 3, 4]
    names = model.vocabularies
    assert [names.entities[h] for h, _, _ in triples_of(proposals)] == table["head"].to_list()
    data = json.loads(json.dumps(proposals.as_dict()))
    assert data["proposals"] == table.to_dicts() == list(proposals)
    assert data["expected_right"] == pytest.approx(proposals.credence.sum())
    assert (data["base_rate"], data["hidden"]) == (0.1, len(model.valid))
    assert data["basis"] == proposals.basis
    assert repr(proposals).startswith("Proposals(4 new beliefs, credence ")
    assert repr(proposals).endswith(f"{proposals.expected_right:,.0f} expected to be right)")
    nothing = complete(model, min_credence=1.0, base_rate=0.001)
    assert (len(nothing), repr(nothing), nothing.expected_right) == (0, "Proposals(no new beliefs)", 0.0)
    assert nothing.to_frame().columns == table.columns


def test_blocks_of_relations_are_searched_as_the_whole_with_one_search(board, monkeypatch):
    model, made = board[0], []

    class Blocks:
        def run(self, function, count, rows_of, options, block=0):
            monkeypatch.setattr(completion, "Pools", lambda facts: made.append(facts) or Pools(facts))
            tables = [function(model, rows_of(np.arange(n, n + 1)), options) for n in range(count)]
            assert len(tables) > 1
            return pl.concat(tables)

    for options in ({"min_credence": 0.0, "top": 30}, {"min_credence": 0.3}):
        here, there = (complete(model, runner=runner, **options) for runner in (None, Blocks()))
        assert len(here)
        assert triples_of(here) == triples_of(there)
        np.testing.assert_allclose(here.credence, there.credence, rtol=1e-6)
        monkeypatch.undo()
    assert len(made) == 2
