"""Figures of benchmarks, with the machine and the versions they were made with."""

from __future__ import annotations

import os
import platform
import resource
import sys
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

import polars as pl

from doxa import __version__
from doxa.data.results import Result


@dataclass(frozen=True)
class Figure:
    """One measurement. `limit` is that of the machine alone, in the same unit; `note` has the conditions."""

    name: str
    value: float
    unit: str
    limit: float | None = None
    note: str = ""

    @property
    def share(self) -> float | None:
        """Fraction of the limit that is reached: value / limit for speeds, limit / value for times."""
        if self.limit is None:
            return None
        return self.value / self.limit if self.unit.endswith("/s") else self.limit / self.value


@dataclass(frozen=True)
class Bench(Result):
    """Measurements, with the machine and the versions they were made with."""

    figures: tuple[Figure, ...]
    machine: dict[str, Any] = field(default_factory=lambda: machine())

    def __repr__(self) -> str:
        return f"Bench({len(self.figures)} figures, {self.machine['processor']}, {self.machine['cores']} cores)"

    def to_frame(self) -> pl.DataFrame:
        schema = {"name": pl.String, "value": pl.Float64, "unit": pl.String, "limit": pl.Float64, "note": pl.String,
                  "share": pl.Float64}  # fmt: skip
        return pl.DataFrame(self.as_dict()["figures"], schema=schema)

    def as_dict(self) -> dict[str, Any]:
        return {"figures": [asdict(figure) | {"share": figure.share} for figure in self.figures], **self.machine}


def machine() -> dict[str, Any]:
    """Processor, number of cores, and package versions."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        name = next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        name = platform.processor() or platform.machine()
    versions = {"doxa": __version__, "python": platform.python_version()}
    versions |= {package: version(package) for package in ("torch", "numpy", "polars")}
    return {"processor": name, "cores": os.cpu_count(), "versions": versions}


def peak_mb() -> float:
    """Peak memory of this process. In a child process, getrusage would include the parent's memory at the fork."""
    try:
        lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:")) / 1024
    except (OSError, StopIteration):
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1024 if sys.platform != "darwin" else 2**20)
