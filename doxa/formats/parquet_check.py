"""Decode Parquet files in a separate process, because a damaged file can end the process that decodes it.

Run as a script; it imports nothing of doxa, so that it starts fast. For each file it reads a line of JSON with the path
and a bound on memory, writes the columns and the number of rows, reads the columns to decode, and writes the number of
decoded rows.
"""

from __future__ import annotations

import json
import sys
from typing import Any

ROWS = 250_000
"""Rows per block."""


def main() -> None:
    """Answer on standard output until the input ends; an error of a file is a line with the key `fault`."""
    import polars as pl

    for line in sys.stdin:
        path, memory = json.loads(line)
        _limit(memory)
        try:
            frame = pl.scan_parquet(path, glob=False)
            schema = frame.collect_schema()
            _say(
                columns={name: str(kind) for name, kind in schema.items()},
                nested=[name for name, kind in schema.items() if kind.is_nested()],
                rows=frame.select(pl.len()).collect().item(),
            )
            selection = json.loads(sys.stdin.readline())
            if selection is None:
                continue
            texts, numbers = selection
            wanted = frame.select(*(pl.col(name).cast(pl.String) for name in texts), *map(pl.col, numbers))
            _say(decoded=sum(map(len, wanted.collect_batches(maintain_order=True, chunk_size=ROWS))))
        except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError, MemoryError) as fault:
            _say(fault=str(fault).partition("\n")[0][:120])


def _limit(memory: int) -> None:
    """Let allocations beyond this many bytes fail, on systems that can."""
    try:
        import resource

        resource.setrlimit(resource.RLIMIT_DATA, (memory, resource.RLIM_INFINITY))
    except (ImportError, AttributeError, ValueError, OSError):
        pass


def _say(**message: Any) -> None:
    print(json.dumps(message), flush=True)


if __name__ == "__main__":
    main()
