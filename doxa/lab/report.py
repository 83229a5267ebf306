"""Tables of results: the paper's figures and ours side by side, in Markdown."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

from doxa.lab import paper
from doxa.lab.experiments import every, result, runs

SYSTEMS = ("transe", "transm", "transh", "jrme", "pbe")
NAMES = {"transe": "TransE", "transm": "TransM", "transh": "TransH", "jrme": "JRME", "pbe": "PBE"}

Results = dict[str, list[dict[str, Any]]]


def results(out: Path) -> Results:
    """What was found, by experiment, one for each seed that was run."""
    found: Results = {}
    for run in runs(every()):
        one = result(run, out)
        if one is not None:
            found.setdefault(run.name, []).append(one)
    return found


def entity(found: dict[str, Any]) -> paper.Figures:
    """The columns of Tables 2 to 4."""
    part = found["evaluation"].get("entity")
    if part is None:
        return (None,) * 4
    raw, filtered = part["raw"], part["filtered"]
    return raw["mr"], filtered["mr"], 100 * raw["hits@10"], 100 * filtered["hits@10"]


def relation(found: dict[str, Any]) -> paper.Figures:
    """The columns of Table 5."""
    part = found["evaluation"].get("relation")
    return (
        (None,) * 3 if part is None else (part["raw"]["mr"], 100 * part["raw"]["hits@10"], 100 * part["raw"]["hits@1"])
    )


def classification(found: dict[str, Any]) -> paper.Figures:
    """The column of Table 6."""
    part = found["evaluation"].get("classification")
    return (None if part is None else 100 * part["accuracy"],)


def more(found: dict[str, Any]) -> paper.Figures:
    """What later work reports: filtered MRR of entities, filtered Hits@1 of relations."""
    evaluation = found["evaluation"]
    return (
        evaluation["entity"]["filtered"]["mrr"] if "entity" in evaluation else None,
        100 * evaluation["relation"]["filtered"]["hits@1"] if "relation" in evaluation else None,
    )


Measure = Callable[[dict[str, Any]], paper.Figures]


def over_seeds(found: Iterable[dict[str, Any]], measure: Measure) -> list[tuple[float, float, int] | None]:
    """Mean, spread (standard deviation) and number of runs of every column."""
    columns = zip(*(measure(one) for one in found), strict=True)
    return [
        None if None in column else (float(np.mean(column)), float(np.std(column)), len(column)) for column in columns
    ]


def cell(figure: tuple[float, float, int] | None, digits: int = 1) -> str:
    """A figure, with its spread where there are several runs."""
    if figure is None:
        return "–"
    mean, spread, count = figure
    return f"{mean:,.{digits}f}" + (f" ± {spread:.{digits}f}" if count > 1 else "")


def compared(ours: tuple[float, float, int] | None, theirs: float | None, column: str) -> str:
    """Our figure, marked ✓ where it is at or above the paper's and ✗ where it is not."""
    if ours is None or theirs is None:
        return cell(ours)
    digits = 0 if theirs >= 100 and column in paper.SMALL_IS_GOOD else 1
    mean = round(ours[0], digits)
    good = mean <= theirs if column in paper.SMALL_IS_GOOD else mean >= theirs
    return f"{cell(ours, digits)} {'✓' if good else '✗'}"


def table(title: str, columns: Iterable[str], rows: Iterable[tuple[str, Iterable[str]]]) -> str:
    """Markdown."""
    columns = list(columns)
    lines = [f"| {title} | " + " | ".join(columns) + " |", "|" + "---|" * (len(columns) + 1)]
    return "\n".join(lines + [f"| {name} | " + " | ".join(cells) + " |" for name, cells in rows])


def beside(
    found: Results, title: str, columns: tuple[str, ...], theirs: dict[str, paper.Figures], names: dict[str, str],
    measure: Measure,
) -> str:  # fmt: skip
    """The paper's line above ours, system by system; `names` are the experiments of the systems."""
    rows: list[tuple[str, Iterable[str]]] = []
    for system in SYSTEMS:
        figures = theirs.get(system)
        if figures is not None:
            rows.append((f"{NAMES[system]}, paper", [f"{figure:,}" for figure in figures if figure is not None]))
        ours = over_seeds(found.get(names.get(system, ""), []), measure)
        if any(ours):
            against = figures or (None,) * len(columns)
            cells = [compared(*pair) for pair in zip(ours, against, columns, strict=True)]
            rows.append((f"**{NAMES[system]}, here**", cells))
    return table(title, columns, rows)


def ours(found: Results, title: str, columns: tuple[str, ...], names: dict[str, str], measure: Measure,
         digits: tuple[int, ...] = ()) -> str:  # fmt: skip
    """Our lines alone; the best of each column is in bold."""
    rows = {name: over_seeds(found[experiment], measure) for name, experiment in names.items() if experiment in found}
    digits = digits or (1,) * len(columns)
    said: list[tuple[str, Iterable[str]]] = []
    for name, figures in rows.items():
        cells = []
        for place, figure in enumerate(figures):
            text = cell(figure, digits[place])
            others = [row[place][0] for row in rows.values() if row[place] is not None]  # type: ignore[index]
            if figure is not None and len(others) > 1:
                best = min(others) if columns[place] in paper.SMALL_IS_GOOD else max(others)
                text = f"**{text}**" if figure[0] == best else text
            cells.append(text)
        said.append((name, cells))
    return table(title, columns, said)


def time(found: Results, names: Iterable[str]) -> str:
    """How long each of them trained."""
    said = []
    for name in names:
        for one in found.get(name, [])[:1]:
            settings = one["experiment"]["settings"]
            cores = max(settings.get("workers", 1), settings.get("threads", 1))
            said.append(f"{name} {one['training']['seconds']:.0f} s on {cores} core{'s' if cores > 1 else ''}")
    return "Training: " + ", ".join(said) + "."
