"""Small worlds for tests: random ones to compare with the reference, and a board whose answers are forced."""

from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import polars as pl
import torch

from doxa.calibration.curves import Curve
from doxa.calibration.judge import Judge
from doxa.calibration.thresholds import Thresholds
from doxa.config import Settings
from doxa.data.batch import Batch
from doxa.data.beliefs import Beliefs
from doxa.data.vocabulary import Vocabularies, Vocabulary
from doxa.model import Model
from doxa.pbe import PBE
from doxa.scores import SCORES, SeparateMention
from doxa.scores.base import Sizes
from doxa.scores.pairwise import Places, table_of
from doxa.slots import Slot
from doxa.systems import assemble, score_options
from doxa.training.objective import batch_loss


@dataclass
class World:
    """The weights of a model as plain numpy, for the reference."""

    entity: np.ndarray
    relation: np.ndarray
    word: np.ndarray
    mention_relation: np.ndarray
    alpha: float
    beta: np.ndarray
    scale: float
    p: int
    seen_heads: list
    seen_tails: list
    loop_factor: list

    @property
    def relations(self):
        return range(len(self.relation))


def settings_of(**values):
    """Settings with these values, on the score translation by default; options of the score may be among them."""
    return Settings().changed(**({"score": "translation"} | values))


def make_score(name, entities, relations, generator=None, **values):
    """A score of these sizes; `values` are settings and options of the score."""
    settings = settings_of(score=name, **values)
    return SCORES[name](Sizes(entities, relations, settings.dimension), score_options(settings), generator)


def tails(score, head, relation, candidates=None):
    return table_of(score.against(Slot.TAIL, head, relation, None, candidates))


def heads(score, relation, tail, candidates=None):
    return table_of(score.against(Slot.HEAD, None, relation, tail, candidates))


def relations(score, head, tail, candidates=None):
    return table_of(score.against(Slot.RELATION, head, None, tail, candidates))


def batch_of(rows, confidence=None):
    """A batch of rows (head, relation, tail, words), all by id; without confidence unless a list of it is passed."""
    head, relation, tail = (torch.tensor([row[column] for row in rows]) for column in range(3))
    words = torch.tensor([word for row in rows for word in row[3]], dtype=torch.long)
    offsets = torch.tensor(np.concatenate([[0], np.cumsum([len(row[3]) for row in rows])]))
    values = [float("nan")] * len(rows) if confidence is None else confidence
    return Batch(head, relation, tail, words, offsets, torch.tensor(values, dtype=torch.float64))


def losses(pbe, batch, candidates, settings, term_weights=None):
    """The loss of each belief of a batch, (B,): `batch_loss` of a batch of this belief alone."""

    def one(i):
        start, end = batch.offsets[i : i + 2].tolist()
        words, offsets = batch.words[start:end], torch.tensor([0, end - start])
        columns = (column[i : i + 1] for column in (batch.head, batch.relation, batch.tail))
        weights = {name: factors[i : i + 1] for name, factors in (term_weights or {}).items()}
        true = {slot: _row(places, i) for slot, places in candidates.true_places(batch).items()}
        single = Batch(*columns, words, offsets, batch.confidence[i : i + 1])
        return batch_loss(pbe, single, replace(candidates, true=true), settings, weights)

    return torch.stack([one(i) for i in range(len(batch))])


def _row(places, row):
    columns = places.columns[places.rows == row]
    return Places(torch.zeros_like(columns), columns)


def random_pbe(seed=0, entities=7, relations=4, words=5, dtype=torch.float64, loops=True, **settings):
    """A PBE with random weights of every kind, and its world; without `loops`, D′ is D."""
    torch.manual_seed(seed)
    settings = settings_of(**({"dimension": 3, "scale": 1.5} | settings))
    seen_heads, seen_tails = torch.arange(0, entities - 1), torch.arange(1, entities)
    pbe = assemble(
        settings, entities=entities, relations=relations, words=words, seen_heads=seen_heads, seen_tails=seen_tails
    ).to(dtype)
    with torch.no_grad():
        for parameter in pbe.parameters():
            parameter.copy_(torch.randn(parameter.shape, dtype=dtype))
    if loops:
        pbe.log_loop_factor = torch.linspace(-3, 0, relations, dtype=dtype)
    return pbe, world_of(pbe, settings)


def random_model(seed=0, facts=60, entities=12, relations=4, words=5, **settings):
    """A model with random weights and random known facts, and its world; credence is the logistic of log Pr(h,r,t)."""
    pbe, world = random_pbe(seed, entities, relations, words, **settings)
    random = np.random.default_rng(seed)
    triples = np.stack([random.integers(0, count, facts) for count in (entities - 1, relations, entities - 1)], axis=1)
    triples[:, 2] += 1
    triples = np.unique(triples, axis=0)

    def vocabulary(letter, count, kind):
        return Vocabulary(pl.Series([f"{letter}{number}" for number in range(count)], dtype=pl.String), kind)

    settings = settings_of(**({"dimension": 3, "scale": 1.5} | settings))
    model = Model(
        settings=settings,
        vocabularies=Vocabularies(
            vocabulary("e", entities, "entity"), vocabulary("r", relations, "relation"), vocabulary("w", words, "word")
        ),
        pbe=pbe,
        train=triples,
        valid=np.zeros((0, 3), np.int64),
        calibration=Judge(
            rule=settings.decision_rule,
            thresholds=Thresholds(np.full(relations, np.nan), -6.0),
            curve=Curve.unfitted(relations),
        ),
    )
    return model, world


