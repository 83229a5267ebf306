"""Finishing a knowledge base: what is missing, what is wrong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from doxa.cli.options import (
    FormatOption,
    MemoryOption,
    ModelFolder,
    OnErrorOption,
    ReadOption,
    check_output,
    read,
    reading,
)

OutFile = Annotated[Path, typer.Option("--out", help="TSV file to write, with a column `review` to fill in.")]


def complete(
    model: ModelFolder,
    out: OutFile,
    relation: Annotated[list[str] | None, typer.Option(help="Only beliefs of this relation; may be repeated.")] = None,
    entity: Annotated[list[str] | None, typer.Option(help="Only beliefs about this entity; may be repeated.")] = None,
    min_credence: Annotated[float, typer.Option(help="Leave out what is less credible.", min=0, max=1)] = 0.8,
    top: Annotated[int, typer.Option(help="How many at most.", min=1)] = 10_000,
    any_entity: Annotated[
        bool,
        typer.Option("--any-entity", help="Also entities in places of a relation they were never seen in; slower."),
    ] = False,
    contradicting: Annotated[
        bool,
        typer.Option(
            "--contradicting/--no-contradicting", help="Also a second answer where the relation seldom has two."
        ),
    ] = True,
    memory: MemoryOption = "",
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the search that --out was begun with.")] = False,
) -> None:
    """Discover what is missing: the most credible new beliefs of the whole knowledge base.

    Each comes with its credence, the probabilities of its head, relation and tail given the other two (Eqs 8–10) and
    its rank among all heads and tails not yet known. Fill the column `review` with accept, reject or unsure and hand
    the file to `doxa review apply`. A search that was stopped goes on with --resume.

    Example: `doxa complete model --relation 'located in' --top 500 --out missing.tsv`
    """
    from doxa import formats as files
    from doxa.cli.options import parse_size
    from doxa.curation.complete import Advance
    from doxa.curation.complete import complete as run
    from doxa.curation.review import to_review
    from doxa.errors import DoxaError
    from doxa.model import Model
    from doxa.render import terminal as display

    check_output("--out", out, model, model)
    unfinished = out.with_name(f".{out.name}.search")
    if resume and not unfinished.exists():
        raise DoxaError(f"no unfinished search of {out} to resume", "start one without --resume")
    loaded = Model.load(model)
    if memory:
        loaded.pbe.memory = parse_size(memory)
    with display.progress("completing") as bar:

        def report(now: Advance) -> None:
            bar(now.fraction, f"{now.relation} · {now.found:,} found, last {now.last_credence:.3f}")

        found = run(
            loaded,
            relations=relation or (),
            entities=entity or (),
            min_credence=min_credence,
            top=top,
            any_entity=any_entity,
            contradicting=contradicting,
            report=report,
            checkpoint=unfinished,
            resume=resume,
        )
    files.write(to_review(found.to_frame(), "missing", loaded), out)
    unfinished.unlink(missing_ok=True)
    display.say(f"{out}: {len(found):,} new beliefs")
    if len(found):
        display.say(
            f"credence {found.credence[0]:.3f} to {found.credence[-1]:.3f}; review them, then `doxa review apply`"
        )


def audit(
    model: ModelFolder,
    file: Annotated[
        Path | None,
        typer.Argument(metavar="[FILE]", help="Beliefs to audit, with their mentions; the model's own if left out."),
    ] = None,
    top: Annotated[int, typer.Option(help="How many suspects to write.", min=1)] = 1000,
    show: Annotated[int, typer.Option(help="How many to show.", min=0)] = 10,
    out: Annotated[Path | None, typer.Option("--out", help="TSV file to write, with a column `review`.")] = None,
    memory: MemoryOption = "",
    format_: FormatOption = "",
    read_: ReadOption = [],  # noqa: B006
    on_error: OnErrorOption = "raise",
) -> None:
    """Find what is wrong: known beliefs, the most suspect first, with the tail that should stand there instead.

    A belief is suspect if its credence is low, if another tail or head is much likelier, and if it contradicts a
    likelier known belief of a relation that seldom has two answers. Fill the column `review` with accept (the belief is
    wrong), reject (it stands) or unsure and hand the file to `doxa review apply`.

    Example: `doxa audit model beliefs.tsv --out suspects.tsv`
    """
    from doxa import formats as files
    from doxa.cli.options import parse_size
    from doxa.curation.audit import audit as run
    from doxa.curation.review import to_review
    from doxa.model import Model
    from doxa.render import terminal as display

    check_output("--out", out, model, file or model)
    loaded = Model.load(model)
    if memory:
        loaded.pbe.memory = parse_size(memory)
    given = None if file is None else read(file, on_error, reading(format_, read_), allow_zero_confidence=True)
    with display.progress("auditing") as bar:
        found = run(loaded, given, top, lambda fraction: bar(fraction, ""))
    for place in range(min(show, len(found))):
        display.say(f"{place + 1:4}  {found.belief(place)}\n      {found.reason(place)}")
    if found.strange:
        display.tell(f"Note: {found.strange:,} beliefs name something the model never saw; they are not judged")
    if out is not None:
        files.write(to_review(found.to_frame(), "suspect", loaded), out)
        display.say(f"{out}: {len(found):,} suspects; review them, then `doxa review apply`")


def explain(
    model: ModelFolder,
    head: Annotated[str, typer.Argument(help="Head.")],
    relation: Annotated[str, typer.Argument(help="Relation.")],
    tail: Annotated[str, typer.Argument(help="Tail.")],
    mention: Annotated[str | None, typer.Option(help="Words that state the belief.")] = None,
    top: Annotated[int, typer.Option(help="How many like beliefs, and influences.", min=0)] = 5,
    json_: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
    html: Annotated[
        Path | None, typer.Option("--html", metavar="FILE", help="Write a page with a picture of the neighborhood.")
    ] = None,
) -> None:
    """Say why a belief has its credence.

    Shows what each word of the mention adds to F(r, m) (Eq. 11), the three terms of Eq. 1, the known beliefs most
    alike, the runner-up and why it lost, and the training beliefs that share an entity with it and without which the
    answer would change most, by one gradient step.

    Example: `doxa explain model Lyon 'located in' France --mention 'is a city of' --html lyon.html`
    """
    from doxa.data.atomic import written
    from doxa.model import Model
    from doxa.render import terminal as display
    from doxa.render.pages import to_html

    check_output("--html", html, model, model)
    found = Model.load(model).explain(head, relation, tail, mention, top=top, influences=top)
    if html is not None:
        with written(html) as unfinished:
            unfinished.write_text(to_html(found), encoding="utf-8")
    if json_:
        print(json.dumps(found.as_dict(), ensure_ascii=False))
    else:
        display.say(str(found))


def similar(
    model: ModelFolder,
    entity: Annotated[str, typer.Argument(help="The entity to find others like.")],
    relation: Annotated[str | None, typer.Option(help="Only among entities in beliefs of this relation.")] = None,
    top: Annotated[int, typer.Option(help="How many.", min=1)] = 10,
) -> None:
    """List the entities whose vectors are most alike to one's.

    Example: `doxa similar model Lyon --top 5`
    """
    from doxa.model import Model
    from doxa.render import terminal as display

    for name, likeness in Model.load(model).similar(entity, top, relation):
        display.say(f"  {likeness:6.3f}  {name}")


def duplicates(
    model: ModelFolder,
    top: Annotated[int, typer.Option(help="How many pairs at most.", min=1)] = 20,
    least: Annotated[float, typer.Option("--min-likeness", help="Cosine of the vectors.", min=-1, max=1)] = 0.5,
    out: Annotated[Path | None, typer.Option("--out", help="TSV file to write instead of showing them.")] = None,
) -> None:
    """List pairs of entities that may be one under two names.

    Each of the two is the other's most alike, and no known belief links them.

    Example: `doxa duplicates model --top 50 --out pairs.tsv`
    """
    import polars as pl

    from doxa.curation.similar import Duplicate
    from doxa.curation.similar import duplicates as run
    from doxa.data.atomic import written
    from doxa.model import Model
    from doxa.render import terminal as display

    check_output("--out", out, model, model)
    found = run(Model.load(model), top, least)
    if out is not None:
        with written(out) as unfinished:
            pl.DataFrame(found, schema=Duplicate._fields, orient="row").write_csv(
                unfinished, separator="\t", quote_style="never"
            )
        display.say(f"{out}: {len(found):,} pairs")
        return
    rows: list[tuple[Any, ...]] = [
        (pair.first, pair.second, f"{pair.likeness:.3f}", f"{pair.name_likeness:.2f}", pair.shared) for pair in found
    ]
    display.show_table("", ("first", "second", "vectors alike", "names alike", "beliefs in common"), rows)


def update(
    model: ModelFolder,
    new: Annotated[
        Path | None, typer.Argument(metavar="[NEW]", help="New beliefs; names the model lacks are loaded too.")
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", help="The model folder to write.")] = None,
    retract: Annotated[Path | None, typer.Option(help="Known beliefs to be unlearnt.")] = None,
    labels: Annotated[
        Path | None, typer.Option(help="Beliefs labeled 1 and -1, to calibrate credence and set thresholds anew.")
    ] = None,
    epochs: Annotated[int, typer.Option(help="Passes over the new beliefs.", min=1)] = 5,
    seed: Annotated[int, typer.Option(help="Same seed, same model.", min=0)] = 0,
    force: Annotated[bool, typer.Option("--force", help="Replace what is in --out.")] = False,
    format_: FormatOption = "",
    read_: ReadOption = [],  # noqa: B006
    on_error: OnErrorOption = "raise",
) -> None:
    """Learn new beliefs and unlearn retracted ones without training anew.

    Only the rows of new names and of the entities and relations the beliefs touch are fitted, together with a sample of
    the old beliefs about them. How far old answers drifted is measured and printed. MODEL is not changed.

    Example: `doxa update model new.tsv --retract wrong.tsv --out model2`
    """
    from doxa.curation.update import update as run
    from doxa.errors import UsageError
    from doxa.model import Model
    from doxa.render import terminal as display
    from doxa.storage import models as store

    if out is None:
        raise UsageError("no --out: expected the folder to write the updated model to")
    if out.resolve() == model.resolve():
        raise UsageError(f"--out {out} is the model being updated", "choose another folder")
    store.check_vacant(out, force, resume=False)
    loaded = Model.load(model)
    told, gone, judged = (
        None if file is None else read(file, on_error, reading(format_, read_)) for file in (new, retract, labels)
    )
    with display.progress("updating") as bar:
        found = run(loaded, told, gone, judged, epochs=epochs, seed=seed, report=bar)
    found.model.save(out, force)
    done = found.done
    display.say(f"{out}: {found.model!r}")
    display.say(
        f"{done['beliefs']:,} beliefs loaded, {done['retracted']:,} retracted, {done['new_entities']:,} new entities, "
        f"{done['new_relations']:,} relations, {done['new_words']:,} words in {done['seconds']:.1f} s"
    )
    display.say(str(found.drift))


def apply(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Findings with the column `review` filled in.")],
    out: Annotated[Path, typer.Option("--out", help="Folder for added.tsv, retracted.tsv and labels.tsv.")],
) -> None:
    """Turn a reviewed file of `doxa complete` or `doxa audit` into beliefs to add, to retract, and labels.

    A missing belief accepted is added and labeled true, one rejected is labeled false. A suspect accepted is
    retracted and labeled false, and its suggested tail is added; one rejected stands and is labeled true. Each row
    tells in `source` which line of which file it comes from.

    Example: `doxa review apply missing.tsv --out decided`, then `doxa update model decided/added.tsv --out model2`
    """
    from doxa import formats as files
    from doxa.curation.review import decide
    from doxa.render import terminal as display

    found = decide(file)
    written = []
    for name, table in (("added", found.added), ("retracted", found.retracted), ("labels", found.labels)):
        if len(table):
            files.write(table, out / f"{name}.tsv")
            written.append(f"{out / f'{name}.tsv'}: {len(table):,} beliefs")
    for line in written or ["nothing was accepted or rejected; nothing is written"]:
        display.say(line)
    display.tell(f"{found.unsure:,} unsure, {found.open:,} without an answer")
    retract = f" --retract {out / 'retracted.tsv'}" if len(found.retracted) else ""
    added = f" {out / 'added.tsv'}" if len(found.added) else ""
    if added or retract:
        display.tell(f"Next: doxa update MODEL{added}{retract} --out MODEL2")


def map_(
    model: ModelFolder,
    out: Annotated[Path, typer.Option("--out", help="Where to write, without ending: OUT.png and OUT.html.")],
    relation: Annotated[list[str] | None, typer.Option(help="Entities of this relation; may be repeated.")] = None,
    most: Annotated[int, typer.Option("--most", help="Entities at most, those of most beliefs.", min=3)] = 800,
    layout: Annotated[str, typer.Option(help="tsne, or pca: quicker, and truer to large distances.")] = "tsne",
    groups: Annotated[int, typer.Option(help="Color by likeness in so many groups, not by place.", min=0)] = 0,
) -> None:
    """Draw entities in two dimensions, alike ones near each other: a picture, and a page to move about in.

    Example: `doxa map model --relation 'located in' --groups 8 --out map`
    """
    from doxa.curation.map import draw_map, map_page
    from doxa.data.atomic import written
    from doxa.model import Model
    from doxa.render import terminal as display
    from doxa.render.plots import entity_map

    picture, page = out.with_name(out.name + ".png"), out.with_name(out.name + ".html")
    for path in (picture, page):
        check_output("--out", path, model, model)
    loaded = Model.load(model)
    with display.busy("drawing"):
        found = draw_map(loaded, relation or (), most, layout, groups)
        with written(picture) as unfinished:
            entity_map(found, unfinished)
        with written(page) as unfinished:
            unfinished.write_text(map_page(found), encoding="utf-8")
    display.say(f"{picture}, {page}: {len(found):,} entities")
