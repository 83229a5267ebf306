"""The table of figures in docs/curation.md, from the JSON results in this folder.

python experiments/curation/figures.py              # print the table
python experiments/curation/figures.py --write      # write it into the page
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
PAGE = HERE.parent.parent / "docs" / "curation.md"
BEGIN = "<!-- figures: experiments/curation/figures.py -->"
OLD_KEYS = {"learnt_from_all": "trained_on_all", "beliefs_given": "beliefs_per_entity"}
"""Former names in stored results."""

Row = tuple[str, str, str]


def figures() -> str:
    """The table, as Markdown."""
    rows = [*_completion(), *_audit(), *_fold_in(), *_updating(), *_labels()]
    lines = ["| measurement | figure | `experiments/curation/` |", "|---|---|---|"]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)]) + "\n"


def _completion() -> list[Row]:
    result = _result("completion")
    if result is None:
        return []
    fb15k, world = result["fb15k"], result["atlas"]
    first, also = fb15k["precision_of_the_first"], fb15k["hidden_or_in_test"]
    return [
        (
            f"FB15k, a tenth of train hidden ({fb15k['hidden']:,}), as many proposals",
            f"precision {fb15k['precision']:.1%}, recall {fb15k['recall']:.1%}; popularity baseline "
            f"{fb15k['popularity_precision']:.1%}; hidden or in the test set {also[str(fb15k['hidden'])]:.1%}; "
            f"of the first thousand {first['1000']:.1%} hidden, {also['1000']:.1%} hidden or in the test set",
            "completion.py",
        ),
        (
            "the same: expected → measured precision by credence, right if hidden",
            _ranges(fb15k["ranges"]),
            "completion.py",
        ),
        (
            f"the same with a base rate of {fb15k['base_rate_with_test']:.2f}, right if hidden or in the test set",
            _ranges(fb15k["ranges_with_test"]),
            "completion.py",
        ),
        (
            f"atlas, {world['test']:,} test beliefs: expected → measured precision by credence",
            f"{_ranges(world['ranges'])}; of the first hundred {world['precision_of_the_first']['100']:.0%} right",
            "completion.py",
        ),
        (
            "time and memory of the completion of FB15k, credence fitted",
            f"{fb15k['seconds']:.0f} s, {fb15k['peak_rss_mb']:,} MB",
            "completion.py",
        ),
    ]


def _ranges(rows: list[dict[str, Any]]) -> str:
    """Expected and measured precision of each range of credence."""
    return "; ".join(
        f"{row['from']:g} to {row['to']:g}: {row['expected']:.3f} → {row['measured']:.3f} ({row['proposals']:,})"
        for row in rows
    )


def _audit() -> list[Row]:
    result = _result("audit")
    if result is None:
        return []
    return [
        (
            f"atlas, {result['planted']:,} planted false beliefs, as many suspects",
            f"{result['found_among_as_many_suspects']:.1%} found ({result['found_by_credence_alone']:.1%} by "
            f"credence alone, {result['found_without_mentions']:.1%} without mentions, "
            f"{result['by_chance']:.1%} by chance)",
            "audit.py",
        ),
        (
            "suggestions of this audit",
            f"the true tail for {result['true_tail_suggested_of_all_planted']:.1%} of all planted beliefs",
            "audit.py",
        ),
    ]


def _fold_in() -> list[Row]:
    result = _result("fold_in")
    if result is None:
        return []
    others, test, among = result["others"], result["test"], result["intrusion"]
    known = result["beliefs_per_entity"]
    return [
        (
            f"FB15k, {result['entities']} unseen entities, folded in from {known} beliefs each",
            f"filtered Hits@10 {_beside(others)} on their other beliefs; {_beside(test)} on their test beliefs",
            "fold_in.py",
        ),
        (
            "the same ratio to training on everything",
            f"with other draws of the {known} beliefs "
            f"{', '.join(f'{share:.1%}' for share in result['share_by_draw'][1:])}; with the first draw, as a mean "
            f"over entities, {others['share_by_mean_over_entities']:.1%}",
            "fold_in.py",
        ),
        (
            "questions the entity does not answer, but where it is among the ten best answers",
            f"{among['among_ten_best']:.1%}; {among['among_ten_best_trained_on_all']:.2%} when trained on everything",
            "fold_in.py",
        ),
        (
            "one fold-in, one thread",
            f"{result['milliseconds']['median']:.0f} ms elapsed, "
            f"{result['processor_milliseconds']['median']:.0f} ms processor time (medians)",
            "fold_in.py",
        ),
    ]


def _updating() -> list[Row]:
    rows: list[Row] = []
    for case in (_result("updating") or {}).values():
        if "filtered_mrr" not in case:
            continue
        mrr, seconds = case["filtered_mrr"], case["processor_seconds"]
        rows += [
            (
                f"FB15k, {case['new_beliefs']:,} new beliefs on {case['old_beliefs']:,}, "
                f"{case['new_entities']} new entities",
                f"filtered MRR {mrr['before']:.3f} before, {mrr['updated']:.3f} updated, "
                f"{mrr['anew']:.3f} trained again: {case['points_lost']:.1f} points lost",
                "updating.py",
            ),
            (
                "processor time of this update",
                f"{seconds['update']:.0f} s, {seconds['share']:.0%} of the {seconds['anew']:.0f} s of training again",
                "updating.py",
            ),
        ]
    return rows


def _labels() -> list[Row]:
    result = _result("labels")
    if result is None:
        return []
    few, many, thousands = result["few"], result["one_relation"], result["thousands"]
    before, known, proposed = few["mean_credence_before"], many["known"], many["proposals"]
    changes = ", ".join(
        f"{kind} {case['with_mentions']['largest']:+.3f} ({case['without_mentions']['largest']:+.3f})"
        for kind, case in few["change"].items()
    )
    eces = "; ".join(
        f"{case} {figures['before']['mean']:.3f} → {figures['after']['mean']:.3f} (largest "
        f"{figures['after']['largest']:.3f}, floor {figures['floor']['mean']:.3f})"
        for case, figures in thousands.items()
        if isinstance(figures, dict)
    )
    return [
        (
            f"atlas, {few['labels']} labels: change of the mean credence of true test beliefs, "
            f"{before['with_mentions']:.3f} ({before['without_mentions']:.3f} without mentions)",
            f"largest of {few['draws']} draws: {changes}",
            "labels.py",
        ),
        (
            f"atlas, {many['labels']} labels of one relation, all false: fall of the mean credence of its true test "
            "beliefs",
            f"known beliefs {known['median']:.2f} (least of {known['relations']} relations {known['least']:.2f}, other "
            f"relations {known['other_relations']:.3f}); proposals {proposed['median']:.2f} (least of "
            f"{proposed['relations']} {proposed['least']:.2f}, whose true beliefs are far more credible)",
            "labels.py",
        ),
        (f"atlas, {thousands['labels']:,} labels: ECE on other beliefs, before → after", eces, "labels.py"),
    ]


def _beside(hits: dict[str, float]) -> str:
    """Hits@10 with that of training on everything."""
    everything = hits["hits@10_trained_on_all"]
    return f"{hits['hits@10']:.1%} ({everything:.1%} when trained on everything, ratio {hits['share']:.1%})"


def _result(name: str) -> dict[str, Any] | None:
    """A stored result under the present names of its keys; None if there is none."""
    path = HERE / f"{name}.json"
    if not path.exists():
        return None
    text = path.read_text(encoding="utf-8")
    for old, new in OLD_KEYS.items():
        text = text.replace(f'{old}"', f'{new}"')
    result: dict[str, Any] = json.loads(text)
    return result


if __name__ == "__main__":
    if "--write" in sys.argv:
        before, marker, _ = PAGE.read_text(encoding="utf-8").partition(BEGIN)
        PAGE.write_text(f"{before}{marker}\n\n{figures()}", encoding="utf-8")
    else:
        print(figures())
