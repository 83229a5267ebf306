"""Relation prediction by parts: from entities and words together, and from each alone."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from doxa.calibration.sentences import relation_log_probabilities
from doxa.data.beliefs import Beliefs
from doxa.data.triples import TripleIndex
from doxa.evaluation.protocol import Ranker, ranks
from doxa.evaluation.ranks import Ranks
from doxa.model import Model
from doxa.slots import Slot


def sentence_scores(model: Model) -> Callable[[Beliefs], Tensor]:
    """A function that scores all relations of beliefs with an unseen entity and a mention, (n, R)."""

    def scores(unseen: Beliefs) -> Tensor:
        return relation_log_probabilities(model.pbe, model.trained_facts, unseen, model.calibration.sentence)

    return scores


def relation_ranks(
    model: Model, ranker: Ranker, beliefs: Beliefs, known: TripleIndex, memory: int = 0
) -> dict[str, Ranks]:
    """The rank of each belief's relation by `both`, and where beliefs have mentions by `entities` and by `words` alone.

    A belief with an unseen entity is answered from its sentence (`doxa.calibration.sentences`).
    """
    judge, pbe, from_sentence = model.calibration, model.pbe, sentence_scores(model)
    uses = {"both": "both"}
    if pbe.mention is not None and len(beliefs.mention.values):
        uses |= ({"entities": "pair"} if pbe.score.tells_relations else {}) | {"words": "mention"}
    return {
        name: ranks(ranker, Slot.RELATION, beliefs, known, None, use, judge.mention_exponent, memory, from_sentence)
        for name, use in uses.items()
    }
