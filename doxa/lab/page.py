"""docs/results.md: all tables of results with their text. A table whose experiments have no results is left out."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from doxa.data.negatives import ATTEMPTS
from doxa.lab import paper, studies
from doxa.lab.analyses import ablation, calibration, categories, confidence, labels, mentions
from doxa.lab.report import (
    BY_HAND,
    NAMES,
    OUTDATED,
    SYSTEMS,
    Results,
    average,
    beside,
    cell,
    classification,
    compared,
    entity,
    filtered_metrics,
    firm,
    label,
    ours,
    over_seeds,
    relation,
    table,
    time,
)
from doxa.lab.selection import COMPARED, COMPLEX, FB15K, PUBLISHED, STAND_INS
from doxa.lab.selection import TABLES as TABLES
from doxa.lab.summary import summary


def page(results: Results) -> str:
    """The whole document: the summary, the tables of the paper, the analysis."""
    sections = (
        statistics, fb500k, wn100k, classifications, stand_ins, mentions, confidence, calibration, labels, categories,
        ablation,
    )  # fmt: skip
    parts = [PREFACE, summary(results), protocol(results), *(section(results) for section in sections)]
    return "\n\n".join(part for part in parts if part) + "\n"


PREFACE = """# Results

`doxa reproduce report` generates this page from the JSON files in [experiments/results](../experiments/results), one
per run. The experiments are TOML files in [doxa/lab/experiments](../doxa/lab/experiments).

    doxa reproduce all --data DIR               # run every experiment that has no result yet
    doxa reproduce table4 --data DIR            # one table of the paper
    doxa reproduce fb15k-transe --data DIR      # one experiment; --force runs it again"""


def protocol(results: Results) -> str:
    """How the figures are made, with what is left out and what is still to be run."""
    every = studies.every()
    done = [name for name in every if name in results and firm(results[name])]
    return f"""## How the figures are made

**Protocol.** Candidates are all entities of the training set. Ranks are raw, or filtered by all facts of train, valid
and test. Ties get their expected rank. Head and tail queries are averaged. Relation figures are raw, as in the paper.
Classification uses the labels of the test set. A test set without labels gets negatives by the rule of Section 5.4 with
seed 0 (`doxa data negatives` writes them to a file).{_without_negative(results)} Beliefs with names unseen in train are
counted: ranked as a guess, classified by the degree of the entity that is known. Weights, best epochs, thresholds and
calibration use train and valid only.

**Marks.** ± is the sample standard deviation over three seeds; a row with fewer says so. ✓ marks a mean at least as
good as the paper's figure for the same system, ✗ a worse one; means are compared before they are rounded. Rows with
fewer than three, and those with {OUTDATED} or {BY_HAND}, have neither.

**Settings** of rows without {OUTDATED} and {BY_HAND} are chosen blindly:
[experiments/studies/run.py](../experiments/studies/run.py) runs `doxa tune` on validation beliefs, with an hour of one
processor for each system on FB15k, 20 minutes on WN11 and 10 minutes on the others. {len(done)} of {len(every)}
experiments have blind settings and three seeds so far. Epochs are the same for all systems of a dataset; the dimension
is {studies.DIMENSION}, or {studies.MATRIX_DIMENSION} for SE, SLM, bilinear and NTN. Graph smoothing is part of the
search, except for the paper's algorithm. The studies write the TOML files and keep their trials."""


def _without_negative(results: Results) -> str:
    """How many beliefs of each dataset have no negative."""
    counts = []
    for data, name in {"FB15k": FB15K["pbe"], **{data: f"{data}-pbe" for data in STAND_INS}}.items():
        for one in results.get(name, [])[:1]:
            about = one["evaluation"]["protocol"]
            left = about["queries"] - about["judged"] // 2
            if about["judged"] and left:
                counts.append(f"{left:,} of {about['queries']:,} on {data}")
    if not counts:
        return ""
    return f" A belief for which\n{ATTEMPTS} draws give no false triple is left out: {', '.join(counts)}."


