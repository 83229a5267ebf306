"""Words marked by their place around the names of the entities."""

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from doxa.data.beliefs import Beliefs
from doxa.data.places import locate, marked, plain_words, with_places
from tests import reference_words
from tests.worlds import board, ragged_rows


def bag(text, head, tail):
    return with_places(pl.Series([text], dtype=pl.String), pl.Series([head]), pl.Series([tail]))[0].to_list()


def test_words_between_the_names_are_marked_with_the_order_of_the_names():
    forward = bag("Two deposits were put into my account today", "deposits", "account")
    assert {"head…tail", "head…put…tail", "head…put into…tail", "head were…tail", "head…my tail"} <= set(forward)
    assert {"two head…tail", "head…tail today", "head=deposits", "tail=account", "two", "put"} <= set(forward)
    backward = bag("Two deposits were put into my account today", "account", "deposits")
    assert {"tail…head", "tail…put into…head"} <= set(backward)
    assert not {word for word in backward if word.startswith("head…")}


def test_a_sentence_that_does_not_name_both_entities_has_plain_words_and_names():
    assert bag("It was put there", "deposits", "account") == [
        "it",
        "was",
        "put",
        "there",
        "head=deposits",
        "tail=account",
    ]
    assert bag(None, "deposits", "account") == bag("", "deposits", "account") == []


def test_names_within_names_are_told_apart():
    words = ["the", "alderney", "airport", "serves", "alderney"]
    assert locate(words, ["alderney", "airport"], ["alderney"]) == ((1, 3), (4, 5))
    assert locate(words, ["alderney"], ["alderney", "airport"]) == ((4, 5), (1, 3))
    assert locate(["alderney", "airport"], ["alderney", "airport"], ["alderney"]) is None


def test_a_part_of_a_name_must_be_long_enough_unless_it_is_the_whole_name():
    assert locate(["a", "test", "of", "adnp"], ["a", "pubchem"], ["p", "hgnc", "adnp"]) is None
    assert locate(["a", "test", "of", "adnp"], ["a"], ["p", "hgnc", "adnp"]) == ((0, 1), (3, 4))


@given(st.lists(st.sampled_from("abcd"), min_size=2, max_size=9), st.data())
def test_marked_words_equal_the_reference(sentence, data):
    cuts = sorted(data.draw(st.lists(st.integers(0, len(sentence)), min_size=4, max_size=4, unique=True)) if
                  len(sentence) > 2 else [0, 1, 1, 2])  # fmt: skip
    spans = [(cuts[0], cuts[1]), (cuts[2], cuts[3])]
    head, tail = data.draw(st.permutations(spans))
    assert set(marked(sentence, head, tail)) == reference_words.marked_words(sentence, head, tail)


def test_beliefs_keep_plain_words_and_marked_words_of_two_beliefs():
    rows = [("ann", "likes", "bob", "ann likes bob"), ("eve", "likes", "kim", "eve likes kim a lot")]
    table = Beliefs.of(rows)
    marked_table = table.with_places()
    words = set(marked_table.vocabularies.words.names)
    assert set(table.vocabularies.words.names) <= words
    assert {"head…tail", "head…likes…tail"} <= words
    assert "head…tail a" not in words
    assert "head=ann" not in words
    assert marked_table.vocabularies.places
    assert marked_table.with_places() is marked_table


def test_encoding_marks_words_by_names_that_the_vocabulary_lacks():
    marked_table = Beliefs.of([("ann", "likes", "bob", "ann likes bob"), ("eve", "likes", "kim", "eve likes kim")])
    vocabularies = marked_table.with_places().vocabularies
    unseen = Beliefs.of([("zoe", "likes", "bob", "zoe likes bob")]).encode(vocabularies)
    names = [vocabularies.words[number] for number in ragged_rows(unseen.mention)[0]]
    assert unseen.head[0] == -1
    assert set(names) == {"likes", "bob", "head…tail", "head…likes…tail", "head likes…tail", "head…likes tail"}


def test_a_mention_without_a_known_plain_word_has_no_words():
    rows = [("ann", "likes", "bob", "ann likes bob"), ("eve", "likes", "kim", "eve likes kim")] * 2
    vocabularies = Beliefs.of(rows).with_places().vocabularies
    asked = [("ann", "likes", "bob", "zzz"), ("ann", "likes", "bob", "zzz likes")]
    nothing, something = ragged_rows(Beliefs.of(asked).encode(vocabularies).mention)
    assert nothing == []
    assert {vocabularies.words[number] for number in something} == {"likes", "head=ann", "tail=bob"}


def test_marked_words_do_not_count_as_words_of_the_beliefs():
    table = Beliefs.from_frame(board(3))
    marked = table.with_places(1)
    assert plain_words(marked.vocabularies.words) == len(table.vocabularies.words) < len(marked.vocabularies.words)
    assert repr(marked) == repr(table)
