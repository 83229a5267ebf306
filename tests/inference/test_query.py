"""Questions in, answers out."""

from dataclasses import replace

import numpy as np
import polars as pl
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from doxa.calibration.temperatures import Temperatures
from doxa.data.beliefs import Beliefs
from doxa.data.places import with_places
from doxa.errors import DoxaError
from doxa.inference.answer import completed, largest
from doxa.model import Model, fit
from doxa.slots import Slot
from tests import reference
from tests.worlds import board, world_of

SETTINGS = {"dimension": 8, "epochs": 100, "batch_size": 16, "num_candidates": 16, "learning_rate": 0.5, "threads": 1}


@pytest.fixture(scope="module")
def model():
    table = board(4)
    return fit(Beliefs.from_frame(table[:-2]), Beliefs.from_frame(table[-2:]), **SETTINGS)


def test_probabilities_sum_to_one_over_the_candidates(model):
    for answer in (
        model.tails("1,1", "up", top=10**6),
        model.heads("up", "1,1", top=10**6),
        model.relations("1,1", "1,2", top=10**6),
        model.relations("1,1", "1,2", mention="one step up", top=10**6),
    ):
        assert sum(candidate.probability for candidate in answer) == pytest.approx(1.0)
        probabilities = [candidate.probability for candidate in answer]
        assert probabilities == sorted(probabilities, reverse=True)


def test_answers_equal_the_reference(model):
    world = world_of(model.pbe, model.settings)
    vocabularies = model.vocabularies
    h, r, t = vocabularies.entities.id("1,1"), vocabularies.relations.id("up"), vocabularies.entities.id("1,2")
    by_name = {c.name: c.probability for c in model.tails("1,1", "up", top=99)}
    assert by_name["1,2"] == pytest.approx(reference.pr_tail(world, h, r, t), rel=1e-4)
    by_name = {c.name: c.probability for c in model.heads("up", "1,2", top=99)}
    assert by_name["1,1"] == pytest.approx(reference.pr_head(world, h, r, t), rel=1e-4)
    marked = with_places(pl.Series(["One step up!"]), pl.Series(["1,1"]), pl.Series(["1,2"]))[0]
    word_ids = [number for number in vocabularies.words.ids(marked).tolist() if number >= 0]
    assert {"one", "step", "up", "head=1", "tail=2"} <= {vocabularies.words[number] for number in word_ids}
    by_name = {c.name: c.probability for c in model.relations("1,1", "1,2", mention="One step up!")}
    assert by_name["up"] == pytest.approx(reference.pr_relation_with_mention(world, h, r, t, word_ids), rel=1e-4)


def test_a_temperature_sharpens_or_flattens_one_kind_of_question(model):
    asked = {
        "tail": lambda m: m.tails("1,1", "up", top=99),
        "head": lambda m: m.heads("up", "1,2", top=99),
        "relation": lambda m: m.relations("1,1", "1,2"),
        "relation_with_mention": lambda m: m.relations("1,1", "1,2", mention="one step up"),
    }
    for kind in asked:
        hot = replace(model, calibration=replace(model.calibration, temperatures=Temperatures(**{kind: 2.0})))
        for other, ask in asked.items():
            plain, tempered = ask(model), ask(hot)
            assert [c.name for c in plain] == [c.name for c in tempered]
            expected = np.array([c.probability for c in plain])
            expected = np.sqrt(expected) / np.sqrt(expected).sum() if kind == other else expected
            assert np.allclose([c.probability for c in tempered], expected)


def test_unknown_words_and_no_words_leave_the_entities_to_decide(model):
    plain = model.relations("1,1", "1,2")
    assert model.relations("1,1", "1,2", mention="zzz qqq").answers == plain.answers
    assert model.relations("1,1", "1,2", mention="").answers == plain.answers


def test_known_beliefs_are_marked_and_can_be_left_out(model):
    answer = model.tails("1,1", "up", top=99)
    assert [c.name for c in answer if c.known] == ["1,2"]
    new = model.tails("1,1", "up", top=99, new_only=True)
    assert "1,2" not in [c.name for c in new]
    assert len(new) == len(answer) - 1
    heldout = board(4)[-1].row(0)
    assert {c.name: c.known for c in model.tails(heldout[0], heldout[1], top=99)}[heldout[2]]
    assert [c.name for c in model.heads("up", "1,2", top=99) if c.known] == ["1,1"]
    assert [c.name for c in model.relations("1,1", "1,2", top=99) if c.known] == ["up"]


