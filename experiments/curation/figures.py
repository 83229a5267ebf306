"""The figures of docs/curation.md, from the results beside this file.

python experiments/curation/figures.py        # prints them; `--write` puts them into the page
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
PAGE = HERE.parent.parent / "docs" / "curation.md"
BEGIN = "<!-- figures: experiments/curation/figures.py -->"


def figures() -> str:
    """The lines of the page below its marker."""
    rows: list[tuple[str, str, str]] = []
    if found := _result("completion"):
        first, exact = found["precision_of_the_first"], found["exhaustive"]
        rows += [
            (
                f"FB15k, a tenth of train hidden ({found['hidden']:,}), as many proposals",
                f"precision {found['precision']:.1%}, recall {found['recall']:.1%}; popularity "
                f"{found['popularity_precision']:.1%}; hidden or in the test set {found['hidden_or_in_test']:.1%}; "
                f"of the first thousand {first['1000']:.1%} hidden",
                "completion.py",
            ),
            (
                "its time and memory, one thread of a busy machine",
                f"{found['seconds']:.0f} s, {found['peak_rss_mb']:,} MB",
                "completion.py",
            ),
            (
                f"{exact['relations']} relations, all {exact['pairs']:,} pairs one by one",
                f"{exact['of_these_in_the_list']:.0%} of those above the edge in the list, credences differ by "
                f"{exact['largest_difference_of_credence']:.1g} at most; {exact['seconds_one_by_one']:.0f} s against "
                f"{exact['seconds_complete']:.0f} s",
                "completion.py",
            ),
        ]
    if found := _result("audit"):
        rows += [
            (
                f"atlas, {found['planted']:,} planted falsehoods, as many suspects",
                f"{found['found_among_as_many_suspects']:.1%} found ({found['found_by_credence_alone']:.1%} by "
                f"credence alone, {found['found_without_mentions']:.1%} without the words, "
                f"{found['by_chance']:.1%} by chance)",
                "audit.py",
            ),
            (
                "its suggestions",
                f"the true tail for {found['true_tail_suggested_of_all_planted']:.1%} of all planted",
                "audit.py",
            ),
        ]
    if found := _result("fold_in"):
        others, test, among = found["others"], found["test"], found["intrusion"]
        rows += [
            (
                f"FB15k, {found['entities']} entities never seen, folded in from {found['beliefs_given']} beliefs each",
                f"filtered Hits@10 {_beside(others)} on their other beliefs; {_beside(test)} on those in the test set",
                "fold_in.py",
            ),
            (
                "its share of learning from everything",
                f"with other draws of the {found['beliefs_given']} beliefs "
                f"{', '.join(f'{share:.1%}' for share in found['share_by_draw'][1:])}; with the first, by the mean "
                f"over entities, {others['share_by_mean_over_entities']:.1%}",
                "fold_in.py",
            ),
            (
                "questions it does not answer, with it among the ten best answers",
                f"{among['among_ten_best']:.1%}; {among['among_ten_best_learnt_from_all']:.2%} when learnt from "
                "everything",
                "fold_in.py",
            ),
            (
                "one fold-in, one thread",
                f"{found['milliseconds']['median']:.0f} ms by the clock, "
                f"{found['processor_milliseconds']['median']:.0f} ms of the processor (medians)",
                "fold_in.py",
            ),
        ]
    for found in (_result("updating") or {}).values():
        if "filtered_mrr" not in found:
            continue
        mrr, seconds = found["filtered_mrr"], found["processor_seconds"]
        rows += [
            (
                f"FB15k, {found['new_beliefs']:,} new beliefs on {found['old_beliefs']:,}, "
                f"{found['new_entities']} new entities",
                f"filtered MRR {mrr['before']:.3f} before, {mrr['updated']:.3f} updated, "
                f"{mrr['anew']:.3f} trained anew: {found['points_lost']:.1f} points lost",
                "updating.py",
            ),
            (
                "its processor time",
                f"{seconds['update']:.0f} s against {seconds['anew']:.0f} s: {seconds['share']:.0%}",
                "updating.py",
            ),
        ]
    lines = ["| what | figure | `experiments/curation/` |", "|---|---|---|"]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)]) + "\n"


def _beside(hits: dict[str, float]) -> str:
    """Hits@10 beside those of learning from everything."""
    return (
        f"{hits['hits@10']:.1%} where learning from everything gives {hits['hits@10_learnt_from_all']:.1%} "
        f"({hits['share']:.1%} of it)"
    )


def _result(name: str) -> dict[str, Any] | None:
    path = HERE / f"{name}.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None


if __name__ == "__main__":
    if "--write" in sys.argv:
        before, marker, _ = PAGE.read_text(encoding="utf-8").partition(BEGIN)
        PAGE.write_text(f"{before}{marker}\n\n{figures()}", encoding="utf-8")
    else:
        print(figures())
