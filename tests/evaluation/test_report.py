"""Evaluation by the protocol: labels, filters, candidates and made negatives."""

import json

import numpy as np
import polars as pl
import pytest
import torch

from doxa.data.batch import Batch
from doxa.data.beliefs import Beliefs
from doxa.data.negatives import labeled_beliefs
from doxa.data.splits import split
from doxa.data.triples import TripleIndex
from doxa.evaluation.report import evaluate
from doxa.inference import judge
from doxa.model import fit
from doxa.slots import Slot
from tests.worlds import beliefs, board, model_of_facts

SETTINGS = {"dimension": 8, "epochs": 60, "batch_size": 16, "num_candidates": 16, "learning_rate": 0.5, "threads": 1}


@pytest.fixture(scope="module")
def parts():
    return split(Beliefs.from_frame(board(6)), (0.1, 0.2), seed=0)


@pytest.fixture(scope="module")
def model(parts):
    return fit(parts[0], parts[1], **SETTINGS)


def test_the_report_joins_both_sides(model, parts):
    result = evaluate(model, parts[2])
    heads, tails, both = result.entity.filtered_heads, result.entity.filtered_tails, result.entity.filtered
    assert both.mrr == pytest.approx((heads.mrr + tails.mrr) / 2)
    assert both.mr == pytest.approx((heads.mr + tails.mr) / 2)
    assert result.entity.filtered.mr <= result.entity.raw.mr
    assert result.protocol["queries"] == len(parts[2])
    assert set(result.entity.by_category) == {"1-1"}
    assert "confidence" in result.skipped


def test_only_true_rows_are_ranked_unless_asked_for(model, parts):
    table = parts[2].to_frame()
    wrong = table.with_columns(tail=table["head"], label=pl.lit(-1))
    labeled = Beliefs.from_frame(pl.concat([table.with_columns(label=pl.lit(1)), wrong]))
    assert evaluate(model, labeled, ["entity"]).protocol["queries"] == len(table)
    assert evaluate(model, labeled, ["entity"], rank_all=True).protocol["queries"] == 2 * len(table)
    plain, from_labeled = evaluate(model, parts[2], ["entity"]), evaluate(model, labeled, ["entity"])
    assert plain.entity == from_labeled.entity
    judged = evaluate(model, labeled, ["classification"])
    assert judged.protocol["negatives"] == "labels"
    verdict = judge(model, labeled).accepted
    assert judged.classification.accuracy == np.mean(verdict == (labeled.label == 1))
    up = labeled.encode(model.vocabularies).relation == model.vocabularies.relations.id("up")
    assert judged.classification.by_relation["up"] == np.mean((verdict == (labeled.label == 1))[up])


def test_the_filter_of_the_paper_keeps_test_facts_as_rivals(model):
    """Two tails of one question in the file: with filter=train each still competes with the other."""
    sample = beliefs([("0,0", "up", "0,1"), ("0,0", "up", "5,5"), ("0,0", "up", "4,4")])
    all_known = evaluate(model, sample, ["entity"])
    train_only = evaluate(model, sample, ["entity"], filter="train")
    assert train_only.entity.filtered_tails.mr > all_known.entity.filtered_tails.mr


def test_candidates_of_the_relation_are_fewer(model, parts):
    every = evaluate(model, parts[2], ["entity"])
    sample = evaluate(model, parts[2], ["entity"], candidates="relation")
    assert sample.entity.raw.mr <= every.entity.raw.mr
    assert sample.protocol["candidates"] == "relation"


