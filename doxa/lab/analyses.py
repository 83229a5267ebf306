"""Sections of docs/results.md beyond the tables of the paper: mentions, confidence, calibration, labels, ablation."""

from __future__ import annotations

from typing import Any

from doxa.lab import paper
from doxa.lab.experiments import HIGH, RULES
from doxa.lab.report import (
    OUTDATED,
    Results,
    average,
    cell,
    classification,
    entity,
    filtered_metrics,
    label,
    ours,
    over_seeds,
    relation,
    table,
)
from doxa.lab.selection import COMPLEX, FB15K, LABELED, SMOOTHING

PARTS = {"": "both (Eqs 6, 10, 12)", "_by_pair": "entities alone (Eq. 10)", "_by_mention": "words alone (Eq. 12)"}


def mentions(results: Results) -> str:
    """What mentions add to relation prediction."""
    parts, lifts = [], []
    for data in ("biomed", "webnlg"):
        both, without = results.get(f"{data}-pbe"), results.get(f"{data}-pbe-without-mentions")
        if both is None:
            continue
        rows = [(label(f"{data}, {what}", both), _shares(both, f"relation{part}")) for part, what in PARTS.items()]
        if without is not None:
            rows.append((label(f"{data}, trained without mentions", without), _shares(without, "relation")))
            lifts.append(f"{100 * (_first(both) / _first(without) - 1):.0f} % on {data}")
        parts.append(table("PBE, relation prediction", ("average rank", "Hits@1", "Hits@10"), rows))
    if lifts:
        parts.append(f"""Compared with training without mentions, Hits@1 rises by {" and ".join(lifts)}. A sentence
of webnlg states up to three facts. Its words do not tell which one is meant, unless they also count by their place
around the names (`mention_term=separate`, the default; rows with {OUTDATED} have `joint`).""")
    return "\n\n".join(["## What words add", *parts]) if parts else ""


def _first(seed_results: list[dict[str, Any]]) -> float:
    """Hits@1 of relations, the mean over seeds."""
    return float(sum(one["evaluation"]["relation"]["raw"]["hits@1"] for one in seed_results) / len(seed_results))


def _shares(seed_results: list[dict[str, Any]], part: str) -> list[str]:
    def measure(one: dict[str, Any]) -> paper.Figures:
        raw = one["evaluation"][part]["raw"]
        return raw["mr"], 100 * raw["hits@1"], 100 * raw["hits@10"]

    return [cell(figure) for figure in over_seeds(seed_results, measure)]


def confidence(results: Results) -> str:
    """What confidence adds, and how well it is predicted."""

    def weighted(one: dict[str, Any]) -> paper.Figures:
        part = one["evaluation"]["entity_by_confidence"]
        return part["mrr_of_high"], part["mrr"], one["evaluation"]["entity"]["filtered"]["mrr"]

    def predicted(one: dict[str, Any]) -> paper.Figures:
        part = one["evaluation"]["confidence"]
        return part["mse"], part["mae"], part["spearman"], part["ndcg"], part["ndcg_exponential"]

    parts = []
    ways = {way: f"nell-confidence-{way}" for way in ("weight", "ignore", "label")}
    if ways["weight"] in results:
        columns = (f"MRR of confidence ≥ {HIGH}", "of all", "of all, unweighted")
        parts.append(ours(results, "nell, entities, weighted by confidence", columns, ways, weighted, (4, 4, 4)))
    predicting = {name: name for name in results if name.startswith(("nl27k-", "cn15k-"))}
    if predicting:
        measures = ("MSE", "MAE", "Spearman", "nDCG", "nDCG, exponential")
        parts.append(ours(results, "predicted confidence", measures, predicting, predicted, (4, 4, 3, 3, 3)))
        parts.append(
            "NL27k is evaluated on `test_with_negatives.tsv` of the benchmark (best published: MSE .0201, MAE .0689).\n"
            "CN15k has no such file; we add one negative per test belief, with head or tail replaced by any entity\n"
            "(best published MSE, on other negatives of this kind: .0749)."
        )
    return "\n\n".join(["## Confidence", *parts]) if parts else ""


def calibration(results: Results) -> str:
    """Calibration of credence and of the probabilities of answers."""
    judged, answered = [], []
    for name in ("wn11-pbe", COMPLEX):
        several = [one for one in results.get(name, []) if "calibration" in one["evaluation"]]
        if not several:
            continue
        title = label(name, several)
        before, after = (_over_parts(several, part, LOSSES) for part in (("before",), ()))
        accuracy = cell(over_seeds(several, lambda one: (100 * one["evaluation"]["calibration"]["accuracy"],))[0])
        judged += [(f"{title}, before", [*before, "–"]), (f"{title}, calibrated", [*after, accuracy])]
        for slot in several[0]["evaluation"]["calibration"]["answers"]:
            answered.append((f"{title}, {slot}", _over_parts(several, ("answers", slot), TEMPERED)))
    if not judged:
        return ""
    columns = ("temperature", "−log Pr(true answer)", "calibrated", "ECE of the top answer", "calibrated")
    return "\n\n".join([
        "## Calibration",
        table("credence", ("ECE", "Brier", "log loss", "accuracy at credence ½"), judged),
        table("missing answers", columns, answered),
        "Fitted on valid, measured on test, without beliefs that have unseen names. Best published on the labels of\n"
        "WN11: Brier .0873, ECE .0114.",
    ])  # fmt: skip


