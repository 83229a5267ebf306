"""Comparison of two models: intervals against the reference and by coverage, verdicts, leaks, vocabularies."""

import json
from dataclasses import replace

import numpy as np
import polars as pl
import pytest

import doxa
from doxa.data.beliefs import Beliefs
from doxa.data.splits import split
from doxa.data.vocabulary import Vocabulary
from doxa.errors import CannotAnswer, UsageError
from doxa.evaluation import compare as module
from doxa.evaluation.compare import FEWEST, bootstrap_interval, compare, paired
from doxa.evaluation.report import evaluate
from doxa.model import fit
from tests import reference
from tests.worlds import beliefs, random_beliefs, random_model

SETTINGS = {
    "dimension": 8,
    "score": "complex",
    "batch_size": 32,
    "num_candidates": 32,
    "learning_rate": 0.5,
    "threads": 1,
}


def seasons():
    """40 entities of 4 kinds; `next` leads from each to all of the next kind, `after` to all of the one after."""
    steps = {"next": 1, "after": 2}
    rows = [
        (f"e{head}", relation, f"e{tail}", f"words of {relation}")
        for head, tail in np.ndindex(40, 40)
        for relation, step in steps.items()
        if (tail - head) % 4 == step
    ]
    return beliefs(rows, ("head", "relation", "tail", "mention"))


@pytest.fixture(scope="module")
def parts():
    return split(seasons(), (0.1, 0.15), seed=0)


@pytest.fixture(scope="module")
def good(parts):
    return fit(parts[0], parts[1], epochs=20, **SETTINGS)


@pytest.fixture(scope="module")
def poor(parts):
    return fit(parts[0], parts[1], epochs=1, seed=3, **(SETTINGS | {"learning_rate": 0.01}))


@pytest.mark.parametrize("block", [1, 100, 4_000_000])
def test_the_interval_is_that_of_the_reference(monkeypatch, block):
    monkeypatch.setattr(module, "BLOCK", block)
    random = np.random.default_rng(0)
    a, b = random.random((2, 30))
    low, high = bootstrap_interval((b - a)[:, None], seed=5, rounds=200)
    expected = reference.paired_bootstrap(a, b, np.random.default_rng([5, 11]), 200)
    assert [low[0], high[0]] == pytest.approx(expected.tolist())


def test_the_interval_covers_the_true_difference_as_often_as_it_says():
    """Skewed differences of mean 0.2, such as those of reciprocal ranks: 95 % of the intervals hold it."""
    random = np.random.default_rng(1)
    samples = random.exponential(0.5, (150, 400)) - random.exponential(0.3, (150, 400))
    low, high = bootstrap_interval(samples, rounds=1000)
    assert low.shape == (400,)
    assert 0.92 <= np.mean((low <= 0.2) & (high >= 0.2)) <= 0.98


def test_equal_models_rarely_show_a_difference():
    random = np.random.default_rng(2)
    verdicts = [
        paired("entity", {"mrr": a}, {"mrr": b}, seed)[0].verdict
        for seed, (a, b) in enumerate(random.random((200, 2, 60)))
    ]
    assert 0.88 <= np.mean([verdict == "no difference" for verdict in verdicts]) <= 0.99
    assert {"better", "worse"} <= set(verdicts)


def test_the_verdict_follows_the_direction_of_the_metric():
    low, high = np.linspace(0, 0.5, 40), np.linspace(0.3, 0.9, 40)
    rise, brier = paired("x", {"mrr": low, "brier": low}, {"mrr": high, "brier": high})
    assert (rise.verdict, brier.verdict) == ("better", "worse")
    assert rise.low < rise.difference < rise.high
    assert rise.difference == pytest.approx(high.mean() - low.mean()) == pytest.approx(rise.b - rise.a)
    fall = paired("x", {"mrr": high}, {"mrr": low})[0]
    assert fall.verdict == "worse"


@pytest.mark.parametrize("differing", [FEWEST - 1, FEWEST])
def test_a_handful_of_differing_beliefs_shows_nothing(differing):
    before = np.zeros(500)
    after = np.where(np.arange(500) < differing, 1.0, 0.0)
    one = paired("entity", {"hits@1": before}, {"hits@1": after})[0]
    assert one.low > 0
    assert one.verdict == ("better" if differing == FEWEST else "too few beliefs")


