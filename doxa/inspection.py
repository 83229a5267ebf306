"""What a data engineer wants to know of a file or dataset before training on it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from doxa import files
from doxa.beliefs import Beliefs
from doxa.evaluation.protocol import mapping_kinds
from doxa.facts import Facts
from doxa.files import OnError


@dataclass(frozen=True)
class Inspection:
    """Counts and findings per part, as plain data."""

    parts: dict[str, dict[str, Any]]
    relations: list[dict[str, Any]]

    def as_dict(self) -> dict[str, Any]:
        return {"parts": self.parts, "relations": self.relations}


def inspect(path: str | Path, on_error: OnError = "raise") -> Inspection:
    """Counts, duplicates, leaks, unseen names and the one-to-many profile of a file or a dataset folder."""
    where = files.dataset(path)
    tables = {
        name: files.read(file, on_error, refuted=True)
        for name, file in (("train", where.train), ("valid", where.valid), ("test", where.test))
        if file is not None
    }
    train = Beliefs.from_table(tables["train"])
    facts = Facts(train.true_ones().triples, len(train.names.entities), len(train.names.relations))
    parts = {name: _part(table) for name, table in tables.items()}
    for name in tables:
        if name != "train":
            parts[name] |= _against(train, facts, Beliefs.from_table(tables[name], train.names))
    return Inspection(parts, _profile(train, facts))


def _part(table: pl.DataFrame) -> dict[str, Any]:
    triple = ["head", "relation", "tail"]
    found: dict[str, Any] = {
        "beliefs": len(table),
        "entities": pl.concat([table["head"], table["tail"].alias("head")]).n_unique(),
        "relations": table["relation"].n_unique(),
        "duplicate_lines": len(table) - table.drop("line").n_unique(),
        "repeated_triples": len(table) - table.select(triple).n_unique(),
        "self_loops": int((table["head"] == table["tail"]).sum()),
    }
    if "mention" in table.columns:
        found["with_mention"] = len(table) - table["mention"].null_count()
    if "confidence" in table.columns:
        found["with_confidence"] = len(table) - table["confidence"].null_count()
    if "label" in table.columns:
        found["labelled_true"] = int((table["label"] == 1).sum())
        found["labelled_false"] = int((table["label"] == -1).sum())
    return found


def _against(train: Beliefs, facts: Facts, part: Beliefs) -> dict[str, Any]:
    """What a part shares with train, and what train never saw."""
    seen = part.where(part.seen)
    reversed_pairs = np.isin(
        seen.tail * facts.entities + seen.head, facts.triples[:, 0] * facts.entities + facts.triples[:, 2]
    )
    in_train = facts.contains(seen.head, seen.relation, seen.tail)
    found: dict[str, Any] = {
        "with_unseen_entity": int(((part.head < 0) | (part.tail < 0)).sum()),
        "with_unseen_relation": int((part.relation < 0).sum()),
        "already_in_train": int(in_train.sum()),
        "reversed_pair_in_train": int(reversed_pairs.sum()),
    }
    if seen.label is not None:
        found["false_but_in_train"] = int((in_train & (seen.label == -1)).sum())
    return found


def _profile(train: Beliefs, facts: Facts) -> list[dict[str, Any]]:
    """Every relation with its mapping kind, most frequent first."""
    kinds = mapping_kinds(facts)
    return [
        {
            "relation": train.names.relations[relation],
            "kind": kinds[relation],
            "facts": int(facts.counts[relation]),
            "tails_per_head": round(float(facts.tails_per_head[relation]), 2),
            "heads_per_tail": round(float(facts.heads_per_tail[relation]), 2),
        }
        for relation in np.argsort(-facts.counts, kind="stable")
    ]
