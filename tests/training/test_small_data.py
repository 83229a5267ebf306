"""Data as they come: few validation beliefs or none that can be ranked, one relation, very many, very few beliefs."""

import logging

import numpy as np
import polars as pl
import pytest

import doxa
from doxa.data.beliefs import Beliefs
from doxa.data.splits import split
from doxa.errors import DoxaError
from doxa.training.fit import MIN_VALIDATION
from tests.worlds import board

QUICK = {"dimension": 8, "epochs": 3, "batch_size": 16, "threads": 1}


def table(rows):
    return pl.DataFrame(rows, schema=["head", "relation", "tail"], orient="row")


def messages(caplog):
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


@pytest.fixture
def grid():
    """The facts of a board, and facts that are set aside; training sees their names."""
    parts = split(Beliefs.from_frame(board(7).drop("mention")), (30 / 84,), seed=0)
    train, valid = (part.to_frame().rows() for part in parts)
    return train, valid


def test_validation_beliefs_with_unseen_names_are_counted_once(grid, caplog):
    train, valid = grid
    model = doxa.fit(table(train), table([*valid[:28], ("Mars", "up", "1,1"), ("1,1", "under", "1,2")]), **QUICK)
    lines = [line for line in messages(caplog) if line.startswith("validation:")]
    assert lines == ["validation: 2 of 30 beliefs have names training never sees; they are not ranked"]
    assert model.origin["validation_beliefs"] == 28
    assert model.origin["beliefs"] == len(train)


def test_names_with_outer_spaces_are_counted(grid, caplog):
    train, valid = grid
    doxa.fit(table([*train, (" 1,1", "up", "1,2 "), ("1,1", "up\t", "1,3")]), table(valid), **QUICK)
    lines = [line for line in messages(caplog) if "space" in line]
    assert lines == [
        "2 of the entity names begin or end with a space, such as ' 1,1'; without the space it is another name",
        "1 of the relation names begin or end with a space, such as 'up\\t'; without the space it is another name",
    ]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (("Mars", "up", "1,1"), "belief 2 of the validation set has the entity 'Mars', which training never sees"),
        (("1,1", "under", "1,2"), "belief 2 of the validation set has the relation 'under', which training never sees"),
        (("1,1", "up", "Mars"), "belief 2 of the validation set has the entity 'Mars', which training never sees"),
    ],
)
def test_strict_stops_at_the_first_unseen_name(grid, row, message):
    train, valid = grid
    with pytest.raises(DoxaError, match=message):
        doxa.fit(table(train), table([valid[0], row, ("Venus", "x", "Pluto")]), strict=True, **QUICK)
    doxa.fit(table(train), table(valid), strict=True, **QUICK)


def test_without_a_usable_validation_belief_a_share_of_train_is_held_out(grid, caplog):
    train, _ = grid
    unknown = table([("Mars", "up", "Venus"), ("Venus", "up", "Mars")])
    model = doxa.fit(table(train), unknown, **QUICK)
    alone = doxa.fit(table(train), **QUICK)
    line = "validation: 2 of 2 beliefs have names training never sees; 5% of the training beliefs are held out instead"
    assert messages(caplog).count(line) == 1
    assert model.origin["validation_beliefs"] > 0
    assert model.valid.tolist() == alone.valid.tolist()
    with pytest.raises(DoxaError, match="the entity 'Mars', which training never sees"):
        doxa.fit(table(train), unknown, strict=True, **QUICK)


def test_a_search_counts_validation_beliefs_once_and_stops_if_strict(grid, tmp_path, caplog):
    train, valid = (table(rows) for rows in grid)
    unknown = pl.concat([valid, table([("Mars", "up", "1,1")])])
    doxa.tune(train, unknown, tmp_path / "a", trials=2, **QUICK)
    assert sum("have names training never sees" in line for line in messages(caplog)) == 1
    with pytest.raises(DoxaError, match="which training never sees"):
        doxa.tune(train, unknown, tmp_path / "b", trials=2, strict=True, **QUICK)


