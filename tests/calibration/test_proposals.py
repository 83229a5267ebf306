"""The credence of proposals: the share of missing facts among candidates, where it is known."""

from dataclasses import replace

import numpy as np
import polars as pl
import pytest

import doxa
from doxa.calibration import proposals
from doxa.calibration.candidates import BEST, CandidateTable, Pools, candidates, hidden_candidates
from doxa.calibration.curves import MIN_LABELS
from doxa.calibration.judge import Judge
from doxa.calibration.labels import Adjustment
from doxa.calibration.proposals import ProposalCurve, missing_facts
from doxa.config import Settings
from doxa.data.beliefs import Beliefs
from doxa.data.triples import TripleIndex
from doxa.data.vocabulary import Vocabulary
from doxa.model import Model
from tests.worlds import board_model

RELATIONS = 3


def chance(table):
    """The probability that a candidate of the simulated world is true."""
    score = 2.5 + table.log_pr @ [0.9, 0.6] - np.log(table.ranks) @ [0.7, 0.9] - 0.8 * (table.known > 0).sum(axis=1)
    return 1 / (1 + np.exp(-(score + np.array([0.5, 0.0, -0.5])[table.relation])))


class SimulatedWorld:
    """Candidates with known probabilities to be true. A true one is a validation fact or missing, at random.

    `validated` is the share of validation facts among the true ones. A tenth of the true facts are no candidates.
    """

    def __init__(self, seed, validated, count=60_000):
        random = np.random.default_rng(seed)
        triples = np.stack([np.arange(count), random.integers(0, RELATIONS, count), np.arange(count)], axis=1)
        every = CandidateTable(
            triples, -random.exponential(2, (count, 2)), random.integers(1, BEST + 2, (count, 2)).astype(float),
            random.poisson(0.7, (count, 2)),
        )  # fmt: skip
        true = random.random(count) < chance(every)
        validation = true & (random.random(count) < validated)
        candidate = random.random(count) < 0.9
        self.table = every.take(np.flatnonzero(candidate & ~validation))
        self.hidden = every.take(np.flatnonzero(candidate & validation))
        self.right = (true & ~validation)[candidate & ~validation]
        self.valid = triples[validation]
        self.missing = int((true & ~validation).sum())
        self.facts = TripleIndex(np.zeros((0, 3), np.int64), count, RELATIONS)

    def fit(self, monkeypatch, seed=0, shares=(1.0, 1.0)):
        """The curve of these candidates, without a model; `shares` of the candidates and of the hidden facts."""
        drawn = zip((self.table, self.hidden), shares, strict=True)
        parts = [table.take(np.arange(int(share * len(table)))) for table, share in drawn]
        right = np.repeat([False, True], [len(part) for part in parts])
        sample = proposals._Sample(CandidateTable.concat(parts), right, shares[0] / shares[1])
        monkeypatch.setattr(proposals, "_sampled", lambda *_: sample)
        return ProposalCurve.fit(None, self.facts, self.valid, seed)[0]


@pytest.mark.parametrize(("seed", "validated"), [(0, 0.5), (1, 0.3), (2, 0.7)])
def test_credence_is_the_share_of_missing_facts(seed, validated, monkeypatch):
    world = SimulatedWorld(seed, validated)
    curve = world.fit(monkeypatch)
    assert curve.count == len(world.valid)
    credence = curve.credence(world.table, world.missing)
    for lowest, highest in ((0.0, 1.01), (0.0, 0.1), (0.1, 0.3), (0.3, 0.5), (0.5, 1.01)):
        rows = (credence >= lowest) & (credence < highest)
        expected, right = credence[rows].sum(), world.right[rows].sum()
        error = np.sqrt((1 + validated / (1 - validated)) * right)  # of the missing facts and the validation facts
        assert rows.sum() > 50
        assert abs(expected - right) < 4 * error + 0.05 * right
    truth = chance(world.table)
    truth = truth * (1 - validated) / (1 - truth * validated)  # no validation fact, and true
    assert np.abs(credence - truth).mean() < 0.02


