"""Run the fault harness: `python -m tests.faults [PART]… [--scale 1] [--seed N] [--json FILE]`; without parts, all."""

import argparse
import json
import os
import random
import signal
import sys
import time
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before numpy is imported: threads of OpenMP do not survive a fork

from tests.faults import folders, forks, kills, readers, reviewers, server, store, tools, trials, writes

SHORT = 0.002
"""Below this scale, writes of the first three commands fail, not of all."""


def main():
    """Run the parts that are named, or all; exit with 1 where anything did not hold."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"any of {', '.join(PARTS)}; all by default")
    parser.add_argument("--scale", type=float, default=1.0, help="share of the full number of trials")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    parser.add_argument("--model", type=Path, help="folder of a large model for server, which must be ready in time")
    parser.add_argument("--commands", nargs="+", metavar="COMMAND", help="those of writes alone; all by default")
    parser.add_argument("--json", type=Path, help="file for the figures")
    options = parser.parse_args()
    parts, scale, seed = options.parts or list(PARTS), options.scale, options.seed
    unknown = sorted(set(parts) - set(PARTS))
    if unknown:
        parser.error(f"no part {unknown[0]!r}; expected {', '.join(PARTS)}")
    unknown = sorted(set(options.commands or ()) - set(trials.WRITING))
    if unknown:
        parser.error(f"no command {unknown[0]!r}; expected {', '.join(trials.WRITING)}")
    print(f"seed {seed}, scale {scale:g}", flush=True)
    tools.import_everything()
    tools.warm_up()
    faults, figures = [], {}
    for part in (name for name in PARTS if name in parts):
        began, used = time.monotonic(), tools.processor_seconds()
        special = {"server": {"model": options.model}, "writes": {"names": options.commands}}.get(part, {})
        more, figures[part] = PARTS[part](scale, seed, **special)
        seconds = {"seconds": time.monotonic() - began, "processor_seconds": tools.processor_seconds() - used}
        figures[part] = figures[part] | {"faults": len(more)} | {name: round(value) for name, value in seconds.items()}
        faults += more
        if options.json is not None:
            from doxa.lab.figures import machine

            content = {"seed": seed, "scale": scale, "parts": figures, **machine()}
            options.json.parent.mkdir(parents=True, exist_ok=True)
            options.json.write_text(json.dumps(content, indent=1) + "\n")
    for fault in faults:
        print(f"FAULT {fault}")
    print(f"{len(faults)} faults")
    return 1 if faults else 0


def _number(full, scale):
    return max(1, round(full * scale))


def _kills(scale, seed):
    return kills.run(_number(1000, scale), seed)


def _signals(scale, seed):
    faults, figures = [], {}
    for number in (signal.SIGTERM, signal.SIGINT):
        more, figures[number.name] = kills.run(_number(100, scale), seed, number=number)
        faults += more
    return faults, figures


def _folders(scale, seed):
    return folders.run(_number(3000, scale), _number(3000, scale), seed)


def _store(scale, seed):
    with tools.scratch() as folder, store.places(folder) as places:
        return store.run(places, folder, max(3, round(store.FULL * scale)), seed)


def _reviewers(scale, seed):
    with tools.scratch() as folder, store.places(folder) as places:
        return reviewers.run(places, folder, max(1.0, reviewers.FULL * scale), seed)


def _server(scale, seed, model):
    with tools.scratch() as folder:
        return server.run(folder / "server", max(2, round(server.FULL * scale)), seed, model)


def _writes(scale, seed, names):
    reason = writes.why_not()
    if reason:
        print(f"failing writes: skipped, {reason}")
        return [], {"skipped": reason}
    names = names or (trials.WRITING if scale >= SHORT else trials.WRITING[:3])
    return writes.run(_number(200, scale), _number(200, scale), seed, names)


def _readers(scale, seed):
    return readers.run(_number(20_000, scale), seed)


def _forks(scale, seed):
    return forks.run(_number(3, scale))


PARTS = {
    "kills": _kills,
    "signals": _signals,
    "folders": _folders,
    "writes": _writes,
    "store": _store,
    "reviewers": _reviewers,
    "server": _server,
    "readers": _readers,
    "forks": _forks,  # the last part: it uses polars and torch in this process
}

if __name__ == "__main__":
    sys.exit(main())
