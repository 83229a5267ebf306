"""The tables of docs/systems.md, made from the results beside the experiments.

python experiments/tables.py            # prints them
python experiments/tables.py --write    # puts them into docs/systems.md
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
PAGE = HERE.parent / "docs" / "systems.md"
MARKS = ("<!-- made by experiments/tables.py -->", "<!-- end -->")

WN11_PUBLISHED = {"se": 53.0, "slm": 69.9, "bilinear": 73.8, "ntn": 70.4, "transe": 75.9, "transh": 78.8}
"""Accuracy on the same test set without word vectors, as published."""

FB15K_PUBLISHED = {
    "transe": (243, 125, 34.9, 47.1, 762.7, 7.3, 1.9, 79.9),
    "transm": (196, 93, 44.6, 55.2, 402.3, 13.4, 3.2, 85.8),
    "transh": (211, 84, 42.5, 58.5, 79.5, 39.2, 15.6, 87.7),
    "jrme": (None, None, None, None, 60.9, 27.4, 7.2, None),
    "pbe-translation": (165, 61, 50.5, 64.6, 2.6, 97.3, 66.7, 92.6),
}
"""Tables 4 to 6 of the paper: mean rank and Hits@10, raw and filtered; average rank, Hits@10, Hits@1; accuracy."""


FB15K_MORE = ("pbe-translation-scale-13", "pbe-translation-scale-18", "pbe-complex")


def tables() -> str:
    """All of them, as Markdown."""
    return "\n\n".join([wn11(), fb15k(), fb15k_237()])


def wn11() -> str:
    """Triplet classification."""
    lines = ["| WN11, accuracy | published | here | names known | start | training |", "|---|---|---|---|---|---|"]
    order = ("unstructured", "se", "slm", "bilinear", "ntn", "transe", "transm", "transh", "pbe")
    for name, found in _results("wn11", order):
        judged, settings = found["evaluation"]["classification"], found["experiment"]["settings"]
        start = "along the graph" if settings.get("diffusion") else "random"
        lines.append(
            f"| {name} | {WN11_PUBLISHED.get(name, '–')} | {100 * judged['accuracy']:.1f} "
            f"| {100 * judged['accuracy_of_seen']:.1f} | {start} | {_seconds(found)} |"
        )
    return "\n".join(lines)


def fb15k() -> str:
    """Entity inference, relation prediction and classification, the paper's figures above ours."""
    heads = ("MR raw", "filtered", "H@10 raw", "filtered", "relation MR", "H@10", "H@1", "accuracy", "MRR", "training")
    lines = ["| FB15k | " + " | ".join(heads) + " |", "|" + "---|" * (len(heads) + 1)]
    for name, found in _results("fb15k", (*FB15K_PUBLISHED, *FB15K_MORE)):
        if name in FB15K_PUBLISHED:
            paper = " | ".join("–" if figure is None else f"{figure:,}" for figure in FB15K_PUBLISHED[name])
            lines.append(f"| {name}, paper | {paper} | – | – |")
        lines.append(
            f"| **{name}**, here | " + " | ".join([*_fb15k_figures(found["evaluation"]), _seconds(found)]) + " |"
        )
    return "\n".join(lines)


def _fb15k_figures(evaluation: dict[str, Any]) -> list[str]:
    relation = evaluation["relation"]["raw"]
    figures = ["–"] * 4
    mrr = "–"
    if "entity" in evaluation:
        raw, filtered = evaluation["entity"]["raw"], evaluation["entity"]["filtered"]
        figures = [f"{raw['mr']:.0f}", f"{filtered['mr']:.1f}", f"{100 * raw['hits@10']:.1f}",
                   f"{100 * filtered['hits@10']:.1f}"]  # fmt: skip
        mrr = f"{filtered['mrr']:.3f}"
    figures += [f"{relation['mr']:.1f}", f"{100 * relation['hits@10']:.1f}", f"{100 * relation['hits@1']:.1f}"]
    judged = evaluation.get("classification")
    return [*figures, f"{100 * judged['accuracy']:.1f}" if judged else "–", mrr]


def fb15k_237() -> str:
    """What the relation term does for ComplEx."""
    lines = [
        "| FB15k-237, pbe on complex | entity MRR | entity H@10 | relation H@1 | training |",
        "|---|---|---|---|---|",
    ]
    kinds = ("complex-with-relation-term", "complex-without-relation-term")
    for name, found in _results("fb15k-237", kinds):
        entity, relation = (found["evaluation"][task]["filtered"] for task in ("entity", "relation"))
        lines.append(
            f"| {name.removeprefix('complex-').replace('-', ' ')} | {entity['mrr']:.3f} "
            f"| {100 * entity['hits@10']:.1f} | {100 * relation['hits@1']:.1f} | {_seconds(found)} |"
        )
    return "\n".join(lines)


def _results(data: str, names: tuple[str, ...]) -> list[tuple[str, dict[str, Any]]]:
    paths = {name: HERE / "systems" / f"{data}-{name}.json" for name in names}
    return [(name, json.loads(path.read_text(encoding="utf-8"))) for name, path in paths.items() if path.exists()]


def _seconds(found: dict[str, Any]) -> str:
    settings = found["experiment"]["settings"]
    cores = max(settings.get("workers", 1), settings.get("threads", 2))
    return f"{found['training']['seconds']:.0f} s, {cores} core{'s' if cores > 1 else ''}"


def page() -> str:
    """docs/systems.md with the tables put in."""
    text = PAGE.read_text(encoding="utf-8")
    before, after = text.split(MARKS[0])[0], text.split(MARKS[1])[1]
    return f"{before}{MARKS[0]}\n\n{tables()}\n\n{MARKS[1]}{after}"


if __name__ == "__main__":
    if "--write" in sys.argv:
        PAGE.write_text(page(), encoding="utf-8")
    else:
        print(tables())
