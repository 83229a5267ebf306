"""The known beliefs as a file."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Literal

from fastapi import APIRouter, Depends, Query
from fastapi.responses import FileResponse
from starlette.background import BackgroundTask

from doxa import formats
from doxa.formats.registry import FORMATS
from doxa.server.context import API, Parts
from doxa.server.problems import PROBLEMS
from doxa.server.security import Requires

router = APIRouter(prefix=API, tags=["export"], dependencies=[Depends(Requires("reader"))], responses=PROBLEMS)

TYPES = {
    "tsv": "text/tab-separated-values; charset=utf-8", "csv": "text/csv; charset=utf-8",
    "jsonl": "application/x-ndjson", "parquet": "application/vnd.apache.parquet", "nt": "application/n-triples",
    "ttl": "text/turtle; charset=utf-8",
}  # fmt: skip


FILES = {form.partition(";")[0]: {"schema": {"type": "string", "format": "binary"}} for form in TYPES.values()}


@router.get(
    "/export", response_class=FileResponse, summary="The beliefs as a file", responses={200: {"content": FILES}}
)
async def export(
    parts: Parts,
    format: Literal["tsv", "csv", "jsonl", "parquet", "nt", "ttl"] = "tsv",
    split: Literal["train", "valid", "test"] | None = Query(None, description="Only this part; all parts without."),
) -> FileResponse:
    """All beliefs that the knowledge base holds, or the known facts of a model folder."""

    def work() -> Path:
        folder = Path(tempfile.mkdtemp(prefix="doxa-export-"))
        path = folder / f"beliefs{FORMATS[format][1][0]}"
        try:
            formats.write(parts.source.beliefs(split), path)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        return path

    path = await parts.slow.run(work)
    return FileResponse(
        path, media_type=TYPES[format], filename=path.name, background=BackgroundTask(_remove, path),
        headers={"Cache-Control": "no-store"},
    )  # fmt: skip


def _remove(path: Path) -> None:
    shutil.rmtree(path.parent, ignore_errors=True)
