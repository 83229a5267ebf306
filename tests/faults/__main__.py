"""Run the fault harness: `python -m tests.faults [PART]… [--scale 1] [--seed N]`; without parts, all of it."""

import argparse
import importlib.util
import random
import signal
import sys

from tests.faults import folders, kills, tools, writes

SHORT = 0.002
"""Below this scale, writes of the first three commands fail, not of all."""

PARTS = ("kills", "signals", "writes", "folders", "readers", "forks")


def main():
    """Run the parts that are named, or all; exit with 1 where anything did not hold."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"any of {', '.join(PARTS)}; all by default")
    parser.add_argument("--scale", type=float, default=1.0, help="share of the full number of trials")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
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
    for name in ("readers", "forks"):
        if name in parts and importlib.util.find_spec(f"tests.faults.{name}"):
            faults += importlib.import_module(f"tests.faults.{name}").run(scale, seed)
    for fault in faults:
        print(f"FAULT {fault}")
    print(f"{len(faults)} faults")
    return 1 if faults else 0


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
