"""The demo: train on the atlas, evaluate, answer questions, audit, explain, plot."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np

from doxa.config import Settings
from doxa.curation.audit import audit
from doxa.curation.explain import explain
from doxa.curation.explanation import Explanation
from doxa.data.atomic import sweep, written, written_folder
from doxa.data.beliefs import Beliefs
from doxa.demo import atlas
from doxa.errors import BadFile
from doxa.evaluation.report import Evaluation, evaluate
from doxa.inference import Answer
from doxa.model import Model
from doxa.render import plots
from doxa.render.evaluation import show_ranking
from doxa.render.pages import explanation_page
from doxa.render.terminal import busy, out, say, show_table, training_progress
from doxa.training.fit import fit_to_folder

SETTINGS = Settings(score="translation", dimension=100, epochs=30, scale=1.5, patience=0, validate_every=1)
SUSPECTS, EXPLAINED = 12, 3

QUESTIONS: tuple[tuple[str, str, str, str | None], ...] = (
    ("Lyon", "located in", "?", None),
    ("Portugal", "uses currency", "?", None),
    ("Austria", "official language", "?", None),
    ("?", "capital of", "Poland", None),
    ("?", "located in", "Spain", None),
    ("Warsaw", "?", "Poland", "is the main city of"),
    ("Peru", "?", "South America", "lies in"),
)
"""Questions whose answers are in the test part, unseen in training; the last two with the words that stated them."""


def run(folder: Path, force: bool = False) -> None:
    """Run the demo and write the data, the model and the plots into `folder`; an earlier demo stays until the end."""
    _check(folder, force)
    began = time.monotonic()
    with written_folder(folder) as unfinished:
        _fill(unfinished)
    out.print(f"\nTrained, evaluated and answered in {time.monotonic() - began:.0f} s. Files:")
    out.print(f"  {folder / 'learning_curve.png'}   loss and validation metric by epoch")
    out.print(f"  {folder / 'reliability.png'}      credence against the share of true beliefs")
    out.print(f"  {folder / 'explanation.html'}     the last explanation as a web page")
    _next_steps(folder)


def _check(folder: Path, force: bool) -> None:
    """Refuse a folder that is not an earlier demo, and without `force` an earlier demo."""
    if not folder.exists():
        return
    sweep(folder)
    ours = {"data", "model", "learning_curve.png", "reliability.png", "explanation.html"}
    if folder.is_file() or any(path.name not in ours for path in folder.iterdir()):
        raise BadFile(f"{folder} is not the folder of an earlier demo", "choose another folder", remedy="out")
    if not force:
        raise BadFile(f"{folder} already exists", remedy="force")


def _fill(folder: Path) -> None:
    """Train, evaluate and answer, and fill an empty folder; Ctrl-C ends the demo, which cannot be resumed."""
    world = atlas.write(folder / "data")
    train = Beliefs.from_frame(world.train)
    valid, test = (Beliefs.from_frame(table, train.vocabularies) for table in (world.valid, world.test))
    out.rule("[bold]doxa · knowledge-base completion with probabilities", align="left", style="dim")
    say(f"Training data, an atlas of the world: {train}")
    say("A belief is a triple with the words that stated it and a confidence. 1 in 20 training beliefs is false.\n")
    with training_progress() as report:
        model = fit_to_folder(train, valid, folder / "model", settings=SETTINGS, report=report)
    if model.origin["interrupted"]:
        raise KeyboardInterrupt
    with busy("evaluating on the test beliefs"):
        evaluation = evaluate(model, test, ("entity", "relation", "classification", "calibration"))
    _results(evaluation, test)
    _questions(model)
    explanation = _suspects(model, train, world.planted)
    _write_files(folder, model, evaluation, explanation)


def _results(evaluation: Evaluation, test: Beliefs) -> None:
    """Print the metrics beside those of the popularity baseline."""
    popularity = evaluation.popularity
    assert evaluation.entity
    assert evaluation.relation
    assert evaluation.relation.entities
    assert evaluation.relation.words
    assert evaluation.classification
    assert popularity
    assert popularity.entity
    assert popularity.relation
    assert popularity.classification
    entity = {"popularity baseline": popularity.entity.filtered, "doxa": evaluation.entity.filtered}
    relation = {
        "popularity baseline": popularity.relation.filtered,
        "doxa, entities alone": evaluation.relation.entities.filtered,
        "doxa, words alone": evaluation.relation.words.filtered,
        "doxa, entities and words": evaluation.relation.filtered,
    }
    accuracy = [
        ("popularity baseline", f"{popularity.classification.accuracy:.1%}"),
        ("doxa", f"{evaluation.classification.accuracy:.1%}"),
    ]
    show_ranking(f"Entity prediction: heads and tails of {len(test):,} test beliefs, filtered ranks", entity)
    show_ranking("Relation prediction", relation)
    show_table("Triple classification: test beliefs and as many corrupted ones", ("", "accuracy"), list(accuracy))


def _questions(model: Model) -> None:
    out.print("\n[bold]Questions[/] (top 3 answers; the true answer is not in the training data)")
    for head, relation, tail, mention in QUESTIONS:
        if tail == "?":
            answer = model.tails(head, relation, top=3)
        elif head == "?":
            answer = model.heads(relation, tail, top=3, new_only=True)
        else:
            answer = model.relations(head, tail, mention, top=3)
        say(_one_line(answer))


def _one_line(answer: Answer) -> str:
    head, relation, tail, mention = answer.question
    words = f' "{mention}"' if mention else ""
    return f"  {head} · {relation}{words} · {tail}\n      " + "   ".join(
        f"{candidate.name} {candidate.probability:.0%}" for candidate in answer
    )


def _suspects(model: Model, train: Beliefs, planted: np.ndarray) -> Explanation:
    """Audit the training beliefs, count the planted false ones among the suspects, and explain three suspects.

    Returns the last explanation.
    """
    suspects = audit(model, train)
    rows = [
        (f"{suspects.suspicion[place]:.1f}", suspects.belief(place), "false" if planted[row] else "true")
        for place, row in enumerate(suspects.rows[:SUSPECTS])
    ]
    show_table("Audit: the most suspect training beliefs", ("suspicion", "belief", "in fact"), rows)
    count = int(planted.sum())
    hit, chance = planted[suspects.rows[:count]].mean(), planted.mean()
    say(f"Of the {count:,} most suspect beliefs, {hit:.0%} are false ({chance:.0%} of all training beliefs are).")
    out.print("\n[bold]Explanations[/] of three suspects")
    explained: dict[int, int] = {}
    for place, number in enumerate(suspects.beliefs.relation.tolist()):
        if len(explained) < EXPLAINED:
            explained.setdefault(number, place)
    for place in explained.values():
        belief = suspects.beliefs.take(np.array([place])).to_frame().row(0, named=True)
        head, relation, tail, mention = (belief[part] for part in ("head", "relation", "tail", "mention"))
        explanation = explain(model, head, relation, tail, mention, top=3, influences=3)
        say(str(explanation))
        say(f"  suspect because: {suspects.reason(place)}")
    return explanation


def _write_files(folder: Path, model: Model, evaluation: Evaluation, explanation: Explanation) -> None:
    """Write the plots and the page, each all or nothing."""
    with written(folder / "learning_curve.png") as unfinished:
        plots.learning_curve(model.curve, unfinished)
    if evaluation.calibration:
        with written(folder / "reliability.png") as unfinished:
            plots.reliability_diagram(evaluation.calibration.after, unfinished)
    with written(folder / "explanation.html") as unfinished:
        unfinished.write_text(explanation_page(explanation), encoding="utf-8")


def _next_steps(folder: Path) -> None:
    model = folder / "model"
    out.print("\n[bold]Next commands to try[/]")
    for command in (
        f"doxa ask {model} Munich 'in time zone' '?'",
        f"doxa ask {model} Austria '?' German --mention 'has for a long time had'",
        f"doxa judge {model} {folder / 'data' / 'test.tsv'} | head",
        f"doxa complete {model} --top 100 --out missing.tsv",
        f"doxa audit {model} {folder / 'data' / 'train.tsv'} --out suspects.tsv",
        f"doxa explain {model} Lyon 'located in' France --html lyon.html",
        f"doxa map {model} --relation 'located in' --groups 8 --out map",
        f"doxa evaluate {model} {folder / 'data' / 'test.tsv'}",
        "doxa train YOUR_BELIEFS.tsv --out my-model",
    ):
        say(f"  .venv/bin/{command}")
