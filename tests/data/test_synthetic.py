"""Synthetic knowledge bases: size, planted structure, and the same beliefs from the same seed."""

import numpy as np
import pytest

from doxa import formats as files
from doxa.data.beliefs import Beliefs
from doxa.data.synthetic import GROUP, frames, generate


def test_a_relation_leads_every_group_to_one_other():
    beliefs = generate(5000, entities=1000, relations=7)
    assert len(beliefs) == 5000
    for relation in range(7):
        rows = beliefs.relation == relation
        steps = (beliefs.tail[rows] // GROUP - beliefs.head[rows] // GROUP) % (1000 // GROUP)
        assert len(np.unique(steps)) == 1


def test_a_few_entities_stand_in_many_beliefs():
    counts = np.sort(np.bincount(generate(20_000, 1000, 7).head, minlength=1000))
    assert counts[-100:].sum() > counts[:500].sum()


def test_blocks_hold_the_same_beliefs_as_the_whole(monkeypatch, tmp_path):
    monkeypatch.setattr("doxa.data.synthetic.BLOCK", 300)
    parts = list(frames(1000, 200, 5, seed=3))
    assert [len(part) for part in parts] == [300, 300, 300, 100]
    whole = generate(1000, 200, 5, seed=3).to_frame()
    assert parts[1]["head"].to_list() == whole["head"][300:600].to_list()
    for ending in ("tsv", "tsv.gz", "tsv.zst"):
        path = tmp_path / f"made.{ending}"
        files.write(frames(1000, 200, 5, seed=3), path)
        assert Beliefs.from_frame(files.read_frame(path)).to_frame().equals(whole)


@pytest.mark.parametrize("entities", [1, 49, 51])
def test_ids_of_small_worlds_stay_below_the_number_of_entities(entities):
    beliefs = generate(100, entities, 2)
    assert max(beliefs.head.max(), beliefs.tail.max()) < entities
