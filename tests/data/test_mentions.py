"""φ(m) and ragged rows."""

import numpy as np
import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from doxa.data.mentions import Ragged, words
from tests import reference
from tests.worlds import ragged_rows


def test_words_are_lower_cased_and_present_once():
    found = words(pl.Series(["The city, the STATE of", None, "", "naïve Öl-Preis 2"])).to_list()
    assert found == [["the", "city", "state", "of"], [], [], ["naïve", "öl", "preis", "2"]]


@given(st.lists(st.text(alphabet="abAB12 ,.-'éß_", max_size=20), max_size=8))
def test_words_equal_the_reference(texts):
    found = words(pl.Series(texts, dtype=pl.String)).to_list()
    assert [set(row) for row in found] == [reference.words_of(text) for text in texts]


rows = st.lists(st.lists(st.integers(0, 9), max_size=4), min_size=1, max_size=8)


def ragged(lists):
    values = np.array([v for row in lists for v in row], np.int64)
    return Ragged.from_lengths(values, np.array([len(row) for row in lists], np.int64))


@given(rows, st.data())
def test_take_and_map_do_what_lists_do(lists, data):
    chosen = data.draw(st.lists(st.integers(0, len(lists) - 1), max_size=6))
    new = np.array(data.draw(st.lists(st.integers(-1, 20), min_size=10, max_size=10)))
    made = ragged(lists)
    taken = made.take(np.array(chosen, np.int64))
    assert ragged_rows(taken) == [lists[i] for i in chosen]
    mapped = made.mapped(new)
    expected = [[int(new[v]) for v in row if new[v] >= 0] for row in lists]
    assert ragged_rows(mapped) == expected
