"""Tables of results in Markdown: the figures of the paper and ours side by side."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from doxa.lab import paper
from doxa.lab.experiments import every, is_current, result, runs
from doxa.lab.studies import chosen
from doxa.systems import recipe

SYSTEMS = ("transe", "transm", "transh", "jrme", "pbe-paper", "pbe")
NAMES = {
    "transe": "TransE", "transm": "TransM", "transh": "TransH", "jrme": "JRME",
    "pbe-paper": "PBE, the paper's algorithm", "pbe": "PBE, as doxa trains it",
}  # fmt: skip

SEEDS = 3
"""Runs of an experiment; a row of fewer says so, and is not compared with the paper."""

DIGITS = {"average rank": 2}
"""Decimal places of a column, where it is not one."""

OUTDATED = "†"
"""Mark of a row whose results are of another version of training, or of other settings than its experiment has now."""

BY_HAND = "‡"
"""Mark of a row whose settings no study on validation beliefs has chosen."""

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
            blind = chosen(run.name, run.experiment["settings"], out.parent / "studies")
            by_name.setdefault(run.name, []).append(stored | {"current": is_current(run, stored), "blind": blind})
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


def classification(rule: str) -> Measure:
    """The column of Table 6 by a decision rule. Results before version 0.2 have one rule, that of their settings."""

    def accuracy(one: dict[str, Any]) -> paper.Figures:
        part, by_rule = one["evaluation"].get("classification"), one["evaluation"].get("classification_by_rule", {})
        if rule in by_rule:
            return (100 * by_rule[rule]["accuracy"],)
        if part is None or by_rule or recipe(one["experiment"]["settings"]).decision_rule != rule:
            return (None,)
        return (100 * part["accuracy"],)

    return accuracy


def filtered_metrics(one: dict[str, Any]) -> paper.Figures:
    """The metrics of later work: filtered MRR of entities, filtered Hits@1 of relations."""
    evaluation = one["evaluation"]
    return (
        evaluation["entity"]["filtered"]["mrr"] if "entity" in evaluation else None,
        100 * evaluation["relation"]["filtered"]["hits@1"] if "relation" in evaluation else None,
    )


def average(column: Sequence[float | None]) -> Average | None:
    """Mean, sample standard deviation and number of figures; None where one is missing."""
    figures = [figure for figure in column if figure is not None]
    if len(figures) < len(column):
        return None
    return float(np.mean(figures)), float(np.std(figures, ddof=1)) if len(figures) > 1 else 0.0, len(figures)


def over_seeds(seed_results: Iterable[dict[str, Any]], measure: Measure) -> list[Average | None]:
    """Mean, sample standard deviation and number of runs of every column."""
    return [average(column) for column in zip(*(measure(one) for one in seed_results), strict=True)]


def label(name: str, seed_results: list[dict[str, Any]]) -> str:
    """The name of a row, with the number of its runs if they are few, and a mark if they are outdated or not blind."""
    few = f" ({len(seed_results)} seed{'s'[: len(seed_results) != 1]})" if len(seed_results) < SEEDS else ""
    mark = OUTDATED if outdated(seed_results) else "" if blind(seed_results) else BY_HAND
    return f"{name}{few}{f' {mark}' if mark else ''}"


def outdated(seed_results: Iterable[dict[str, Any]]) -> bool:
    """Whether a run is of another version of training, or of other settings than its experiment has now."""
    return any(not one.get("current", True) for one in seed_results)


def blind(seed_results: Iterable[dict[str, Any]]) -> bool:
    """Whether a study on validation beliefs chose the settings."""
    return all(one.get("blind", True) for one in seed_results)


def firm(seed_results: list[dict[str, Any]]) -> bool:
    """Whether a row may be compared with the paper: enough seeds, none of them outdated, settings chosen blindly."""
    return len(seed_results) >= SEEDS and not outdated(seed_results) and blind(seed_results)


def cell(figure: Average | None, digits: int = 1) -> str:
    """A mean, with its standard deviation if there are several runs."""
    if figure is None:
        return "–"
    mean, spread, count = figure
    return f"{mean:,.{digits}f}" + (f" ± {spread:.{digits}f}" if count > 1 else "")


def compared(ours: Average | None, theirs: float | None, column: str, is_firm: bool = True) -> str:
    """Our figure, marked ✓ if its mean is as good as the paper's and ✗ if it is not; without a mark unless firm."""
    text = cell(ours, DIGITS.get(column, 1))
    if ours is None or theirs is None or not is_firm:
        return text
    return f"{text} {'✓' if reached(ours, theirs, column) else '✗'}"


def reached(ours: Average, theirs: float, column: str) -> bool:
    """Whether our mean, before it is rounded, is at least as good as the paper's figure."""
    return ours[0] <= theirs if column in paper.SMALL_IS_GOOD else ours[0] >= theirs


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
        figures = theirs.get(system.removesuffix("-paper"))
        if figures is not None and system != "pbe":  # whose row stands above that of its algorithm
            name = NAMES[system].partition(",")[0]
            rows.append((f"{name}, paper", [f"{figure:,}" for figure in figures if figure is not None]))
        seed_results = results.get(names.get(system, ""), [])
        ours = over_seeds(seed_results, measure)
        if any(ours):
            against = figures or (None,) * len(columns)
            cells = [compared(*pair, firm(seed_results)) for pair in zip(ours, against, columns, strict=True)]
            here = NAMES[system] if "," in NAMES[system] else f"{NAMES[system]}, here"
            rows.append((label(f"**{here}**", seed_results), cells))
    return table(title, columns, rows)


def ours(results: Results, title: str, columns: tuple[str, ...], names: dict[str, str], measure: Measure,
         digits: tuple[int, ...] = ()) -> str:  # fmt: skip
    """Our rows alone; the best figure of each column is in bold."""
    averages = {name: over_seeds(results[full], measure) for name, full in names.items() if full in results}
    digits = digits or tuple(DIGITS.get(column, 1) for column in columns)
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
        rows.append((label(name, results[names[name]]), cells))
    return table(title, columns, rows)


def time(results: Results, names: Iterable[str]) -> str:
    """The training time of each experiment, the mean of its runs."""
    parts = []
    for name in names:
        several = results.get(name, [])
        for one in several[:1]:
            settings = one["experiment"]["settings"]
            cores = max(settings.get("workers", 1), settings.get("threads", 1))
            seconds = np.mean([each["training"]["seconds"] for each in several])
            parts.append(f"{label(name, several)} {seconds:.0f} s on {cores} core{'s' if cores > 1 else ''}")
    return "Training, beside other work: " + ", ".join(parts) + "."
