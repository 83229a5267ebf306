"""Batches in three formats: JSON, one JSON value per line (NDJSON), and an Arrow stream."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

import polars as pl
from fastapi import Request
from pydantic import BaseModel, ValidationError

from doxa.errors import UsageError
from doxa.server.context import encoded
from doxa.server.problems import Refused
from doxa.server.schemas import LONGEST_NAME

JSON, NDJSON, ARROW = "application/json", "application/x-ndjson", "application/vnd.apache.arrow.stream"
FORMATS = (JSON, NDJSON, ARROW)
COLUMNS = ("head", "relation", "tail", "mention")

Row = tuple[str, str, str, str | None]

Body = TypeVar("Body", bound=BaseModel)


def format_of(request: Request) -> str:
    """The format of a request's body, in which it is answered."""
    form = request.headers.get("content-type", JSON).partition(";")[0].strip().lower()
    if form == "application/ndjson":
        form = NDJSON
    if form not in FORMATS:
        raise Refused(415, f"a body of type {form[:80]}", f"expected {' or '.join(FORMATS)}")
    return form


def parsed(model: type[Body], body: bytes) -> Body:
    """A JSON body as its type."""
    try:
        return model.model_validate_json(body)
    except ValidationError as fault:
        first = fault.errors(include_url=False, include_context=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise UsageError("the body does not fit the schema", f"{where}: {first['msg']}") from None


def rows_of_lines(body: bytes) -> list[Row]:
    """The rows of an NDJSON body: each line an array or an object."""
    rows: list[Row] = []
    for number, line in enumerate(body.splitlines(), start=1):
        if not line.strip():
            continue
        try:
            value = json.loads(line)
            if isinstance(value, dict):
                value = [value.get(name) for name in COLUMNS]
            rows.append(_row(value))
        except (ValueError, TypeError, UnicodeError, RecursionError):
            raise UsageError(
                f"line {number} is not a row", 'expected ["Lyon", "located in", "?"] or {"head": "Lyon", …}'
            ) from None
    return rows


def _row(value: Any) -> Row:
    """A row of three names and perhaps a mention, all text that UTF-8 can hold."""
    if not isinstance(value, list) or not 3 <= len(value) <= 4:
        raise ValueError(value)
    head, relation, tail, mention = (*value, None)[:4]
    for part in (head, relation, tail, *(() if mention is None else (mention,))):
        if not isinstance(part, str) or len(part) > LONGEST_NAME:
            raise ValueError(part)
        part.encode()
    return head, relation, tail, mention


def rows_of_arrow(body: bytes) -> list[Row]:
    """The rows of an Arrow stream with the columns head, relation, tail and perhaps mention, all text."""
    try:
        frame = pl.read_ipc_stream(io.BytesIO(body))
    except Exception as fault:  # whatever damaged bytes make of it
        raise UsageError(f"the body is no Arrow stream ({type(fault).__name__})") from None
    except BaseException as fault:
        if type(fault).__name__ != "PanicException":
            raise
        raise UsageError("the body is no Arrow stream") from None
    lacking = [name for name in COLUMNS[:3] if name not in frame.columns]
    if lacking:
        raise UsageError(f"the table has no column {lacking[0]}", f"expected {', '.join(COLUMNS)}")
    table = frame.select(
        *(pl.col(name).cast(pl.String) if name in frame.columns else pl.lit(None, pl.String).alias(name)
          for name in COLUMNS)
    )  # fmt: skip
    if table.select(COLUMNS[:3]).null_count().sum_horizontal().item():
        raise UsageError("the table has a row without head, relation or tail")
    return table.rows()


def arrow_of(frame: pl.DataFrame) -> bytes:
    """A frame as an Arrow stream."""
    out = io.BytesIO()
    frame.write_ipc_stream(out, compat_level=pl.CompatLevel.oldest())
    return out.getvalue()


def lines_of(items: Sequence[Any]) -> Iterator[bytes]:
    """Items as NDJSON."""
    for item in items:
        yield encoded(item) + b"\n"