def statistics(results: Results) -> str:
    """Table 1."""
    rows: list[tuple[str, list[str]]] = []
    sources = {"NELL-50K": ("nell", "nell-pbe"), "WN-100K": ("wn11", "wn11-pbe"), "FB-500K": ("fb15k", FB15K["pbe"])}
    for name, figures in paper.STATISTICS.items():
        rows.append((f"{name}, paper", [f"{figure:,}" for figure in figures]))
        data, experiment = sources[name]
        if experiment in results:
            one = results[experiment][0]
            origin, protocol = one["training"], one["evaluation"]["protocol"]
            counts = [origin["entities"], origin["relations"], origin["beliefs"], origin["validation_beliefs"],
                      protocol["queries"]]  # fmt: skip
            rows.append((f"{data}, here", [f"{count:,}" for count in counts]))
    columns = ("entities", "relations", "training", "validating", "testing")
    return (
        "## Table 1: the data\n\n"
        + table("", columns, rows)
        + """

FB-500K is FB15k with the paper's split. WN-100K is WN11. The three files of WN11 name 38,588 entities, fewer than the
paper counts; the table has the entities of train. The validation count leaves out beliefs with entities unseen in
train; the test count is the true half of the test file.

NELL-50K has mentions *and* confidence, and is not available. Three datasets replace it: `nell` (NELL beliefs with
confidence, cut to the same number) for its graph and confidence, `biomed` and `webnlg` for its mentions. They can show
whether the systems rank in the same order on such data, and whether mentions and confidence help. They cannot reproduce
the paper's figures."""
    )


def entity_table(results: Results, data: str) -> str:
    """Table 3 (WN-100K, as published) or 4 (FB-500K)."""
    theirs = paper.ENTITY_INFERENCE[data]
    return beside(results, f"{data}, entity inference", paper.ENTITY, theirs, COMPARED[data], entity)


def relation_table(results: Results, data: str) -> str:
    """The columns of a dataset in Table 5."""
    theirs = paper.RELATION_PREDICTION[data]
    return beside(results, f"{data}, relation prediction", paper.RELATION, theirs, COMPARED[data], relation)


def classification_table(results: Results, rule: str) -> str:
    """Table 6 by one decision rule: all systems on all datasets; the paper's figures are by the product."""
    datasets = {**COMPARED, **{data: {system: f"{data}-{system}" for system in SYSTEMS} for data in STAND_INS}}
    by_paper = rule == "product"
    rows: list[tuple[str, Iterable[str]]] = []
    for system in SYSTEMS:
        theirs = [paper.TRIPLET_CLASSIFICATION.get(data, {}).get(system.removesuffix("-paper")) for data in datasets]
        if by_paper and any(theirs) and system != "pbe":
            name = NAMES[system].partition(",")[0]
            rows.append((f"{name}, paper", [f"{figures[0]:,}" if figures else "" for figures in theirs]))
        cells = []
        for names, figures in zip(datasets.values(), theirs, strict=True):
            several = _on_all_beliefs(results, names, system)
            average = (over_seeds(several, classification(rule)) or [None])[0]
            against = figures[0] if by_paper and figures else None
            text = compared(average, against, "accuracy", firm(several))
            cells.append(label(text, several) if average else text)
        if any(text != cell(None) for text in cells):
            rows.append((f"**{NAMES[system]}**", cells))
    return table(f"accuracy, by {RULE_NAMES[rule]}", datasets, rows) if rows else ""


def _on_all_beliefs(results: Results, names: dict[str, str], system: str) -> list[dict[str, Any]]:
    """The runs of a system, if they judged as many beliefs as those of any other system on the same dataset."""

    def judged(several: list[dict[str, Any]]) -> int:
        return min((one["evaluation"]["protocol"]["judged"] for one in several), default=0)

    most = max(judged(results.get(name, [])) for name in names.values())
    several = results.get(names[system], [])
    return several if judged(several) == most else []


RULE_NAMES = {"product": "Pr(h\\|r,t) Pr(r\\|h,t) Pr(t\\|h,r)", "score": "D(h, r, t)", "learned": "the learned rule"}


def classifications(results: Results) -> str:
    """Table 6: models are compared by one rule at a time."""
    tables = {rule: classification_table(results, rule) for rule in RULE_NAMES}
    if not any(tables.values()):
        return ""
    missing = "No result by the paper's rule yet: the systems must be run again."
    return "\n\n".join([
        "## Triplet classification (Table 6)",
        f"By the paper's rule (Section 5.4), thresholds per relation from valid. {WAITING}",
        tables["product"] or missing,
        "By the score, as the systems before PBE classify:",
        tables["score"],
        "By the learned rule, a logistic regression per relation on both entity probabilities and the\n"
        "numbers of known answers:",
        tables["learned"],
    ])  # fmt: skip


