"""How a setting is declared, checked, and read from text: of `Settings`, and of the options of scores."""

from __future__ import annotations

from dataclasses import Field, field, fields
from typing import Any

from doxa.errors import UsageError

LARGEST = 1e30
"""Largest number of a setting: vectors have single precision."""


def setting(
    default: Any, about: str, group: str = "model", choices: tuple[Any, ...] = (), low: float | None = None
) -> Any:
    """A field of settings: its default, its meaning, its group and the values it may take."""
    return field(default=default, metadata={"about": about, "group": group, "choices": choices, "low": low})


def described(knob: Field[Any]) -> tuple[str, str, str, str]:
    """(name, default, choices, meaning) of one setting."""
    choices = " · ".join(str(choice) for choice in knob.metadata["choices"])
    return knob.name, str(knob.default), choices, knob.metadata["about"]


def parse(knob: Field[Any], text: str) -> Any:
    """The value of a setting from text, in the type of its default."""
    kind: Any = type(knob.default)
    if kind is bool:
        words = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
        if text.lower() in words:
            return words[text.lower()]
        raise UsageError(f"setting {knob.name}={text!r}; expected true or false")
    try:
        return kind(text)
    except ValueError:
        raise UsageError(f"setting {knob.name}={text!r}; expected {_kind_name(kind)}") from None


def check(declared: Any) -> None:
    """Refuse values of settings or score options that are not of their kind or out of bounds."""
    for knob in fields(declared):
        if knob.metadata:
            _check(knob, getattr(declared, knob.name))


def _check(knob: Field[Any], value: Any) -> None:
    kind = type(knob.default)
    fits = isinstance(value, kind) or (kind is float and isinstance(value, int))
    if not fits or (isinstance(value, bool) and kind is not bool):
        raise UsageError(f"setting {knob.name} is {value!r}; expected {_kind_name(kind)}")
    if kind is float and not abs(value) <= LARGEST:
        raise UsageError(f"setting {knob.name} is {value}; expected a finite number, up to {LARGEST:g}")
    choices, low = knob.metadata["choices"], knob.metadata["low"]
    if choices and value not in choices:
        expected = ", ".join(str(choice) for choice in choices)
        raise UsageError(f"setting {knob.name} is {value!r}; expected one of {expected}")
    if low is not None and not value >= low:
        raise UsageError(f"setting {knob.name} is {value}; expected at least {low:g}")


def _kind_name(kind: type) -> str:
    return {int: "a whole number", float: "a number", bool: "true or false", str: "a word"}[kind]
