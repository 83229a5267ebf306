import numpy as np
import pytest
import torch

from doxa.calibration.queries import KINDS, held_out_queries
from doxa.model import fit
from tests.worlds import beliefs

ROWS = [
    ("ann", "likes", "tea", "ann is fond of tea"),
    ("ann", "likes", "milk", ""),
    ("ann", "drinks", "tea", "ann drinks tea"),
    ("bob", "likes", "tea", ""),
    ("bob", "drinks", "milk", "bob drinks milk"),
]
ANSWERS = {"head": 0, "tail": 2, "relation": 1, "relation_with_mention": 1}


@pytest.mark.parametrize("kind", KINDS)
def test_other_known_answers_are_struck_out_and_the_right_one_stays(kind):
    some = beliefs(ROWS, ("head", "relation", "tail", "mention"))
    model = fit(some, dimension=4, epochs=2, validation_fraction=0.0, threads=1)
    some = some.encode(model.vocabularies)
    questions = held_out_queries(model.pbe, some, model.known, kind)
    asked = [row for row in ROWS if kind != "relation_with_mention" or row[3]]
    assert len(questions.truth) == len(asked)
    with torch.no_grad():
        table = questions.log_probabilities(torch.arange(len(asked))).numpy()
    place = ANSWERS[kind]
    names = model.vocabularies.relations if place == 1 else model.vocabularies.entities
    seen = {"head": model.pbe.seen_heads, "tail": model.pbe.seen_tails}.get(kind, torch.arange(len(names)))
    candidates = [names[int(i)] for i in seen]
    facts = {row[:3] for row in ROWS}
    for row, truth, logits in zip(asked, questions.truth.tolist(), table, strict=True):
        assert candidates[truth] == row[place]
        for candidate, logit in zip(candidates, logits, strict=True):
            other = (*row[:place], candidate, *row[place + 1 : 3])
            assert np.isinf(logit) == (other in facts and candidate != row[place])


def test_a_question_whose_answer_is_no_candidate_is_not_asked():
    some = beliefs(ROWS, ("head", "relation", "tail", "mention"))
    model = fit(some, dimension=4, epochs=1, validation_fraction=0.0, threads=1)
    backwards = beliefs([("tea", "likes", "ann")], ("head", "relation", "tail")).encode(model.vocabularies)
    assert len(held_out_queries(model.pbe, backwards, model.known, "tail").truth) == 0
    assert len(held_out_queries(model.pbe, backwards, model.known, "relation").truth) == 1


def test_probabilities_of_new_answers_sum_to_one_among_themselves():
    some = beliefs(ROWS, ("head", "relation", "tail", "mention"))
    model = fit(some, dimension=4, epochs=2, validation_fraction=0.0, threads=1)
    new = model.tails("bob", "likes", top=99, new_only=True)
    assert {answer.name for answer in new} == {"milk"}
    assert sum(answer.probability for answer in new) == pytest.approx(1)
    assert sum(answer.probability for answer in model.tails("bob", "likes", top=99)) == pytest.approx(1)
