"""The sense check: would a person accept what the demo's model answers? (docs/atlas.md)

The floors lie below the worst of three seeds with a margin, since arithmetic differs between processors.
"""

from collections import defaultdict
from dataclasses import replace

import numpy as np
import polars as pl
import pytest

import doxa
from doxa.demo import atlas
from tests.demo.questions import CONFUSIONS, FALSE, KINDS, KNOWN, NEW, TRUE
from tools.atlas.phrases import CLEAR, VAGUE

pytestmark = pytest.mark.tour

TRIPLE = ["head", "relation", "tail"]
BEST, NOTICED = 3, 0.01
"""None of the best three answers may be absurd. A name of the wrong kind counts from a probability of 1 % on: the next
best after an answer of 99 % is no answer."""


@pytest.fixture(scope="module")
def world():
    return atlas.load()


@pytest.fixture(scope="module")
def model(demo_folder):
    return doxa.load(demo_folder / "demo" / "model")


@pytest.fixture(scope="module")
def true(world):
    """Every true triple of the atlas."""
    parts = (world.train.filter(~world.planted), world.valid, world.test)
    return {row for part in parts for row in part.select(TRIPLE).rows()}


@pytest.fixture(scope="module")
def members(true):
    """The names of each kind."""
    names = defaultdict(set)
    for head, relation, tail in true:
        of_heads, of_tails = KINDS[relation]
        names[of_heads].add(head)
        names[of_tails].add(tail)
    return names | {"place": names["city"] | names["country"]}


@pytest.fixture(scope="module")
def answered(model):
    """Each question of the tables with its acceptable answers and its answer; known answers only to known questions."""
    known = model.ask([row[:4] for row in KNOWN], top=BEST)
    new = [model.ask([row[:4]], top=BEST, new_only=row[1] != "?")[0] for row in NEW]
    return {
        "known": [(answer, row[4].split(" / ")) for answer, row in zip(known, KNOWN, strict=True)],
        "new": [(answer, row[4].split(" / ")) for answer, row in zip(new, NEW, strict=True)],
    }


@pytest.fixture(scope="module")
def sampled(model, world):
    """2,000 test beliefs whose relation has no self-loop in training, with the answers not yet known: tails, heads."""
    loops = set(world.train.filter(pl.col("head") == pl.col("tail"))["relation"])
    rows = world.test.filter(~pl.col("relation").is_in(list(loops))).sample(2000, seed=0).select(TRIPLE).rows()
    tails = model.ask([(head, relation, "?") for head, relation, _ in rows], top=BEST, new_only=True)
    heads = model.ask([("?", relation, tail) for _, relation, tail in rows], top=BEST, new_only=True)
    return rows, tails, heads


def completed(question, name):
    return tuple(name if part == "?" else part for part in question[:3])


def shown(answers):
    """Answers as text, one under the other, for messages."""
    return "\n" + "\n".join(map(str, answers))


def repeated(answers):
    """The answers with the asked entity among the candidates."""
    return [answer for answer in answers if {c.name for c in answer} & set(answer.question[:3])]


def of_wrong_kind(answers, members):
    """The answers to questions about entities with a candidate of another kind than the question asks for."""
    wrong = []
    for answer in answers:
        head, relation, *_ = answer.question
        names = {candidate.name for candidate in answer if candidate.probability >= NOTICED}
        if relation != "?" and not names <= members[KINDS[relation][head != "?"]]:
            wrong.append(answer)
    return wrong


def test_the_tables_agree_with_the_atlas(world, true):
    train, valid, test = (set(part.select(TRIPLE).rows()) for part in (world.train, world.valid, world.test))
    for row in KNOWN:
        assert {completed(row, name) for name in row[4].split(" / ")} & train & true, row
    for row in NEW:
        beliefs = {completed(row, name) for name in row[4].split(" / ")}
        assert beliefs <= test - train - valid, row
    assert set(TRUE) <= true
    assert {truth for _, truth in CONFUSIONS} <= true
    assert not {*FALSE, *(belief for belief, _ in CONFUSIONS)} & (true | train)
    assert set(KINDS) == {relation for _, relation, _ in true}


def test_the_questions_come_from_all_sides():
    sides = [row[:3].index("?") for row in (*KNOWN, *NEW)]
    assert len(sides) >= 40
    assert min(sides.count(side) for side in range(3)) >= 6
    sentences = [bool(row[3]) for row in (*KNOWN, *NEW) if row[1] == "?"]
    assert min(sum(sentences), len(sentences) - sum(sentences)) >= 4


