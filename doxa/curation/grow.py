"""Growth: rows for new entities, relations and words in a trained model.

The rows that were trained keep their values. A new entity starts at the weighted mean of known entities that answer
the same queries: for a new belief ⟨x, r, t⟩ these are the known heads of (?, r, t).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl
import torch
from torch import Tensor

from doxa.calibration.thresholds import Numbers
from doxa.data.beliefs import Beliefs
from doxa.data.triples import TripleIndex, distinct
from doxa.data.vocabulary import UNKNOWN, Ids, Vocabularies, Vocabulary
from doxa.model import Model
from doxa.pbe import PBE
from doxa.slots import ENTITY_SLOTS, Slot
from doxa.systems import assemble

MAX_SIMILAR = 20
"""Known entities whose mean a new entity starts at, at most."""


def make_room(model: Model, beliefs: Beliefs, words: bool = True, seed: int = 0) -> tuple[Model, Beliefs]:
    """The model with rows for every new name of the beliefs, and the beliefs in its ids.

    The beliefs join the known facts. New entities start at the mean of similar ones, new relations at random, new words
    at zero. Without `words` no words are added.
    """
    old, more = model.vocabularies, beliefs.vocabularies
    entities, entity = _join(old.entities, more.entities)
    relations, relation = _join(old.relations, more.relations)
    all_words, word = _join(old.words, more.words, add=words and model.pbe.mention is not None)
    vocabularies = replace(old, entities=entities, relations=relations, words=all_words)
    new = replace(
        beliefs,
        vocabularies=vocabularies,
        head=entity[beliefs.head],
        relation=relation[beliefs.relation],
        tail=entity[beliefs.tail],
        mention=beliefs.mention.mapped(word),
    )
    facts = model.trained_facts.grow(len(entities), len(relations), new.triples)
    pbe = _add_rows(model, vocabularies, new, seed)
    pbe.score.prepare(facts)
    pbe.count_loops(facts)
    _start_new_entities(pbe, model.trained_facts, new)
    return replace(
        model,
        vocabularies=vocabularies,
        pbe=pbe,
        train=np.concatenate([model.train, new.triples]),
        known_confidence=insert_confidence(model, len(model.train), new),
        calibration=model.calibration.grow(len(relations) - len(old.relations)),
    ), new


def insert_confidence(model: Model, row: int, new: Beliefs) -> Numbers:
    """`known_confidence` with the confidence of new facts inserted before a row; empty if no fact has one."""
    before = model.known_confidence
    if not len(before):
        if np.isnan(new.confidence).all():
            return before
        before = np.full(len(model.train) + len(model.valid), np.nan)
    return np.insert(before, row, new.confidence)


def _join(old: Vocabulary, more: Vocabulary, add: bool = True) -> tuple[Vocabulary, Ids]:
    """The old names followed by the new ones, and for each id of `more` its id there.

    One more entry at the end keeps `UNKNOWN` at `UNKNOWN`. Without `add` new names are `UNKNOWN` too.
    """
    ids = old.ids(more.names)
    new = ids == UNKNOWN
    if not add or not new.any():
        return old, np.append(ids, UNKNOWN)
    ids[new] = len(old) + np.arange(new.sum())
    return Vocabulary(pl.concat([old.names, more.names.filter(pl.Series(new))]), old.kind, old.prefixes), np.append(
        ids, UNKNOWN
    )


def _add_rows(model: Model, vocabularies: Vocabularies, new: Beliefs, seed: int) -> PBE:
    """The same weights with rows for more names; E_h and E_t include the new beliefs."""
    old = model.pbe
    seen = {"seen_heads": _insert(old.seen_heads, new.head), "seen_tails": _insert(old.seen_tails, new.tail)}
    pbe = assemble(
        model.settings,
        entities=len(vocabularies.entities),
        relations=len(vocabularies.relations),
        words=len(vocabularies.words),
        **seen,
        draw=False,
    )
    state: dict[str, Tensor] = dict(seen)
    generator = torch.Generator().manual_seed(seed)
    trained = old.state_dict()
    for name, shape in ((name, tensor.shape) for name, tensor in pbe.state_dict().items() if name not in seen):
        weights = trained[name]
        if weights.shape == shape:
            state[name] = weights.clone()
            continue
        rows = weights.new_zeros(shape[0] - weights.shape[0], *shape[1:])
        if name.startswith("score.") or name == "mention.relation.weight":
            rows.normal_(std=shape[-1] ** -0.5, generator=generator)
        elif name == "mention.beta":  # by its words alone, a new relation is as rare as the rarest
            rows.fill_(float(weights.min()))
        if weights.ndim == 2:  # the separate mention term has a column for each relation
            weights = torch.nn.functional.pad(weights, (0, shape[1] - weights.shape[1]))
        state[name] = torch.cat([weights, rows])
    pbe.load_state_dict(state, assign=True)
    return pbe.eval()


def _insert(seen: Tensor, ids: Ids) -> Tensor:
    """A sorted set of ids with more ids in it."""
    before, new = seen.numpy(), distinct(ids)
    place = np.searchsorted(before, new)
    absent = np.append(before, -1)[place] != new
    return torch.from_numpy(np.insert(before, place[absent], new[absent]))


@torch.no_grad()
def _start_new_entities(pbe: PBE, known: TripleIndex, new: Beliefs) -> None:
    """Set each new entity to the weighted mean of similar known ones, if it has any."""
    entity, similar, weights = _similar_entities(known, new)
    first = known.entities
    total = np.bincount(entity - first, weights, minlength=pbe.entities - first)
    share = torch.from_numpy(weights / total[entity - first])
    rows, sources = torch.from_numpy(entity), torch.from_numpy(similar)
    started = torch.from_numpy(first + np.flatnonzero(total))
    for name in pbe.score.entity_tables:
        table = pbe.get_parameter(f"score.{name}.weight")
        table[started] = 0.0
        table.index_add_(0, rows, table[sources] * share[:, None].to(table.dtype))


def _similar_entities(known: TripleIndex, new: Beliefs) -> tuple[Ids, Ids, Numbers]:
    """(new entity, known entity, weight): the known entities that answer the same queries as each new entity.

        weight = (Σ over shared queries of log (entities / answers of the query))²

    so that a rare shared query counts more. At most MAX_SIMILAR of each new entity.
    """
    first, triples = known.entities, new.triples
    is_new = triples >= first
    usable = (new.relation < known.relations) & (is_new[:, Slot.HEAD] ^ is_new[:, Slot.TAIL])
    entities, others, rarity = [], [], []
    for slot in ENTITY_SLOTS:
        queries = triples[usable & is_new[:, slot]]
        query, answer = known.answers(slot, *queries.T)
        sizes = np.bincount(query, minlength=len(queries))
        entities.append(queries[query, slot])
        others.append(answer)
        rarity.append(np.log(first / np.maximum(sizes, 1))[query])
    pairs, inverse = np.unique(np.concatenate(entities) * first + np.concatenate(others), return_inverse=True)
    weights = np.bincount(inverse, np.concatenate(rarity), minlength=len(pairs)).astype(float) ** 2
    entity, other = np.divmod(pairs, first)
    order = np.lexsort((other, -weights, entity))
    entity, other, weights = entity[order], other[order], weights[order]
    place = np.arange(len(entity)) - np.searchsorted(entity, entity)
    kept = (place < MAX_SIMILAR) & (weights > 0)
    return entity[kept], other[kept], weights[kept]
