"""Beliefs, vocabularies and splits."""

import hashlib
import pickle
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from doxa.data import beliefs as module
from doxa.data import vocabulary
from doxa.data.beliefs import Beliefs
from doxa.data.splits import split
from doxa.data.vocabulary import UNKNOWN, Vocabulary
from doxa.errors import DoxaError
from tests.worlds import beliefs, ragged_rows

FIVE = ("head", "relation", "tail", "mention", "confidence")


def test_ids_are_places_in_order_of_first_appearance():
    some = beliefs([("b", "r", "a"), ("a", "s", "c")])
    assert some.vocabularies.entities.names.to_list() == ["b", "a", "c"]
    assert (some.head.tolist(), some.relation.tolist(), some.tail.tolist()) == ([0, 1], [0, 1], [1, 2])


@pytest.mark.parametrize("hashes", [2**63, 1, 3])
def test_a_few_names_are_looked_up_as_many_are(monkeypatch, hashes):
    """By hash, by the cast of many names, and by the dictionary; names with the same hash are told apart."""
    by_polars = vocabulary._hashes
    monkeypatch.setattr(vocabulary, "_hashes", lambda names: by_polars(names) % np.uint64(hashes))
    monkeypatch.setattr(vocabulary, "SMALL", 0)
    texts = ["b", "ä", "http://example.org/x", "?", "c", "d", "e"]
    names = Vocabulary(pl.Series(texts), "entity", {"ex": "http://example.org/"})
    values, expected = pl.Series(["ä", None, "x", "ex:x", "b", "?", "e"]), [1, UNKNOWN, UNKNOWN, 2, 0, 3, 6]
    by_hash = names.ids(values)
    assert by_hash.tolist() == expected
    few = ["b", "ex:x", "y"]
    assert names.ids_of(few).tolist() == [0, 2, UNKNOWN]
    assert pickle.loads(pickle.dumps(names)).ids(values).tolist() == expected
    with monkeypatch.context() as patch:
        patch.setattr(vocabulary, "FEW", 0)
        assert names.ids(values).tolist() == expected
    assert names.texts_of(np.array([6, 0])) == ["e", "b"]
    assert names.texts_of(np.array([6, 0] * 60)) == ["e", "b"] * 60
    assert len(names.lookup) == 7
    assert names.ids_of(few).tolist() == [0, 2, UNKNOWN]
    assert names.ids_of(["e", "b"]).tolist() == [6, 0]
    assert names.texts_of(np.array([6, 0])) == ["e", "b"]
    assert names.ids(values).tolist() == expected
    assert names.ids(values).dtype == by_hash.dtype


def test_a_small_vocabulary_has_a_dictionary():
    names = Vocabulary(pl.Series(["a", "b"]), "relation")
    assert names.ids_of(["b", "?"]).tolist() == [1, UNKNOWN]
    assert "_sorted_hashes" not in names.__dict__
    assert names.texts_of(np.array([1, 0])) == ["b", "a"]


def test_hashes_do_not_leave_the_process(monkeypatch):
    monkeypatch.setattr(vocabulary, "SMALL", 0)
    names = Vocabulary(pl.Series(["a", "b"]), "entity")
    names.ids(pl.Series(["b"]))
    assert "_sorted_hashes" in names.__dict__
    assert "_sorted_hashes" not in pickle.loads(pickle.dumps(names)).__dict__


def test_a_table_comes_back_as_it_was():
    rows = [("a", "r", "b", "Said so", 0.5), ("b", "r", "c", None, None), ("a", "s", "c", "x", 1.0)]
    some = beliefs(rows, FIVE)
    assert some.to_frame().rows() == rows


def test_unknown_names_are_marked_and_unknown_words_drop_out():
    train = beliefs([("a", "r", "b", "one two", 0.5)], FIVE)
    other = beliefs([("a", "r", "zz", "two three", 0.5), ("b", "q", "a", "three", None)], FIVE)
    encoded = other.encode(train.vocabularies)
    assert encoded.tail.tolist() == [UNKNOWN, 0]
    assert encoded.relation.tolist() == [0, UNKNOWN]
    assert encoded.seen.tolist() == [False, False]
    assert [train.vocabularies.words[w] for w in ragged_rows(encoded.mention)[0]] == ["two"]
    assert len(ragged_rows(encoded.mention)[1]) == 0


def test_encoding_by_table_and_by_vocabulary_agree():
    train = beliefs([("a", "r", "b", "one two", 0.5), ("c", "s", "a", "four", 1.0)], FIVE)
    table = pl.DataFrame([("c", "s", "zz", "four one", 0.1)], schema=list(FIVE), orient="row")
    direct, indirect = (
        Beliefs.from_frame(table, train.vocabularies),
        Beliefs.from_frame(table).encode(train.vocabularies),
    )
    assert direct.triples.tolist() == indirect.triples.tolist()
    assert direct.mention.values.tolist() == indirect.mention.values.tolist()


def test_an_unknown_name_offers_the_nearest():
    names = Vocabulary(pl.Series(["Beijing", "Berlin", "New York City"]), "entity")
    assert names.id("Berlin") == 1
    with pytest.raises(DoxaError, match=r"no entity 'Beijng' in this model. Did you mean 'Beijing'\?"):
        names.id("Beijng")
    with pytest.raises(DoxaError, match=r"Did you mean 'Berlin'\?"):
        names.id("berlin")
    with pytest.raises(DoxaError, match=r"in this model\.$"):
        names.id("Ouagadougou")


