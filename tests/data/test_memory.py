"""Sizes of memory as people write them, and blocks that keep to a budget."""

import numpy as np
import pytest

from doxa.config import Settings
from doxa.data.memory import free, parse
from doxa.data.synthetic import generate
from doxa.data.triples import TripleIndex
from doxa.errors import UsageError
from doxa.evaluation.protocol import ranks as ranks_of
from doxa.slots import Slot
from doxa.systems import build


@pytest.mark.parametrize(
    ("text", "size"),
    [("500MB", 500 * 2**20), ("2G", 2 * 2**30), ("1.5 gib", 3 * 2**29), ("4096", 4096), ("64k", 2**16), ("1tb", 2**40)],
)
def test_sizes_are_understood(text, size):
    assert parse(text) == size


@pytest.mark.parametrize("text", ["", "much", "-1GB", "0", "5 GBs", "1e9"])
def test_other_words_are_refused(text):
    with pytest.raises(UsageError, match="expected a size such as 500MB"):
        parse(text)


def test_there_is_some_memory():
    assert free() > 2**20


def test_a_smaller_budget_makes_smaller_blocks_and_the_same_ranks():
    some = generate(300, entities=120, relations=4)
    pbe = build(some, Settings(dimension=4))
    known = TripleIndex(some.triples, 120, 4)
    ranks = {}
    for budget in (0, 4 * 4 * 120 * 7, 1):
        pbe.memory = budget
        ranks[budget] = [ranks_of(pbe, Slot.TAIL, some, known).filtered, ranks_of(pbe, Slot.HEAD, some, known).raw]
        longest = max(len(block) for block in pbe.blocks(300, 120))
        assert longest == {0: 300, 1: 1}.get(budget, 7)
    for other in ranks.values():
        assert all(np.array_equal(one, two) for one, two in zip(other, ranks[0], strict=True))