def test_the_curve_is_fitted_to_the_candidates_and_the_hidden_facts(monkeypatch):
    """`_sampled` has the candidates that are not known, and each validation fact as if it alone were not known."""
    model, _ = board_model(8)
    facts, valid = model.trained_facts, TripleIndex(model.valid, model.pbe.entities, 2)
    table, right, scale = proposals._sampled(model.pbe, facts, valid, np.random.default_rng(0), None)
    assert scale == 1.0
    assert 0 < right.sum() <= len(valid)
    assert set(map(tuple, table.triples[right].tolist())) <= set(map(tuple, model.valid.tolist()))
    assert not model.known.contains(*table.triples[~right].T).any()
    pools = Pools(facts)
    for number in range(2):
        rows = valid.triples[valid.triples[:, 1] == number]
        parts = (
            (right, hidden_candidates(model.pbe, model.known, pools, rows)),
            (~right, candidates(model.pbe, model.known, pools, number)),
        )
        for kind, expected in parts:
            part = table.take(np.flatnonzero(kind & (table.relation == number)))
            assert part.triples.tolist() == expected.triples.tolist()
            assert np.allclose(part.features, expected.features)


def test_every_candidate_is_as_likely_to_be_in_a_sample(monkeypatch):
    """A sample has the candidates of some entities, and some hidden facts; `scale` is the ratio of both shares."""
    model, _ = board_model(8)
    facts, valid = model.trained_facts, TripleIndex(model.valid, model.pbe.entities, 2)
    whole = proposals._sampled(model.pbe, facts, valid, np.random.default_rng(0), None)
    every = {tuple(triple): row for row, triple in enumerate(whole.table.triples[~whole.right].tolist())}
    monkeypatch.setattr(proposals, "MAX_SCORES", 120.0 * facts.entities)
    counts, shares, drawn = np.zeros(len(every)), [], []
    for seed in range(60):
        steps = []
        table, right, scale = proposals._sampled(model.pbe, facts, valid, np.random.default_rng(seed), steps.append)
        assert steps[-1] == 1.0
        rows = [every[tuple(triple)] for triple in table.triples[~right].tolist()]
        assert len(set(rows)) == len(rows)
        assert table.ranks[~right].tolist() == whole.table.ranks[~whole.right][rows].tolist()
        counts[rows] += 1
        drawn.append(len(rows) / len(every))
        shares.append(scale * min(1.0, 18 / len(valid)))
    assert 0 < shares[0] < 0.5
    assert np.mean(drawn) == pytest.approx(shares[0], rel=0.1)
    by_head = whole.table.answers(model.pbe)[~whole.right][:, 1]
    for side in (by_head, ~by_head):
        assert counts[side].mean() / 60 == pytest.approx(shares[0], rel=0.25)


def test_a_sample_gives_the_same_credence(monkeypatch):
    world = SimulatedWorld(1, 0.5)
    whole, part = (world.fit(monkeypatch, shares=shares) for shares in ((1.0, 1.0), (0.25, 0.5)))
    credence = [curve.credence(world.table, world.missing) for curve in (whole, part)]
    assert credence[1].sum() == pytest.approx(credence[0].sum(), rel=0.1)
    assert np.abs(credence[1] - credence[0]).mean() < 0.01


def test_relations_without_hidden_facts_have_candidates_too():
    """They are as likely to lack facts, and hiding showed none: their candidates count as wrong."""
    model, _ = board_model(8)
    valid = TripleIndex(model.valid[model.valid[:, 1] == 0], model.pbe.entities, 2)
    table, right, _ = proposals._sampled(model.pbe, model.trained_facts, valid, np.random.default_rng(0), None)
    assert set(table.relation[~right].tolist()) == {0, 1}
    assert set(table.relation[right].tolist()) == {0}


def test_more_missing_facts_raise_every_credence_in_proportion(monkeypatch):
    world = SimulatedWorld(3, 0.5, count=20_000)
    curve = world.fit(monkeypatch)
    odds = curve.odds(world.table)
    first = curve.credence(world.table, 1000.0)
    assert np.allclose(first, np.minimum(1000 / curve.count * odds, 1))
    assert first.max() < 1
    for missing in (100.0, 3000.0, 1e6):
        assert np.allclose(curve.credence(world.table, missing), np.minimum(missing / 1000 * first, proposals.MOST))
    assert (curve.credence(world.table, 1e6) == proposals.MOST).sum() > 10


