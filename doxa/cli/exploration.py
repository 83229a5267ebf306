"""Exploring a model: explanations, similar entities, duplicates, maps."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from doxa.cli.options import (
    HeadArgument,
    JsonOption,
    MentionOption,
    ModelFolder,
    RelationArgument,
    TailArgument,
    check_output,
    write_text,
)
from doxa.render.plain import print_json


def explain(
    model: ModelFolder,
    head: HeadArgument,
    relation: RelationArgument,
    tail: TailArgument,
    mention: MentionOption = None,
    top: Annotated[int, typer.Option(help="Number of similar beliefs and of influences.", min=0)] = 5,
    json_: JsonOption = False,
    html: Annotated[
        Path | None, typer.Option("--html", metavar="FILE", help="Write a page with a picture of the neighborhood.")
    ] = None,
) -> None:
    """Explain why a belief has its credence.

    Prints the three terms of Eq. 1, the contribution of each word of the mention to F(r, m) (Eq. 11), the most similar
    known beliefs, and the best other answers. Training beliefs that share an entity come with their influence: the
    change of the answer if one gradient step removed them.

    Example: `doxa explain model Lyon 'located in' France --mention 'is a city of' --html lyon.html`
    """
    from doxa.model import Model
    from doxa.render import terminal
    from doxa.render.pages import explanation_page

    check_output("--html", html, model, model)
    explanation = Model.load(model).explain(head, relation, tail, mention, top=top, influences=top)
    if html is not None:
        write_text(html, explanation_page(explanation))
    if json_:
        print_json(explanation.as_dict())
    else:
        terminal.say(str(explanation))


def similar(
    model: ModelFolder,
    entity: Annotated[str, typer.Argument(metavar="ENTITY", help="The entity to compare with.")],
    relation: Annotated[str | None, typer.Option(help="Only entities in known facts of this relation.")] = None,
    top: Annotated[int, typer.Option(help="Number of entities.", min=1)] = 10,
    json_: JsonOption = False,
) -> None:
    """List the nearest neighbors of an entity by the cosine of their vectors.

    Prints similarity and name, the most similar first.

    Example: `doxa similar model Lyon --top 5`
    """
    from doxa.model import Model
    from doxa.render import terminal

    neighbors = Model.load(model).similar(entity, top, relation)
    if json_:
        print_json(neighbors.as_dict())
        return
    for name, similarity in neighbors:
        terminal.say(f"  {similarity:6.3f}  {name}")


def duplicates(
    model: ModelFolder,
    top: Annotated[int, typer.Option(help="Maximum number of pairs.", min=1)] = 20,
    least: Annotated[float, typer.Option("--min-similarity", help="Least cosine of a pair.", min=-1, max=1)] = 0.5,
    out: Annotated[Path | None, typer.Option("--out", help="TSV file to write instead of printing.")] = None,
    json_: JsonOption = False,
) -> None:
    """List pairs of entities that may be the same under two names.

    The two entities of a pair are each other's nearest neighbors, and no known fact links them.

    Example: `doxa duplicates model --top 50 --out pairs.tsv`
    """
    from doxa.data.atomic import written
    from doxa.formats import cells
    from doxa.model import Model
    from doxa.render import terminal

    check_output("--out", out, model, model)
    pairs = Model.load(model).duplicates(top, least)
    if out is not None:
        with written(out) as unfinished:
            cells.escaped(pairs.to_frame()).write_csv(unfinished, separator="\t", quote_style="never")
        terminal.say(f"{out}: {len(pairs):,} pairs")
        return
    if json_:
        print_json(pairs.as_dict())
        return
    rows: list[tuple[Any, ...]] = [
        (first, second, f"{similarity:.3f}", f"{of_names:.2f}", shared)
        for first, second, similarity, of_names, shared in pairs
    ]
    headings = ("first", "second", "similarity", "similarity of names", "shared facts")
    terminal.show_table("", headings, rows)


def map_(
    model: ModelFolder,
    out: Annotated[Path, typer.Option("--out", help="Where to write, without ending: OUT.png and OUT.html.")],
    relation: Annotated[list[str] | None, typer.Option(help="Entities of this relation; repeatable.")] = None,
    most: Annotated[
        int, typer.Option("--most", help="Maximum number of entities; those with most facts of these relations.", min=3)
    ] = 800,
    layout: Annotated[str, typer.Option(help="tsne, or pca: faster, and keeps large distances.")] = "tsne",
    groups: Annotated[
        int, typer.Option(help="Color by this number of clusters, named by what they share; 0 = by slot.", min=0)
    ] = 0,
) -> None:
    """Draw entities in two dimensions, similar ones near each other.

    Writes a picture and an interactive page, in which you can move, zoom and search. A cluster of --groups is named by
    the relation and entity that at least half of it has in known facts and other clusters rarely have, for example
    "located in · Germany". A cluster without one is named by a slot, or is called mixed.

    Example: `doxa map model --relation 'located in' --groups 8 --out map`
    """
    from doxa.curation.map import draw_map
    from doxa.data.atomic import written
    from doxa.model import Model
    from doxa.render import terminal
    from doxa.render.pages import map_page
    from doxa.render.plots import entity_map

    picture, page = out.with_name(out.name + ".png"), out.with_name(out.name + ".html")
    for path in (picture, page):
        check_output("--out", path, model, model)
    loaded = Model.load(model)
    with terminal.busy("drawing"):
        entities = draw_map(loaded, relation or (), most, layout, groups)
        with written(picture) as unfinished:
            entity_map(entities, unfinished)
        write_text(page, map_page(entities))
    terminal.say(f"{picture}, {page}: {len(entities):,} entities")
