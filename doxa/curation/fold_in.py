"""Growth: room for new names in a learnt model, and vectors for them while the others stay as they are.

A new entity starts at the mean of those that stand where its beliefs put it: for ⟨x, r, t⟩ the known heads of (r, t).
To fold it in, that is averaged with those the model would have answered, and its vector is fitted to its beliefs from
there, drawn back to the start in the spread of all entities; where a score needs more than one vector, by the model's
own objective, gradients of all rows that are to stay being dropped.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import polars as pl
import torch
from torch import Tensor

from doxa.calibration.thresholds import Numbers
from doxa.config import Settings
from doxa.data.batch import Batch
from doxa.data.beliefs import Beliefs
from doxa.data.triples import TripleIndex, distinct
from doxa.data.vocabulary import Ids, Vocabularies, Vocabulary
from doxa.errors import UsageError
from doxa.model import Model
from doxa.pbe import PBE
from doxa.scores.base import VectorScore
from doxa.scores.pairwise import scaled, table_of
from doxa.systems import assemble
from doxa.training.candidates import Candidates, every_candidate
from doxa.training.constraints import constraints
from doxa.training.gather import SparseStep
from doxa.training.optimizers import RowAdagrad
from doxa.training.weights import term_weighting

STEPS, RATE, CANDIDATES = 10, 4.0, 256
"""Steps of a fold-in, the size of the first, which falls linearly to zero, and candidates each compares with."""

OTHER = 0.1
"""How much Pr(t|x,r) counts beside Pr(x|r,t) for a new entity x."""

FIRMNESS = 0.035
"""How firmly a new entity is held to its start, in the spread of all entities."""

SHARPNESS = 0.4
"""How far a new entity starts at those alone that suit its beliefs best, from 0, the mean of all, upwards."""

LIKE = 20
"""Known entities that a new one starts at the mean of, at most."""


@torch.enable_grad()
def fold_in(model: Model, beliefs: Beliefs, seed: int = 0) -> Model:
    """A model that also knows the new entities of these beliefs; the given one stays as it is.

    Only the vectors of the new entities are fitted. Relations must be known ones; unknown words drop out.
    """
    grown, told = with_room(model, beliefs.positives(), words=False, seed=seed)
    first, relations = len(model.vocabularies.entities), len(model.vocabularies.relations)
    if (told.relation >= relations).any():
        name = grown.vocabularies.relations[int(told.relation[int(np.argmax(told.relation >= relations))])]
        raise UsageError(f"no relation {name!r} in this model", "learn it: `doxa update MODEL NEW.tsv --out MODEL2`")
    if not len(told) or len(grown.vocabularies.entities) == first:
        raise UsageError("these beliefs name no new entity; there is nothing to fold in")
    if model.pbe.score.by_vectors:
        for entity in range(first, len(grown.vocabularies.entities)):
            _settle(grown.pbe, first, _spread(model), told, entity, np.random.default_rng([seed, 12, entity]))
        return grown
    about_new = told.take(np.flatnonzero((told.head >= first) | (told.tail >= first)))
    fitting = Refit(grown.pbe, model.settings, rows_from(grown.pbe, entities=first), grown.trained_facts)
    random = np.random.default_rng([seed, 12])
    for number in range(STEPS):
        rate = model.settings.learning_rate * (1 - number / STEPS)
        fitting.step(about_new, np.arange(len(about_new)), rate, random)
    return grown


def _spread(model: Model) -> float:
    """How far entity vectors lie from their mean in a coordinate, root mean square; worked out once for a model."""
    if "_spread" not in vars(model):
        vectors = model.pbe.score.entity.weight.detach()
        vars(model)["_spread"] = float(vectors.var(0, correction=0).mean().sqrt())
    spread: float = vars(model)["_spread"]
    return spread


def _settle(pbe: PBE, known: int, spread: float, told: Beliefs, entity: int, random: np.random.Generator) -> None:
    """Fit one entity's vector to its beliefs, all else fixed: the likeliest x = start + spread · z.

        Σ log Pr(x|r,t) + OTHER · log Pr(t|x,r) − FIRMNESS ‖z‖²          over its beliefs ⟨x, r, t⟩, likewise ⟨h, r, x⟩

    Pr(x|r,t) is against the `known` first entities, Pr(t|x,r) against candidates drawn from them anew in each step, all
    of them where there are few. The start lies midway between where the vector is and the mean of known entities e,
    weighed by (Π Pr(e|r,t))^SHARPNESS. A belief of the entity with itself says nothing here.
    """
    score = pbe.score
    assert isinstance(score, VectorScore)
    table = score.entity.weight.detach()
    sides, fitting = [], table.new_zeros(known)
    for is_head in (True, False):
        own, other = (told.head, told.tail) if is_head else (told.tail, told.head)
        rows = np.flatnonzero((own == entity) & (other != entity))
        if len(rows):
            r = score.get_parameter("relation.weight").detach()[torch.from_numpy(told.relation[rows])]
            others = table[torch.from_numpy(other[rows])]
            with torch.no_grad():
                one = (
                    score.with_heads(r, others, table[:known])
                    if is_head
                    else score.with_tails(others, r, table[:known])
                )
                logits = table_of(scaled(one, pbe.scale))
                fitting += logits.sum(0)
            sides.append((is_head, r, others, logits.logsumexp(1)))
    if not sides:
        return
    start = (table[entity] + (SHARPNESS * fitting).softmax(0) @ table[:known]) / 2
    z, squares = torch.zeros_like(start), torch.zeros_like(start)
    for number in range(STEPS):
        drawn = table[:known]
        if known > CANDIDATES:
            drawn = table[torch.from_numpy(random.integers(0, known, CANDIDATES))]
        z.requires_grad_()
        x = start + spread * z
        loss = FIRMNESS * (z * z).sum()
        for is_head, r, others, all_else in sides:
            mine = x.expand(len(r), -1)
            truth = pbe.scale * (score.each(mine, r, others) if is_head else score.each(others, r, mine))
            compared = score.with_tails(mine, r, drawn) if is_head else score.with_heads(r, mine, drawn)
            rest = table_of(scaled(compared, pbe.scale)).logsumexp(1)
            lost = torch.logaddexp(all_else, truth) - truth + OTHER * (torch.logaddexp(rest, truth) - truth)
            loss = loss + lost.sum()
        (gradient,) = torch.autograd.grad(loss, z)
        squares.addcmul_(gradient, gradient)
        z = z.detach().addcdiv(gradient, squares.sqrt().add_(1e-10), value=-RATE * (1 - number / STEPS))
    with torch.no_grad():
        score.entity.weight[entity] = start + spread * z


def with_room(model: Model, beliefs: Beliefs, words: bool = True, seed: int = 0) -> tuple[Model, Beliefs]:
    """The model with rows for every new name of the beliefs, and these in its ids; its facts have joined the known.

    Nothing learnt is changed. Rows of new entities start at the mean of like ones, those of relations at random, those
    of words at zero. Without `words` none are added.
    """
    old, more = model.vocabularies, beliefs.vocabularies
    entities, entity = _joined(old.entities, more.entities)
    relations, relation = _joined(old.relations, more.relations)
    known_words, word = _joined(old.words, more.words, room=words and model.pbe.mention is not None)
    vocabularies = Vocabularies(entities, relations, known_words)
    told = replace(
        beliefs,
        vocabularies=vocabularies,
        head=entity[beliefs.head],
        relation=relation[beliefs.relation],
        tail=entity[beliefs.tail],
        mention=beliefs.mention.mapped(word),
    )
    facts = model.trained_facts.grow(len(vocabularies.entities), len(vocabularies.relations), told.triples)
    pbe = _larger(model, vocabularies, told, seed)
    pbe.score.prepare(facts)
    grown = replace(
        model,
        vocabularies=vocabularies,
        pbe=pbe,
        train=np.concatenate([model.train, told.triples]),
        known_confidence=_known_confidence(model, told),
        calibration=model.calibration.grow(len(relations) - len(old.relations)),
    )
    vars(grown)["trained_facts"] = facts
    _start(grown.pbe, model.trained_facts, told)
    return grown, told


def _known_confidence(model: Model, told: Beliefs) -> Numbers:
    """The confidence of the facts of train, of what is told, and of valid; none where none came with any."""
    if not len(model.known_confidence) and np.isnan(told.confidence).all():
        return model.known_confidence
    before = (
        model.known_confidence if len(model.known_confidence) else np.full(len(model.train) + len(model.valid), np.nan)
    )
    return np.insert(before, len(model.train), told.confidence)


def rows_from(pbe: PBE, entities: int | Ids, relations: int | Ids | None = None, words: int | None = None) -> Movable:
    """Which rows may move: those from a number on, or those listed; none where None."""

    def mask(count: int, chosen: int | Ids | None) -> Tensor:
        found = torch.zeros(count, dtype=torch.bool)
        if isinstance(chosen, np.ndarray):
            found[torch.from_numpy(chosen)] = True
        elif chosen is not None:
            found[chosen:] = True
        return found

    movable = {f"score.{name}.weight": mask(pbe.entities, entities) for name in pbe.score.entity_tables}
    movable |= {f"score.{name}.weight": mask(pbe.relations, relations) for name in pbe.score.relation_tables}
    if pbe.mention is not None:
        movable["mention.word.weight"] = mask(pbe.mention.word.num_embeddings, words)
        if pbe.mention.relation is not None:
            movable["mention.relation.weight"] = mask(pbe.relations, relations)
    return Movable(movable)


@dataclass(frozen=True, eq=False)
class Movable:
    """By the name of each table, which of its rows may move."""

    masks: dict[str, Tensor]

    def keep(self, pbe: PBE) -> None:
        """Drop the gradients of all that is to stay."""
        for name, parameter in pbe.named_parameters():
            mask = self.masks.get(name)
            if parameter.grad is None or mask is None or not mask.any():
                parameter.grad = None
            elif parameter.grad.is_sparse:
                gradient = parameter.grad.coalesce()
                rows = gradient.indices()[0]
                kept = mask[rows]
                parameter.grad = torch.sparse_coo_tensor(
                    rows[kept][None], gradient.values()[kept], gradient.shape, check_invariants=False, is_coalesced=True
                )
            else:
                parameter.grad[~mask] = 0.0


class Refit:
    """Steps of the model's own objective that move some rows only."""

    def __init__(self, pbe: PBE, settings: Settings, movable: Movable, facts: TripleIndex) -> None:
        self.pbe, self.movable = pbe, movable
        self.objective = SparseStep(pbe, settings, term_weighting(settings, lambda: facts))
        self.optimizer = RowAdagrad(pbe, constraints(pbe, settings.entity_norm))
        self.every = every_candidate(pbe).for_terms(settings, with_words=pbe.mention is not None)
        self.candidates = settings.candidates or CANDIDATES

    def step(self, beliefs: Beliefs, rows: Ids, rate: float, random: np.random.Generator) -> None:
        """One step on some of the beliefs against candidates drawn anew."""
        heads, tails = self._some(self.every.heads, random), self._some(self.every.tails, random)
        drawn = Candidates(heads, self._some(self.every.relations, random), tails)
        loss = self.objective.loss(Batch.of(beliefs, rows), drawn)
        if loss.requires_grad:
            loss.backward()  # type: ignore[no-untyped-call]
        self.move(rate)

    def move(self, rate: float) -> None:
        """Move along the gradients gathered so far, as far as rows may move."""
        self.movable.keep(self.pbe)
        self.optimizer.step(rate)

    def _some(self, ids: Tensor, random: np.random.Generator) -> Tensor:
        """About so many distinct ones, sorted; drawn with repetition, which is quick."""
        if len(ids) <= self.candidates:
            return ids
        return ids[torch.from_numpy(np.unique(random.integers(0, len(ids), self.candidates)))]


