"""Free memory, and blocks that keep to a budget."""

import numpy as np

from doxa.config import Settings
from doxa.data.memory import free
from doxa.data.synthetic import generate
from doxa.data.triples import TripleIndex
from doxa.evaluation.protocol import head_ranks, tail_ranks
from doxa.systems import build


def test_there_is_some_memory():
    assert free() > 2**20


def test_a_smaller_budget_makes_smaller_blocks_and_the_same_ranks():
    some = generate(300, entities=120, relations=4)
    pbe = build(some, Settings(dimension=4))
    known = TripleIndex(some.triples, 120, 4)
    ranks = {}
    for budget in (0, 4 * 4 * 120 * 7, 1):
        pbe.memory = budget
        ranks[budget] = [tail_ranks(pbe, some, known).filtered, head_ranks(pbe, some, known).raw]
        longest = max(len(block) for block in pbe.blocks(300, 120))
        assert longest == {0: 300, 1: 1}.get(budget, 7)
    for other in ranks.values():
        assert all(np.array_equal(one, two) for one, two in zip(other, ranks[0], strict=True))
