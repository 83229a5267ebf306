"""Looking at files of beliefs, turning them into others, getting them and making them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from doxa.cli.options import FormatOption, OnErrorOption, ReadOption, on_error_rule, reading
from doxa.errors import DoxaError, UsageError

ToOption = Annotated[str, typer.Option("--to", metavar="FORMAT", help="Of OUT, if its ending does not tell.")]
WriteOption = Annotated[
    list[str],
    typer.Option("--write", metavar="NAME=VALUE", help="How to write OUT: delimiter, header=yes|no, prefix."),
]


def inspect(
    file: Annotated[
        Path, typer.Argument(metavar="IN", help="A file of beliefs or a dataset folder; - standard input.")
    ],
    top: Annotated[int, typer.Option(help="Relations and pairs of relations to list.", min=0)] = 15,
    json_: Annotated[bool, typer.Option("--json", help="As JSON, with every relation.")] = False,
    plot: Annotated[Path | None, typer.Option("--plot", metavar="PNG", help="Draw it all on one page.")] = None,
    on_error: OnErrorOption = "raise",
    format_: FormatOption = "",
    read_: ReadOption = [],  # noqa: B006
) -> None:
    """Count beliefs, duplicates, leaks between train and test, unseen names, and profile the relations.

    Of a dataset folder, valid and test are held against train: what is in train already, which pairs occur there
    reversed, which relations are near-inverse (at least 80 % of the facts of either stand reversed under the other).

    Example: `doxa data inspect demo/data --plot overview.png`
    """
    from doxa import formats as files
    from doxa.render import terminal as display

    found = files.inspect(file, on_error_rule(on_error), reading(format_, read_))
    if plot is not None:
        from doxa.data.atomic import written
        from doxa.render.plots import overview

        with written(plot) as unfinished:
            overview(found, unfinished)
    if json_:
        print(json.dumps(found.as_dict(), ensure_ascii=False))
        return
    names = list(dict.fromkeys(name for part in found.parts.values() for name in part if name != "reversed_share"))
    rows: list[tuple[Any, ...]] = [
        (name.replace("_", " "), *(display.counted(part, name) for part in found.parts.values())) for name in names
    ]
    display.show_table("", ("", *found.parts), rows)
    profile: list[tuple[Any, ...]] = [tuple(relation.values()) for relation in found.relations[:top]]
    if profile:
        headings = ("relation", "kind", "facts", "tails per head", "heads per tail")
        display.show_table(f"Relations, {len(profile)} of {len(found.relations)}", headings, profile)
    pairs: list[tuple[Any, ...]] = [tuple(pair.values()) for pair in found.inverses[:top]]
    if pairs:
        title = f"Near-inverse relations, {len(pairs)} of {len(found.inverses)}"
        display.show_table(title, ("relation", "inverse", "share", "facts of valid and test given away"), pairs)


def convert(
    source: Annotated[
        Path, typer.Argument(metavar="IN", help="A file of beliefs or a dataset folder; - standard input.")
    ],
    out: Annotated[
        Path, typer.Argument(metavar="OUT", help="The file to write, or folder for a folder; - standard output.")
    ],
    to: ToOption = "",
    on_error: OnErrorOption = "raise",
    format_: FormatOption = "",
    read_: ReadOption = [],  # noqa: B006
    write_: WriteOption = [],  # noqa: B006
) -> None:
    """Turn beliefs from one format into another, block by block.

    Formats by ending: .tsv .txt, .csv, .jsonl .ndjson, .parquet, .nt, .nq, .ttl, .rdf .owl .xml, .esv .nell (NELL's
    dump), 2id.txt (OpenKE), numeric_triples.tsv.gz (PyKEEN); .gz and .zst after any of them. What the format of OUT
    cannot hold is left out, and told. Nothing half-written is left when the input is at fault.

    Examples: `doxa data convert facts.ttl.gz facts.parquet`, `doxa data convert fb15k numbers --to openke`
    """
    from doxa import formats as files
    from doxa.render import terminal as display

    options = reading(format_, read_)
    same = str(source) != "-" and source.resolve() == out.resolve()
    if same:
        raise UsageError(f"{out} is what is being read", "choose another file")
    counts: dict[str, int] = {}

    def counted(path: Path, name: str) -> Any:
        for table in files.blocks(path, on_error_rule(on_error), allow_zero_confidence=True, options=options):
            counts[name] = counts.get(name, 0) + len(table)
            yield table

    writing = files.Options(format=to, prefixes=options.prefixes).parse(write_)
    options.prefixes.update(writing.prefixes)
    if source.is_dir():
        parts = files.dataset(source).parts()
        files.write_parts({name: counted(path, name) for name, path in parts.items()}, out, writing)
    else:
        files.write_frames(counted(source, "beliefs"), out, replace(writing, prefixes=options.prefixes))
    said = ", ".join(f"{count:,} {name}" for name, count in counts.items())
    display.tell(f"{out}: {said}")


def split(
    source: Annotated[Path, typer.Argument(metavar="IN", help="A file of beliefs; - standard input.")],
    out: Annotated[Path, typer.Argument(metavar="OUT", help="Folder for train, valid and test.")],
    valid: Annotated[float, typer.Option(help="Share of the beliefs.", min=0, max=1)] = 0.1,
    test: Annotated[float, typer.Option(help="Share of the beliefs.", min=0, max=1)] = 0.1,
    apart: Annotated[
        list[str],
        typer.Option("--apart", metavar="WHAT", help="No pair (of entities), mention, head or tail crosses the parts."),
    ] = [],  # noqa: B006
    seed: Annotated[int, typer.Option(help="Decides which belief goes where.", min=0)] = 0,
    to: ToOption = "",
    on_error: OnErrorOption = "raise",
    format_: FormatOption = "",
    read_: ReadOption = [],  # noqa: B006
) -> None:
    """Split beliefs into train, valid and test; no entity or relation of valid or test is unseen in train.

    Rows of the same triple stay in one part; --apart, as often as need be, keeps more together.

    Example: `doxa data split beliefs.tsv dataset --valid .1 --test .1 --apart pair --apart mention`
    """
    from doxa import formats as files
    from doxa.data.beliefs import Beliefs
    from doxa.data.splits import split as parted
    from doxa.render import terminal as display

    options = reading(format_, read_)
    if out.is_dir() and any((out / f"{name}{ending}").exists() for name in ("train", "valid", "test")
                            for ending in (".tsv", ".tsv.gz", "2id.txt")):  # fmt: skip
        raise DoxaError(f"{out} already holds a dataset", "choose another folder, or remove it first")
    beliefs = Beliefs.from_frames(files.blocks(source, on_error_rule(on_error), True, options))
    parts = dict(zip(("train", "valid", "test"), parted(beliefs, (valid, test), seed, apart), strict=True))
    parts = {name: part for name, part in parts.items() if len(part)}
    writing = files.Options(format=to, prefixes=options.prefixes)
    files.write_parts({name: part.frames() for name, part in parts.items()}, out, writing)
    said = ", ".join(f"{len(part):,} {name} ({len(part) / len(beliefs):.1%})" for name, part in parts.items())
    display.say(f"{out}: {said}")


def falsehoods(
    source: Annotated[Path, typer.Argument(metavar="IN", help="True beliefs, such as a test file.")],
    out: Annotated[Path, typer.Argument(metavar="OUT", help="File to write, in any format.")],
    known: Annotated[
        list[Path], typer.Option("--known", help="Files of other facts, such as train and valid; as often as need be.")
    ] = [],  # noqa: B006
    among: Annotated[
        str, typer.Option(help="Replace by an entity seen there with the relation, or by any of all.")
    ] = "relation",
    seed: Annotated[int, typer.Option(help="Decides every draw.", min=0)] = 0,
) -> None:
    """Put a falsehood beside every belief, to measure triplet classification with: label 1 is true, -1 false.

    Head or tail is replaced by an entity seen in that position of that relation, in IN or in the known files; the
    result is none of their facts. Beliefs with names that the first known file lacks are left out. With train and
    valid as known files these are the falsehoods that `doxa evaluate` makes of the file.

    Example: `doxa data falsehoods test.tsv labeled.tsv --known train.tsv --known valid.tsv`
    """
    from doxa import formats as files
    from doxa.cli.options import chosen_of
    from doxa.data.beliefs import Beliefs
    from doxa.data.negatives import labeled_beliefs
    from doxa.data.triples import TripleIndex
    from doxa.render import terminal as display

    chosen_of("--among", among, ("relation", "all"))
    first, *others = [Beliefs.from_frames(files.blocks(path, "raise")) for path in (*known, source)]
    encoded = [first, *(beliefs.encode(first.vocabularies) for beliefs in others)]
    triples = np.concatenate([beliefs.positives().triples for beliefs in encoded])
    facts = TripleIndex(triples, len(first.vocabularies.entities), len(first.vocabularies.relations))
    made = labeled_beliefs(encoded[-1].positives(), facts, seed, among)
    files.write(made.frames(), out)
    display.say(f"{out}: {len(made) // 2:,} beliefs, each with a falsehood")


def generate(
    out: Annotated[Path, typer.Argument(metavar="OUT", help="File to write, in any format; .gz and .zst too.")],
    beliefs: Annotated[int, typer.Option(help="How many.", min=1)] = 1_000_000,
    entities: Annotated[int, typer.Option(help="Among so many entities.", min=1)] = 100_000,
    relations: Annotated[int, typer.Option(help="And so many relations.", min=1)] = 100,
    seed: Annotated[int, typer.Option(help="Decides every draw.", min=0)] = 0,
) -> None:
    """Make a knowledge base of any size with planted structure, to measure with.

    Each relation leads from every group of entities to one other group; a few entities stand in many beliefs.

    Example: `doxa data generate made.tsv --beliefs 10000000 --entities 1000000`
    """
    from doxa import formats as files
    from doxa.data.synthetic import frames
    from doxa.render import terminal as display

    files.write(frames(beliefs, entities, relations, seed), out)
    display.say(f"{out}: {beliefs:,} beliefs")


def list_(
    json_: Annotated[bool, typer.Option("--json", help="As JSON, with the checksums of every file.")] = False,
) -> None:
    """List the public benchmark sets that `doxa data get` knows: sizes, license, what each download is held against.

    A file is held against its SHA-256 where one is known, else against the MD5 its source publishes.
    """
    from doxa.data import benchmarks as catalogue
    from doxa.render import terminal as display

    known = catalogue.benchmarks()
    if json_:
        print(json.dumps([one.as_dict() for one in known.values()], ensure_ascii=False))
        return
    rows: list[tuple[Any, ...]] = []
    for name, one in known.items():
        counts = " / ".join(f"{member.beliefs:,}" if member.beliefs else "?" for member in one.parts.values())
        checks = "SHA-256" if all(member.sha256 for member in one.parts.values()) else "MD5"
        there = "cached" if catalogue.cached(name) else ""
        rows.append((name, counts, f"{one.entities:,}", f"{one.relations:,}", one.license, checks, there))
    headings = ("name", "train / valid / test", "entities", "relations", "license", "checked by", "")
    display.show_table("", headings, rows)


def get(
    name: Annotated[str, typer.Argument(metavar="NAME", help="As `doxa data list` names it.")],
    out: Annotated[Path | None, typer.Option("--out", metavar="FOLDER", help="Copy the files here as well.")] = None,
    url: Annotated[str, typer.Option("--from", metavar="URL", help="Where the archive is, if not at its source.")] = "",
) -> None:
    """Download a public benchmark set into the cache folder, check it, and print where it lies.

    An interrupted download goes on where it stopped; a set that is in the cache needs no network. The cache folder
    is the platform's own, or $DOXA_CACHE.

    Example: `doxa train $(doxa data get wn18rr) --out model`
    """
    from doxa.data import benchmarks as catalogue
    from doxa.render import terminal as display

    with display.busy(f"getting {name}") as say:
        folder = catalogue.get(
            name, url, lambda have, all_: say(f"getting {name}: {have:,} of {f'{all_:,}' if all_ else '?'} bytes")
        )
    if out is not None:
        catalogue.copy(folder, out)
    display.say(str(out or folder))
