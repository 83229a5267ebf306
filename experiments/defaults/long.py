"""Long training of FB15k and FB15k-237, within 150 minutes of two cores each, by options of `doxa train`.

    python experiments/defaults/long.py --data DIR [--recipes fb15k-237] [--seeds 0]

Score and regularization are those that the race chooses without options. Dimension and epochs are larger; they are a
first guess. On FB15k they reach an MRR of .822 in 37 minutes, on FB15k-237 .356 in 49. What was tried is in tried.md.
Writes long.json beside this file after every run.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from run import add, figures, read

RESULTS = Path(__file__).with_name("long.json")
COMPLEX = {"learning_rate": 0.4, "sampling_correction": "true"}
RECIPES: dict[str, dict[str, object]] = {
    "fb15k-237": COMPLEX | {"n3": 0.1, "dimension": 2000, "epochs": 60},
    "fb15k": COMPLEX | {"n3": 0.01, "dimension": 1000, "epochs": 40},
}


def main() -> None:
    """Run the recipes that are not in the file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder of dataset folders")
    parser.add_argument("--recipes", nargs="+", choices=list(RECIPES), default=list(RECIPES))
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    for name in arguments.recipes:
        settings = [f"{key}={value}" for key, value in RECIPES[name].items()]
        options = ["--score", "complex", *(part for setting in settings for part in ("--set", setting))]
        for seed in arguments.seeds:
            if f"{name} {seed}" not in read(arguments.out):
                result = figures(arguments.data / name, seed, options)
                add(arguments.out, f"{name} {seed}", {"options": " ".join(options)} | result)


if __name__ == "__main__":
    main()