def test_decided_bestcorrect_a_wrong_base_rate(monkeypatch):
    world = SimulatedWorld(7, 0.5, count=30_000)
    curve, stated = world.fit(monkeypatch), world.missing / 3
    credence = curve.credence(world.table, stated)
    best = np.argsort(-credence)[:1200]
    decided, others = best[::2], best[1::2]
    adjusted = curve.adjust(credence[decided], world.table.relation[decided], world.right[decided])
    truth = world.right[others].mean()
    assert credence[others].mean() < 0.6 * truth
    assert abs(adjusted.credence(world.table, stated)[others].mean() - truth) < 0.05
    names = Vocabulary(pl.Series([f"r{i}" for i in range(RELATIONS)], dtype=pl.String), "relation")
    stored = adjusted.as_dict(names.names.to_list().__getitem__)
    again = ProposalCurve.from_dict(stored, RELATIONS, lambda texts: names.ids(pl.Series(texts)))
    assert np.array_equal(again.credence(world.table, 500.0), adjusted.credence(world.table, 500.0))


def test_decisions_move_the_credence_of_bestlike_those_decided():
    """Inside the range of the labels by their adjustment, far from it not at all, between in order."""
    change = Adjustment(0.8, -1.5, np.array([0.0, 3.0]))
    local = proposals.LocalAdjustment(change, 1.0, 3.0)
    for relation in (0, 1):
        x = np.linspace(-8, 9, 400)
        ids = np.full(len(x), relation)
        moved = local.apply(x, ids)
        inside = (x >= 1) & (x <= 3)
        assert np.allclose(moved[inside], change.apply(x, ids)[inside])
        far = (x < -2.5) | (x > 6.5)
        assert np.allclose(moved[far], x[far])
        assert (np.diff(moved) > 0).all()


def test_a_base_rate_is_a_share_of_all_facts():
    assert missing_facts(900, 0.1) == pytest.approx(100)
    assert missing_facts(100, 0.5) == pytest.approx(100)


def test_a_hopeless_candidate_has_no_odds(monkeypatch):
    world = SimulatedWorld(3, 0.5, count=20_000)
    curve = world.fit(monkeypatch)
    rough = np.exp(world.table.features @ curve.rough[:-1] + curve.rough[-1])
    odds = curve.odds(world.table)
    assert ((odds == 0) == (rough < proposals.LEAST)).all()
    assert (odds == 0).any()
    assert world.right[odds == 0].mean() < 2 * proposals.LEAST


def test_the_rough_odds_do_not_depend_on_how_many_candidates_are_sampled(monkeypatch):
    world = SimulatedWorld(4, 0.5)
    whole = world.fit(monkeypatch)
    monkeypatch.setattr(proposals, "SAMPLE", 5000)
    part = world.fit(monkeypatch)
    odds = [np.exp(world.hidden.features @ one.rough[:-1] + one.rough[-1]) for one in (whole, part)]
    assert np.median(odds[1] / odds[0]) == pytest.approx(1, abs=0.1)


def ceiling_twin(share, right, support):
    """The highest share of validation facts among the n best, n = support or more, with half a wrong one added."""
    order = sorted(range(len(share)), key=lambda i: -share[i])
    counts = range(min(support, len(share)), len(share) + 1)
    return max(sum(right[i] for i in order[:n]) / (n + 0.5) for n in counts)


@pytest.mark.parametrize("support", [20, 200])
@pytest.mark.parametrize("count", [40, 200, 500])
def test_the_ceiling_is_a_share_that_enough_candidates_showed(count, support):
    random = np.random.default_rng(count)
    share = random.random(count)
    right = random.random(count) < share
    assert proposals._ceiling(share, right, support) == pytest.approx(ceiling_twin(share, right, support))
    assert proposals._ceiling(share, np.ones(count, bool), support) < 1


def test_no_share_above_the_ceiling(monkeypatch):
    world = SimulatedWorld(3, 0.5, count=20_000)
    curve = replace(world.fit(monkeypatch), ceiling=0.2)
    assert curve.odds(world.table).max() == pytest.approx(0.25)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_credence_of_a_small_knowledge_base_has_the_right_size(seed):
    """A ring whose members know the next two on both sides; a tenth is hidden, and its validation facts are few."""
    rows = np.array([(f"n{i}", "knows", f"n{(i + step) % 120}") for i in range(120) for step in (-2, -1, 1, 2)])
    order = np.random.default_rng(seed).permutation(len(rows))
    hidden, train = set(map(tuple, rows[order[:48]].tolist())), rows[order[48:]]
    settings = {"score": "complex", "n3": 0.01, "learning_rate": 0.4, "epochs": 60, "dimension": 64, "batch_size": 64}
    model = doxa.fit(train, threads=1, patience=0, **settings)
    best = model.complete(top=48).to_frame()
    right = sum(row in hidden for row in best.select("head", "relation", "tail").rows())
    assert model.calibration.proposals.count < 30
    assert right > 30
    assert best["credence"].sum() == pytest.approx(right, rel=0.35)