def test_names_are_checked(model):
    with pytest.raises(DoxaError, match=r"no relation 'upp' in this model. Did you mean 'up'\?"):
        model.tails("1,1", "upp")
    with pytest.raises(DoxaError, match="no entity '1,9'"):
        model.tails("1,9", "up")


def test_an_answer_has_two_faces(model):
    answer = model.relations("1,1", "1,2", mention="one step up", top=1)
    assert answer.as_dict() == {
        "question": ["1,1", "?", "1,2", "one step up"],
        "answers": [{"name": "up", "probability": answer[0].probability, "known": True}],
    }
    assert str(answer).startswith('1,1 · ? · 1,2   "one step up"\n')
    assert "up  (known)" in str(answer)


def test_credence_is_a_probability_and_tells_true_from_false(model):
    true = Beliefs.from_frame(board(4))
    false = Beliefs.from_frame(board(4).with_columns(tail=board(4)["tail"].reverse()))
    assert ((model.credence(true) > 0) & (model.credence(true) < 1)).all()
    assert np.median(model.credence(true)) > 2 * np.median(model.credence(false))


def test_a_belief_with_an_unseen_name_has_no_credence(model):
    unseen = Beliefs.from_frame(board(4, words=False)[:1].with_columns(tail=board(4)["tail"][:1] + "?"))
    assert np.isnan(model.credence(unseen)).all()


def test_a_loaded_model_answers_the_same(model, tmp_path):
    model.save(tmp_path / "m")
    loaded = Model.load(tmp_path / "m")
    assert loaded.tails("1,1", "up", top=99) == model.tails("1,1", "up", top=99)
    assert loaded.heads("up", "1,2", top=99) == model.heads("up", "1,2", top=99)
    question = ("1,1", "1,2", "one step up")
    assert loaded.relations(*question) == model.relations(*question)
    sample = Beliefs.from_frame(board(4))
    assert np.array_equal(loaded.credence(sample), model.credence(sample))
    assert repr(loaded) == repr(model)


QUESTIONS = [
    ("1,1", "up", "?"),
    ("?", "up", "1,2"),
    ("1,1", "?", "1,2"),
    ("1,1", "?", "1,2", "one step up"),
    ("2,2", "up", "?", None),
]


@pytest.mark.parametrize("new_only", [False, True])
@pytest.mark.parametrize("top", [1, 3, 99])
def test_many_questions_have_the_answers_of_each_alone(model, top, new_only):
    result = model.ask(QUESTIONS * 20, top=top, new_only=new_only)
    alone = [
        model.tails("1,1", "up", top, new_only),
        model.heads("up", "1,2", top, new_only),
        model.relations("1,1", "1,2", None, top, new_only),
        model.relations("1,1", "1,2", "one step up", top, new_only),
        model.tails("2,2", "up", top, new_only),
    ]
    assert [answer.question for answer in result] == [answer.question for answer in alone * 20]
    for one, other in zip(result, alone * 20, strict=True):
        assert [c.name for c in one] == [c.name for c in other]
        assert [c.known for c in one] == [c.known for c in other]
        assert [c.probability for c in one] == pytest.approx([c.probability for c in other], rel=1e-4)


@pytest.mark.parametrize("question", [("?", "up", "?"), ("1,1", "up", "1,2"), ("1,1", "up", "?", "said")])
def test_a_question_asks_for_exactly_one_thing(model, question):
    with pytest.raises(DoxaError, match="question 2"):
        model.ask([QUESTIONS[0], question])


@given(st.lists(st.lists(st.integers(-3, 3), min_size=6, max_size=6), min_size=1, max_size=4), st.integers(0, 6))
def test_the_largest_come_first_and_equal_ones_in_order(rows, count):
    table = torch.tensor(rows, dtype=torch.float32)
    expected = [sorted(range(6), key=lambda place, row=row: (-row[place], place))[:count] for row in rows]
    assert largest(table, count).tolist() == expected


