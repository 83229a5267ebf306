"""The race against every member of its portfolio, each trained to the end.

    python experiments/race/race.py --data DIR [--sets kinships umls …] [--seeds 0 1 2] [--only race|members] [--table]

Writes experiments/race/race.json: for every dataset and seed the validation and test MRR of each member, the member
that the race chose, what its model reaches on test, and the share of the work that the race had. A run that is in the
file already is not repeated. `--table` prints a table of the file. Validation MRR is of all validation beliefs with
seen names; test MRR counts test beliefs with unseen names as guesses. Nothing is chosen on test.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from pathlib import Path
from typing import Any

import doxa
from doxa.data.atomic import written
from doxa.data.beliefs import Beliefs
from doxa.evaluation.report import evaluate
from doxa.model import Model
from doxa.systems import recipe
from doxa.training.race import members

RESULTS = Path(__file__).with_name("race.json")
SETS = ("kinships", "umls", "nations", "webnlg", "biomed", "semeval", "nell", "wn18rr", "fb15k-237", "fb15k")
RACE = "race"


def main() -> None:
    """Train what is missing in the file, or print its table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder of dataset folders")
    parser.add_argument("--sets", nargs="+", default=list(SETS))
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    parser.add_argument("--only", choices=("race", "members"), help="run the race, or the members, alone")
    parser.add_argument("--set", action="append", default=[], dest="values", help="a setting of every run: NAME=VALUE")
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--table", action="store_true", help="print a table of the file and train nothing")
    arguments = parser.parse_args()
    if arguments.table:
        print(table(read(arguments.out)))
        return
    values = doxa.systems.parse_assignments(arguments.values)
    for name in arguments.sets:
        parts = [doxa.read(arguments.data / name / f"{part}.tsv") for part in ("train", "valid", "test")]
        for seed in arguments.seeds:
            for member in wanted(arguments.only):
                run(name, seed, member, parts, values, arguments.out)


def wanted(only: str | None) -> list[str]:
    """The race first: it is the shortest to know."""
    portfolio = [] if only == "race" else list(members(recipe({})))
    return ([] if only == "members" else [RACE]) + portfolio


def run(name: str, seed: int, member: str, parts: list[Beliefs], values: dict[str, Any], out: Path) -> None:
    """Train a member, or what the race chooses, and add its figures to the file."""
    key = f"{name} {seed} {member}"
    if key in read(out):
        return
    settings = recipe(values | {"seed": seed})
    if member != RACE:
        settings = members(settings)[member]
    began, worked = time.monotonic(), time.process_time()
    model = doxa.fit(parts[0], parts[1], settings=settings)
    figures: dict[str, Any] = {
        "set": name,
        "seed": seed,
        "member": member,
        "seconds": round(time.monotonic() - began, 1),
        "cpu_seconds": round(time.process_time() - worked, 1),
        "epochs": model.origin["epochs"],
        **measured(model, parts),
    }
    if member == RACE:
        figures["race"] = model.origin.get("race")
    results = read(out) | {key: figures}
    with written(out) as unfinished:
        unfinished.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    print(key, json.dumps({name: value for name, value in figures.items() if name != "race"}), flush=True)


def measured(model: Model, parts: list[Beliefs]) -> dict[str, float]:
    """Filtered MRR of entities and relations on validation and test beliefs."""
    valid = parts[1].encode(model.vocabularies)
    figures = {}
    for part, beliefs in (("valid", valid.where(valid.seen)), ("test", parts[2])):
        report = evaluate(model, beliefs, ["entity", "relation"], popularity=False)
        if report.entity:
            figures[f"{part}_mrr"] = round(report.entity.filtered.mrr, 4)
        if report.relation:
            figures[f"{part}_relation_mrr"] = round(report.relation.filtered.mrr, 4)
    return figures


def read(path: Path) -> dict[str, Any]:
    """The results so far, by dataset, seed and member."""
    return dict(json.loads(path.read_text(encoding="utf-8"))) if path.exists() else {}


def table(results: dict[str, Any]) -> str:
    """A row per dataset: the best member on test, the race's choices, their test MRR and the share of work."""
    lines = ["| data | best member | its test MRR | the race's choice | its test MRR | difference | share of work |"]
    lines.append("|---|---|---|---|---|---|---|")
    for name in dict.fromkeys(row["set"] for row in results.values()):
        rows = [row for row in results.values() if row["set"] == name]
        by_member: dict[str, list[float]] = {}
        for row in rows:
            by_member.setdefault(row["member"], []).append(row["test_mrr"])
        means = {member: statistics.mean(figures) for member, figures in by_member.items()}
        raced, races = means.pop(RACE, None), [row["race"] for row in rows if row.get("race")]
        best = max(means, key=lambda member: means[member], default=None)
        if raced is None or best is None:
            continue
        choices = ", ".join(dict.fromkeys(one["winner"] for one in races)) or "–"
        share = max((one["share_of_work"] for one in races), default=0.0)
        figures = (f"{means[best]:.3f}", choices, f"{raced:.3f}", f"{raced - means[best]:+.3f}", f"{share:.0%}")
        lines.append(f"| {name} | {best} | {' | '.join(figures)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
