"""The popularity baseline: its ranks and verdicts against counts by hand, and its place in the report."""

import json
from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from doxa.calibration.thresholds import Thresholds
from doxa.data.beliefs import Beliefs
from doxa.data.negatives import labeled_beliefs
from doxa.data.splits import split
from doxa.data.triples import TripleIndex
from doxa.evaluation.popularity import Popularity, popularity_verdicts
from doxa.evaluation.protocol import ranks
from doxa.evaluation.report import evaluate
from doxa.model import fit
from doxa.slots import ENTITY_SLOTS, Slot
from tests import reference
from tests.worlds import beliefs, board, random_beliefs, random_model

SETTINGS = {"dimension": 8, "epochs": 20, "batch_size": 16, "num_candidates": 16, "learning_rate": 0.5, "threads": 1}


@pytest.fixture(scope="module")
def parts():
    return split(Beliefs.from_frame(board(6)), (0.1, 0.2), seed=0)


@pytest.fixture(scope="module")
def model(parts):
    return fit(parts[0], parts[1], **SETTINGS)


def test_popularity_answers_with_the_most_frequent():
    sample = beliefs([("a", "r", "x"), ("b", "r", "x"), ("c", "r", "y"), ("a", "s", "y")])
    facts = TripleIndex(sample.triples, len(sample.vocabularies.entities), 2)
    popularity = Popularity(facts)
    ask = sample.take(np.array([0, 2]))
    assert ranks(popularity, Slot.TAIL, ask, facts).raw.tolist() == [1.0, 2.0]
    assert ranks(popularity, Slot.RELATION, sample, facts).raw.tolist() == [1.0, 1.0, 1.0, 2.0]
    plausible = popularity.plausibility(sample)
    assert plausible.tolist() == pytest.approx(np.log([2 * 3, 2 * 3, 2 * 2, 2 * 2]).tolist())


@pytest.mark.parametrize("of_relation", [False, True])
@pytest.mark.parametrize("memory", [0, 1])
@pytest.mark.parametrize("seed", range(3))
def test_ranks_by_popularity_are_those_of_the_counts(seed, memory, of_relation):
    table, rows = random_beliefs(seed, count=30)
    trained = TripleIndex(np.delete(table.triples, rows, axis=0), 7, 4)
    known = trained.union(table.triples)
    asked = table.take(rows)
    for slot in ENTITY_SLOTS:
        pool = trained.seen(slot) if of_relation else None
        fast = ranks(Popularity(trained), slot, asked, known, pool, memory=memory)
        for place, triple in enumerate(asked.triples.tolist()):
            counts = reference.popularity(trained.triples.tolist(), 7, triple[1], slot)
            true, answers = triple[slot], reference.known_answers(known.triples.tolist(), triple, slot)
            candidates = [e for e in range(7) if not of_relation or counts[e] > 0 or e == true]
            scores = [counts[e] for e in candidates]
            drop = [candidates.index(e) for e in answers if e != true and e in candidates]
            assert fast.raw[place] == reference.rank(scores, candidates.index(true))
            assert fast.filtered[place] == reference.rank(scores, candidates.index(true), drop)


def test_an_unknown_name_has_the_frequency_zero(parts):
    """Ids below 0 must not be mistaken for the last name of the vocabulary."""
    facts = TripleIndex(parts[0].triples, 36, 2)
    sample = parts[0].take(np.arange(8))
    unknown = replace(sample, head=np.where(np.arange(8) % 2, -1, sample.head), relation=np.array([0, 1, -1, -1] * 2))
    tails = [int(((parts[0].relation == r) & (parts[0].tail == t)).sum()) if r >= 0 else 0
             for r, t in zip(unknown.relation, unknown.tail, strict=True)]  # fmt: skip
    heads = [int(((parts[0].relation == r) & (parts[0].head == h)).sum()) if r >= 0 and h >= 0 else 0
             for h, r in zip(unknown.head, unknown.relation, strict=True)]  # fmt: skip
    expected = np.log((1 + np.array(heads)) * (1 + np.array(tails)))
    assert Popularity(facts).plausibility(unknown).tolist() == pytest.approx(expected.tolist())


