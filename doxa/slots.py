"""Slot: which part of a belief is meant or missing."""

from __future__ import annotations

from enum import IntEnum


class Slot(IntEnum):
    """Head, relation or tail. Its number is its column in an (n, 3) array of triples."""

    HEAD = 0
    RELATION = 1
    TAIL = 2

    @property
    def other(self) -> Slot:
        """The other entity slot: the tail of a head, the head of a tail."""
        if self is Slot.RELATION:
            raise ValueError("a relation has no other slot")
        return Slot(2 - self)

    def __str__(self) -> str:
        return self.name.lower()


ENTITY_SLOTS = (Slot.HEAD, Slot.TAIL)