def test_a_model_against_itself_shows_no_difference(good, parts):
    result = compare(good, good, parts[2])
    assert len(result.differences) == 8
    for one in result.differences:
        assert one.a == one.b
        assert (one.difference, one.low, one.high, one.verdict) == (0, 0, 0, "no difference")


def test_a_trained_model_is_better_than_a_barely_trained_one(poor, good, parts):
    result = compare(poor, good, parts[2], "entity relation classification")
    by_metric = {(one.task, one.metric): one for one in result.differences}
    assert by_metric["entity", "mrr"].verdict == "better"
    assert by_metric["entity", "hits@10"].low > 0
    assert by_metric["classification", "accuracy"].verdict == "better"
    assert result.count("worse") == 0
    reverse = compare(good, poor, parts[2], ["entity"])
    assert [one.verdict for one in reverse.differences] == ["worse"] * 3


def test_figures_are_those_of_evaluate_where_both_know_the_same(poor, good, parts):
    result = compare(poor, good, parts[2]).as_dict()
    for name, model in (("a", poor), ("b", good)):
        report = evaluate(model, parts[2])
        assert result["entity"]["mrr"][name] == pytest.approx(report.entity.filtered.mrr)
        assert result["entity"]["hits@10"][name] == pytest.approx(report.entity.filtered.hits[10])
        assert result["relation"]["hits@1"][name] == pytest.approx(report.relation.filtered.hits[1])
        assert result["classification"]["accuracy"][name] == pytest.approx(report.classification.accuracy)
        assert result["calibration"]["brier"][name] == pytest.approx(report.calibration.after.brier)
        assert result["calibration"]["nll"][name] == pytest.approx(report.calibration.after.nll)