def _joined(old: Vocabulary, more: Vocabulary, room: bool = True) -> tuple[Vocabulary, Ids]:
    """The old names and, where there is room, the new ones after them; and the place there of each of `more`, and of
    none."""
    ids = old.ids(more.names)
    new = ids < 0
    if not room or not new.any():
        return old, np.append(ids, -1)
    ids[new] = len(old) + np.arange(new.sum())
    return Vocabulary(pl.concat([old.names, more.names.filter(pl.Series(new))]), old.kind), np.append(ids, -1)


def _larger(model: Model, vocabularies: Vocabularies, told: Beliefs, seed: int) -> PBE:
    """The same weights with rows for more vocabularies; what has been seen as head and tail includes the new beliefs."""
    old = model.pbe
    seen = [_with(part, ids) for part, ids in ((old.seen_heads, told.head), (old.seen_tails, told.tail))]
    made = assemble(
        model.settings,
        entities=len(vocabularies.entities),
        relations=len(vocabularies.relations),
        words=len(vocabularies.words),
        seen_heads=seen[0],
        seen_tails=seen[1],
        draw=False,
    )
    state = {}
    generator = torch.Generator().manual_seed(seed)
    own = old.state_dict()
    for name, shape in ((name, tensor.shape) for name, tensor in made.state_dict().items()):
        if name in ("seen_heads", "seen_tails"):
            state[name] = seen[name == "seen_tails"]
            continue
        kept = own[name]
        if kept.shape != shape:
            fresh = kept.new_zeros(shape[0] - kept.shape[0], *shape[1:])
            if name.startswith("score.") or name == "mention.relation.weight":
                fresh.normal_(std=shape[-1] ** -0.5, generator=generator)
            kept = torch.cat([kept, fresh])
        else:
            kept = kept.clone()
        state[name] = kept
    made.load_state_dict(state, assign=True)
    made.memory = old.memory
    return made.eval()


