"""Review: what was found goes to a curator as a file with a column to fill, and comes back as beliefs and labels."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import polars as pl

from doxa.errors import DoxaError
from doxa.model import Model

ANSWERS = ("accept", "reject", "unsure")
FINDINGS = ("missing", "suspect")
TRIPLE = ["head", "relation", "tail"]


class Decisions(NamedTuple):
    """What a reviewed file says. Each table has head, relation, tail and `source`, where the decision was made.

    `added` is to be believed, `retracted` no longer; `labels` has a column label, 1 or -1, of all that was decided.
    """

    added: pl.DataFrame
    retracted: pl.DataFrame
    labels: pl.DataFrame
    unsure: int
    open: int


def to_review(found: pl.DataFrame, finding: str, model: Model) -> pl.DataFrame:
    """A table of findings with what a review needs: what kind they are, which model found them, an empty answer."""
    return found.with_columns(
        pl.lit(finding).alias("finding"),
        pl.lit(str(model.origin.get("sha256", ""))[:12]).alias("model"),
        pl.lit("").alias("review"),
    )


def read(path: Path) -> pl.DataFrame:
    """A reviewed file; a row without an answer, or with one that is none, is told by its line."""
    try:
        table = pl.read_csv(path, separator="\t", quote_char=None, infer_schema=False)
    except FileNotFoundError:
        raise DoxaError(f"no file {path}") from None
    except (OSError, pl.exceptions.PolarsError) as fault:
        raise DoxaError(f"{path}: not a file of findings ({fault})") from None
    lacking = [name for name in (*TRIPLE, "finding", "review") if name not in table.columns]
    if lacking:
        raise DoxaError(
            f"{path} has no column {lacking[0]!r}", "expected a file written by `doxa complete` or `doxa audit`"
        )
    table = table.with_columns(pl.col("review", "finding").fill_null("").str.strip_chars().str.to_lowercase())
    for column, allowed in (("review", ("", *ANSWERS)), ("finding", FINDINGS)):
        wrong = table.with_row_index("line", 2).filter(~pl.col(column).is_in(allowed))
        if len(wrong):
            raise DoxaError(
                f"{path}, line {wrong['line'][0]}: the {column} is {wrong[column][0]!r}",
                f"expected {', '.join(answer or 'nothing' for answer in allowed)}",
            )
    return table


def decide(path: Path) -> Decisions:
    """What the curator decided.

    A missing belief accepted is believed and labeled true; rejected, it is labeled false. A suspect accepted is
    retracted and labeled false, and its suggested correction, if there is one, believed and labeled true; a suspect
    rejected stands and is labeled true.
    """
    table = read(path).with_row_index("line", 2)
    source = pl.format("{}:{} {} {}", pl.lit(path.name), "line", "finding", "review").alias("source")
    if "model" in table.columns:
        source = pl.format("{} by model {}", source, pl.col("model").fill_null("?")).alias("source")
    table = table.with_columns(source)
    correction = pl.col("suggestion") if "suggestion" in table.columns else pl.lit(None, pl.String)
    chosen = [*TRIPLE, "source"]

    def rows(finding: str, review: str) -> pl.DataFrame:
        return table.filter((pl.col("finding") == finding) & (pl.col("review") == review))

    corrected = rows("suspect", "accept").with_columns(correction.alias("tail")).filter(
        pl.col("tail").is_not_null() & (pl.col("tail") != "")
    )  # fmt: skip
    added = pl.concat([rows("missing", "accept").select(chosen), corrected.select(chosen)])
    retracted = rows("suspect", "accept").select(chosen)
    true = pl.concat([added, rows("suspect", "reject").select(chosen)])
    false = pl.concat([retracted, rows("missing", "reject").select(chosen)])
    labels = pl.concat([part.with_columns(label=pl.lit(label, pl.Int8)) for part, label in ((true, 1), (false, -1))])
    unsure, still_open = (int((table["review"] == answer).sum()) for answer in ("unsure", ""))
    return Decisions(added, retracted, labels, unsure, still_open)