@pytest.mark.parametrize("count", [1, 2, 5])
def test_very_few_validation_beliefs_are_joined_by_a_share_of_train(grid, caplog, count):
    train, valid = grid
    model = doxa.fit(table(train), table(valid[:count]), validation_fraction=0.1, **QUICK)
    more = model.origin["validation_beliefs"] - count
    assert 0 < more <= 0.1 * len(train) + 1
    assert model.origin["beliefs"] + more == len(train)
    line = f"validation: only {count} beliefs can be ranked; {more} of the training beliefs are held out as well"
    assert line in messages(caplog)
    credence = model.credence(table(train))
    assert ((credence > 0) & (credence < 1)).all()


def test_enough_validation_beliefs_or_labels_take_nothing_from_train(grid, caplog):
    train, valid = grid
    model = doxa.fit(table(train), table(valid[:MIN_VALIDATION]), **QUICK)
    assert (model.origin["beliefs"], model.origin["validation_beliefs"]) == (len(train), MIN_VALIDATION)
    labeled = table(valid[:2]).with_columns(label=pl.Series([1, -1], dtype=pl.Int8))
    model = doxa.fit(table(train), labeled, **QUICK)
    assert (model.origin["beliefs"], model.origin["validation_beliefs"]) == (len(train), 2)
    assert not any("held out" in line for line in messages(caplog))


@pytest.mark.parametrize("mention", [None, "b follows a"])
def test_one_relation_trains_without_the_relation_term(caplog, mention):
    rows = [(f"e{i}", "next", f"e{(i + 1) % 40}") for i in range(40)]
    beliefs = table(rows) if mention is None else table(rows).with_columns(mention=pl.lit(mention))
    model = doxa.fit(beliefs, **QUICK)
    assert "the beliefs name only the relation 'next': relations and mentions are not trained" in messages(caplog)
    assert model.settings.relation_weight == 0
    assert model.pbe.mention is None
    assert len(model.tails("e1", "next", top=5)) == 5
    report = doxa.evaluate(model, beliefs)
    assert report.entity is not None
    assert report.skipped["relation"] == "the model knows a single relation"


def test_early_stopping_does_not_count_the_only_relation():
    rows = [(f"e{i}", "next", f"e{(i + 1) % 60}") for i in range(60)]
    model = doxa.fit(table(rows), validation_fraction=0.2, **(QUICK | {"epochs": 1}))
    valid = Beliefs.from_triples(model.vocabularies, model.valid)
    expected = doxa.evaluate(model, valid, tasks="entity", popularity=False).entity.filtered.mrr
    assert model.curve[-1]["metric"] == pytest.approx(expected)


def test_a_thousand_relations_with_a_few_beliefs_each(caplog):
    random = np.random.default_rng(1)
    rows = [(f"e{random.integers(60)}", f"r{i % 1000}", f"e{random.integers(60)}") for i in range(3000)]
    model = doxa.fit(table(rows), **QUICK)
    assert len(model.vocabularies.relations) == 1000
    credence = model.credence(table(rows[:200]))
    assert ((credence > 0) & (credence < 1)).all()
    assert not any("relation" in line for line in messages(caplog))


def test_a_graph_with_a_single_head():
    rows = [("sun", f"r{i % 3}", f"planet {i}") for i in range(60)]
    model = doxa.fit(table(rows), **QUICK)
    assert model.heads("r1", "planet 4", top=1).to_frame()["head"].to_list() == ["sun"]
    report = doxa.evaluate(model, table(rows[:10]))
    assert report.entity is not None
    assert np.isfinite(report.entity.filtered.mrr)


def test_ten_beliefs_in_total(caplog):
    rows = [(f"a{i}", "r" if i % 2 else "s", f"a{(i + 1) % 10}") for i in range(10)]
    model = doxa.fit(table(rows), **QUICK)
    assert model.origin["beliefs"] + model.origin["validation_beliefs"] == 10
    assert np.isfinite(model.credence(table(rows))).all()
    assert doxa.evaluate(model, table(rows)).entity is not None
    assert not any("train with" in line for line in messages(caplog))
