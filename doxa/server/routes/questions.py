"""ask, judge, explain and similar, one by one and in batches."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from functools import partial
from typing import Any

import polars as pl
from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import Response, StreamingResponse

from doxa.inference.answer import Answer
from doxa.server import schemas
from doxa.server.batches import (
    ARROW,
    JSON,
    NDJSON,
    arrow_of,
    format_of,
    lines_of,
    parsed,
    rows_of_arrow,
    rows_of_lines,
)
from doxa.server.context import API, Parts, by_version, encoded, version_headers
from doxa.server.problems import PROBLEMS
from doxa.server.security import Requires
from doxa.server.served import Served

router = APIRouter(prefix=API, tags=["questions"], dependencies=[Depends(Requires("reader"))], responses=PROBLEMS)

CHUNK = 1000
"""Rows of an NDJSON batch that are answered before they are sent."""


def batch_body(model: type[Any], example: str) -> dict[str, Any]:
    """What OpenAPI says of a body in three formats."""
    schema = model.model_json_schema()
    definitions = schema.pop("$defs", {})

    def inlined(part: Any) -> Any:
        if isinstance(part, dict):
            if "$ref" in part:
                return inlined(definitions[part["$ref"].rpartition("/")[2]])
            return {name: inlined(value) for name, value in part.items()}
        return [inlined(value) for value in part] if isinstance(part, list) else part

    content: dict[str, Any] = {JSON: {"schema": inlined(schema)}}
    content[NDJSON] = {"schema": {"type": "string"}, "example": example}
    content[ARROW] = {"schema": {"type": "string", "format": "binary"}}
    return {"requestBody": {"required": True, "content": content}}


BATCHES: dict[int | str, dict[str, Any]] = {
    200: {
        "content": {NDJSON: {"schema": {"type": "string"}}, ARROW: {"schema": {"type": "string", "format": "binary"}}}
    },
}


@router.get("/ask", response_model=schemas.Answer, summary="Ask for the missing part of a belief")
async def ask(
    request: Request,
    parts: Parts,
    head: schemas.Part = "?",
    relation: schemas.Part = "?",
    tail: schemas.Part = "?",
    mention: schemas.Mention = None,
    top: schemas.Top = 10,
    new_only: bool = Query(False, description="Leave out known facts."),
) -> Response:
    """The most probable answers. Exactly one of head, relation and tail is missing; a mention helps to ask for the
    relation."""
    served = parts.source.current

    def answer(questions: Sequence[Any]) -> list[Any]:
        return [encoded(one.as_dict()) for one in served.model.ask(questions, top, new_only)]

    question = (head or "?", relation or "?", tail or "?", mention or None)
    missing = [part == "?" for part in question[:3]]
    group = ("ask", served.version, top, new_only, *missing)  # the model answers them one kind after the other
    return await by_version(request, served, lambda: parts.batcher.submit(group, answer, question))


@router.post(
    "/ask",
    response_model=schemas.Answers,
    summary="Ask many questions",
    responses=BATCHES,
    openapi_extra=batch_body(schemas.Questions, '["Lyon", "located in", "?"]\n["?", "capital", "Paris"]\n'),
)
async def ask_batch(request: Request, parts: Parts, top: schemas.Top = 10, new_only: bool = Query(False)) -> Response:
    """Questions as JSON, as lines (NDJSON) or as an Arrow stream with head, relation, tail and mention; answered
    together, in the same format and order. With lines and Arrow, `top` and `new_only` are in the address."""
    form, body, served = format_of(request), await request.body(), parts.source.current
    if form == JSON:

        def answered() -> Any:
            batch = parsed(schemas.Questions, body)
            parts.limits.check_batch(len(batch.questions), batch.top)
            answers = served.model.ask(batch.questions, batch.top, batch.new_only)
            return {"answers": [one.as_dict() for one in answers]}

        return Response(await parts.slow_json(answered), headers=version_headers(served), media_type=JSON)
    rows = await parts.slow.run(rows_of_lines if form == NDJSON else rows_of_arrow, body)
    parts.limits.check_batch(len(rows), top)
    if form == NDJSON:
        first = await parts.slow.run(served.model.ask, rows[:CHUNK], top, new_only) if rows else []

        async def lines() -> AsyncIterator[bytes]:
            answers = first
            for start in range(0, len(rows), CHUNK):
                if start:
                    answers = await parts.slow.run(served.model.ask, rows[start : start + CHUNK], top, new_only)
                yield await parts.quick(partial(_text, answers))

        return StreamingResponse(lines(), headers=version_headers(served), media_type=NDJSON)
    content = await parts.slow.run(lambda: arrow_of(_answer_table(served.model.ask(rows, top, new_only))))
    return Response(content, headers=version_headers(served), media_type=ARROW)


def _text(answers: Sequence[Answer]) -> bytes:
    """Answers as lines of JSON."""
    return b"".join(lines_of([answer.as_dict() for answer in answers]))


def _answer_table(answers: Sequence[Answer]) -> pl.DataFrame:
    """All answers as one table; `question` is the row of each in the batch."""
    frames = [answer.to_frame().insert_column(0, pl.Series("question", [row] * len(answer), pl.Int64))
              for row, answer in enumerate(answers)]  # fmt: skip
    return pl.concat(frames) if frames else pl.DataFrame()


@router.get("/judge", response_model=schemas.Judgment, summary="Judge one belief")
async def judge(
    request: Request,
    parts: Parts,
    head: schemas.Entity,
    relation: schemas.Relation,
    tail: schemas.Entity,
    mention: schemas.Mention = None,
    base_rate: schemas.BaseRate = None,
) -> Response:
    """The credence of a belief, and true or false at the relation's threshold. A name that the model does not know is
    an error, unless the mention stands in for it."""
    served = parts.source.current

    def answer(rows: Sequence[Any]) -> list[Any]:
        return _judged(served, rows, base_rate)

    row, group = (head, relation, tail, mention or None), ("judge", served.version, base_rate)
    return await by_version(request, served, lambda: parts.batcher.submit(group, answer, row))


def _judged(served: Served, rows: Sequence[Any], base_rate: float | None) -> list[Any]:
    """One judgment of one belief for each row; unknown names are errors."""
    model = served.model
    model.vocabularies.relations.require([row[1] for row in rows])
    judgment = model.judge(_frame(rows), base_rate=base_rate)
    whole = judgment.as_dict()
    for row, unknown in zip(rows, judgment.unknown.tolist(), strict=True):
        if unknown:
            model.vocabularies.entities.require([row[0], row[2]])
    return [whole | {"beliefs": [belief]} for belief in whole["beliefs"]]


def _frame(rows: Sequence[Any]) -> pl.DataFrame:
    """Rows as a frame of beliefs, with a mention only if any has one."""
    schema = dict.fromkeys(("head", "relation", "tail", "mention"), pl.String)
    frame = pl.DataFrame(rows, schema=schema, orient="row")
    return frame if frame["mention"].count() else frame.drop("mention")


@router.post(
    "/judge",
    response_model=schemas.Judgment,
    summary="Judge many beliefs",
    responses=BATCHES,
    openapi_extra=batch_body(schemas.BeliefsIn, '["Lyon", "located in", "France"]\n'),
)
async def judge_batch(request: Request, parts: Parts, base_rate: schemas.BaseRate = None) -> Response:
    """Beliefs as JSON, lines or an Arrow stream, judged together in the same order. A belief with a name that the model
    does not know has the verdict unknown."""
    form, body, served = format_of(request), await request.body(), parts.source.current
    if form == JSON:
        batch = await parts.slow.run(parsed, schemas.BeliefsIn, body)
        base_rate = batch.base_rate
        rows: list[Any] = [(one.head, one.relation, one.tail, one.mention) for one in batch.beliefs]
    else:
        rows = await parts.slow.run(rows_of_lines if form == NDJSON else rows_of_arrow, body)
    parts.limits.check_batch(len(rows))
    judgment = await parts.slow.run(lambda: served.model.judge(_frame(rows), base_rate=base_rate))
    headers = version_headers(served)
    if form == ARROW:
        known = pl.Series("known", judgment.known)
        return Response(arrow_of(judgment.to_frame().with_columns(known)), headers=headers, media_type=ARROW)
    if form == NDJSON:
        content = await parts.slow.run(lambda: b"".join(lines_of(judgment.as_dict()["beliefs"])))
        return Response(content, headers=headers, media_type=NDJSON)
    return Response(await parts.slow_json(judgment.as_dict), headers=headers, media_type=JSON)


@router.get("/explain", response_model=schemas.Explanation, summary="Explain the credence of a belief")
async def explain(
    request: Request,
    parts: Parts,
    head: schemas.Entity,
    relation: schemas.Relation,
    tail: schemas.Entity,
    mention: schemas.Mention = None,
    top: int = Query(5, ge=0, le=50, description="Number of similar facts."),
    influences: int = Query(6, ge=0, le=50, description="Number of influential training beliefs."),
) -> Response:
    """The terms of the credence, the words of the mention, the runners-up, similar facts, and the training beliefs with
    most influence."""
    served = parts.source.current

    def work() -> Any:
        explanation = served.model.explain(head, relation, tail, mention or None, top=top, influences=influences)
        return explanation.as_dict()

    return await by_version(request, served, lambda: parts.slow_json(work))


@router.get("/similar", response_model=schemas.Similar, summary="Entities with similar vectors")
async def similar(
    request: Request,
    parts: Parts,
    entity: schemas.Entity,
    top: schemas.Top = 10,
    relation: str | None = Query(None, max_length=schemas.LONGEST_NAME, description="Only among its entities."),
) -> Response:
    """The entities with the most similar vectors, by cosine."""
    served = parts.source.current
    work = lambda: served.model.similar(entity, top, relation or None).as_dict()  # noqa: E731
    return await by_version(request, served, lambda: parts.slow_json(work))
