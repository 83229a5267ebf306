"""Evaluations and comparisons on the terminal; the popularity baseline stands in parentheses beside each figure."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from doxa.render.terminal import MAX_WIDTH, escape, out, say, show_table

if TYPE_CHECKING:
    from doxa.evaluation.calibration import CalibrationReport, Reliability
    from doxa.evaluation.compare import Comparison, Difference
    from doxa.evaluation.parts import EntityReport, RelationReport
    from doxa.evaluation.ranks import Metrics
    from doxa.evaluation.report import Evaluation

RANKING = ("mean rank", "MRR", "Hits@1", "Hits@3", "Hits@10")

TITLES = {
    "entity": "Entity inference",
    "relation": "Relation prediction",
    "classification": "Triplet classification",
    "calibration": "Credence",
}
LABELS = {
    "mrr": "MRR",
    "hits@1": "Hits@1",
    "hits@10": "Hits@10",
    "accuracy": "accuracy",
    "brier": "Brier score",
    "nll": "log loss",
}
"""How tasks and metrics are called."""


def show_ranking(title: str, rows: Mapping[str, Metrics], popularity: Mapping[str, Metrics] | None = None) -> None:
    """One line of ranking metrics per name, with those of the popularity baseline in parentheses."""
    width = max(len(name) for name in rows)
    out.print(f"\n[bold]{title}[/]" + ("[dim]  (in parentheses: the popularity baseline)[/]" if popularity else ""))
    values = {name: _cells(metrics) for name, metrics in rows.items()}
    others = {name: [f" ({cell})" for cell in _cells(metrics)] for name, metrics in (popularity or {}).items()}
    beside = [max((len(cells[column]) for cells in others.values()), default=0) for column in range(len(RANKING))]
    columns = [
        max(len(heading) + 2, *(len(cells[column]) + 2 for cells in values.values()), 0 if beside[column] else 11)
        for column, heading in enumerate(RANKING)
    ]
    out.print(
        f"[dim]{'':{width}}"
        + "".join(f"{name:>{column}}{'':{other}}" for name, column, other in zip(RANKING, columns, beside, strict=True))
        + "[/]",
        soft_wrap=True,
    )
    for name, cells in values.items():
        right = others.get(name, [""] * len(cells))
        line = "".join(
            f"{cell:>{column}}[dim]{other:>{space}}[/]"
            for cell, column, other, space in zip(cells, columns, right, beside, strict=True)
        )
        out.print(f"{escape(f'{name:{width}}')}{line}", soft_wrap=True)


def _cells(metrics: Metrics) -> list[str]:
    return [f"{metrics.mr:,.1f}", f"{metrics.mrr:.3f}", *(f"{share:.1%}" for share in metrics.hits.values())]


RANKED = {"all": "", "relation": ", candidates of the relation", "answered": ", ranked as `doxa ask` answers"}
"""What a heading adds for candidates other than those of the standard protocol."""


SEEN = "  known names"
"""How the figure without beliefs that have unseen names is called."""


def show_evaluation(evaluation: Evaluation) -> None:
    """The report of `doxa evaluate` as text."""
    popularity = evaluation.popularity
    ranked = RANKED[evaluation.protocol["candidates"]]
    if evaluation.entity:
        baseline = _entity_rows(popularity.entity) if popularity and popularity.entity else None
        show_ranking(TITLES["entity"] + ranked, _entity_rows(evaluation.entity), baseline)
    if evaluation.relation:
        ranks, other = evaluation.relation, popularity.relation if popularity else None
        baseline = _relation_rows(other) if other else None
        show_ranking(TITLES["relation"] + ranked, _relation_rows(ranks), baseline)
    out.print()
    if evaluation.classification:
        c, frequent = evaluation.classification, popularity.classification if popularity else None
        seen = "" if c.accuracy == c.accuracy_of_seen else f", {c.accuracy_of_seen:.1%} where all names are known"
        beside = f" [dim](popularity {frequent.accuracy:.1%})[/]" if frequent else ""
        out.print(f"[bold]{TITLES['classification']}[/]   accuracy {c.accuracy:.1%}{beside}{seen}")
    if evaluation.confidence:
        mean = popularity.confidence if popularity else None
        mse, mae = (f" [dim]({value:.4f})[/]" for value in (mean.mse, mean.mae)) if mean else ("", "")
        note = "   [dim](in parentheses: always the mean of known facts)[/]" if mean else ""
        errors = evaluation.confidence
        out.print(f"[bold]Confidence[/]   MSE {errors.mse:.4f}{mse}   MAE {errors.mae:.4f}{mae}{note}")
    if evaluation.calibration:
        show_calibration(evaluation.calibration, popularity.calibration if popularity else None)
    for task, reason in evaluation.skipped.items():
        out.print(f"[dim]{task}: not run, {escape(reason)}[/]")
    if popularity and (evaluation.entity or evaluation.relation or evaluation.classification):
        _note(
            "Popularity is a baseline that knows only how frequent each relation is, and each entity in each slot of a "
            "relation. What a model reaches beyond it, it learned from structure and words."
        )
    _show_protocol(evaluation)


def _entity_rows(report: EntityReport) -> dict[str, Metrics]:
    rows = {"raw": report.raw, "filtered": report.filtered}
    rows |= {"  heads": report.filtered_heads, "  tails": report.filtered_tails}
    rows |= {SEEN: report.filtered_seen} if report.filtered_seen else {}
    return rows | {f"  {kind}": metrics for kind, metrics in report.by_category.items()}


def _relation_rows(report: RelationReport) -> dict[str, Metrics]:
    rows = {"raw": report.raw, "filtered": report.filtered}
    rows |= {SEEN: report.filtered_seen} if report.filtered_seen else {}
    parts = (("entities alone", report.entities), ("words alone", report.words))
    return rows | {f"filtered, {name}": part.filtered for name, part in parts if part is not None}


def _show_protocol(evaluation: Evaluation) -> None:
    p = evaluation.protocol
    sentences = evaluation.relation is not None and evaluation.relation.words is not None
    how = "ranked as a guess, relations by the sentence" if sentences else "ranked as a guess"
    unseen = f", {p['unseen']:,} of them with unseen names ({how})" if p["unseen"] else ""
    judged = f"{p['judged']:,} judged, negatives: {p['negatives']}; " if p["judged"] else ""
    out.print(
        f"[dim]{p['queries']:,} beliefs{unseen}; filter {p['filter']}, ties {p['ties']}, candidates {p['candidates']}; "
        f"{judged}{sum(evaluation.seconds.values()):.1f} s, peak memory {evaluation.peak_rss_mb:,.0f} MB[/]",
        soft_wrap=True,
    )


def show_calibration(report: CalibrationReport, share: Reliability | None = None) -> None:
    """Calibration of credence and of the probabilities of answers, before and after the fit.

    `share` is of always answering the share of true beliefs.
    """

    def with_interval(name: str, value: float) -> str:
        low, high = report.intervals[name]
        return f"{value:.4f} ({low:.4f} to {high:.4f})"

    def plain(reliability: Reliability) -> tuple[str, ...]:
        return tuple(f"{value:.4f}" for value in reliability.as_dict().values())

    rows: list[tuple[Any, ...]] = [
        ("before", *plain(report.before)),
        (
            "calibrated" if report.calibrated else "not calibrated",
            *(with_interval(name, value) for name, value in report.after.as_dict().items()),
        ),
    ]
    if share is not None:
        rows.append((f"always {share.truth[0]:.0%}", *plain(share)))
    show_table("Credence", ("", "ECE", "Brier", "log loss"), rows)
    out.print(f"ECE of a perfect model with these credences on as many beliefs: {report.ece_floor:.4f}")
    if report.calibrated:
        out.print(f"judged true from credence ½ up: {report.accuracy:.1%} right")
    else:
        out.print(
            "The model has too few validation beliefs for a calibration: its credence orders beliefs and has no size."
        )
    if report.answers:
        rows = [
            (kind.replace("_", " "), f"{slot.temperature:.2f}", f"{slot.nll_before:z.3f} → {slot.nll:z.3f}",
             f"{slot.ece_before:.3f} → {slot.ece:.3f}")
            for kind, slot in report.answers.items()
        ]  # fmt: skip
        headings = ("asked for", "temperature", "−log Pr(truth)", "ECE of the top answer")
        show_table("Probabilities of answers, before and after their temperature", headings, rows)


def show_comparison(comparison: Comparison, a: str, b: str) -> None:
    """The report of `doxa compare` as text; `a` and `b` are the names of the models."""
    say(f"A  {a}\nB  {b}")
    known = comparison.protocol["known"]
    if any(known.values()):
        done = "left out here, --keep-known keeps them" if comparison.protocol["left_out"] else "this favors that model"
        say(f"Warning: {known['a']:,} of these beliefs are facts that A was trained or validated on, {known['b']:,} "
            f"that B was; {done}.")  # fmt: skip
    rows = comparison.differences
    if rows:
        out.print(f"\n[dim]{'':13}{'A':>9}{'B':>9}{'B − A':>11}  {'95 % interval':22}B is[/]")
    for task in dict.fromkeys(one.task for one in rows):
        out.print(f"[bold]{TITLES[task]}[/]{' (lower is better)' if task == 'calibration' else ''}")
        for one in rows:
            if one.task == task:
                say(_difference(one))
    for task, reason in comparison.skipped.items():
        say(f"{task}: not compared, {reason}")
    if rows:
        better, worse = (comparison.count(verdict) for verdict in ("better", "worse"))
        say(f"\nOf {len(rows)} metrics, B is better in {better} and worse in {worse}; "
            f"in {len(rows) - better - worse} these beliefs show no difference.")  # fmt: skip
    _show_sample(comparison.protocol)
    if rows:
        interval = comparison.protocol["interval"]
        _note(
            "95 % interval: where the difference over all beliefs like these is likely to lie (paired bootstrap over "
            f"beliefs, {interval['rounds']:,} rounds). It does not cover training again with another seed."
        )
        _note("Chance: of 20 metrics in which two models are equally good, about 1 shows a difference all the same.")


def _difference(one: Difference) -> str:
    """A line of the table: shares as percentages, their differences in percentage points (pp)."""
    share = one.metric.startswith("hits") or one.metric == "accuracy"
    a, b = (f"{value:.1%}" if share else f"{value:.4f}" for value in (one.a, one.b))
    changes = (one.difference, one.low, one.high)
    difference, low, high = (f"{100 * value:+.1f}" if share else f"{value:+.4f}" for value in changes)
    unit = " pp" if share else ""
    return f"  {LABELS[one.metric]:11}{a:>9}{b:>9}{difference + unit:>11}  {f'{low} to {high}{unit}':22}{one.verdict}"


def _show_sample(protocol: Mapping[str, Any]) -> None:
    """Which beliefs were compared: known facts, unknown names, negatives."""
    unseen, entities = protocol["unseen"], protocol["entities"]
    lines = [f"{protocol['beliefs']:,} beliefs, ranks without the known facts of both models"]
    if protocol["judged"]:
        lines[0] += f"; {protocol['judged']:,} judged, negatives: {protocol['negatives']}"
    if any(unseen.values()):
        names = f"{unseen['a']:,} beliefs have names unknown to A, {unseen['b']:,} to B"
        lines.append(f"{names}: they stay in, as a guess of that model among all names.")
    if entities["a"] != entities["b"]:
        lines.append(f"A ranks among {entities['a']:,} entities, B among {entities['b']:,}: fewer are easier.")
    for line in lines:
        _note(line)


def _note(text: str) -> None:
    """A remark below a report, dim and wrapped."""
    out.print(f"[dim]{escape(textwrap.fill(text, min(out.width, MAX_WIDTH)))}[/]", soft_wrap=True)
