"""The demo: learn the atlas, measure, ask, audit, draw."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import numpy as np

from doxa import formats as files
from doxa.calibration.thresholds import Thresholds
from doxa.config import Settings
from doxa.curation.audit import audit
from doxa.curation.explain import explain
from doxa.data.beliefs import Beliefs
from doxa.data.negatives import labeled_beliefs
from doxa.demo import atlas
from doxa.errors import DoxaError
from doxa.evaluation.popularity import Popularity
from doxa.evaluation.report import Evaluation, classification_report, entity_report, evaluate, relation_report
from doxa.inference import Answer
from doxa.model import Model
from doxa.render import plots
from doxa.render.pages import to_html
from doxa.render.terminal import busy, out, say, show_ranking, show_table, training_progress
from doxa.training.fit import fit_to_folder

SETTINGS = Settings(dimension=100, epochs=30, scale=1.5, patience=0)
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
"""TripleIndex the demo has not seen: each belongs to the test part, the last two with the words that stated them."""


def run(folder: Path, force: bool = False) -> None:
    """Run the demo, leaving the data, the model and the pictures in `folder`."""
    _clear(folder, force)
    world = atlas.load()
    for name in ("train", "valid", "test"):
        files.write(getattr(world, name), folder / "data" / f"{name}.tsv")
    train = Beliefs.from_frame(world.train)
    valid, test = (Beliefs.from_frame(table, train.vocabularies) for table in (world.valid, world.test))
    began = time.monotonic()
    out.rule("[bold]doxa · a belief in, a probability out", align="left", style="dim")
    say(f"The atlas of the world: {train}")
    say("It learns from sentences of a simulated reader that is wrong about one time in twenty.\n")
    with training_progress() as report:
        model = fit_to_folder(train, valid, folder / "model", settings=SETTINGS, report=report)
    with busy("measuring on the withheld test beliefs"):
        found = evaluate(model, test, ("entity", "relation", "classification", "calibration"))
    _results(model, found, train, valid, test)
    _questions(model)
    _suspects(model, train, world.planted, folder)
    plots.learning_curve(model.curve, folder / "learning_curve.png")
    if found.calibration:
        plots.reliability_diagram(found.calibration.after, folder / "reliability.png")
    out.print(f"\nLearnt and answered in {time.monotonic() - began:.0f} s. Pictures:")
    out.print(f"  {folder / 'learning_curve.png'}   loss and quality by epoch")
    out.print(f"  {folder / 'reliability.png'}      do beliefs come true as often as doxa says?")
    out.print(f"  {folder / 'explanation.html'}     the last of the three explanations as a page")
    _next_steps(folder)


def _clear(folder: Path, force: bool) -> None:
    """Make room: an earlier demo is replaced with `force`, anything else is left alone."""
    if not folder.exists():
        return
    ours = {"data", "model", "learning_curve.png", "reliability.png", "explanation.html"}
    foreign = [] if folder.is_file() else sorted(path.name for path in folder.iterdir() if path.name not in ours)
    if folder.is_file() or foreign:
        raise DoxaError(f"{folder} is not the folder of an earlier demo", "choose a new one with --out")
    if not force:
        raise DoxaError(f"{folder} already exists", "pass --force to replace it")
    shutil.rmtree(folder)


def _results(model: Model, found: Evaluation, train: Beliefs, valid: Beliefs, test: Beliefs) -> None:
    popularity = Popularity(model.trained_facts)
    known = model.known.union(test.triples)
    assert found.entity
    assert found.relation
    assert found.classification
    entity = {
        "popularity": entity_report(popularity, test, known, model.trained_facts).filtered,
        "doxa": found.entity.filtered,
    }
    relation = {
        "popularity": relation_report(popularity, test, known).filtered,
        "doxa, entities alone": relation_report(model.pbe, test, known, "pair").filtered,
        "doxa, words alone": relation_report(model.pbe, test, known, "mention").filtered,
        "doxa, entities and words": found.relation.filtered,
    }
    judged, tested = (labeled_beliefs(part, known, 0) for part in (valid, test))
    assert judged.label is not None
    thresholds = Thresholds.fit(popularity.plausibility(judged), judged.relation, judged.label, popularity.relations)
    verdict = popularity.plausibility(tested) >= thresholds.of(tested.relation)
    accuracy = [
        ("popularity", f"{classification_report(verdict, tested).accuracy:.1%}"),
        ("doxa", f"{found.classification.accuracy:.1%}"),
    ]
    show_ranking(f"Which entity is missing? ({len(test):,} withheld beliefs, both sides, filtered)", entity)
    show_ranking("Which relation holds?", relation)
    show_table("Is this belief true? (against as many made-up falsehoods)", ("", "right"), list(accuracy))


def _questions(model: Model) -> None:
    out.print("\n[bold]Questions[/] (the true answer was never shown to it)")
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
    said = f' "{mention}"' if mention else ""
    return f"  {head} · {relation}{said} · {tail}\n      " + "   ".join(
        f"{candidate.name} {candidate.probability:.0%}" for candidate in answer
    )


def _suspects(model: Model, train: Beliefs, planted: np.ndarray, folder: Path) -> None:
    """Audit what was learnt from, show how many falsehoods that finds, and explain some finds."""
    found = audit(model, train)
    rows = [
        (f"{found.suspicion[place]:.1f}", found.belief(place), "planted falsehood" if planted[row] else "true")
        for place, row in enumerate(found.rows[:SUSPECTS])
    ]
    show_table("What the audit finds most suspect of what it learnt from", ("suspicion", "belief", "in truth"), rows)
    count = int(planted.sum())
    hit, chance = planted[found.rows[:count]].mean(), planted.mean()
    out.print(f"Of the {count:,} most suspect beliefs {hit:.0%} are planted falsehoods ({chance:.0%} by chance).")
    out.print("\n[bold]Why?[/]")
    explained: dict[int, int] = {}
    for place, relation in enumerate(found.beliefs.relation.tolist()):
        if len(explained) < EXPLAINED:
            explained.setdefault(relation, place)
    for place in explained.values():
        belief = found.beliefs.take(np.array([place])).to_frame().row(0, named=True)
        why = explain(model, belief["head"], belief["relation"], belief["tail"], belief["mention"], top=3, influences=3)
        say(str(why))
        say(f"  so: {found.reason(place)}")
    (folder / "explanation.html").write_text(to_html(why), encoding="utf-8")


def _next_steps(folder: Path) -> None:
    model = folder / "model"
    out.print("\n[bold]Type next[/]")
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
