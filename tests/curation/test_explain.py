"""Explanations add up, and influence predicts what training without a belief would change."""

import json
import re

import numpy as np
import pytest
import torch
from scipy.stats import spearmanr

from doxa.calibration.rules import log_terms
from doxa.curation.explain import explain, nearby_facts
from doxa.curation.explanation import TERMS
from doxa.curation.influence import influence
from doxa.data.batch import Batch
from doxa.errors import DoxaError
from doxa.pbe import log_credence
from doxa.render.pages import explanation_page
from doxa.systems import build, recipe
from doxa.training.loop import TrainingLoop
from doxa.training.steps import Steps
from tests import reference
from tests.worlds import beliefs, random_model


@pytest.mark.parametrize("seed", range(4))
def test_words_sum_to_f_and_terms_multiply_to_the_credence(seed):
    model, world = random_model(seed)
    explanation = explain(model, "e2", "r1", "e4", "W0 w3 w3 unseen w1")
    assert explanation.mention.total == pytest.approx(reference.mention_score(world, 1, [0, 3, 1]), abs=1e-12)
    assert sum(word.addend for word in explanation.mention.words) + explanation.mention.beta == pytest.approx(
        explanation.mention.total, abs=1e-12
    )
    assert explanation.mention.unknown == ("unseen",)
    assert np.prod(explanation.terms) ** (1 / 3) == pytest.approx(explanation.uncalibrated, rel=1e-12)
    assert explanation.uncalibrated == pytest.approx(reference.credence(world, 2, 1, 4, [0, 3, 1]))
    assert explanation.terms == pytest.approx(
        (
            reference.pr_head(world, 2, 1, 4),
            reference.pr_relation_with_mention(world, 2, 1, 4, [0, 3, 1]),
            reference.pr_tail(world, 2, 1, 4),
        )
    )
    other = int(explanation.relation_runner_up.name[1:])
    difference = reference.mention_score(world, 1, [0, 3, 1]) - reference.mention_score(world, other, [0, 3, 1])
    assert sum(word.contrast for word in explanation.mention.words) == pytest.approx(difference)


@pytest.mark.parametrize("seed", range(4))
def test_the_runner_up_is_the_best_other_answer_and_the_deciding_term_parts_them_most(seed):
    model, world = random_model(seed)
    explanation = explain(model, "e2", "r1", "e4")
    others = {x: reference.pr_tail(world, 2, 1, x) for x in world.seen_tails if x != 4}
    best = max(others, key=others.get)
    assert explanation.tail_runner_up.name == f"e{best}"
    assert explanation.tail_runner_up.terms[2] == pytest.approx(others[best])
    assert explanation.tail_runner_up.ahead == (others[best] > explanation.terms[2])
    gaps = np.log(explanation.terms) - np.log(explanation.tail_runner_up.terms)
    decided = np.argmin(gaps) if explanation.tail_runner_up.ahead else np.argmax(gaps)
    assert explanation.tail_runner_up.decided_by == TERMS[decided]
    assert explanation.mention is None


def test_similar_facts_are_the_most_similar_known_ones():
    model, world = random_model(2)
    explanation = explain(model, "e2", "r1", "e4", top=3)

    def cosine(a, b):
        return (
            world.entity[a] @ world.entity[b] / reference.norm(world.entity[a], 2) / reference.norm(world.entity[b], 2)
        )

    similarity = {
        (h, t): cosine(h, 2) + cosine(t, 4) for h, r, t in model.train.tolist() if r == 1 and (h, t) != (2, 4)
    }
    expected = sorted(similarity, key=similarity.get, reverse=True)[:3]
    assert [(fact.head, fact.tail) for fact in explanation.similar_facts] == [(f"e{h}", f"e{t}") for h, t in expected]


