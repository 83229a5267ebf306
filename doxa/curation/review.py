"""Review: proposals and suspects go to a curator as a file with a column to fill, and come back as decisions."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from doxa.data.results import Result
from doxa.errors import BadFile
from doxa.model import Model

REVIEWS = ("accept", "reject", "unsure")
FINDINGS = ("missing", "suspect")
TRIPLE = ["head", "relation", "tail"]


@dataclass(frozen=True, eq=False, repr=False)
class Decisions(Result):
    """The decisions of a reviewed file. Each frame has head, relation, tail and `source`, the line of the decision.

    `added` are beliefs to add, `retracted` beliefs to retract. `labels` are all decided beliefs with a label 1 or -1.
    `unsure` and `open` count the rows reviewed as unsure and the rows without a review.
    """

    added: pl.DataFrame
    retracted: pl.DataFrame
    labels: pl.DataFrame
    unsure: int
    open: int

    def __repr__(self) -> str:
        counts = f"{len(self.added):,} added, {len(self.retracted):,} retracted, {len(self.labels):,} labels"
        return f"Decisions({counts}, {self.unsure:,} unsure, {self.open:,} open)"

    def to_frame(self) -> pl.DataFrame:
        """The decided beliefs: head, relation, tail, source, label."""
        return self.labels

    def as_dict(self) -> dict[str, Any]:
        """The rows of each frame, and the counts."""
        frames = {"added": self.added, "retracted": self.retracted, "labels": self.labels}
        return {name: frame.to_dicts() for name, frame in frames.items()} | {"unsure": self.unsure, "open": self.open}


def to_review(frame: pl.DataFrame, finding: str, model: Model) -> pl.DataFrame:
    """Add what a review needs: the kind of finding, the model's checksum, and an empty column `review`."""
    return frame.with_columns(
        pl.lit(finding).alias("finding"),
        pl.lit(str(model.origin.get("sha256", ""))[:12]).alias("model"),
        pl.lit("").alias("review"),
    )


def read(path: Path) -> pl.DataFrame:
    """The rows of a reviewed file. An invalid review or finding is an error that names its line."""
    try:
        frame = pl.read_csv(path, separator="\t", quote_char=None, infer_schema=False)
    except FileNotFoundError:
        raise BadFile(f"no file {path}") from None
    except (OSError, pl.exceptions.PolarsError) as fault:
        raise BadFile(f"{path}: not a file of proposals or suspects ({fault})") from None
    lacking = [name for name in (*TRIPLE, "finding", "review") if name not in frame.columns]
    if lacking:
        raise BadFile(
            f"{path} has no column {lacking[0]!r}", "expected a file of proposals (complete) or suspects (audit)"
        )
    frame = frame.with_columns(pl.col("review", "finding").fill_null("").str.strip_chars().str.to_lowercase())
    for column, allowed in (("review", ("", *REVIEWS)), ("finding", FINDINGS)):
        wrong = frame.with_row_index("line", 2).filter(~pl.col(column).is_in(allowed))
        if len(wrong):
            raise BadFile(
                f"{path}, line {wrong['line'][0]}: the {column} is {wrong[column][0]!r}",
                f"expected {', '.join(choice or 'nothing' for choice in allowed)}",
            )
    return frame


def decide(path: Path) -> Decisions:
    """The decisions of a curator.

    finding   review    becomes
    missing   accept    added, labeled true
    missing   reject    labeled false
    suspect   accept    retracted, labeled false; its suggestion, if any, is added and labeled true
    suspect   reject    labeled true
    """
    frame = read(path).with_row_index("line", 2)
    source = pl.format("{}:{} {} {}", pl.lit(path.name), "line", "finding", "review").alias("source")
    if "model" in frame.columns:
        source = pl.format("{} by model {}", source, pl.col("model").fill_null("?")).alias("source")
    frame = frame.with_columns(source)
    suggestion = pl.col("suggestion") if "suggestion" in frame.columns else pl.lit(None, pl.String)
    columns = [*TRIPLE, "source"]

    def rows(finding: str, review: str) -> pl.DataFrame:
        return frame.filter((pl.col("finding") == finding) & (pl.col("review") == review))

    corrected = rows("suspect", "accept").with_columns(suggestion.alias("tail")).filter(
        pl.col("tail").is_not_null() & (pl.col("tail") != "")
    )  # fmt: skip
    added = pl.concat([rows("missing", "accept").select(columns), corrected.select(columns)])
    retracted = rows("suspect", "accept").select(columns)
    true = pl.concat([added, rows("suspect", "reject").select(columns)])
    false = pl.concat([retracted, rows("missing", "reject").select(columns)])
    labels = pl.concat([part.with_columns(label=pl.lit(label, pl.Int8)) for part, label in ((true, 1), (false, -1))])
    unsure, still_open = (int((frame["review"] == review).sum()) for review in ("unsure", ""))
    return Decisions(added, retracted, labels, unsure, still_open)
