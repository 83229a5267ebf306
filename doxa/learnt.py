"""What learning leaves behind: weights, names, known facts, thresholds, and where they came from."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from doxa.beliefs import Names
from doxa.calibrator import Calibrator
from doxa.credence import Numbers, Temperatures, Thresholds, Weighing
from doxa.errors import UsageError
from doxa.facts import Facts
from doxa.pbe import PBE
from doxa.settings import Settings
from doxa.systems import why_not


@dataclass(frozen=True, eq=False)
class Learnt:
    """Everything needed to answer, judge and evaluate, without the training data.

    `train` and `valid` are the known facts as ids, (n, 3), and `given` the confidence of each of them in that order,
    NaN where it came without; of length 0 where none came with any. `strangers` are thresholds for beliefs with a name
    never seen, if validation had such; `expected` tells the confidence a belief would carry, if validation showed;
    `weighing` what counts how much in a verdict, where it is `weighed`; `origin` what was learnt from and how it went.
    """

    settings: Settings
    names: Names
    pbe: PBE
    train: NDArray[np.int64]
    valid: NDArray[np.int64]
    thresholds: Thresholds
    strangers: Thresholds | None
    temperatures: Temperatures
    calibrator: Calibrator
    expected: Calibrator | None = None
    weighing: Weighing | None = None
    given: Numbers = field(default_factory=lambda: np.zeros(0))
    origin: dict[str, Any] = field(default_factory=dict)
    curve: tuple[dict[str, Any], ...] = ()

    @cached_property
    def trained_facts(self) -> Facts:
        return Facts(self.train, len(self.names.entities), len(self.names.relations))

    @cached_property
    def known(self) -> Facts:
        """The facts of train and valid."""
        return self.trained_facts.union(self.valid)

    def must_answer(self, question: str) -> None:
        """Refuse a question (entity, relation, classification) this model's system cannot answer."""
        reason = why_not(self.settings, question, words=self.pbe.mention is not None)
        if reason:
            raise UsageError(f"this model cannot answer that: {reason}", "`doxa systems` lists what each can answer")

    def __repr__(self) -> str:
        name = type(self).__name__
        sizes = f"{len(self.names.entities):,} entities, {len(self.names.relations):,} relations"
        words = f", {len(self.names.words):,} words" if self.pbe.mention is not None else ""
        return (
            f"{name}({self.settings.system} on {self.settings.score}, {sizes}{words}, {len(self.known):,} known facts)"
        )
