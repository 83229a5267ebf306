"""Explanations add up, and influence foretells what training without a belief would change."""

import json
import re

import numpy as np
import pytest
import torch
from scipy.stats import spearmanr

from doxa.calibration.rules import log_terms
from doxa.curation.explain import TERMS, explain, touching
from doxa.curation.influence import pushes
from doxa.data.batch import Batch
from doxa.errors import DoxaError
from doxa.render.pages import to_html
from doxa.systems import build, recipe
from doxa.training.loop import Trainer
from tests import reference
from tests.worlds import beliefs, random_model


@pytest.mark.parametrize("seed", range(4))
def test_words_sum_to_f_and_terms_multiply_to_the_credence(seed):
    model, world = random_model(seed)
    found = explain(model, "e2", "r1", "e4", "W0 w3 w3 unheard w1")
    assert found.said.total == pytest.approx(reference.said(world, 1, [0, 3, 1]), abs=1e-12)
    assert sum(word.addend for word in found.said.words) + found.said.beta == pytest.approx(found.said.total, abs=1e-12)
    assert found.said.unknown == ("unheard",)
    assert np.prod(found.terms) ** (1 / 3) == pytest.approx(found.before, rel=1e-12)
    assert found.before == pytest.approx(reference.credence(world, 2, 1, 4, [0, 3, 1]))
    assert found.terms == pytest.approx(
        (
            reference.pr_head(world, 2, 1, 4),
            reference.pr_relation_with_mention(world, 2, 1, 4, [0, 3, 1]),
            reference.pr_tail(world, 2, 1, 4),
        )
    )
    rival = int(found.relation_runner_up.name[1:])
    difference = reference.said(world, 1, [0, 3, 1]) - reference.said(world, rival, [0, 3, 1])
    assert sum(word.for_it for word in found.said.words) == pytest.approx(difference)


@pytest.mark.parametrize("seed", range(4))
def test_the_runner_up_is_the_best_other_answer_and_the_deciding_term_parts_them_most(seed):
    model, world = random_model(seed)
    found = explain(model, "e2", "r1", "e4")
    others = {x: reference.pr_tail(world, 2, 1, x) for x in world.seen_tails if x != 4}
    best = max(others, key=others.get)
    assert found.tail_runner_up.name == f"e{best}"
    assert found.tail_runner_up.terms[2] == pytest.approx(others[best])
    assert found.tail_runner_up.ahead == (others[best] > found.terms[2])
    gaps = np.log(found.terms) - np.log(found.tail_runner_up.terms)
    decided = np.argmin(gaps) if found.tail_runner_up.ahead else np.argmax(gaps)
    assert found.tail_runner_up.decided_by == TERMS[decided]
    assert found.said is None


def test_kin_are_the_known_beliefs_most_alike():
    model, world = random_model(2)
    found = explain(model, "e2", "r1", "e4", top=3)

    def cosine(a, b):
        return (
            world.entity[a] @ world.entity[b] / reference.norm(world.entity[a], 2) / reference.norm(world.entity[b], 2)
        )

    likeness = {(h, t): cosine(h, 2) + cosine(t, 4) for h, r, t in model.train.tolist() if r == 1 and (h, t) != (2, 4)}
    expected = sorted(likeness, key=likeness.get, reverse=True)[:3]
    assert [(kin.head, kin.tail) for kin in found.kin] == [(f"e{h}", f"e{t}") for h, t in expected]


def test_a_push_is_the_product_of_two_gradients():
    model, _ = random_model(3)
    some = beliefs([("e2", "r1", "e4"), ("e2", "r0", "e5"), ("e1", "r1", "e4"), ("e6", "r3", "e7")])
    some = some.encode(model.vocabularies)

    def gradient(row):
        value = model.pbe.log_credence(Batch.of(some.take(np.array([row])))).sum()
        found = torch.autograd.grad(value, [model.pbe.score.entity.weight, model.pbe.score.relation.weight])
        return torch.cat([part.reshape(-1) for part in found])

    expected = [float(gradient(0) @ gradient(row)) for row in range(4)]
    before = model.pbe.score.entity.weight.clone()
    assert pushes(model.pbe, some.take(np.array([0])), some) == pytest.approx(expected, rel=1e-5)
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


def test_influence_foretells_training_without_a_belief():
    """Sign and order of the pushes agree with what leaving each belief out of training really changes."""
    every = settlers()
    settings = recipe({"dimension": 6, "estimator": "exact", "scale": 2.0, "optimizer": "sgd", "epochs": 40,
                       "learning_rate": 0.05, "schedule": "constant", "threads": 1, "batch": len(every)})  # fmt: skip

    def log_credence(left):
        pbe = build(every, settings)
        Trainer(pbe, every.take(left), settings).run()
        return pbe, log_terms(pbe, every).mean(axis=1)

    rows = np.arange(len(every))
    pbe, whole = log_credence(rows)
    change = np.stack([log_credence(np.delete(rows, left))[1] - whole for left in rows])  # (left out, question)
    orders, signs = [], []
    for question in rows:
        ends = {every.head[question], every.tail[question]}
        near = np.array([z for z in rows if z != question and ends & {every.head[z], every.tail[z]}])
        if len(near) < 4:
            continue
        foretold = -pushes(pbe, every.take(np.array([question])), every.take(near))
        orders.append(spearmanr(foretold, change[near, question]).statistic)
        most = np.argmax(np.abs(foretold))
        signs.append(np.sign(foretold[most]) == np.sign(change[near[most], question]))
    assert len(orders) >= 15
    assert np.mean(orders) >= 0.6
    assert np.mean(signs) >= 0.8


def test_influences_share_an_entity_and_come_from_training():
    model, _ = random_model(1)
    found = explain(model, "e2", "r1", "e4", influences=4)
    assert len(found.influences) == 4
    for one in found.influences:
        assert {one.head, one.tail} & {"e2", "e4"}
    assert (np.diff([-abs(one.push) for one in found.influences]) >= 0).all()
    near = touching(model, (2, 1, 4), most=3)
    assert len(near) == 3
    assert near[0, 1] == 1


def test_the_three_faces(tmp_path):
    model, _ = random_model(0)
    found = explain(model, "e2", "r1", "e4", "w1 <b>", influences=2)
    text = str(found)
    assert "before calibration" in text
    assert "F(r, m) =" in text
    told = json.loads(json.dumps(found.as_dict()))
    assert set(told["terms"]) == set(TERMS)
    assert told["said"]["words"][0]["word"] == "w1"
    page = to_html(found)
    assert "w1 &lt;b&gt;" in page
    assert "<svg" in page
    assert not re.search(r'(src|href)="', page)
    with pytest.raises(DoxaError, match="no entity 'x'"):
        explain(model, "x", "r1", "e4")
