"""Served: one immutable model with everything that requests share, and the source that replaces it as a whole."""

from __future__ import annotations

import hashlib
import logging
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import polars as pl

from doxa.data.beliefs import Beliefs
from doxa.errors import CannotAnswer
from doxa.model import Model
from doxa.server.name_index import NameIndex
from doxa.slots import ENTITY_SLOTS, Slot

if TYPE_CHECKING:
    from doxa.calibration.candidates import Pools

log = logging.getLogger(__name__)

KEPT = 16
"""Slow results of a model version that are kept."""

READ_ONLY = "this server is read-only: it serves a model folder"
SERVE_STORE = "serve a knowledge base: doxa serve kb.db"


class Served:
    """A model version in use. It never changes; a new version is a new `Served`.

    `version` identifies the model in ETags. Results that are slow to compute are kept for as long as the version lives.
    """

    def __init__(self, model: Model, version: str, number: int | None = None) -> None:
        self.model, self.version, self.number = model, version, number
        self.etag = f'"{version}"'
        self._results: OrderedDict[Hashable, Any] = OrderedDict()
        self._lock = threading.Lock()

    @cached_property
    def entities(self) -> NameIndex:
        """The index of entity names, ordered by number of facts."""
        return NameIndex(self.model.vocabularies.entities.names, self._degrees)

    @cached_property
    def relations(self) -> NameIndex:
        """The index of relation names, ordered by number of facts."""
        return NameIndex(self.model.vocabularies.relations.names, self.model.known.counts)

    @cached_property
    def pools(self) -> Pools:
        """The candidates of each slot of each relation, which tell the cost of a search."""
        from doxa.calibration.candidates import Pools

        return Pools(self.model.trained_facts)

    def known(self, triples: Sequence[tuple[str, str, str]]) -> list[bool]:
        """Which of these beliefs the model knows."""
        if not triples:
            return []
        beliefs = Beliefs.of(list(triples)).encode(self.model.vocabularies)
        known = np.zeros(len(triples), bool)
        known[beliefs.seen] = self.model.known.contains(*beliefs.triples[beliefs.seen].T)
        return list(known.tolist())

    @property
    def _degrees(self) -> Any:
        from doxa.curation.map import degrees

        return degrees(self.model.known.triples, len(self.model.vocabularies.entities))

    def warm(self) -> Served:
        """Do once what the first question would have to wait for."""
        model = self.model
        for vocabulary in (model.vocabularies.entities, model.vocabularies.relations):
            log.debug("%d names of kind %s", len(vocabulary.lookup), vocabulary.kind)
        if len(model.train):
            head, relation, _ = model.train[0].tolist()
            names = model.vocabularies
            for slot, answers in zip((*ENTITY_SLOTS, Slot.RELATION), ("entity", "entity", "relation"), strict=True):
                question = [names.entities[head], names.relations[relation], names.entities[head]]
                question[slot] = "?"
                try:
                    model.must_answer(answers)
                    model.ask([(question[0], question[1], question[2])], top=1)
                except CannotAnswer:
                    log.debug("the model answers no %s questions", answers)
        return self

    def index_names(self) -> Served:
        """Do once what the first search for a name would have to wait for."""
        log.debug("%d entities and %d relations can be searched for", len(self.entities), len(self.relations))
        return self

    def kept(self, key: Hashable, compute: Callable[[], Any]) -> Any:
        """A result computed once for this version; others wait for the first that asks."""
        with self._lock:
            if key not in self._results:
                self._results[key] = compute()
                if len(self._results) > KEPT:
                    self._results.popitem(last=False)
            return self._results[key]


def manifest_version(folder: Path) -> str:
    """A short checksum of a model folder's manifest, which holds the checksums of its files."""
    from doxa.storage.folders import MANIFEST

    return hashlib.sha256((folder / MANIFEST).read_bytes()).hexdigest()[:16]


class Change(NamedTuple):
    """A belief that was decided since the model in use was trained: whether it holds now, and who decided that."""

    head: str
    relation: str
    tail: str
    holds: bool
    decision: int
    curator: str


class Source:
    """What a server serves: the model of a folder. `current` is replaced as a whole, so that no request waits."""

    kb: Any = None

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._current: Served | None = None

    @property
    def name(self) -> str:
        """What is served, to show."""
        return self.folder.name

    @property
    def ready(self) -> bool:
        return self._current is not None

    @property
    def current(self) -> Served:
        """The model in use."""
        if self._current is None:
            raise CannotAnswer("no model is live", "train one, or publish a version")
        return self._current

    def refresh(self) -> bool:
        """Load the model if it is new; whether it was."""
        if self._current is None:
            model = Model.load(self.folder)
            self._current = Served(model, manifest_version(self.folder)).warm()
            return True
        return False

    def versions(self) -> list[dict[str, Any]]:
        """The versions of the model."""
        served = self.current
        return [{"id": served.version, "state": "live", "version": served.version, "figures": {}}]

    def beliefs(self, split: str | None = None) -> Iterator[pl.DataFrame]:
        """The beliefs that are known, or those of one split, as frames."""
        model = self.current.model
        parts = {"train": model.train, "valid": model.valid, "test": model.train[:0]}
        facts = model.known.triples if split is None else parts[split]
        yield from Beliefs.from_triples(model.vocabularies, facts).frames()

    def publish(self, kb: Any, number: int) -> None:
        """Make a version live and put it in use."""
        raise CannotAnswer(READ_ONLY, SERVE_STORE)

    def settled(self) -> pl.DataFrame | None:
        """The beliefs that need no proposal, beside those the model knows."""
        return None

    def changes(self) -> list[Change]:
        """The beliefs that were decided since the model in use was trained."""
        return []

    def store(self) -> Any:
        """The knowledge base to write to; a model folder has none."""
        raise CannotAnswer(READ_ONLY, SERVE_STORE)
