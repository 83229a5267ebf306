"""A process that changes a store all the time and reports each change: before it begins, and when it is done.

A report is a line of JSON, written by one call, so that what was reported survives a kill.
"""

import json
import os
import random
from pathlib import Path

from tests.worlds import board

OPERATIONS = {
    "import": ("import_", "import_", "import_", "decide", "add"),
    "decide": ("decide", "decide", "decide", "undo", "state", "add", "propose", "rename", "merge"),
    "update": ("decide", "update", "update"),
}
"""What a worker of each kind does, at random."""

LEASE = 0.3
"""Seconds of a lease: the proposals of a killed worker return soon."""

PROPOSED = 40
"""Proposals of a batch."""

TIMEOUT = 600
"""Seconds to wait for another process: machines that run tests may be very busy."""


def squares():
    """The names of entities that all stores know: those of the board."""
    return [f"{number % 5},{number // 5}" for number in range(25)]


def rows_of(token):
    """The blocks of an import: known facts, new facts of known names, and a name that only this import has."""
    chance = random.Random(token)
    names = [*squares(), f"{token}-x"]
    blocks = [
        [(chance.choice(names), chance.choice(("up", "right", "near")), chance.choice(names), None, 0.9)
         for _ in range(chance.randint(1, 60))]
        for _ in range(chance.randint(1, 4))
    ]  # fmt: skip
    blocks[-1].append((f"{token}-x", "near", "0,0", f"said by {token}", 0.5))
    return blocks


def frames(blocks):
    import polars as pl

    columns = ["head", "relation", "tail", "mention", "confidence"]
    types = dict.fromkeys(columns, pl.String) | {"confidence": pl.Float64}
    return iter([pl.DataFrame(block, schema=types, orient="row") for block in blocks])


def prepare(place, model):
    """A store with a board, a live model, which is made unless it is there, and proposals."""
    from doxa.model import Model
    from doxa.storage.store.knowledge_base import KnowledgeBase

    kb = KnowledgeBase.create(place, valid=0.2, test=0.1, curator="prepare")
    kb.import_beliefs(board(5, words=False), source="board")
    if not Path(model).exists():
        train_model(kb, model)
    Model.load(model)
    kb.models.register(model, kb.snapshot())
    propose(kb, random.Random(0), "prepare")


def train_model(kb, folder):
    """A tiny model."""
    import doxa

    settings = {"dimension": 4, "epochs": 3, "batch_size": 16, "num_candidates": 8, "threads": 1, "patience": 0}
    doxa.fit(kb.beliefs("train"), valid=kb.beliefs("valid"), score="translation", **settings).save(folder)


def propose(kb, chance, token, overlap=0.1, relation=""):
    """Put a batch of proposals into the queue, with a relation of their own by default; how many there are of them."""
    import polars as pl

    pairs = [(chance.choice(squares()), chance.choice(squares())) for _ in range(PROPOSED)]
    table = pl.DataFrame(
        {
            "head": [head for head, _ in pairs],
            "relation": [relation or f"made by {token}"] * len(pairs),
            "tail": [tail for _, tail in pairs],
            "credence": [round(chance.random(), 3) for _ in pairs],
        }
    )
    return kb.queue.propose(table, "missing", settings={"token": token}, overlap=overlap)


class Worker:
    """Operations on a store by one curator. Each returns what must be in the store after it."""

    def __init__(self, place, name, seed, models, file):
        from doxa.storage.store.knowledge_base import KnowledgeBase

        self.kb, self.name = KnowledgeBase(place, curator=name, timeout=TIMEOUT), name
        self.models, self.file = models, file
        self.chance, self.count = random.Random(seed), 0

    def report(self, **values):
        os.write(self.file, json.dumps(values).encode() + b"\n")

    def run(self, kind):
        """Work until the process is killed."""
        self.report(state="ready", name=self.name)
        while True:
            self.step(self.chance.choice(OPERATIONS[kind]))

    def step(self, operation):
        """One operation, reported; one that the store refuses leaves nothing."""
        from doxa.errors import UsageError

        self.count += 1
        token = f"{self.name}-{self.count}"
        self.report(state="begun", operation=operation, token=token)
        try:
            result = getattr(self, operation)(token)
        except UsageError as refusal:
            result = {"refused": str(refusal)}
        self.report(state="done", operation=operation, token=token, **result)

    def import_(self, token):
        return {"decision": self.kb.import_beliefs(frames(rows_of(token)), source=token), "verdict": "import"}

    def add(self, token):
        return {"decision": self.kb.add(f"{token}-x", "near", self.chance.choice(squares())), "verdict": "add"}

    def state(self, token):
        verdict = self.chance.choice(("accept", "reject"))
        head, tail = self.chance.choice(squares()), self.chance.choice(squares())
        return {"decision": self.kb.decide(head, "near", tail, verdict), "verdict": verdict}

    def decide(self, token):
        proposal = self.kb.queue.claim(order=self.chance.choice(("credence", "uncertainty")), lease=LEASE)
        if proposal is None:
            return self.propose(token)
        verdict = self.chance.choice(("accept", "accept", "reject", "unsure"))
        number = self.kb.queue.decide(proposal.id, verdict)
        return {"decision": number, "verdict": verdict, "proposal": proposal.id}

    def undo(self, token):
        return {"decision": self.kb.queue.undo_last(), "verdict": "undo"}

    def propose(self, token):
        return {"proposed": propose(self.kb, self.chance, token)}

    def rename(self, token):
        return {"decision": self.kb.rename(self.chance.choice(squares()), f"{token}-y"), "verdict": "rename"}

    def merge(self, token):
        one = self.kb.add(f"{token}-x", "near", self.chance.choice(squares()))
        number = self.kb.merge(f"{token}-x", self.chance.choice(squares()))
        return {"decision": number, "verdict": "merge", "also": [one]}

    def update(self, token):
        from doxa.curation.living import update_live

        folder = self.models / token if self.kb.place.is_postgres else None
        updated = update_live(self.kb, folder, epochs=1)
        return {} if updated is None else {"version": updated.version.id}