WAITING = """Results of earlier versions have
one rule each, and some left beliefs with unseen names out; such a cell has no figure until it is run again."""


def shown(name: str, results: Results) -> str:
    """A table of the paper for the terminal."""
    if name == "table1":
        return statistics(results).split("\n\n")[1]
    if name == "table2":
        return stand_in(results, "nell")
    if name in ("table3", "table4"):
        return entity_table(results, "WN-100K" if name == "table3" else "FB-500K")
    if name == "table6":
        return "\n\n".join(filter(None, (classification_table(results, rule) for rule in RULE_NAMES)))
    return "\n\n".join(relation_table(results, data) for data in COMPARED)


def fb500k(results: Results) -> str:
    """Table 4 and the columns of FB-500K in Table 5."""
    if FB15K["pbe"] not in results:
        return ""
    best = {"PBE on translation": FB15K["pbe"], "PBE on complex": COMPLEX}
    return "\n\n".join([
        "## FB-500K (Tables 4 and 5)",
        entity_table(results, "FB-500K"),
        relation_table(results, "FB-500K"),
        "The metrics of later work, for the same objective on two scores:",
        ours(results, "filtered", ("entity MRR", "relation Hits@1"), best, filtered_metrics, (3, 1)),
        time(results, (*FB15K.values(), COMPLEX)),
    ])  # fmt: skip


def wn100k(results: Results) -> str:
    """Table 3 and the columns of WN-100K in Table 5, as published and with the labels."""
    if PUBLISHED["pbe"] not in results:
        return ""
    names = {NAMES[system]: PUBLISHED[system] for system in SYSTEMS}
    return "\n\n".join([
        "## WN-100K (Tables 3 and 5)",
        """The valid and test files of WN11 are labeled: each true triple (10,544 in test, 2,609 in valid) is followed
by a false one with the same head and relation and another tail. The paper's Table 1 counts 21,088 testing and 5,218
validating examples, and twice as many for classification. So the paper ranked all labeled triples, half of them false,
as if they were true, and made new negatives for classification. We repeat this here (labels dropped). Half of the
queries have no right answer, which explains the poor figures: a system can rank a false tail first only by mistake, and
a rule that ranks triples by plausibility cannot go far beyond 75 % accuracy, because the false half is no more
plausible than the negatives.""",
        entity_table(results, "WN-100K"),
        relation_table(results, "WN-100K"),
        "With the labels, the same models rank the 10,544 true triples:",
        ours(_on_positives(results), "true triples", (*paper.ENTITY, *paper.RELATION), names,
             lambda one: (*entity(one), *relation(one))),
        halves(results),
        time(results, PUBLISHED.values()),
    ])  # fmt: skip


def halves(results: Results) -> str:
    """The true and the false half of the test set, and the limits that the best false half of any run sets."""
    by_run = [_halves(one) for name in PUBLISHED.values() for one in results.get(name, []) if _ranks_all(one)]
    several = results[PUBLISHED["pbe"]]
    one, halved = several[0], [_halves(each) for each in several]
    rows = []
    for place, name in enumerate(("all, as published", "the true half", "the false half")):
        averages = [average([run[column][place] for run in halved]) for column in range(3)]
        rows.append((name, [cell(figure, digits) for figure, digits in zip(averages, (0, 0, 1), strict=True)]))
    columns = ("heads, MR filtered", "tails, MR filtered", "relations, Hits@1")
    by_chance, about = one["training"]["entities"] / 2, one["evaluation_of_positives"]["protocol"]
    best_heads, best_first = min(run[0][2] for run in by_run), max(run[2][2] for run in by_run)
    guesses = about["unseen"] / about["queries"]
    best_mean = (guesses * by_chance + 1 - guesses) / 2 + (best_heads + by_chance) / 4
    best_hits = (100 * (1 - guesses) + best_first) / 2
    mean, hits = paper.ENTITY_INFERENCE["WN-100K"]["pbe"][1], paper.RELATION_PREDICTION["WN-100K"]["pbe"][2]
    known_mean, known_hits = 1 / 2 + (best_heads + by_chance) / 4, (100 + best_first) / 2
    return f"""PBE here, if all labeled triples are ranked as true:

{table("", columns, rows)}

The tails of the false half were drawn from all entities, so every system ranks them at chance level, {by_chance:,.0f}.
Its heads are not at chance: the best run of any system has {best_heads:,.0f}, and its relations {best_first:.1f}.
{about["unseen"]} of the {about["queries"]:,} true triples have an entity unseen in train, which counts as a guess.
Suppose a model ranks every other true answer first, and the false half as the best runs do. Its filtered mean rank is
then {best_mean:,.0f} and its Hits@1 {best_hits:.1f}; the paper has {mean:,.0f} and {hits:.1f}, which are out of reach.
Without the triples that have an unseen name, these limits are {known_mean:,.0f} and {known_hits:.1f}: the paper may
have left such triples out."""


