"""Tables of results in Markdown: the figures of the paper and ours side by side."""

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
"""Experiment → the results of its runs, one per seed."""

Measure = Callable[[dict[str, Any]], paper.Figures]
"""Result of a run → the figures of a table row."""

Average = tuple[float, float, int]
"""Mean, standard deviation and number of runs."""


def results(out: Path) -> Results:
    """All stored results, by experiment."""
    by_name: Results = {}
    for run in runs(every()):
        stored = result(run, out)
        if stored is not None:
            by_name.setdefault(run.name, []).append(stored)
    return by_name


def entity(one: dict[str, Any]) -> paper.Figures:
    """The columns of Tables 2 to 4."""
    part = one["evaluation"].get("entity")
    if part is None:
        return (None,) * 4
    raw, filtered = part["raw"], part["filtered"]
    return raw["mr"], filtered["mr"], 100 * raw["hits@10"], 100 * filtered["hits@10"]


def relation(one: dict[str, Any]) -> paper.Figures:
    """The columns of Table 5."""
    part = one["evaluation"].get("relation")
    if part is None:
        return (None,) * 3
    return part["raw"]["mr"], 100 * part["raw"]["hits@10"], 100 * part["raw"]["hits@1"]


def classification(one: dict[str, Any]) -> paper.Figures:
    """The column of Table 6."""
    part = one["evaluation"].get("classification")
    return (None if part is None else 100 * part["accuracy"],)


def filtered_metrics(one: dict[str, Any]) -> paper.Figures:
    """The metrics of later work: filtered MRR of entities, filtered Hits@1 of relations."""
    evaluation = one["evaluation"]
    return (
        evaluation["entity"]["filtered"]["mrr"] if "entity" in evaluation else None,
        100 * evaluation["relation"]["filtered"]["hits@1"] if "relation" in evaluation else None,
    )


def over_seeds(seed_results: Iterable[dict[str, Any]], measure: Measure) -> list[Average | None]:
    """Mean, standard deviation and number of runs of every column."""
    columns = zip(*(measure(one) for one in seed_results), strict=True)
    return [
        None if None in column else (float(np.mean(column)), float(np.std(column)), len(column)) for column in columns
    ]


def cell(figure: Average | None, digits: int = 1) -> str:
    """A mean, with its standard deviation if there are several runs."""
    if figure is None:
        return "–"
    mean, spread, count = figure
    return f"{mean:,.{digits}f}" + (f" ± {spread:.{digits}f}" if count > 1 else "")


def compared(ours: Average | None, theirs: float | None, column: str) -> str:
    """Our figure, marked ✓ if it is as good as the paper's and ✗ if it is not."""
    if ours is None or theirs is None:
        return cell(ours)
    digits = 0 if theirs >= 100 and column in paper.SMALL_IS_GOOD else 1
    mean = round(ours[0], digits)
    good = mean <= theirs if column in paper.SMALL_IS_GOOD else mean >= theirs
    return f"{cell(ours, digits)} {'✓' if good else '✗'}"


def table(title: str, columns: Iterable[str], rows: Iterable[tuple[str, Iterable[str]]]) -> str:
    """A Markdown table."""
    columns = list(columns)
    lines = [f"| {title} | " + " | ".join(columns) + " |", "|" + "---|" * (len(columns) + 1)]
    return "\n".join(lines + [f"| {name} | " + " | ".join(cells) + " |" for name, cells in rows])


def beside(
    results: Results, title: str, columns: tuple[str, ...], theirs: dict[str, paper.Figures], names: dict[str, str],
    measure: Measure,
) -> str:  # fmt: skip
    """For each system, the row of the paper above ours; `names` maps a system to its experiment."""
    rows: list[tuple[str, Iterable[str]]] = []
    for system in SYSTEMS:
        figures = theirs.get(system)
        if figures is not None:
            rows.append((f"{NAMES[system]}, paper", [f"{figure:,}" for figure in figures if figure is not None]))
        ours = over_seeds(results.get(names.get(system, ""), []), measure)
        if any(ours):
            against = figures or (None,) * len(columns)
            cells = [compared(*pair) for pair in zip(ours, against, columns, strict=True)]
            rows.append((f"**{NAMES[system]}, here**", cells))
    return table(title, columns, rows)


def ours(results: Results, title: str, columns: tuple[str, ...], names: dict[str, str], measure: Measure,
         digits: tuple[int, ...] = ()) -> str:  # fmt: skip
    """Our rows alone; the best figure of each column is in bold."""
    averages = {name: over_seeds(results[full], measure) for name, full in names.items() if full in results}
    digits = digits or (1,) * len(columns)
    rows: list[tuple[str, Iterable[str]]] = []
    for name, figures in averages.items():
        cells = []
        for place, figure in enumerate(figures):
            text = cell(figure, digits[place])
            others = [row[place][0] for row in averages.values() if row[place] is not None]  # type: ignore[index]
            if figure is not None and len(others) > 1:
                best = min(others) if columns[place] in paper.SMALL_IS_GOOD else max(others)
                text = f"**{text}**" if figure[0] == best else text
            cells.append(text)
        rows.append((name, cells))
    return table(title, columns, rows)


def time(results: Results, names: Iterable[str]) -> str:
    """The training time of each experiment, first seed."""
    parts = []
    for name in names:
        for one in results.get(name, [])[:1]:
            settings = one["experiment"]["settings"]
            cores = max(settings.get("workers", 1), settings.get("threads", 1))
            parts.append(f"{name} {one['training']['seconds']:.0f} s on {cores} core{'s' if cores > 1 else ''}")
    return "Training: " + ", ".join(parts) + "."
