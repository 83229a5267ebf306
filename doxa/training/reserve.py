"""The reserve of a time budget: the seconds that judging and saving a model take after training."""

from __future__ import annotations

import math

from doxa.calibration.cost import judging_queries, seconds_per_query
from doxa.data.beliefs import Beliefs
from doxa.data.triples import TripleIndex
from doxa.pbe import PBE
from doxa.training.deadline import Deadline

JUDGING_SHARE = 0.25
"""Share of the time budget that judging may take; beyond it, the samples of the judge are smaller."""

LEAST_EFFORT = 0.05
"""Share of the judge's samples that is used however late it is."""

SAVING, BYTES_PER_SECOND = 0.5, 1e8
"""Seconds that writing a model takes, and how fast its weights are written."""


class Reserve:
    """Estimates how long judging and saving a model takes: the number of queries, times the seconds of one now."""

    def __init__(
        self, pbe: PBE, facts: TripleIndex, beliefs: Beliefs, deadline: Deadline, *, held_out: bool, can_classify: bool
    ) -> None:
        import sklearn.isotonic  # noqa: F401  # loading it takes seconds, which are then spent before training

        self.pbe, self.beliefs, self.deadline = pbe, beliefs, deadline
        self.queries = judging_queries(pbe, facts, beliefs, held_out=held_out, can_classify=can_classify)
        weights: int = sum(tensor.nbytes for tensor in pbe.state_dict().values())
        self.saving = SAVING + weights / BYTES_PER_SECOND
        seconds_per_query(pbe, beliefs)  # the first one is slower: memory is allocated, loops are compiled
        self._probes = [seconds_per_query(pbe, beliefs)]

    def __call__(self) -> float:
        """The seconds to be kept, by the speed of a query now and before."""
        self._probes.append(seconds_per_query(self.pbe, self.beliefs))
        return self.saving + min(self.queries * self._seconds, JUDGING_SHARE * self.deadline.seconds)

    @property
    def _seconds(self) -> float:
        return math.fsum(self._probes) / len(self._probes)

    def effort(self) -> float:
        """The share of the judge's samples for which the time left suffices, at most 1."""
        enough = (self.deadline.left() - self.saving) / max(self.queries * self._seconds, 1e-9)
        return max(LEAST_EFFORT, min(1.0, enough))