def test_an_answer_is_a_result(model):
    answer = model.relations("1,1", "1,2", mention="one step up", top=2)
    frame = answer.to_frame()
    assert frame.columns == ["head", "relation", "tail", "mention", "probability", "known"]
    assert frame.row(0)[:4] == ("1,1", "up", "1,2", "one step up")
    assert frame["probability"].to_list() == [c.probability for c in answer]
    assert repr(answer).startswith("Answer(1,1 · ? · 1,2: 2 candidates, best 'up' ")
    assert answer.slot is Slot.RELATION
    assert "up" in answer._repr_html_()
    table = completed([answer, model.tails("1,1", "up", top=1)])
    assert table.columns == ["head", "relation", "tail", "mention", "confidence"]
    assert len(table) == 3
    assert completed([model.tails("1,1", "up", top=1)]).columns == ["head", "relation", "tail", "confidence"]


def test_little_memory_changes_no_answer(model):
    questions = QUESTIONS * 3
    for one, other in zip(model.ask(questions), model.ask(questions, memory=1), strict=True):
        assert [c.name for c in one] == [c.name for c in other]
        assert [c.probability for c in one] == pytest.approx([c.probability for c in other], rel=1e-4)


def test_what_was_not_seen_in_a_slot_is_no_candidate(model):
    """Also where few entities were seen there, so that these alone are scored."""
    stars = [(f"s{i}", relation, "center") for i in range(9) for relation in ("near", "far")]
    few = fit(Beliefs.of(stars), dimension=4, epochs=1, threads=1, validation_fraction=0.0)
    assert [c.name for c in few.tails("s1", "near", top=99)] == ["center"]
    assert few.tails("s1", "near")[0].probability == pytest.approx(1)
    assert few.tails("s1", "near")[0].known
    assert len(few.tails("s1", "near", new_only=True)) == 0
    assert {c.name for c in model.tails("0,0", "up", top=99)} == set(board(4)["tail"]) & {
        model.vocabularies.entities[int(i)] for i in model.pbe.seen[Slot.TAIL]
    }


def test_a_judgment_keeps_the_names_that_the_model_does_not_know(model):
    rows = [("1,1", "up", "1,2"), ("1,1", "up", "nowhere"), ("1,1", "up", "3,3")]
    judgment = model.judge(rows)
    assert judgment.to_frame().select("head", "relation", "tail").rows() == rows
    assert judgment.known.tolist() == [True, False, False]
    report = judgment.as_dict()["beliefs"][1]
    assert report == {"head": "1,1", "relation": "up", "tail": "nowhere", "credence": None, "verdict": "unknown",
                      "known": False}  # fmt: skip
    encoded = model.judge(Beliefs.of(rows).encode(model.vocabularies))
    assert encoded.to_frame()["tail"].to_list() == ["1,2", None, "3,3"]
    assert encoded.to_frame()["credence"].to_list() == judgment.to_frame()["credence"].to_list()


def test_a_relation_question_about_an_unseen_entity_is_answered_from_its_sentence(model):
    answer = model.relations("somewhere", "1,2", mention="right above it is")
    assert answer[0].name == "up"
    assert not answer[0].known
    assert answer.note == "'somewhere' is not known to the model: answered from the sentence"
    assert answer.as_dict()["note"] == answer.note
    assert answer.note in str(answer)
    both = model.relations("here", "there", mention="one step to the right")
    assert both[0].name == "right"
    assert both.note.startswith("'here' and 'there' are not known")
    assert sum(candidate.probability for candidate in both) == pytest.approx(1.0)
    known = model.relations("1,1", "1,2", mention="one step up")
    assert known.note is None
    assert "note" not in known.as_dict()


def test_unseen_entities_without_a_sentence_of_known_words_stay_an_error(model):
    for mention in (None, "", "zzz qqq"):
        with pytest.raises(DoxaError, match="no entity 'somewhere'"):
            model.relations("somewhere", "1,2", mention=mention)
    with pytest.raises(DoxaError, match="no entity 'somewhere'"):
        model.tails("somewhere", "up")


def test_questions_about_seen_and_unseen_entities_keep_their_order(model):
    questions = [("1,1", "?", "1,2"), ("x", "?", "1,2", "one step up"), ("1,1", "?", "1,2", "one step up")]
    answers = model.ask(questions)
    assert [answer.question[0] for answer in answers] == ["1,1", "x", "1,1"]
    assert [answer.note is not None for answer in answers] == [False, True, False]
    for number, question in enumerate(questions):
        alone = model.ask([question])[0]
        assert [c.name for c in alone] == [c.name for c in answers[number]]
