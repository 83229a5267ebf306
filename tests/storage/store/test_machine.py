"""Random imports, decisions, undos, merges, rollbacks and exports of the past, on the store and on its slow twin."""

import polars as pl
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule, run_state_machine_as_test

from doxa.errors import DoxaError
from doxa.storage.store import log
from doxa.storage.store.evidence import Splitter
from tests.reference_store import ReferenceStore, Refused
from tests.storage.store.conftest import SPLIT

ENTITIES, RELATIONS = "abc", "rs"
entities, relations = st.sampled_from(ENTITIES), st.sampled_from("rrrs")
triples = st.tuples(entities, relations, entities)
kinds = st.sampled_from(["entity", "entity", "entity", "relation"])


def split_of(names):
    return Splitter(**SPLIT).splits(pl.DataFrame([names], schema=["head", "relation", "tail"], orient="row"))[0]


class Machine(RuleBasedStateMachine):
    make_store = None

    def __init__(self):
        super().__init__()
        self.kb, self.twin = type(self).make_store(), ReferenceStore(split_of)

    def both(self, store, twin):
        """Do the same on both: they agree on the number of the decision, or both refuse."""
        try:
            expected = twin()
        except Refused:
            with pytest.raises(DoxaError):
                store()
        else:
            assert store() == expected
        self.agree(len(self.twin.log))

    def agree(self, snapshot):
        """Both have the same rows at a snapshot."""
        tables = self.kb.frames(at=snapshot)
        rows = [row for table in tables for row in table.drop("confidence").iter_rows()]
        assert sorted(rows, key=repr) == self.twin.rows(snapshot)

    def name(self, kind, letter):
        return letter if kind == "entity" else RELATIONS[ENTITIES.index(letter) % 2]

    @rule(rows=st.lists(st.tuples(entities, relations, entities, st.sampled_from([None, "m"])), min_size=1, max_size=4))
    def import_(self, rows):
        table = pl.DataFrame(
            rows, schema=dict.fromkeys(["head", "relation", "tail", "mention"], pl.String), orient="row"
        )
        self.both(lambda: self.kb.import_beliefs(table), lambda: self.twin.import_(rows))

    @rule(triple=triples)
    def add(self, triple):
        self.both(lambda: self.kb.add(*triple), lambda: self.twin.add(triple))

    @rule(triple=triples)
    def retract(self, triple):
        self.both(lambda: self.kb.retract(*triple), lambda: self.twin.retract(triple))

    @rule(triple=triples, verdict=st.sampled_from(["accept", "reject"]))
    def decide(self, triple, verdict):
        self.both(lambda: self.kb.decide(*triple, verdict), lambda: self.twin.decide(verdict, triple))

    @rule(triple=triples, tail=entities)
    def replace(self, triple, tail):
        if tail != triple[2]:
            self.both(
                lambda: self.kb.decide(*triple, "replace", replacement=tail),
                lambda: self.twin.decide("replace", triple, (*triple[:2], tail)),
            )

    @rule(kind=kinds, old=entities, new=st.sampled_from("abcxy"))
    def rename(self, kind, old, new):
        old = self.name(kind, old)
        self.both(lambda: self.kb.rename(old, new, kind=kind), lambda: self.twin.rename(kind, old, new))

    @rule(kind=kinds, name=entities, into=entities)
    def merge(self, kind, name, into):
        name, into = self.name(kind, name), self.name(kind, into)
        self.both(lambda: self.kb.merge(name, into, kind=kind), lambda: self.twin.merge(kind, name, into))

    @precondition(lambda self: self.twin.log)
    @rule(data=st.data())
    def undo(self, data):
        number = data.draw(st.integers(max(1, len(self.twin.log) - 5), len(self.twin.log)))
        self.both(lambda: self.kb.undo(number), lambda: self.twin.undo(number))

    @precondition(lambda self: self.twin.log)
    @rule(data=st.data())
    def rollback(self, data):
        snapshot = data.draw(st.integers(0, len(self.twin.log)))
        try:
            numbers = self.kb.rollback(snapshot)
        except DoxaError:  # an entity of later imports has taken a name; nothing is written
            assert self.kb.snapshot() == len(self.twin.log)
            return
        with self.kb.reading() as connection:
            for number in numbers:
                assert self.twin.undo(log.get(connection, number).undoes) == number
        assert self.twin.rows(len(self.twin.log)) == self.twin.rows(snapshot)

    @rule(data=st.data())
    def export(self, data):
        """The state at a past snapshot."""
        self.agree(data.draw(st.integers(0, len(self.twin.log))))

    @rule(triple=triples)
    def holds(self, triple):
        """The projection of the present, which `holds` reads, is what the log says."""
        assert self.kb.holds(*triple) == self.twin.holds(triple)


def run(make_store, examples, steps):
    machine = type("StoreMachine", (Machine,), {"make_store": staticmethod(make_store)})
    run_state_machine_as_test(
        machine, settings=settings(max_examples=examples, stateful_step_count=steps, deadline=None)
    )


def test_store_equals_its_twin(make_store, new_place):
    run(make_store, 4 if new_place().startswith("postgresql") else 10, 20)


@pytest.mark.slow
def test_store_equals_its_twin_at_length(make_store):
    run(make_store, 500, 40)
