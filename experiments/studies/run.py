"""Choose the settings of experiments on validation beliefs: one study per system and dataset, with one budget.

    python experiments/studies/run.py --data DIR                       # every study, the most important first
    python experiments/studies/run.py fb15k-pbe 'nell-*' --data DIR    # these
    python experiments/studies/run.py --list

The budget is time of one processor, so several studies may run side by side. A study that was stopped goes on with the
time it has left; one whose time is spent is skipped. Each writes its trials to experiments/studies/NAME.json and the
settings to doxa/lab/experiments/NAME.toml.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
from pathlib import Path

from doxa.data.atomic import Busy
from doxa.lab import studies
from doxa.training.tuning import seconds_spent

OUT = Path(__file__).parent


def written_seconds(name: str) -> float:
    """The seconds of a study by its JSON, which is in the repository while the journal of its search is not."""
    path = OUT / f"{name}.json"
    return float(json.loads(path.read_text(encoding="utf-8"))["processor_seconds"]) if path.exists() else 0.0


def main() -> None:
    """Run the studies that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="studies; * stands for any text. Without names, all")
    parser.add_argument("--data", type=Path, help="the folder that contains the dataset folders")
    parser.add_argument("--seconds", type=float, help="processor time of each study, in place of its plan's")
    parser.add_argument("--list", action="store_true", help="print all studies, their time, and the time spent")
    options = parser.parse_args()
    known = studies.every()
    patterns = options.names or ["*"]
    chosen = [name for name in known if any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)]
    if not chosen:
        studies.named(patterns[0])
    for name in chosen:
        study = known[name]
        budget = study.plan.seconds if options.seconds is None else options.seconds
        try:
            spent = max(seconds_spent(OUT / "journals" / name), written_seconds(name))
        except Busy:
            print(f"{name}: another process is running it")
            continue
        if options.list:
            print(f"{name:<28} {budget:6.0f} s, {spent:6.0f} s spent")
            continue
        if spent >= budget and (OUT / f"{name}.json").exists():
            print(f"{name}: its {budget:.0f} seconds are spent")
            continue
        if options.data is None:
            parser.error("--data is needed to run a study")
        tuning = studies.perform(study, options.data, OUT, options.seconds)
        print(f"{name}: {tuning!r}, {tuning.best}", flush=True)


if __name__ == "__main__":
    main()
