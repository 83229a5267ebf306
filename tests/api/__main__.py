"""Send the server requests that schemathesis makes from its OpenAPI document: `python -m tests.api [--cases 10000]`.

Half of the cases go to a knowledge base with the token of an admin, half to a model folder. A response fails with a
status of 500 or more, with a status, media type or body that the document does not describe, and where a request that
does not fit the document is accepted.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from pathlib import Path

TOKEN = "t" * 43
HEADERS = {"Authorization": f"Bearer {TOKEN}"}

CHECKS = ",".join((
    "not_a_server_error", "status_code_conformance", "content_type_conformance", "response_headers_conformance",
    "response_schema_conformance", "negative_data_rejection", "missing_required_header", "unsupported_method",
))  # fmt: skip

HERE = Path(__file__).parent

LOOK = 0.2
"""Seconds between two looks for jobs to cancel: the events of a job that waits for others have no end."""

SERVE = "from doxa.cli import main; main()"


def prepare(folder: Path) -> None:
    """A model of the board, and a knowledge base with that model and a review queue."""
    import polars as pl

    from doxa.data.beliefs import Beliefs
    from doxa.storage.store.knowledge_base import KnowledgeBase
    from tests.worlds import board, board_model

    model, _ = board_model(6, share=0.6, valid=0.3)
    model.calibrate(Beliefs.from_triples(model.vocabularies, model.valid)).save(folder / "board")
    kb = KnowledgeBase.create(folder / "kb.db", valid=0.2, test=0.2, curator="owner")
    kb.import_beliefs(board(6), source="board")
    kb.models.register(folder / "board", kb.snapshot())
    rows = [(f"{x},{y}", "right", f"{y},{x}", 0.9) for x in range(6) for y in range(6)]
    kb.queue.propose(pl.DataFrame(rows, schema=["head", "relation", "tail", "credence"], orient="row"), "missing")
    kb.close()


@contextlib.contextmanager
def served(path: Path):
    """The address of a server of this path, in a process of its own."""
    run = [sys.executable, "-c", SERVE, "serve", str(path), "--port", "0", "--token", TOKEN]
    server = subprocess.Popen(run, stdout=subprocess.PIPE, text=True, env=os.environ | {"OMP_NUM_THREADS": "1"})
    try:
        address = re.search(r"http://[\d.]+:\d+", server.stdout.readline())[0]
        while True:
            with contextlib.suppress(OSError):
                urllib.request.urlopen(f"{address}/readyz", timeout=30).close()
                break
            time.sleep(0.1)
        yield address
    finally:
        server.terminate()
        server.communicate()


def canceling(address: str, ended: threading.Event) -> None:
    """Cancel all jobs that wait, again and again."""

    def called(path: str, method: str):
        request = urllib.request.Request(f"{address}/api/v1/{path}", headers=HEADERS, method=method)
        with urllib.request.urlopen(request, timeout=30) as response:
            return json.load(response)

    while not ended.wait(LOOK):
        for job in called("jobs", "GET")["jobs"]:
            if job["state"] == "waiting":
                called(f"jobs/{job['id']}/cancel", "POST")


def sent(address: str, examples: int, phases: str, seed: int, report: Path) -> tuple[int, bool]:
    """Run schemathesis once: how many cases it sent, and whether all of them passed."""
    run = [
        sys.executable, "-m", "schemathesis.cli", "--config-file", str(HERE / "schemathesis.toml"), "--no-color",
        "run", f"{address}/api/v1/openapi.json",
        "--header", f"Authorization: Bearer {TOKEN}", "--checks", CHECKS, "--max-examples", str(examples),
        "--seed", str(seed), "--phases", phases, "--request-timeout", "60", "--warnings", "off",
        "--continue-on-failure", "--report", "json", "--report-json-path", str(report),
    ]  # fmt: skip
    ended = subprocess.run(run, check=False, cwd=HERE.parents[1])
    return json.loads(report.read_text())["test_cases"]["generated"], ended.returncode == 0


def main() -> int:
    """Send the cases; exit with 1 where a response failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=2000, help="number of requests, to both servers together")
    parser.add_argument("--examples", type=int, default=20, help="random requests per route and round")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    total, passed = 0, True
    with tempfile.TemporaryDirectory(prefix="doxa-api-") as name:
        folder = Path(name)
        prepare(folder)
        for part, path in enumerate((folder / "kb.db", folder / "board"), start=1):
            with served(path) as address:
                ended = threading.Event()
                jobs = threading.Thread(target=canceling, args=(address, ended), daemon=True)
                if path.suffix == ".db":
                    jobs.start()
                seed, phases = options.seed, "examples,coverage,fuzzing"
                while passed and total < options.cases * part // 2:
                    count, passed = sent(address, options.examples, phases, seed, folder / "report.json")
                    total, seed, phases = total + count, seed + 1, "fuzzing"
                ended.set()
    print(f"{total:,} cases, {'no fault' if passed else 'FAULTS'}", flush=True)
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
