"""Review: proposals and suspects go to a curator as a file with a column to fill, and come back as decisions."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from doxa import formats
from doxa.curation import sheet
from doxa.data.atomic import written_folder
from doxa.data.results import Result
from doxa.errors import BadFile, did_you_mean
from doxa.model import Model

log = logging.getLogger(__name__)

REVIEWS = {"missing": ("accept", "reject", "unsure"), "suspect": ("wrong", "replace", "right", "unsure")}
"""What a review may say, by the kind of finding."""

OLD_REVIEWS = {"accept": "wrong", "reject": "right"}
"""Former reviews of suspects; files of earlier versions keep them."""

TRIPLE = ["head", "relation", "tail"]

FRAMES = ("added", "retracted", "labels")
"""The frames of `Decisions`, each a file of the folder that it is written to."""


@dataclass(frozen=True, eq=False, repr=False)
class Decisions(Result):
    """The decisions of a reviewed file. Each frame has head, relation, tail and `source`, the line of the decision.

    `added` are beliefs to add, `retracted` beliefs to retract. `labels` are all decided beliefs with a label 1 or -1.
    A belief that the file decides repeatedly is listed once. `unsure` and `open` count the rows reviewed as unsure and
    the rows without a review.
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
        counts = {"unsure": self.unsure, "open": self.open}
        return {name: getattr(self, name).to_dicts() for name in FRAMES} | counts

    def write(self, folder: Path) -> dict[Path, int]:
        """Write added.tsv, retracted.tsv and labels.tsv, those that have rows, in place of earlier ones, all at once.

        Returns the number of beliefs by file.
        """
        files = {f"{name}.tsv": getattr(self, name) for name in FRAMES if len(getattr(self, name))}
        names = [f"{name}.tsv" for name in FRAMES]
        if files or any((folder / name).exists() for name in names):
            with written_folder(folder, replaces=names) as unfinished:
                for name, frame in files.items():
                    formats.write(frame, unfinished / name)
        return {folder / name: len(frame) for name, frame in files.items()}


def to_review(frame: pl.DataFrame, finding: str, model: Model) -> pl.DataFrame:
    """Add what a review needs: the kind of finding, the model's checksum, and an empty column `review`."""
    return frame.with_columns(
        pl.lit(finding).alias("finding"),
        pl.lit(str(model.origin.get("sha256", ""))[:12]).alias("model"),
        pl.lit("").alias("review"),
    )


def read(path: Path) -> pl.DataFrame:
    """The rows of a reviewed TSV or CSV file, with the line of each; former reviews of suspects are translated.

    A missing name, an invalid finding or review, and `replace` without a suggestion are errors that name their line.
    """
    frame = sheet.read(path)
    lacking = [name for name in (*TRIPLE, "finding", "review") if name not in frame.columns]
    if lacking:
        raise BadFile(
            f"{path} has no column {lacking[0]!r}",
            "expected a TSV or CSV file of proposals (complete) or suspects (audit), with its headings",
        )
    if "suggestion" not in frame.columns:
        frame = frame.with_columns(suggestion=pl.lit(""))
    frame = frame.with_columns(pl.col("review", "finding").str.strip_chars().str.to_lowercase())
    for row in frame.iter_rows(named=True):
        _check(row, path)
    former = (pl.col("finding") == "suspect") & pl.col("review").is_in(list(OLD_REVIEWS))
    accepted = frame.filter(former & (pl.col("review") == "accept") & (pl.col("suggestion").str.strip_chars() != ""))
    if len(accepted):
        log.warning("%s: accept (line %d) means wrong for a suspect: retracted, without adding the suggestion; "
                    "replace also adds it", path.name, accepted["line"][0])  # fmt: skip
    return frame.with_columns(review=pl.when(former).then(pl.col("review").replace(OLD_REVIEWS)).otherwise("review"))


def _check(row: dict[str, Any], path: Path) -> None:
    """Refuse a row of a reviewed file that makes no sense."""
    where, finding, review = f"{path}, line {row['line']}", row["finding"], row["review"]
    empty = [name for name in TRIPLE if not row[name].strip()]
    if empty:
        raise BadFile(f"{where}: no {empty[0]}")
    if finding not in REVIEWS:
        raise BadFile(f"{where}: the finding is {finding!r}", f"expected {' or '.join(REVIEWS)}")
    allowed = REVIEWS[finding]
    if review and review not in allowed and not (finding == "suspect" and review in OLD_REVIEWS):
        raise BadFile(
            f"{where}: the review is {review!r}.{did_you_mean(review, allowed)}",
            f"expected for a {finding} belief: nothing, {', '.join(allowed)}",
        )
    if review == "replace" and row["suggestion"].strip() in ("", row["tail"]):
        raise BadFile(
            f"{where}: the review is 'replace', but there is no suggestion other than the tail",
            "enter the right tail in the column suggestion, or review the belief as wrong",
        )


def decide(path: Path) -> Decisions:
    """The decisions of a curator.

    finding   review    becomes
    missing   accept    added, labeled true
    missing   reject    labeled false
    suspect   wrong     retracted, labeled false
    suspect   replace   retracted, labeled false; the belief with the suggested tail is added, labeled true
    suspect   right     labeled true

    `unsure` and an empty review decide nothing. A belief decided as true on one line and as false on another is an
    error that names both.
    """
    frame = read(path)
    source = pl.format("{}:{} {} {}", pl.lit(path.name), "line", "finding", "review").alias("source")
    if "model" in frame.columns:
        model = pl.when(pl.col("model").str.strip_chars() == "").then(pl.lit("?")).otherwise("model")
        source = pl.format("{} by model {}", source, model).alias("source")
    frame = frame.with_columns(source)
    review = pl.col("review")
    replaced = frame.filter(review == "replace").with_columns(tail="suggestion", review=pl.lit("accept"))
    decided = pl.concat([frame, replaced]).sort("line", maintain_order=True)
    decided = decided.filter(review.is_in(["", "unsure"]).not_())
    decided = decided.with_columns(label=pl.when(review.is_in(["accept", "right"])).then(1).otherwise(-1).cast(pl.Int8))
    _check_consistent(decided, path)

    def rows(*reviews: str) -> pl.DataFrame:
        kept = decided.filter(review.is_in(reviews)) if reviews else decided
        return kept.unique(TRIPLE, keep="first", maintain_order=True).select(*TRIPLE, "source", "label")

    unsure, still_open = (int((frame["review"] == word).sum()) for word in ("unsure", ""))
    return Decisions(
        rows("accept").drop("label"), rows("wrong", "replace").drop("label"), rows(), unsure, still_open
    )  # fmt: skip


def _check_consistent(decided: pl.DataFrame, path: Path) -> None:
    """Refuse a file that decides a belief as true and as false."""
    both = decided.filter(pl.col("label").n_unique().over(TRIPLE) > 1)
    if both.is_empty():
        return
    belief = both.select(TRIPLE).row(0)
    rows = both.join(both.head(1).select(TRIPLE), on=TRIPLE, how="semi").unique("label", keep="first")
    lines = dict(rows.select("label", "line").iter_rows())
    raise BadFile(
        f"{path}: line {lines[1]} decides that {' · '.join(belief)} is true, line {lines[-1]} that it is false",
        "correct one of the two; the suggestion of a replaced suspect counts as true",
    )
