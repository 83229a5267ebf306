"""Run the fault harness: `python -m tests.faults [PART]… [--scale 1] [--seed N] [--json FILE]`; without parts, all."""

import argparse
import json
import platform
import random
import signal
import sys
from pathlib import Path

from tests.faults import folders, forks, kills, readers, reviewers, server, store, tools, writes

SHORT = 0.002
"""Below this scale, writes of the first three commands fail, not of all."""

PARTS = ("kills", "signals", "writes", "folders", "store", "reviewers", "server", "readers", "forks")


def main():
    """Run the parts that are named, or all; exit with 1 where anything did not hold."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"any of {', '.join(PARTS)}; all by default")
    parser.add_argument("--scale", type=float, default=1.0, help="share of the full number of trials")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    parser.add_argument("--model", type=Path, help="folder of a large model for server, which must be ready in time")
    parser.add_argument("--json", type=Path, help="file for the figures of store, reviewers and server")
    options = parser.parse_args()
    parts, scale, seed = options.parts or list(PARTS), options.scale, options.seed
    unknown = sorted(set(parts) - set(PARTS))
    if unknown:
        parser.error(f"no part {unknown[0]!r}; expected {', '.join(PARTS)}")
    print(f"seed {seed}, scale {scale:g}", flush=True)
    tools.import_everything()
    faults = []
    if "kills" in parts:
        faults += kills.run(max(1, round(1000 * scale)), seed)
    if "signals" in parts:
        for number in (signal.SIGTERM, signal.SIGINT):
            faults += kills.run(max(1, round(100 * scale)), seed, number=number)
    if "folders" in parts:
        faults += folders.run(max(1, round(3000 * scale)), max(1, round(3000 * scale)), seed)
    if "writes" in parts:
        faults += _writes(scale, seed)
    faults += _store(parts, scale, seed, options)
    if "readers" in parts:
        faults += readers.run(max(1, round(20_000 * scale)), seed)
    if "forks" in parts:  # the last part: it uses polars and torch in this process
        faults += forks.run(max(1, round(3 * scale)))
    for fault in faults:
        print(f"FAULT {fault}")
    print(f"{len(faults)} faults")
    return 1 if faults else 0


def _store(parts, scale, seed, options):
    """Kills and reviewers of a store, on each database, and kills of a server; their figures go to a file."""
    faults, figures = [], {"seed": seed, "python": platform.python_version(), "machine": platform.machine()}
    if "server" in parts:
        with tools.scratch() as folder:
            count = max(2, round(server.FULL * scale))
            faults, figures["server"] = server.run(folder / "server", count, seed, options.model)
    if {"store", "reviewers"} & set(parts):
        faults += _store_alone(parts, scale, seed, figures)
    if options.json is not None and len(figures) > 3:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(figures, indent=1) + "\n")
    return faults


def _store_alone(parts, scale, seed, figures):
    faults = []
    with tools.scratch() as folder, store.places(folder) as places:
        if "store" in parts:
            more, figures["kills"] = store.run(places, folder, max(3, round(store.FULL * scale)), seed)
            faults += more
        if "reviewers" in parts:
            more, figures["review"] = reviewers.run(places, folder, max(1.0, reviewers.FULL * scale), seed)
            faults += more
    return faults


def _writes(scale, seed):
    reason = writes.why_not()
    if reason:
        print(f"failing writes: skipped, {reason}")
        return []
    code = writes.with_shim(["writes", "--scale", str(scale), "--seed", str(seed)])
    if code is None:
        names = writes.NAMES if scale >= SHORT else writes.NAMES[:3]
        return writes.run(max(1, round(200 * scale)), max(1, round(200 * scale)), seed, names)
    return [] if code == 0 else ["failing writes: see above"]


if __name__ == "__main__":
    sys.exit(main())