def _with(seen: Tensor, ids: Ids) -> Tensor:
    """A sorted set with some more in it."""
    before, new = seen.numpy(), distinct(ids)
    place = np.searchsorted(before, new)
    absent = np.append(before, -1)[place] != new
    return torch.from_numpy(np.insert(before, place[absent], new[absent]))


@torch.no_grad()
def _start(pbe: PBE, known: TripleIndex, told: Beliefs) -> None:
    """Put each new entity at the mean of known ones that stand where its beliefs put it, if there are any.

    One that shares a rare place with it counts more: log (entities / those in the place), summed over places, squared.
    """
    first, relations = known.entities, known.relations
    tables = [pbe.get_parameter(f"score.{name}.weight") for name in pbe.score.entity_tables]
    new_head, new_tail = told.head >= first, told.tail >= first
    usable = (told.relation < relations) & (new_head ^ new_tail)
    whose, like, worth = [], [], []
    for is_head, own in ((True, told.head), (False, told.tail)):
        rows = np.flatnonzero(usable & (new_head if is_head else new_tail))
        head, relation, tail = told.head[rows], told.relation[rows], told.tail[rows]
        question, answer = known.heads(relation, tail) if is_head else known.tails(head, relation)
        sizes = np.bincount(question, minlength=len(rows))
        whose.append(own[rows][question])
        like.append(answer)
        worth.append(np.log(first / np.maximum(sizes, 1))[question])
    pairs, inverse = np.unique(np.concatenate(whose) * first + np.concatenate(like), return_inverse=True)
    weights = np.bincount(inverse, np.concatenate(worth), minlength=len(pairs)) ** 2
    entity, other = np.divmod(pairs, first)
    order = np.lexsort((other, -weights, entity))
    entity, other, weights = entity[order], other[order], weights[order]
    within = np.arange(len(entity)) - np.searchsorted(entity, entity)
    kept = (within < LIKE) & (weights > 0)
    entity, other, weights = entity[kept], other[kept], weights[kept]
    total = np.bincount(entity - first, weights, minlength=pbe.entities - first)
    share = torch.from_numpy(weights / total[entity - first])
    target = torch.from_numpy(entity)
    placed = torch.from_numpy(first + np.flatnonzero(total))
    for table in tables:
        table[placed] = 0.0
        table.index_add_(0, target, table[torch.from_numpy(other)] * share[:, None].to(table.dtype))