def test_too_few_validation_facts_fit_no_curve(monkeypatch):
    model, _ = board_model(8)
    facts = model.trained_facts
    assert ProposalCurve.fit(model.pbe, facts, model.valid)[0] is not None
    assert ProposalCurve.fit(model.pbe, facts, model.valid[: MIN_LABELS - 1])[0] is None
    assert ProposalCurve.fit(model.pbe, facts, np.zeros((0, 3), np.int64))[0] is None
    assert ProposalCurve.fit(model.pbe, facts, model.train)[0] is None  # none of which training lacks
    world = SimulatedWorld(3, 0.5, count=20_000)
    world.hidden = world.hidden.take(np.arange(MIN_LABELS - 1))  # enough facts, of which too few are candidates
    assert world.fit(monkeypatch) is None


def test_facts_of_training_among_validation_do_not_count():
    model, _ = board_model(8)
    more = np.concatenate([model.valid, model.train[:20]])
    curve, _ = ProposalCurve.fit(model.pbe, model.trained_facts, more)
    assert curve.count == len(model.valid)


def test_the_same_seed_fits_the_same_curve(monkeypatch):
    world = SimulatedWorld(5, 0.5, count=20_000)
    one, other, third = (world.fit(monkeypatch, seed).credence(world.table, 1000.0) for seed in (0, 0, 1))
    assert np.array_equal(one, other)
    assert not np.array_equal(one, third)
    assert np.abs(one - third).mean() < 0.01


def test_a_stored_curve_answers_the_same(monkeypatch):
    world = SimulatedWorld(6, 0.5, count=20_000)
    curve = world.fit(monkeypatch)
    names = Vocabulary(pl.Series([f"r{i}" for i in range(RELATIONS)], dtype=pl.String), "relation")
    judge = replace(Judge.unfitted(RELATIONS), proposals=curve)
    again = Judge.from_dict(judge.to_dict(names), names).proposals
    assert np.array_equal(again.credence(world.table, 500.0), curve.credence(world.table, 500.0))
    assert (again.count, again.ceiling) == (curve.count, curve.ceiling)
    stored = judge.to_dict(names)
    del stored["proposals"]  # a folder of an earlier version
    assert Judge.from_dict(stored, names).proposals is None


def test_new_relations_use_what_was_fitted_over_all(monkeypatch):
    world = SimulatedWorld(6, 0.5, count=20_000)
    curve = world.fit(monkeypatch)
    grown = replace(Judge.unfitted(RELATIONS), proposals=curve).grow(2).proposals
    assert np.array_equal(grown.odds(world.table), curve.odds(world.table))
    renamed = world.table.triples.copy()
    renamed[:, 1] = RELATIONS + 1
    table = replace(world.table, triples=renamed)
    scores = table.features @ curve.weights.overall
    share = np.minimum(curve.curve.probability(scores, np.full(len(table), -1)), curve.ceiling)
    hopeful = grown.odds(table) > 0
    assert hopeful.sum() > 100
    assert np.allclose(grown.odds(table)[hopeful], (share / (1 - share))[hopeful])


def test_a_judge_fits_the_curve_to_validation_beliefs_and_a_model_keeps_it(tmp_path):
    model, _ = board_model(8)
    beliefs = Beliefs.from_triples(model.vocabularies, model.valid)
    judge = Judge.fit(model.pbe, Settings(), model.trained_facts, beliefs)
    assert judge.proposals.count == len(model.valid)
    assert Judge.fit(model.pbe, Settings(), model.trained_facts, beliefs, held_out=False).proposals is None
    assert Judge.fit(model.pbe, Settings(), model.trained_facts, beliefs, can_classify=False).proposals is None
    model = replace(model, calibration=judge)
    model.save(tmp_path / "m")
    table = candidates(model.pbe, model.known, Pools(model.trained_facts), 0)
    expected = judge.proposals.credence(table, 30.0)
    assert np.allclose(Model.load(tmp_path / "m").calibration.proposals.credence(table, 30.0), expected)
    assert expected.max() > 0