def test_names_may_hold_anything_but_not_twice():
    odd = ['p(HGNC:"A, b")', "ünï", "?", " space "]
    assert Vocabulary(pl.Series(odd), "entity").ids(pl.Series(odd)).tolist() == [0, 1, 2, 3]
    with pytest.raises(DoxaError, match="repeated"):
        Vocabulary(pl.Series(["a", "a"]), "entity")


def test_taking_rows_takes_every_column():
    some = beliefs([("a", "r", "b", "x y", 0.5), ("b", "r", "c", None, 0.25), ("a", "s", "c", "z", 1.0)], FIVE)
    taken = some.take(np.array([2, 0]))
    assert taken.to_frame().rows() == [("a", "s", "c", "z", 1.0), ("a", "r", "b", "x y", 0.5)]
    assert taken.mention.lengths.tolist() == [1, 2]


def test_only_beliefs_labeled_true_are_true_ones():
    some = beliefs([("a", "r", "b", 1), ("a", "r", "c", -1)], ("head", "relation", "tail", "label"))
    assert some.positives().tail.tolist() == some.tail[:1].tolist()


def test_repr_says_the_sizes():
    some = beliefs([("a", "r", "b", "x y", 0.5), ("b", "r", "c", None, None)], FIVE)
    assert repr(some) == "Beliefs(2 beliefs, 3 entities, 1 relations, 1 mentions of 2 words, 1 confidences)"


def test_checksum_depends_on_names_and_order():
    one, same = beliefs([("a", "r", "b"), ("b", "r", "c")]), beliefs([("a", "r", "b"), ("b", "r", "c")])
    assert one.checksum() == same.checksum()
    assert one.checksum() != beliefs([("a", "r", "b"), ("b", "r", "d")]).checksum()
    assert one.checksum() != one.take(np.array([1, 0])).checksum()


def test_a_checksum_is_that_of_all_rows_at_once(monkeypatch):
    some = beliefs([("a", "r", "b", "x y", 0.5), ("b", "s", "c", "y z", 1.0), ("c", "s", "d", "", 0.25)], FIVE)
    names = [some.vocabularies.entities, some.vocabularies.relations, some.vocabularies.words]
    parts = ["\n".join(each.names.to_list()).encode() for each in names]
    parts += [each.tobytes() for each in (some.triples, some.mention.values, some.mention.offsets, some.confidence)]
    expected = hashlib.sha256(b"".join(parts)).hexdigest()
    for rows in (1, 2, 100):
        monkeypatch.setattr(module, "CHECKED_ROWS", rows)
        assert some.checksum() == expected


def test_beliefs_with_unknown_names_are_not_written_as_others():
    some = beliefs([("a", "r", "b"), ("a", "r", "c")])
    smaller = some.encode(beliefs([("a", "r", "b")]).vocabularies)
    with pytest.raises(DoxaError, match="1 of these beliefs name something their vocabulary lacks"):
        smaller.to_frame()


@pytest.mark.parametrize("shares", [(0.8, 0.8), (-0.2,), (1.0,)])
def test_shares_that_leave_nothing_for_train_are_refused(shares):
    with pytest.raises(DoxaError, match="cannot split into shares"):
        split(beliefs([("a", "r", "b"), ("a", "r", "c")]), shares)


triples = st.lists(st.tuples(st.integers(0, 12), st.integers(0, 3), st.integers(0, 12)), min_size=1, max_size=80)


@given(triples, st.integers(0, 100))
@settings(max_examples=60, deadline=None)
def test_splits_leave_nothing_unseen_and_lose_nothing(rows, seed):
    some = beliefs([(f"e{h}", f"r{r}", f"e{t}") for h, r, t in rows])
    train, valid, test = split(some, (0.2, 0.2), seed)
    for part in (valid, test):
        assert np.isin(np.concatenate([part.head, part.tail]), np.concatenate([train.head, train.tail])).all()
        assert np.isin(part.relation, train.relation).all()
        distinct = {tuple(triple) for triple in part.triples.tolist()}
        assert not distinct & {tuple(triple) for triple in train.triples.tolist()}
        assert len(distinct) <= round(0.2 * len(set(rows)))
    together = np.concatenate([train.triples, valid.triples, test.triples])
    assert sorted(together.tolist()) == sorted(some.triples.tolist())


def test_a_split_reaches_its_share_when_it_can():
    rows = [(f"e{h}", "r", f"e{t}") for h in range(12) for t in range(12)]
    train, valid = split(beliefs(rows), (0.25,), 0)
    assert (len(train), len(valid)) == (108, 36)
    again = split(beliefs(rows), (0.25,), 0)[1]
    assert again.triples.tolist() == valid.triples.tolist()


def test_concatenated_beliefs_keep_labels_and_texts_only_where_every_part_has_them():
    rows = [("a", "r", "b", "Two words"), ("b", "r", "c", None), ("c", "r", "a", "three")]
    table = pl.DataFrame(rows, schema=["head", "relation", "tail", "mention"], orient="row")
    whole = Beliefs.from_frame(table.with_columns(label=pl.Series([1, -1, 1]), confidence=pl.Series([0.5, 0.7, 1.0])))
    parts = [whole.take(np.array(part)) for part in ([0], [1, 2])]
    joined = Beliefs.concat(parts)
    assert joined.to_frame().equals(whole.to_frame())
    assert ragged_rows(joined.mention) == ragged_rows(whole.mention)
    assert joined.label.tolist() == [1, -1, 1]
    assert Beliefs.concat([parts[0], replace(parts[1], label=None)]).label is None
    assert Beliefs.concat([parts[0], parts[1].without_mentions()]).text is None
