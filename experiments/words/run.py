"""Relation Hits@1 from words, from entities and from both, beside scikit-learn's logistic regression.

    python experiments/words/run.py DATA_FOLDER [--sets semeval biomed webnlg] [--seeds 0 1 2] [--score translation]

Every test belief counts, those with unseen entities too. The model is trained with its defaults and nothing is chosen
on the test set. The baseline has the same features as doxa: the words of the mention (plain), or these and the marked
words of `doxa.data.places` (marked). Further baselines add pairs of neighboring words (bigrams) to the marked words, or
weight these by inverse document frequency (idf). C is chosen by accuracy on the validation set. Figures are raw Hits@1,
which is accuracy; `filtered` leaves out other relations that are known to hold. Results go to words.json beside this
file; --table prints them in Markdown.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix, hstack
from sklearn.feature_extraction.text import CountVectorizer, TfidfTransformer
from sklearn.linear_model import LogisticRegression

import doxa
from doxa.data.beliefs import Beliefs
from doxa.formats import read_frame

STRENGTHS, IDF_STRENGTHS = (0.03, 0.1, 0.3, 1.0, 3.0), (1.0, 3.0, 10.0, 30.0, 100.0)
"""Values of C; rows weighted by inverse document frequency have length 1, and need larger ones."""

BASELINES = ("plain", "marked", "bigrams", "idf")
PARTS = ("train", "valid", "test")


def main() -> None:
    """Run what is not yet in the result file, and write it after every run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--sets", nargs="+", default=["semeval", "biomed", "webnlg"])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--score", default="translation")
    parser.add_argument("--baseline", nargs="*", choices=BASELINES, default=list(BASELINES))
    parser.add_argument("--table", action="store_true", help="print the table of docs/systems.md, and run nothing")
    parser.add_argument("--out", type=Path, default=Path(__file__).with_name("words.json"))
    options = parser.parse_args()
    results: dict[str, Any] = json.loads(options.out.read_text()) if options.out.exists() else {}
    if options.table:
        print(table(results, options.sets))
        return
    for name in options.sets:
        beliefs = {part: doxa.read(options.data / name / f"{part}.tsv") for part in PARTS}
        for seed in options.seeds:
            key = f"{name} {options.score} seed {seed}"
            if key not in results:
                results[key] = figures(beliefs, options.score, seed)
                write(results, options.out)
        for features in options.baseline:
            key = f"{name} scikit-learn, {features} words"
            if key not in results:
                texts = {part: mentions(options.data / name / f"{part}.tsv") for part in PARTS}
                results[key] = baseline(beliefs, texts, features)
                write(results, options.out)


def figures(beliefs: dict[str, Beliefs], score: str, seed: int) -> dict[str, Any]:
    """Relation Hits@1 of a model with default settings on the test set."""
    began = time.process_time()
    model = doxa.fit(beliefs["train"], valid=beliefs["valid"], on_error="skip", score=score, seed=seed, threads=1)
    cpu = time.process_time() - began
    report = doxa.evaluate(model, beliefs["test"], tasks=["entity", "relation"], popularity=False)
    relation = report.as_dict()["relation"]
    parts = {"both": relation, "entities": relation["entities"], "words": relation["words"]}
    hits = {
        part: {kind: round(values[kind]["hits@1"], 4) for kind in ("raw", "filtered")} for part, values in parts.items()
    }
    assert report.entity is not None
    return hits | {
        "entity_mrr": round(report.entity.filtered.mrr, 4),
        "mention_exponent": round(model.calibration.mention_exponent, 3),
        "epochs": model.origin["epochs"],
        "cpu_seconds": round(cpu, 1),
    }


def mentions(path: Path) -> list[str]:
    """The sentences of a file."""
    return read_frame(path)["mention"].fill_null("").to_list()


def baseline(beliefs: dict[str, Beliefs], texts: dict[str, list[str]], features: str) -> dict[str, Any]:
    """Accuracy of logistic regression on the words of the mention, at the C that is best on the validation set."""
    began = time.process_time()
    train = beliefs["train"] if features == "plain" else beliefs["train"].with_places()
    encoded = {part: rows.encode(train.vocabularies) for part, rows in (beliefs | {"train": train}).items()}
    tables = {part: presence(rows) for part, rows in encoded.items()}
    if features == "bigrams":
        pairs = CountVectorizer(binary=True, ngram_range=(2, 2), token_pattern=r"\w+").fit(texts["train"])
        tables = {part: hstack([rows, pairs.transform(texts[part])]).tocsr() for part, rows in tables.items()}
    if features == "idf":
        weights = TfidfTransformer().fit(tables["train"])
        tables = {part: weights.transform(rows) for part, rows in tables.items()}
    best: tuple[float, float, float] = (-1.0, 0.0, 0.0)
    for strength in IDF_STRENGTHS if features == "idf" else STRENGTHS:
        regression = LogisticRegression(C=strength, max_iter=300).fit(tables["train"], encoded["train"].relation)
        on_valid, on_test = (
            float(np.mean(regression.predict(tables[part]) == encoded[part].relation)) for part in ("valid", "test")
        )
        best = max(best, (on_valid, on_test, strength))
    cpu = round(time.process_time() - began, 1)
    return {"valid": round(best[0], 4), "test": round(best[1], 4), "C": best[2], "cpu_seconds": cpu}


def table(results: dict[str, Any], sets: list[str]) -> str:
    """Figures of the test set in Markdown: doxa's are means over seeds, with the sample standard deviation."""
    columns = ("words", "entities", "both")
    lines = ["| data | " + " | ".join(f"doxa, {part}" for part in columns) + " | "
             + " | ".join(f"scikit-learn, {features}" for features in BASELINES) + " |",
             "|---" * (1 + len(columns) + len(BASELINES)) + "|"]  # fmt: skip
    for name in sets:
        runs = [run for key, run in results.items() if key.startswith(f"{name} translation seed")]
        cells = []
        for part in columns:
            hits = [run[part]["raw"] for run in runs]
            cells.append(f"{np.mean(hits):.3f} ± {np.std(hits, ddof=1):.3f}")
        for features in BASELINES:
            one = results.get(f"{name} scikit-learn, {features} words")
            cells.append("–" if one is None else f"{one['test']:.3f} ({one['valid']:.3f})")
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def presence(beliefs: Beliefs) -> csr_matrix:
    """φ(m) of every belief, (n, words)."""
    mention = beliefs.mention
    shape = len(beliefs), len(beliefs.vocabularies.words)
    return csr_matrix((np.ones(len(mention.values)), mention.values, mention.offsets), shape=shape)


def write(results: dict[str, Any], path: Path) -> None:
    """Write the results so far."""
    path.write_text(json.dumps(dict(sorted(results.items())), indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
