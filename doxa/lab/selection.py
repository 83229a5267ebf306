"""Which experiments belong to which table of the paper."""

from __future__ import annotations

from collections.abc import Iterable

from doxa.errors import UsageError, did_you_mean
from doxa.lab.experiments import every
from doxa.lab.report import SYSTEMS

STAND_INS = ("nell", "biomed", "webnlg")
"""Datasets in place of NELL-50K."""

FB15K = {system: f"fb15k-{system}" for system in SYSTEMS}
PUBLISHED = {system: f"wn11-{system}-published" for system in SYSTEMS}
COMPARED = {"WN-100K": PUBLISHED, "FB-500K": FB15K}
"""The experiments of each system, by the dataset of the paper that they repeat."""

COMPLEX, SMOOTHING = "fb15k-pbe-complex", "wn11-smoothing-alone"

LABELED = ("unstructured", "se", "slm", "bilinear", "ntn", "transe", "transm", "transh", "pbe-paper", "pbe")
"""Systems run on the labels of WN11."""

_STAND_IN_RUNS = tuple(f"{data}-{system}" for data in STAND_INS for system in SYSTEMS)

TABLES: dict[str, tuple[str, ...]] = {
    "table1": ("nell-pbe", "wn11-pbe", FB15K["pbe"]),
    "table2": tuple(f"nell-{system}" for system in SYSTEMS),
    "table3": tuple(PUBLISHED.values()),
    "table4": (*FB15K.values(), COMPLEX),
    "table5": (*FB15K.values(), *PUBLISHED.values(), *_STAND_IN_RUNS),
    "table6": tuple(
        name
        for name in (*FB15K.values(), *PUBLISHED.values(), *_STAND_IN_RUNS, *(f"wn11-{system}" for system in LABELED))
        if "jrme" not in name
    ),
}
"""The experiments behind each table of the paper."""


def experiments_of(names: Iterable[str]) -> list[str]:
    """The experiments meant by names of experiments and tables, `all`, and beginnings such as `fb15k-*`."""
    known = list(every())
    experiments: list[str] = []
    for name in names:
        if name.endswith("*"):
            meant: Iterable[str] = [full for full in known if full.startswith(name[:-1])]
        else:
            meant = known if name == "all" else TABLES.get(name, (name,) if name in known else ())
        if not meant:
            what = f"no experiment begins with {name[:-1]!r}" if name.endswith("*") else f"no experiment {name!r}"
            near = did_you_mean(name.rstrip("*"), ["all", *TABLES, *known])
            raise UsageError(f"{what}.{near}", "doxa.lab.experiments.every() lists them all", remedy="list_experiments")
        experiments += meant
    return list(dict.fromkeys(experiments))