def model_of_facts(train, valid=(), seed=0, **sizes):
    """A random model that knows these facts (head, relation, tail) of train and of valid, by id, and its world.

    e0 is never a candidate tail and the last entity never a candidate head, as in `random_pbe`.
    """
    model, world = random_model(seed, **sizes)
    facts = (np.array(part, np.int64).reshape(-1, 3) for part in (train, valid))
    return replace(model, **dict(zip(("train", "valid"), facts, strict=True))), world


def world_of(pbe: PBE, settings: Settings) -> World:
    def array(parameter):
        return parameter.detach().double().numpy()

    separate = isinstance(pbe.mention, SeparateMention)
    relation = array(pbe.score.relation.weight)
    beta = array(pbe.mention.beta) if pbe.mention is not None else 0.0
    return World(
        entity=array(pbe.score.entity.weight),
        relation=relation,
        mention_relation=np.eye(len(relation)) if separate else relation,
        word=array(pbe.mention.word.weight) if pbe.mention is not None else np.zeros((0, settings.dimension)),
        alpha=pbe.score.alpha.item(),
        beta=np.broadcast_to(beta, len(relation)),
        scale=pbe.scale,
        p=settings.score_options.get("norm", 2),
        seen_heads=pbe.seen_heads.tolist(),
        seen_tails=pbe.seen_tails.tolist(),
        loop_factor=pbe.log_loop_factor.double().exp().tolist(),
    )


def beliefs(rows, columns=("head", "relation", "tail")) -> Beliefs:
    return Beliefs.from_frame(pl.DataFrame(rows, schema=list(columns), orient="row"))


def random_beliefs(seed, count=6, entities=7, relations=4):
    """Beliefs with the ids of a random model, in a small space with many known facts; `count` rows of them to use."""
    random = np.random.default_rng(seed)
    names, links = [f"e{i}" for i in range(entities)], [f"r{i}" for i in range(relations)]
    every = [(names[i], links[i % relations], names[i], "w0 w1 w2 w3 w4") for i in range(entities)]
    rows = [
        (names[h], links[r], names[t], " ".join(f"w{w}" for w in random.permutation(5)[: random.integers(3)]))
        for h, r, t in random.integers(0, (entities, relations, entities), (count + 40, 3))
    ]
    table = beliefs([*every, *rows], ("head", "relation", "tail", "mention"))
    return table, np.arange(entities, entities + count)


def row_of(table, row):
    """One belief by id, as the reference takes it: (head, relation, tail, words)."""
    return (*table.triples[row].tolist(), table.mention.take(np.array([row])).values.tolist())


def board(size=6, words=True):
    """Squares of a board; 'right' and 'up' lead to the next. Returns all steps as a table.

    Which step leads where is forced by the others: a square's right neighbor is the up neighbor of ... and so on.
    """
    phrases = {"right": ["one step to the right", "its right side touches"], "up": ["one step up", "right above it is"]}
    rows = []
    for x in range(size):
        for y in range(size):
            for relation, (dx, dy) in {"right": (1, 0), "up": (0, 1)}.items():
                if x + dx < size and y + dy < size:
                    mention = phrases[relation][(x + y) % 2]
                    rows.append((f"{x},{y}", relation, f"{x + dx},{y + dy}", mention))
    table = pl.DataFrame(rows, schema=["head", "relation", "tail", "mention"], orient="row")
    return table if words else table.drop("mention")


def board_model(size=20, share=0.7, valid=0.15, seed=0):
    """A model of a board whose vectors are the squares' coordinates, and the steps that it does not know, by id.

    A share of the steps are those of training, and another are those of validation.
    """
    names = [f"{x},{y}" for x in range(size) for y in range(size)]
    places = torch.tensor([(x, y) for x in range(size) for y in range(size)], dtype=torch.float32)
    rows = board(size, words=False).rows()
    steps = np.array([(names.index(h), ["right", "up"].index(r), names.index(t)) for h, r, t in rows])
    steps = np.random.default_rng(seed).permutation(steps)
    train, known, withheld = np.split(steps, [int(share * len(steps)), int((share + valid) * len(steps))])
    settings = settings_of(dimension=2, scale=4.0, validation_fraction=0.0, seed=seed)
    seen = [torch.from_numpy(np.unique(train[:, column])) for column in (0, 2)]
    pbe = assemble(settings, entities=size**2, relations=2, words=0, seen_heads=seen[0], seen_tails=seen[1])
    with torch.no_grad():
        pbe.score.entity.weight.copy_(places)
        pbe.score.relation.weight.copy_(torch.eye(2))
    vocabularies = Vocabularies(
        *(Vocabulary(pl.Series(part, dtype=pl.String), kind)
          for part, kind in ((names, "entity"), (["right", "up"], "relation"), ([], "word")))
    )  # fmt: skip
    model = Model(settings, vocabularies, pbe, train, known, Judge.unfitted(2))
    pbe.count_loops(model.trained_facts)
    return model, withheld


def assert_gradients_equal_finite_differences(value, module, step=1e-6):
    """Backpropagate `value()` and compare with central differences, parameter by parameter."""
    value().backward()
    for name, parameter in module.named_parameters():
        if not parameter.requires_grad:
            assert parameter.grad is None
            continue
        gradient = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad.to_dense()
        for place in np.ndindex(*parameter.shape):
            with torch.no_grad():
                before = parameter[place].item()
                parameter[place] = before + step
                above = value().item()
                parameter[place] = before - step
                below = value().item()
                parameter[place] = before
            assert abs(gradient[place].item() - (above - below) / (2 * step)) < 1e-5, (name, place)


def ragged_rows(ragged):
    """The rows of a Ragged as lists."""
    return [ragged.values[start:end].tolist() for start, end in pairwise(ragged.offsets)]
