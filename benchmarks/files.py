"""Speed of inspecting and converting belief files: `python benchmarks/files.py [BELIEFS] [--json FILE]`.

Each command runs in a separate process on generated beliefs. Printed are elapsed seconds, processor seconds, beliefs
per processor second, and peak memory.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from pathlib import Path

from doxa.lab.bench import machine

STEPS = {
    "generate TSV": "generate ten.tsv --beliefs {beliefs} --entities {entities} --relations 1000",
    "inspect TSV": "inspect ten.tsv --json",
    "TSV to Parquet": "convert ten.tsv ten.parquet",
    "Parquet to TSV": "convert ten.parquet back.tsv",
    "TSV to N-Triples": "convert ten.tsv ten.nt",
    "N-Triples to Parquet": "convert ten.nt back.parquet",
}


def measured(command: list[str], folder: Path) -> tuple[float, float, float]:
    """Elapsed seconds, processor seconds, peak memory in MB."""
    began = time.perf_counter()
    child = os.fork()
    if child == 0:
        os.chdir(folder)
        silent = os.open(os.devnull, os.O_WRONLY)
        os.dup2(silent, 1)
        os.execv(sys.executable, [sys.executable, "-c", "from doxa.cli import main; main()", "data", *command])
    _, status, used = os.wait4(child, 0)
    if status:
        raise SystemExit(f"failed: doxa data {' '.join(command)}")
    return time.perf_counter() - began, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024


def main() -> None:
    """Run every step and print a line for each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("beliefs", type=int, nargs="?", default=10_000_000)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for name, step in STEPS.items():
            command = step.format(beliefs=arguments.beliefs, entities=max(arguments.beliefs // 10, 100)).split()
            clock, processor, peak = measured(command, Path(folder))
            rows.append(
                {
                    "step": name,
                    "seconds": round(clock, 1),
                    "processor_seconds": round(processor, 1),
                    "beliefs_per_processor_second": round(arguments.beliefs / processor),
                    "peak_mb": round(peak),
                }
            )
            speed = arguments.beliefs / processor
            print(f"{name:<22}{clock:8.1f} s{processor:8.1f} s processor time{speed:12,.0f} beliefs/s{peak:8,.0f} MB",
                  flush=True)  # fmt: skip
    load = os.getloadavg()[0]
    print(f"{arguments.beliefs:,} beliefs; system load at the end {load:.1f}; {machine()['processor']}")
    if arguments.json:
        figures = {"beliefs": arguments.beliefs, "steps": rows, "load": load, **machine()}
        arguments.json.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