def test_made_negatives_stand_beside_their_truths(parts):
    facts = TripleIndex(np.concatenate([part.triples for part in parts]), 36, 2)
    made = labeled_beliefs(parts[2], facts, seed=0)
    assert made.label.tolist() == [1, -1] * (len(made) // 2)
    assert not facts.contains(made.head[1::2], made.relation[1::2], made.tail[1::2]).any()
    assert facts.contains(made.head[::2], made.relation[::2], made.tail[::2]).all()
    assert made.mention.lengths[::2].tolist() == made.mention.lengths[1::2].tolist()


def test_unseen_names_are_counted_not_dropped(model):
    sample = beliefs([("0,0", "up", "0,1"), ("Mars", "up", "0,1")])
    result = evaluate(model, sample, ["entity", "classification"])
    assert (result.protocol["queries"], result.protocol["unseen"]) == (2, 1)
    assert result.entity.filtered.mr >= 18.5 / 2  # Mars stands in the middle of 36


def test_the_figure_without_unseen_names_stands_beside_the_others(model):
    sample = beliefs([("0,0", "up", "0,1"), ("Mars", "up", "0,1")])
    result, known = evaluate(model, sample, "entity relation"), evaluate(model, sample.take(np.array([0])))
    for report, alone in ((result.entity, known.entity), (result.relation, known.relation)):
        assert report.filtered_seen == alone.filtered
        assert report.filtered.mr > report.filtered_seen.mr
        assert report.as_dict()["filtered_seen"] == alone.filtered.as_dict()
        assert "filtered_seen" not in alone.as_dict()
    nothing = evaluate(model, beliefs([("Mars", "up", "0,1")]), "entity")
    assert nothing.entity.filtered_seen is None


def test_labels_that_are_all_true_need_made_negatives(model, parts):
    table = parts[2].to_frame()
    labeled = Beliefs.from_frame(table.with_columns(label=pl.lit(1)))
    plain, all_true = evaluate(model, parts[2]), evaluate(model, labeled)
    assert all_true.classification == plain.classification
    assert all_true.protocol["negatives"] == "made, seed 0"
    assert all_true.protocol["judged"] == plain.protocol["judged"] > 0


def test_the_filter_knows_valid_too(parts):
    """A validation tail that outranks the truth is taken out by filter=all and stays with filter=train."""
    model = fit(parts[0], parts[1], **SETTINGS)
    one = parts[1].encode(model.vocabularies).take(np.array([0]))
    scores = model.pbe.logits(Slot.TAIL, Batch.of(one))[0].detach()
    scores[one.tail[0]] = torch.inf
    worst = model.vocabularies.entities[int(scores.argmin())]
    head, relation = one.to_frame().row(0)[:2]
    ask = beliefs([(head, relation, worst)])
    ranks = {rule: evaluate(model, ask, ["entity"], filter=rule).entity.filtered_tails.mr for rule in ("all", "train")}
    assert ranks["train"] - ranks["all"] == 1


def test_the_confidence_task_measures_the_error_of_the_estimate():
    table = board(4).with_columns(confidence=pl.Series([0.9, 0.3] * 12))
    sample = Beliefs.from_frame(table)
    model = fit(sample, objective="confidence", negative_weight=1, **(SETTINGS | {"validation_fraction": 0.0}))
    result = evaluate(model, sample, ["confidence"]).confidence
    error = model.confidence(sample) - sample.confidence
    assert result.mse == pytest.approx(np.mean(error**2))
    assert result.mae == pytest.approx(np.mean(np.abs(error)))
    assert result.mse > 0


def test_every_part_of_the_report_is_data(model, parts):
    text = json.dumps(evaluate(model, parts[2]).as_dict())
    assert "NaN" not in text
    assert json.loads(text)["entity"]["filtered"]["mrr"] > 0


def test_an_evaluation_is_a_result(model, parts):
    result = evaluate(model, parts[2], ["entity", "classification"])
    frame = result.to_frame()
    assert frame.columns == ["task", "metric", "value", "popularity"]
    assert set(frame["task"]) == {"entity", "classification"}
    value = frame.filter(task="entity", metric="filtered.mrr")["value"].item()
    assert value == result.entity.filtered.mrr
    assert repr(result).startswith(f"Evaluation({len(parts[2])} beliefs, entity MRR ")
    assert "entity MRR" in result._repr_html_()


def test_little_memory_changes_no_figure(model, parts):
    whole, little = (evaluate(model, parts[2], memory=memory).as_dict() for memory in (0, 1))
    for task in ("entity", "relation", "classification"):
        assert whole[task] == little[task]
    assert little["calibration"]["ece"] == pytest.approx(whole["calibration"]["ece"], rel=1e-4)


def test_frames_and_tuples_are_evaluated_alike(model, parts):
    expected = evaluate(model, parts[2], ["relation"]).relation
    assert model.evaluate(parts[2].to_frame(), "relation").relation == expected
    assert model.evaluate(parts[2].to_frame().rows(), ["relation"]).relation == expected


def test_no_negative_is_another_test_belief():
    """Train and test hold all pairs of three heads and three tails, or all but (e3, e4): the one false pair left."""
    pairs = [(h, 0, t) for h in (1, 2, 3) for t in (4, 5, 6)]
    train = [(h, r, t) for h, r, t in pairs if t - h == 3]
    model, _ = model_of_facts(train)
    asked = [(f"e{h}", f"r{r}", f"e{t}") for h, r, t in pairs if (h, r, t) not in train]
    result = evaluate(model, beliefs(asked), ["classification"])
    assert result.skipped == {"classification": "no negatives could be made of these beliefs"}
    asked.remove(("e3", "r0", "e4"))
    result = evaluate(model, beliefs(asked), ["classification"])
    assert result.protocol["judged"] == 2 * 2, "(e3, e5) and (e2, e4), each beside its negative (e3, e4)"


@pytest.mark.parametrize(
    ("facts", "frequency"),
    [(9, "below 10"), (10, "10 to 99"), (99, "10 to 99"), (100, "100 to 999"), (999, "100 to 999"),
     (1000, "1000 and more")],
)  # fmt: skip
def test_a_frequency_class_begins_with_its_first_number(facts, frequency):
    pairs = [(h, 0, t) for h in range(40) for t in range(40, 80)]
    model, _ = model_of_facts(pairs[:facts], entities=80)
    result = evaluate(model, beliefs([("e0", "r0", "e79")]), ["entity"])
    assert list(result.entity.by_frequency) == [frequency]
