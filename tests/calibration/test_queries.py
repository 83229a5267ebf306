import numpy as np
import pytest
import torch

from doxa.calibration.queries import KINDS, held_out_queries, missing_slot
from doxa.model import fit
from doxa.slots import Slot
from tests.worlds import beliefs

ROWS = [
    ("ann", "likes", "tea", "ann is fond of tea"),
    ("ann", "likes", "milk", ""),
    ("ann", "drinks", "tea", "ann drinks tea"),
    ("bob", "likes", "tea", ""),
    ("bob", "drinks", "milk", "bob drinks milk"),
]


@pytest.mark.parametrize("kind", KINDS)
def test_other_known_answers_are_struck_out_and_the_right_one_stays(kind):
    sample = beliefs(ROWS, ("head", "relation", "tail", "mention"))
    model = fit(sample, dimension=4, epochs=2, validation_fraction=0.0, threads=1)
    sample = sample.encode(model.vocabularies)
    queries = held_out_queries(model.pbe, sample, model.known, kind)
    asked = [row for row in ROWS if kind != "relation_with_mention" or row[3]]
    assert len(queries) == len(asked)
    with torch.no_grad():
        table, truths = queries.log_probabilities(np.arange(len(asked)))
    slot = missing_slot(kind)
    names = model.vocabularies.relations if slot is Slot.RELATION else model.vocabularies.entities
    seen = {names[int(i)] for i in model.pbe.seen[slot]}
    assert table.shape[1] == len(names), "here most names are candidates, so all are columns"
    facts = {row[:3] for row in ROWS}
    for row, truth, logs in zip(asked, truths.tolist(), table, strict=True):
        assert names[truth] == row[slot]
        assert logs.exp().sum().item() == pytest.approx(1)
        for column, log in enumerate(logs.tolist()):
            other = (*row[:slot], names[column], *row[slot + 1 : 3])
            left_out = names[column] not in seen or (other in facts and names[column] != row[slot])
            assert np.isinf(log) == left_out


def test_a_question_whose_answer_is_no_candidate_is_not_asked():
    sample = beliefs(ROWS, ("head", "relation", "tail", "mention"))
    model = fit(sample, dimension=4, epochs=1, validation_fraction=0.0, threads=1)
    backwards = beliefs([("tea", "likes", "ann")], ("head", "relation", "tail")).encode(model.vocabularies)
    assert len(held_out_queries(model.pbe, backwards, model.known, "tail")) == 0
    assert len(held_out_queries(model.pbe, backwards, model.known, "relation")) == 1


def test_probabilities_of_new_answers_sum_to_one_among_themselves():
    sample = beliefs(ROWS, ("head", "relation", "tail", "mention"))
    model = fit(sample, dimension=4, epochs=2, validation_fraction=0.0, threads=1)
    new = model.tails("bob", "likes", top=99, new_only=True)
    assert {answer.name for answer in new} == {"milk"}
    assert sum(answer.probability for answer in new) == pytest.approx(1)
    assert sum(answer.probability for answer in model.tails("bob", "likes", top=99)) == pytest.approx(1)