def test_an_influence_is_the_product_of_two_gradients():
    model, _ = random_model(3)
    batch = beliefs([("e2", "r1", "e4"), ("e2", "r0", "e5"), ("e1", "r1", "e4"), ("e6", "r3", "e7")])
    batch = batch.encode(model.vocabularies)

    def gradient(row):
        value = log_credence(model.pbe.log_terms(Batch.of(batch.take(np.array([row]))))).sum()
        parts = torch.autograd.grad(value, [model.pbe.score.entity.weight, model.pbe.score.relation.weight])
        return torch.cat([part.reshape(-1) for part in parts])

    expected = [float(gradient(0) @ gradient(row)) for row in range(4)]
    before = model.pbe.score.entity.weight.clone()
    assert influence(model.pbe, batch.take(np.array([0])), batch) == pytest.approx(expected, rel=1e-5)
    assert (model.pbe.score.entity.weight == before).all()


def settlers(seed=0):
    """People live in cities and talk the language of their city."""
    random = np.random.default_rng(seed)
    rows = [(f"city{c}", "speaks", f"tongue{c % 3}") for c in range(6)]
    rows += [(f"city{c}", "in", f"land{c % 3}") for c in range(6)]
    for person in range(12):
        city = random.integers(6)
        rows.append((f"p{person}", "lives", f"city{city}"))
        if random.random() < 0.7:
            rows.append((f"p{person}", "talks", f"tongue{city % 3}"))
    return beliefs(rows)


def test_influence_predicts_training_without_a_belief():
    """Sign and order of the influences agree with what leaving each belief out of training really changes."""
    every = settlers()
    settings = recipe({"score": "translation", "dimension": 6, "estimator": "exact", "scale": 2.0, "optimizer": "sgd",
                       "epochs": 40, "learning_rate": 0.05, "schedule": "constant", "threads": 1,
                       "batch_size": len(every)})  # fmt: skip

    def train_on(kept):
        pbe = build(every, settings)
        TrainingLoop(Steps(pbe, every.take(kept), settings)).run()
        return pbe, log_credence(log_terms(pbe, every))

    rows = np.arange(len(every))
    pbe, whole = train_on(rows)
    change = np.stack([train_on(np.delete(rows, left))[1] - whole for left in rows])  # (left out, question)
    orders, signs = [], []
    for question in rows:
        ends = {every.head[question], every.tail[question]}
        near = np.array([z for z in rows if z != question and ends & {every.head[z], every.tail[z]}])
        if len(near) < 4:
            continue
        predicted = -influence(pbe, every.take(np.array([question])), every.take(near))
        orders.append(spearmanr(predicted, change[near, question]).statistic)
        most = np.argmax(np.abs(predicted))
        signs.append(np.sign(predicted[most]) == np.sign(change[near[most], question]))
    assert len(orders) >= 15
    assert np.mean(orders) >= 0.6
    assert np.mean(signs) >= 0.8


def test_influences_share_an_entity_and_come_from_training():
    model, _ = random_model(1)
    explanation = explain(model, "e2", "r1", "e4", influences=4)
    assert len(explanation.influences) == 4
    for one in explanation.influences:
        assert {one.head, one.tail} & {"e2", "e4"}
    assert (np.diff([-abs(one.influence) for one in explanation.influences]) >= 0).all()
    near = nearby_facts(model, (2, 1, 4), most=3)
    assert len(near) == 3
    assert near[0, 1] == 1


def test_the_three_faces(tmp_path):
    model, _ = random_model(0)
    explanation = explain(model, "e2", "r1", "e4", "w1 <b>", influences=2)
    text = str(explanation)
    assert "before calibration" in text
    assert "F(r, m) =" in text
    plain = json.loads(json.dumps(explanation.as_dict()))
    assert set(plain["terms"]) == set(TERMS)
    assert plain["mention"]["words"][0]["word"] == "w1"
    page = explanation_page(explanation)
    assert "w1 &lt;b&gt;" in page
    assert "<svg" in page
    assert not re.search(r'(src|href)="', page)
    with pytest.raises(DoxaError, match="no entity 'x'"):
        explain(model, "x", "r1", "e4")
