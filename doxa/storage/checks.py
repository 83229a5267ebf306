"""Checks of a judge that was read from a manifest: kinds and sizes of everything, so that no answer fails on them."""

from __future__ import annotations

import math
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from doxa.calibration.curves import KINDS
from doxa.calibration.judge import Judge
from doxa.config import FIELDS

LARGEST = 1e100
"""Numbers beyond this are no result of a fit, and would overflow."""


def check_judge(judge: Judge, relations: int) -> None:
    """Refuse, with a ValueError, a judge with a value that none has that was fitted."""
    _check_fields(judge, "judge")
    rules = FIELDS["decision_rule"].metadata["choices"]
    if judge.rule not in rules:
        raise ValueError(f"the rule is {judge.rule!r}; expected {', '.join(rules)}")
    if judge.rule == "learned" and judge.weights is None:
        raise ValueError("the rule learned has no weights")
    if min(vars(judge.temperatures).values()) <= 0:
        raise ValueError("a temperature is not positive")
    if judge.unseen is not None and judge.unseen.by_relation.shape != (2 * relations,):
        raise ValueError("the thresholds of unseen entities are not two per relation")


def _check_fields(value: Any, where: str) -> None:
    """Numbers are finite, arrays hold numbers, texts are texts; so in everything that `value` consists of."""
    for declared in fields(value):
        part, place = getattr(value, declared.name), f"{where}.{declared.name}"
        if is_dataclass(part):
            _check_fields(part, place)
        elif declared.type in ("float", "int"):
            if isinstance(part, bool) or not isinstance(part, int | float) or not abs(part) <= LARGEST:
                raise ValueError(f"{place} is {part!r}; expected a number")
        elif declared.type == "str" and not isinstance(part, str):
            raise ValueError(f"{place} is {part!r}; expected a text")
        elif isinstance(part, np.ndarray):
            _check_array(part, place)
        elif declared.name == "steps":
            _check_steps(part, place)
        elif declared.name == "losses" and not _are_numbers(part):
            raise ValueError(f"{place} is {part!r}; expected numbers")
        elif "|" in str(declared.type) and part is not None:
            raise ValueError(f"{place} is {part!r}; expected nothing, or its parts")
        if declared.name == "kind" and part not in ("none", *KINDS):
            raise ValueError(f"{place} is {part!r}; expected {', '.join(KINDS)}")


def _check_array(array: Any, place: str) -> None:
    """Numbers, of which NaN stands for none."""
    if array.dtype.kind not in "fi" or not bool((np.isnan(array) | (np.abs(array) <= LARGEST)).all()):
        raise ValueError(f"{place} holds something else than numbers")


def _check_steps(steps: Any, place: str) -> None:
    for part in steps:
        _check_array(part, place)
    first, second = steps
    if first.shape != second.shape or first.ndim != 1 or (np.diff(first) < 0).any():
        raise ValueError(f"{place} are no steps from left to right")


def _are_numbers(losses: Any) -> bool:
    return isinstance(losses, dict) and all(isinstance(x, int | float) and math.isfinite(x) for x in losses.values())