@pytest.mark.parametrize("validated", [True, False])
def test_verdicts_use_thresholds_of_the_models_own_validation_facts(validated):
    model, _ = random_model(seed=0, facts=150)
    facts = np.random.default_rng(0).permutation(model.train)
    model = replace(model, train=facts[:60], valid=facts[60:90] if validated else facts[:0])
    tested = Beliefs.from_triples(model.vocabularies, facts[90:])
    fitted_on = Beliefs.from_triples(model.vocabularies, model.valid if validated else model.train)
    labeled = labeled_beliefs(fitted_on, model.known, model.settings.seed, model.settings.negatives_from)
    popularity = Popularity(model.trained_facts)
    thresholds = Thresholds.fit(popularity.plausibility(labeled), labeled.relation, labeled.label, 4)
    judged = labeled_beliefs(tested, model.known.union(tested.triples), 0)
    expected = popularity.plausibility(judged) >= thresholds.of(judged.relation)
    assert popularity_verdicts(model, judged).tolist() == expected.tolist()
    result = evaluate(model, tested, ["classification"])
    assert result.popularity.classification.accuracy == np.mean(expected == (judged.label == 1))


@pytest.mark.parametrize(("rule", "candidates"), [("all", "all"), ("train", "relation")])
def test_the_report_has_popularity_by_the_same_protocol(rule, candidates):
    model, _ = random_model(seed=0, facts=150)
    model = replace(model, train=model.train[::2], valid=model.train[1::4])
    asked = Beliefs.from_triples(model.vocabularies, random_model(seed=0, facts=150)[0].train[3::4])
    result = evaluate(model, asked, filter=rule, candidates=candidates)
    facts, popularity = model.trained_facts, Popularity(model.trained_facts)
    known = facts if rule == "train" else model.known.union(asked.triples)
    pools = [facts.seen(slot) if candidates == "relation" else None for slot in ENTITY_SLOTS]
    both = [ranks(popularity, slot, asked, known, pool) for slot, pool in zip(ENTITY_SLOTS, pools, strict=True)]
    baseline = result.popularity.entity
    assert baseline.filtered.mrr == pytest.approx(np.mean([1 / part.filtered for part in both]))
    assert baseline.raw.mr == pytest.approx(np.mean([part.raw for part in both]))
    assert set(baseline.by_category) == set(result.entity.by_category)
    relation = ranks(popularity, Slot.RELATION, asked, known)
    assert result.popularity.relation.filtered.mrr == pytest.approx(np.mean(1 / relation.filtered))
    assert result.popularity.confidence is None
    assert result.seconds.keys() >= {"entity", "popularity"}
    stored = json.loads(json.dumps(result.as_dict()))
    for task in ("entity", "relation", "classification"):
        assert stored["popularity"][task].keys() == stored[task].keys()


def test_the_frame_has_popularity_beside_the_value(model, parts):
    frame = evaluate(model, parts[2]).to_frame()
    assert frame.columns == ["task", "metric", "value", "popularity"]
    row = frame.filter(task="calibration", metric="brier")
    assert row["popularity"].item() == pytest.approx(0.25)
    assert frame.filter(task="calibration", metric="before.brier")["popularity"].item() is None
    plain = evaluate(model, parts[2], popularity=False)
    assert plain.popularity is None
    assert "popularity" not in plain.as_dict()
    assert "popularity" not in plain.seconds
    assert plain.to_frame()["popularity"].null_count() == len(plain.to_frame())
    assert model.evaluate(parts[2], popularity=False).popularity is None


def test_always_answering_the_share_of_true_beliefs(model, parts):
    """Sorted by label, so that bins of equal size would each be pure."""
    table = parts[2].to_frame()
    true, false = table.with_columns(label=pl.lit(1)), table.head(6).with_columns(tail=pl.lit("0,0"), label=pl.lit(-1))
    result = evaluate(model, Beliefs.from_frame(pl.concat([true, false])), ["calibration"]).popularity.calibration
    share = len(true) / (len(true) + 6)
    assert result.ece == pytest.approx(0)
    assert result.brier == pytest.approx(share * (1 - share))
    assert result.nll == pytest.approx(-share * np.log(share) - (1 - share) * np.log(1 - share))


def test_always_answering_the_mean_confidence_of_the_known_facts():
    table = board(4).with_columns(confidence=pl.Series([0.9, 0.3, 0.6, 0.8] * 6))
    model = fit(Beliefs.from_frame(table), objective="confidence", validation_fraction=0.0, **SETTINGS)
    sample = Beliefs.from_frame(table.head(10).with_columns(confidence=pl.lit(0.25)))
    result = evaluate(model, sample, ["confidence"]).popularity.confidence
    assert result.mse == pytest.approx((0.65 - 0.25) ** 2)
    assert result.mae == pytest.approx(0.4)
    silent = replace(model, known_confidence=np.zeros(0))
    assert evaluate(silent, sample, ["confidence"]).popularity.confidence is None