def _halves(one: dict[str, Any]) -> list[tuple[float, float, float]]:
    """Filtered mean rank of heads and of tails, and Hits@1 of relations: of all, of the true half, of the false one."""
    whole, true = one["evaluation"], one["evaluation_of_positives"]
    columns = [("entity", f"filtered_{side}", "mr", 1) for side in ("heads", "tails")]
    columns.append(("relation", "raw", "hits@1", 100))
    both, half = (
        [factor * part[task][kind][metric] for task, kind, metric, factor in columns] for part in (whole, true)
    )
    return [(each, part, 2 * each - part) for each, part in zip(both, half, strict=True)]


def _ranks_all(one: dict[str, Any]) -> bool:
    """Whether a run ranks entities and relations."""
    return "entity" in one["evaluation"] and "relation" in one["evaluation"]


def _on_positives(results: Results) -> Results:
    """The results of the same models on the true triples alone."""
    return {
        name: [one | {"evaluation": one["evaluation_of_positives"]} for one in results[name]]
        for name in PUBLISHED.values()
        if name in results
    }


def stand_ins(results: Results) -> str:
    """The datasets that replace NELL-50K."""
    tables = [part for data in STAND_INS if (part := stand_in(results, data))]
    if not tables:
        return ""
    orders = [text for data in STAND_INS if (text := _order(results, data))]
    order = f"**Order.** PBE as doxa trains it is first in {', '.join(orders)}. {REASONS}"
    return "\n\n".join(["## In place of NELL-50K (Tables 2 and 5)", *tables, SHORT, order])


SHORT = """The 3,849 test rows of webnlg are 454 distinct facts: several sentences state the same one, and a fact
counts as often as it is stated."""

REASONS = """Webnlg has only 303 distinct
validation facts: settings and thresholds that fit them best need not fit the test set. JRME's settings are chosen for
relations alone, those of PBE for entities and relations together."""


def _order(results: Results, data: str) -> str:
    """In how many columns of a dataset PBE is first, and which system is first in the others."""
    averages = {
        system: over_seeds(results[name], lambda one: (*entity(one), *relation(one)))
        for system in SYSTEMS
        if (name := f"{data}-{system}") in results
    }
    if "pbe" not in averages:
        return ""
    firsts: dict[str, list[str]] = {}
    columns = (*paper.ENTITY, *paper.RELATION)
    for place, column in enumerate(columns):
        figures = {system: row[place][0] for system, row in averages.items() if row[place] is not None}  # type: ignore[index]
        first = (min if column in paper.SMALL_IS_GOOD else max)(figures, key=figures.__getitem__)
        firsts.setdefault(first, []).append(column)
    others = "; ".join(f"{NAMES[system]} in {', '.join(names)}" for system, names in firsts.items() if system != "pbe")
    text = f"{len(firsts.get('pbe', []))} of {len(columns)} columns on {data}"
    return f"{text} ({others})" if others else text


def stand_in(results: Results, data: str) -> str:
    """All systems on one of these datasets."""
    names = {NAMES[system]: f"{data}-{system}" for system in SYSTEMS}
    if names[NAMES["pbe"]] not in results:
        return ""
    columns = (*paper.ENTITY, *paper.RELATION)
    made = ours(results, data, columns, names, lambda one: (*entity(one), *relation(one)))
    return f"{made}\n\n{time(results, names.values())}"