LOSSES = {"ece": 4, "brier": 4, "nll": 4}
TEMPERED = {"temperature": 2, "nll_before": 3, "nll": 3, "ece_before": 3, "ece": 3}
"""Figures of calibration, and their decimal places."""


def _over_parts(several: list[dict[str, Any]], path: tuple[str, ...], digits: dict[str, int]) -> list[str]:
    """Figures of a part of the calibration report, over seeds."""

    def measure(one: dict[str, Any]) -> paper.Figures:
        part = one["evaluation"]["calibration"]
        for key in path:
            part = part[key]
        return tuple(part[key] for key in digits)

    return [cell(figure, places) for figure, places in zip(over_seeds(several, measure), digits.values(), strict=True)]


def labels(results: Results) -> str:
    """Every system on the labeled test set of WN11, each rule in a column."""
    rows = []
    names = {name: f"wn11-{name}" for name in LABELED} | {"graph smoothing alone, no vector trained": SMOOTHING}
    for name, full in names.items():
        several = results.get(full, [])
        if not several:
            continue
        smoothed = several[0]["experiment"]["settings"].get("graph_smoothing")
        by_rule = [over_seeds(several, classification(rule))[0] for rule in RULES]
        published = str(paper.WN11_ACCURACY.get(name, "–"))
        start = "smoothed over the graph" if smoothed else "random"
        rows.append((label(name, several), [published, *map(cell, by_rule), start]))
    if not rows:
        return ""
    return "\n\n".join([
        "## Every system on the labels of WN11",
        table("accuracy", ("published", *(f"by {rule}" for rule in RULES), "initial vectors"), rows),
        f"""Published figures use no word vectors and random initial vectors. {_alone(results)}1,342 of the 21,088
test lines have an entity unseen in train. They are counted: the degree of the known entity in its slot of the relation
decides, in the same way for all systems.""",
    ])  # fmt: skip


def _alone(results: Results) -> str:
    """What the start along the graph reaches without training."""
    several = results.get(SMOOTHING, [])
    if not several:
        return ""

    def of_seen(one: dict[str, Any]) -> paper.Figures:
        by_rule = one["evaluation"]["classification_by_rule"]
        return by_rule["score"]["accuracy_of_seen"], by_rule["product"]["accuracy_of_seen"]

    by_score, by_product = (100 * average[0] for average in over_seeds(several, of_seen) if average)
    return f"""Entity vectors that are averaged
over the graph and not trained at all have {by_score:.1f} % of the beliefs with known names right by D, and
{by_product:.1f} % by the paper's rule: most of what systems with smoothed vectors reach is not learned by them. The
learned rule is itself fitted to labels of valid. """


CURVES = """The validation metric by seconds of training (first seed): mean filtered MRR over the slots that a system
answers, of head, tail and relation. JRME answers relations only."""


def categories(results: Results) -> str:
    """Hits@10 by mapping category and by frequency of the relation."""
    names = (*FB15K.values(), COMPLEX)
    kinds = _hits_by(results, names, "by_category")
    if not kinds:
        return ""
    parts = [
        "## Differences between systems",
        "![Learning curves](results.png)",
        CURVES,
        table("FB15k, filtered Hits@10", tuple(kinds), _rows(kinds)),
    ]
    frequencies = _hits_by(results, names, "by_frequency")
    if frequencies:
        parts.append(table("by facts of the relation in train", tuple(frequencies), _rows(frequencies)))
    return "\n\n".join(parts)


def _hits_by(results: Results, names: tuple[str, ...], key: str) -> dict[str, dict[str, str]]:
    """Hits@10 of the parts of the entity report, over seeds: part → row → figure."""
    columns: dict[str, dict[str, str]] = {}
    for name in names:
        several = [one for one in results.get(name, []) if key in one["evaluation"].get("entity", {})]
        for part in several[0]["evaluation"]["entity"][key] if several else ():
            hits = [100 * one["evaluation"]["entity"][key][part]["hits@10"] for one in several]
            columns.setdefault(part, {})[label(name, several)] = cell(average(hits))
    return columns


def _rows(columns: dict[str, dict[str, str]]) -> list[tuple[str, list[str]]]:
    """The rows of a table, of which each column has a figure by row."""
    names = dict.fromkeys(name for column in columns.values() for name in column)
    return [(name, [column.get(name, cell(None)) for column in columns.values()]) for name in names]


def ablation(results: Results) -> str:
    """What each term of Eq. 1 adds, and the effect of the score."""
    names = {
        "all terms": "fb15k-237-complex-with-relation-term",
        "without Pr(r\\|h,t)": "fb15k-237-complex-without-relation-term",
    }
    parts = []
    if names["all terms"] in results:
        columns = ("entity MRR", "relation Hits@1")
        parts.append(ours(results, "FB15k-237, PBE on complex", columns, names, filtered_metrics, (3, 1)))
    terms = {
        "all terms": "webnlg-pbe",
        "without Pr(h\\|r,t)": "webnlg-pbe-without-head",
        "without Pr(t\\|h,r)": "webnlg-pbe-without-tail",
        "without Pr(r\\|h,t)": "webnlg-pbe-without-relation",
        "without Pr(r\\|m)": "webnlg-pbe-without-mentions",
        "on complex": "webnlg-pbe-complex",
    }
    if len([name for name in terms.values() if name in results]) > 1:
        parts.append(ours(results, "webnlg, PBE", (*paper.ENTITY, *paper.RELATION), terms,
                          lambda one: (*entity(one), *relation(one))))  # fmt: skip
    return "\n\n".join(["## What each term adds", *parts]) if parts else ""
