"""Which experiments belong to which table of the paper."""

from __future__ import annotations

from collections.abc import Iterable

from doxa.errors import UsageError, did_you_mean
from doxa.lab.experiments import every
from doxa.lab.report import SYSTEMS

STAND_INS = ("nell", "biomed", "webnlg")
"""Datasets in place of NELL-50K."""

FB15K = {system: f"fb15k-{system}" for system in SYSTEMS} | {"pbe": "fb15k-pbe-translation"}
SHARP, COMPLEX = "fb15k-pbe-translation-sharp", "fb15k-pbe-complex"
PUBLISHED = {system: f"wn11-{system}-published" for system in SYSTEMS}
LABELED = ("unstructured", "se", "slm", "bilinear", "ntn", "transe", "transm", "transh", "pbe")
"""Systems run on the labels of WN11."""

TABLES: dict[str, tuple[str, ...]] = {
    "table1": ("nell-pbe", "wn11-pbe", FB15K["pbe"]),
    "table2": tuple(f"nell-{system}" for system in SYSTEMS),
    "table3": tuple(PUBLISHED.values()),
    "table4": (*FB15K.values(), SHARP, COMPLEX),
    "table5": (
        *FB15K.values(),
        COMPLEX,
        *PUBLISHED.values(),
        *(f"{data}-{system}" for data in STAND_INS for system in SYSTEMS),
    ),
    "table6": (*FB15K.values(), SHARP, *PUBLISHED.values(), *(f"wn11-{system}" for system in LABELED)),
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
