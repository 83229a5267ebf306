"""Beliefs with an unseen entity and a mention."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from doxa.calibration.sentences import (
    SentenceWeights,
    answerable,
    fit_sentence_weights,
    relation_log_probabilities,
)
from doxa.data.batch import Batch
from doxa.data.beliefs import Beliefs
from doxa.data.triples import TripleIndex
from doxa.model import fit
from doxa.slots import Slot
from tests import reference_words
from tests.worlds import board, random_beliefs, random_pbe

QUICK = {"dimension": 8, "epochs": 3, "threads": 1}


def test_probabilities_by_the_sentence_equal_the_reference():
    table, rows = random_beliefs(5)
    pbe, _ = random_pbe(2)
    facts = TripleIndex(table.triples, 7, 4)
    asked = table.take(rows)
    head, tail = asked.head.copy(), asked.tail.copy()
    head[[0, 1]], tail[[1, 2]] = -1, -1
    head[[3, 4, 5]] = -1
    asked = replace(asked, head=head, tail=tail)
    weights = SentenceWeights(entity=0.3, mention=0.8)
    made = relation_log_probabilities(pbe, facts, asked, weights).exp().numpy()
    by_mention = pbe.mention_distribution(Batch.of(asked)).log_probabilities.double().detach().numpy()
    for row in range(len(asked)):
        known = [(slot, ids[row]) for slot, ids in ((Slot.HEAD, head), (Slot.TAIL, tail)) if ids[row] >= 0]
        slot, entity = known[0] if known else (Slot.HEAD, None)
        expected = reference_words.by_sentence(by_mention[row], facts.triples.tolist(), entity, slot, 0.3, 0.8, 4)
        assert np.allclose(made[row], expected, rtol=1e-5)


def test_the_fitted_weights_trust_what_tells_the_relation():
    rows = [(f"h{i % 5}", f"r{i % 5}", f"t{i % 7}", f"w{(3 * i) % 4}") for i in range(200)]
    table = Beliefs.of(rows)
    facts = TripleIndex(table.triples, len(table.vocabularies.entities), 5)
    model = fit(table, mention_places=False, validation_fraction=0.0, **QUICK)
    from_heads = fit_sentence_weights(model.pbe, facts, table)
    rows = [(f"h{i % 3}", f"r{i % 5}", f"t{i % 7}", f"w{i % 5}") for i in range(200)]
    table = Beliefs.of(rows)
    facts = TripleIndex(table.triples, len(table.vocabularies.entities), 5)
    model = fit(table, mention_places=False, validation_fraction=0.0, **QUICK)
    from_words = fit_sentence_weights(model.pbe, facts, table)
    assert from_words.mention / from_words.entity > 2 * from_heads.mention / from_heads.entity
    few = fit_sentence_weights(model.pbe, facts, table.take(np.arange(3)))
    assert few == SentenceWeights()


def test_a_belief_with_an_unseen_entity_is_judged_by_its_sentence():
    model = fit(Beliefs.from_frame(board(5)), validation_fraction=0.2, **QUICK)
    rows = [("x", "up", "1,1", "one step up"), ("x", "right", "1,1", "one step up"), ("x", "up", "1,1", None),
            ("x", "up", "1,1", "zzz"), ("1,1", "up", "1,2", "one step up")]  # fmt: skip
    judgment = model.judge(Beliefs.of([(*row, None) for row in rows]))
    assert judgment.from_sentence.tolist() == [True, True, False, False, False]
    assert judgment.verdict.tolist()[:4] == ["true", "false", "unknown", "unknown"]
    assert judgment.credence[0] + judgment.credence[1] == pytest.approx(1.0)
    encoded = judgment.beliefs.encode(model.vocabularies)
    assert answerable(model.pbe, encoded).tolist() == [True, True, False, False, False]
    logs = relation_log_probabilities(model.pbe, model.trained_facts, encoded.take(np.array([0])),
                                      model.calibration.sentence)  # fmt: skip
    up = model.vocabularies.relations.id("up")
    assert judgment.credence[0] == pytest.approx(float(torch.exp(logs[0, up])))
    notes = judgment.to_frame()["note"].to_list()
    assert notes[0] == "an entity is not known to the model: judged from the sentence"
    assert notes[2:] == [None] * 3
    assert "note" not in model.judge(Beliefs.of(rows[-1:] * 2)).to_frame().columns