def test_a_belief_is_drawn_with_both_its_ranks_and_its_negative(poor, good, parts, monkeypatch):
    sizes = []
    monkeypatch.setattr(module, "bootstrap_interval", lambda each, seed: sizes.append(len(each)) or (each[0], each[0]))
    result = compare(poor, good, parts[2])
    assert sizes == [len(parts[2])] * 2 + [result.protocol["judged"] // 2] * 2


@pytest.mark.parametrize("swapped", [False, True])
def test_both_are_filtered_by_the_facts_of_both(poor, parts, swapped):
    """One model knows all other tails of a question: they are no rivals of the answer in the other model either."""
    asked, table = parts[2].encode(poor.vocabularies), parts[2].to_frame().head(1)
    rivals = np.array([[asked.head[0], asked.relation[0], e] for e in range(40) if e != asked.tail[0]])
    knowing = replace(poor, valid=np.concatenate([poor.valid, rivals]))
    result = compare(*((knowing, poor) if swapped else (poor, knowing)), table, ["entity"])
    alone = evaluate(poor, table, ["entity"]).entity
    assert alone.filtered_tails.mrr < 1
    assert result.differences[0].a == pytest.approx((1 + alone.filtered_heads.mrr) / 2)
    assert result.differences[0].difference == 0


def test_words_that_only_one_model_knows_count_for_it(parts):
    model, _ = random_model(seed=1)
    no_words = Vocabulary(pl.Series([], dtype=pl.String), "word")
    silent = replace(model, vocabularies=replace(model.vocabularies, words=no_words))
    asked, _ = random_beliefs(2)
    result = compare(silent, model, asked, ["relation"], keep_known=True).differences[0]
    assert result.b == pytest.approx(evaluate(model, asked, ["relation"]).relation.filtered.mrr)
    assert result.a == pytest.approx(evaluate(silent, asked, ["relation"]).relation.filtered.mrr)
    assert result.a != result.b


def test_known_facts_are_left_out_and_counted(poor, good, parts):
    leaking = Beliefs.from_frame(pl.concat([parts[2].to_frame(), parts[1].to_frame(), parts[0].to_frame().head(9)]))
    wider = replace(good, valid=np.zeros((0, 3), np.int64))
    result = compare(wider, poor, leaking, ["entity"])
    assert result.protocol["known"] == {"a": 9, "b": 9 + len(parts[1])}
    assert result.protocol["left_out"] == 9 + len(parts[1])
    assert result.protocol["beliefs"] == len(parts[2])
    assert result.differences == compare(wider, poor, parts[2], ["entity"]).differences
    assert compare(poor, wider, leaking, ["entity"]).protocol["left_out"] == 9 + len(parts[1])
    kept = compare(wider, poor, leaking, ["entity"], keep_known=True)
    assert (kept.protocol["beliefs"], kept.protocol["left_out"]) == (len(leaking), 0)
    with pytest.raises(CannotAnswer, match="known facts of a model"):
        compare(good, poor, parts[0])


def test_unknown_names_are_guesses_among_the_names_of_both(good, parts):
    other = fit(beliefs([("a", "likes", "b"), ("b", "likes", "c"), ("c", "knows", "a")]), epochs=1, **SETTINGS)
    result = compare(good, other, parts[2])
    figures = result.as_dict()
    assert result.protocol["unseen"] == {"a": 0, "b": len(parts[2])}
    assert result.protocol["entities"] == {"a": 40, "b": 3}
    assert figures["entity"]["mrr"]["b"] == pytest.approx(2 / (40 + 3 + 1))
    assert figures["relation"]["mrr"]["b"] == pytest.approx(2 / (2 + 2 + 1))
    assert figures["classification"]["accuracy"]["b"] == 0.5
    assert figures["calibration"]["brier"]["b"] == 0.25
    assert figures["entity"]["mrr"]["a"] == pytest.approx(evaluate(good, parts[2], ["entity"]).entity.filtered.mrr)
    with pytest.raises(CannotAnswer, match="nothing to compare"):
        compare(good, other, [("x", "y", "z")])


def test_labels_are_used_where_there_are_any(poor, good, parts):
    table = parts[2].to_frame()
    false = table.head(12).with_columns(tail=pl.col("head"), label=pl.lit(-1))
    labeled = Beliefs.from_frame(pl.concat([table.with_columns(label=pl.lit(1)), false]))
    result = compare(poor, good, labeled)
    assert result.protocol["beliefs"] == len(table)
    assert result.protocol["judged"] == len(table) + 12
    assert result.protocol["negatives"] == "labels"
    expected = evaluate(good, labeled, ["classification"]).classification.accuracy
    assert result.as_dict()["classification"]["accuracy"]["b"] == pytest.approx(expected)


def test_a_task_that_one_model_cannot_do_is_skipped_with_the_reason(good, parts):
    only_relations = fit(parts[0], parts[1], system="jrme", epochs=1, **(SETTINGS | {"score": "translation"}))
    for pair in ((good, only_relations), (only_relations, good)):
        result = compare(*pair, parts[2], ["relation", "entity", "calibration"])
        assert {one.task for one in result.differences} == {"relation"}
        letter = "A" if pair[0] is only_relations else "B"
        assert result.skipped.keys() == {"entity", "calibration"}
        assert f"model {letter} cannot: jrme predicts relations alone" in result.skipped["entity"]
        assert result.protocol["judged"] == 0


def test_a_comparison_is_a_result(poor, good, parts):
    steps = []
    result = doxa.compare(poor, good, parts[2].to_frame(), tasks="entity,relation", report=steps.append)
    assert isinstance(result, doxa.Comparison)
    assert steps == ["model A, entity", "model A, relation", "model B, entity", "model B, relation"]
    frame = result.to_frame()
    assert frame.columns == ["task", "metric", "a", "b", "difference", "low", "high", "verdict"]
    assert frame["metric"].to_list() == ["mrr", "hits@1", "hits@10", "mrr", "hits@1"]
    stored = json.loads(json.dumps(result.as_dict(), allow_nan=False))
    assert stored["entity"]["mrr"]["interval"] == [result.differences[0].low, result.differences[0].high]
    assert repr(result).startswith(f"Comparison({len(parts[2])} beliefs, metrics of B: ")
    assert "<table" in result._repr_html_()
    assert doxa.compare(poor, good, parts[2], "entity").differences == result.differences[:3]
    other = doxa.compare(poor, good, parts[2], "entity", seed=1).differences[0]
    assert (other.difference, other.low) != (result.differences[0].difference, result.differences[0].low)
    for wrong in ("confidence", "magic", ""):
        with pytest.raises(UsageError, match="expected some of entity, relation, classification, calibration"):
            doxa.compare(poor, good, parts[2], wrong)
