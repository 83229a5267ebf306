"""The top of docs/results.md: how many of the paper's figures are reached, and where its order of systems comes out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import NamedTuple

from doxa.lab import paper
from doxa.lab.report import (
    BY_HAND,
    DIGITS,
    NAMES,
    OUTDATED,
    Average,
    Measure,
    Results,
    cell,
    classification,
    entity,
    firm,
    label,
    outdated,
    over_seeds,
    reached,
    relation,
    table,
)
from doxa.lab.selection import COMPARED


class Column(NamedTuple):
    """A column of a table of the paper: its figures by system, ours, and the runs that ours come from."""

    where: str
    name: str
    theirs: dict[str, float]
    ours: dict[str, Average]
    seeds: Results


PBE = ("pbe-paper", "pbe")


def columns(results: Results) -> Iterator[Column]:
    """Every column of Tables 3 to 6 on datasets that are at hand."""
    parts: tuple[tuple[str, tuple[str, ...], dict[str, dict[str, paper.Figures]], Measure], ...] = (
        ("entities", paper.ENTITY, paper.ENTITY_INFERENCE, entity),
        ("relations (Table 5)", paper.RELATION, paper.RELATION_PREDICTION, relation),
        ("classification (Table 6)", paper.CLASSIFICATION, paper.TRIPLET_CLASSIFICATION, classification("product")),
    )
    for data, names in COMPARED.items():
        seeds = {system: results[name] for system, name in names.items() if name in results}
        for title, columns, theirs, measure in parts:
            where = f"{data}, {title}" + ("" if "Table" in title else f" (Table {3 if data == 'WN-100K' else 4})")
            averages = {system: over_seeds(several, measure) for system, several in seeds.items()}
            for place, column in enumerate(columns):
                figures = {system: row[place] for system, row in theirs[data].items()}
                ours = {system: row[place] for system, row in averages.items()}
                yield Column(
                    where,
                    column,
                    {system: figure for system, figure in figures.items() if figure is not None},
                    {system: average for system, average in ours.items() if average is not None},
                    seeds,
                )


def summary(results: Results) -> str:
    """How many of the paper's figures of PBE are reached, by the literal algorithm and by doxa's training."""
    counts: dict[str, dict[str, list[bool]]] = {}
    for column in columns(results):
        row = counts.setdefault(column.where, {system: [] for system in PBE})
        for system in PBE:
            if system in column.ours and firm(column.seeds[system]):
                row[system].append(reached(column.ours[system], column.theirs["pbe"], column.name))

    def share(system: str, wheres: Sequence[str]) -> str:
        marks = [mark for where in wheres for mark in counts[where][system]]
        return f"{sum(marks)} of {len(marks)}" if marks else "not run yet"

    rows = [(where, [share(system, (where,)) for system in PBE]) for where in counts]
    rows.append(("**together**", [f"**{share(system, list(counts))}**" for system in PBE]))
    parts = [
        "## Summary",
        "Figures of the paper's PBE that are reached: the mean of three seeds, by blind settings, is at least as good.",
        table("", [NAMES[system] for system in PBE], rows),
        DIFFERENCES,
        order(results),
        *([NOTE] if any(outdated(several) for several in results.values()) else []),
    ]
    return "\n\n".join(part for part in parts if part)


DIFFERENCES = """*The paper's algorithm* is `--system pbe-paper`: k negatives drawn for each belief, logistic estimates,
SGD, scale 1. *As doxa trains it* is `--system pbe --score translation`: a softmax over the truth and candidates that a
batch shares, Adagrad, a scale and a weight of the relation term chosen on valid. Other settings beyond the paper may be
chosen on valid, too: unit entity vectors, a cap on queries with many answers, and a start from entity vectors averaged
over the graph (`graph_smoothing`). The score, the tasks and the decision rules are the same."""

NOTE = f"""{OUTDATED} marks rows of an earlier version of training, or of other settings than their experiment has now.
They stand until they are run again (`doxa reproduce all --outdated --data DIR`). {BY_HAND} marks rows whose settings no
study has chosen. Neither are counted above: on FB15k and WN11 their settings were chosen by hand with test figures in
view."""


def order(results: Results) -> str:
    """Where the paper's order of systems does not come out, of the rows that may be compared."""
    pairs, others, beaten = 0, 0, list[str]()
    reversed_pairs: dict[str, list[str]] = {}
    for column in columns(results):
        where, theirs, ours = column.where.partition(" (")[0], column.theirs, column.ours
        sign = 1 if column.name in paper.SMALL_IS_GOOD else -1
        shared = [system for system in theirs if system in ours]
        fit = [system for system in shared if firm(column.seeds[system])]
        others += len(list(combinations(shared, 2))) - len(list(combinations(fit, 2)))
        for one, other in combinations(fit, 2):
            pairs += 1
            if (theirs[one] - theirs[other]) * (ours[one][0] - ours[other][0]) < 0:
                reversed_pairs.setdefault(f"{NAMES[one]} and {NAMES[other]}", []).append(f"{where}, {column.name}")
        if "pbe" in fit and len(fit) > 1:
            best = min(fit, key=lambda system: sign * ours[system][0])
            if best != "pbe":
                both = f"{_figure(column, best)}, PBE {_figure(column, 'pbe')}"
                beaten.append(f"- {where}, {column.name}: {NAMES[best]} {both}")
    left = f"{others} pairs have a row with {OUTDATED}, {BY_HAND} or fewer seeds and are left out."
    if not pairs:
        return f"**The paper's order of systems** cannot be compared yet: {left}" if others else ""
    count = sum(map(len, reversed_pairs.values()))
    parts = [
        f"""**The paper's order of systems.** Of {pairs} pairs of systems in these columns, {count} stand in the other
order here, with PBE as doxa trains it. {left if others else ""}"""
    ]
    parts += ["\n".join(f"- {names}: {'; '.join(where)}" for names, where in reversed_pairs.items())]
    parts += ["The paper has PBE first in every column. Here another system is first in:"] if beaten else []
    parts += ["\n".join(beaten)] if beaten else []
    return "\n\n".join(filter(None, parts))


def _figure(column: Column, system: str) -> str:
    """Our figure of a system in a column, with the marks of its row."""
    return label(cell(column.ours[system], DIGITS.get(column.name, 1)), column.seeds[system])