@pytest.mark.parametrize(("kind", "floor"), [("known", 0.8), ("new", 0.7)])
def test_a_person_would_accept_the_first_answer(answered, kind, floor):
    wrong = [answer for answer, accepted in answered[kind] if answer[0].name not in accepted]
    assert 1 - len(wrong) / len(answered[kind]) >= floor, shown(wrong)


def test_no_answer_is_absurd(answered, members):
    answers = [answer for part in answered.values() for answer, _ in part]
    assert not repeated(answers), shown(repeated(answers))
    assert not of_wrong_kind(answers, members), shown(of_wrong_kind(answers, members))


def test_the_relation_that_a_sentence_states_comes_first(answered, model, world):
    asked = [(answer, accepted) for part in answered.values() for answer, accepted in part if answer.question[3]]
    wrong = [answer for answer, accepted in asked if answer[0].name not in accepted]
    assert not wrong, shown(wrong)
    clear = {phrase for phrases in CLEAR.values() for phrase in phrases} - set(VAGUE)
    rows = world.test.filter(pl.col("mention").is_in(list(clear)))
    answers = model.ask([(row[0], "?", row[2], row[3]) for row in rows.rows()], top=BEST)
    wrong = [answer for answer, relation in zip(answers, rows["relation"], strict=True) if answer[0].name != relation]
    assert len(wrong) <= 0.02 * len(answers), shown(wrong)


def test_no_answer_repeats_the_question(sampled):
    _, tails, heads = sampled
    wrong = repeated([*tails, *heads])
    assert not wrong, shown(wrong)


def test_answers_to_the_test_part_are_right_and_of_the_right_kind(sampled, members):
    rows, tails, heads = sampled
    hits = np.mean([answer[0].name == row[2] for row, answer in zip(rows, tails, strict=True)])
    assert hits >= 0.6
    wrong = of_wrong_kind([*tails, *heads], members)
    assert len(wrong) <= 0.015 * len(tails + heads), shown(wrong)
    first = of_wrong_kind([replace(answer, answers=answer.answers[:1]) for answer in wrong], members)
    assert len(first) <= 0.002 * len(tails + heads), shown(first)


def test_true_statements_are_credible_and_false_ones_are_not(model):
    true, false = model.credence(list(TRUE)), model.credence(list(FALSE))
    assert true.min() >= 0.7, sorted(zip(true, TRUE, strict=True))
    assert np.median(false) < 0.3
    believed = [(belief, value) for belief, value in zip(FALSE, false, strict=True) if value >= 0.9]
    assert len(believed) <= 1, believed  # one of three seeds has Kenya in Asia


def test_most_truths_come_before_a_common_confusion(model):
    """Of ten truths, the worst of three seeds has seven before what some believe instead."""
    wrong = []
    for belief, truth in CONFUSIONS:
        asked = tuple("?" if a != b else a for a, b in zip(belief, truth, strict=True))
        (answer,) = model.ask([asked], top=len(model.vocabularies.entities))
        order = [completed(asked, candidate.name) for candidate in answer]
        if order.index(belief) < order.index(truth):
            wrong.append(replace(answer, answers=answer.answers[:BEST]))
    assert len(wrong) <= 4, shown(wrong)


def test_a_common_confusion_is_less_credible_than_the_known_truth(model):
    """A capital is known, so that another city as the capital contradicts it: its odds are a fifth or less."""
    confusions, truths = (model.credence([pair[place] for pair in CONFUSIONS]) for place in (0, 1))
    times = truths / (1 - truths) / (confusions / (1 - confusions))
    assert (times >= 5).sum() >= len(CONFUSIONS) - 1, list(zip(CONFUSIONS, confusions, truths, strict=True))
    assert confusions.mean() <= 0.9, list(zip(CONFUSIONS, confusions, strict=True))


def test_planted_false_beliefs_are_seldom_credible(model, world):
    """Training saw them as facts, each with a sentence: 1 in 7 has a credence of 90 %, and 6 in 7 true test beliefs."""
    planted = model.credence(world.train.filter(world.planted))
    assert np.mean(planted >= 0.9) <= 0.2
    assert np.mean(model.credence(world.test) >= 0.9) >= 0.8


def test_audit_suggests_the_truth_for_planted_false_beliefs(model, world, true):
    suspects = model.audit(world.train.filter(world.planted)).to_frame()
    assert len(suspects) == world.planted.sum()
    right = [row in true for row in suspects.select("head", "relation", "suggestion").rows()]
    assert np.mean(right) >= 0.88
