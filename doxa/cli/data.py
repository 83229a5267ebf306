"""Files of beliefs: inspect, convert, split, add negatives, generate."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from doxa.cli.options import (
    FormatOption,
    OnErrorOption,
    ReadOption,
    SafeCsvOption,
    SeedOption,
    SourceArgument,
    ToOption,
    WriteOption,
    chosen_of,
    on_error_rule,
    quoting,
    read,
    reading,
)
from doxa.errors import DoxaError, UsageError
from doxa.render.plain import print_json

if TYPE_CHECKING:
    import polars as pl

PARTS = ("train", "valid", "test")
DATASET_ENDINGS = (".tsv", ".tsv.gz", "2id.txt")

ShareOption = Annotated[float, typer.Option(help="Share of the beliefs.", min=0, max=1)]
ApartOption = Annotated[
    list[str],
    typer.Option("--apart", metavar="WHAT", help="Keep apart: no pair (of entities), mention, head or tail is in two "
                 "parts; repeatable."),
]  # fmt: skip


def inspect(
    file: SourceArgument,
    top: Annotated[int, typer.Option(help="Number of relations, pairs and lookalikes to list.", min=0)] = 15,
    json_: Annotated[bool, typer.Option("--json", help="Print JSON, with every relation.")] = False,
    plot: Annotated[Path | None, typer.Option("--plot", metavar="PNG", help="Draw an overview on one page.")] = None,
    on_error: OnErrorOption = "raise",
    format_: FormatOption = "",
    read_: ReadOption = [],  # noqa: B006
) -> None:
    """Count beliefs, duplicates, leaks between train and test and unseen names, and profile the relations.

    Of a dataset folder, valid and test are compared with train: facts already in train, pairs that occur there
    reversed, near-inverse relation pairs (at least 80 % of the facts of each occur reversed under the other). Names
    that differ only in spaces, case or Unicode form are listed.

    Example: `doxa data inspect demo/data --plot overview.png`
    """
    from doxa.render import terminal
    from doxa.storage import sources

    profile = sources.inspect(file, on_error_rule(on_error), reading(format_, read_))
    if plot is not None:
        from doxa.data.atomic import written
        from doxa.render.plots import overview

        with written(plot) as unfinished:
            overview(profile, unfinished)
    if json_:
        print_json(profile.as_dict())
    else:
        terminal.show_profile(profile, top)


def convert(
    source: SourceArgument,
    out: Annotated[
        Path, typer.Argument(metavar="OUT", help="File to write, or folder for a folder; - is standard output.")
    ],
    to: ToOption = "",
    on_error: OnErrorOption = "raise",
    format_: FormatOption = "",
    read_: ReadOption = [],  # noqa: B006
    write_: WriteOption = [],  # noqa: B006
    safe_csv: SafeCsvOption = False,
) -> None:
    """Convert beliefs from one format into another, block by block.

    Formats by ending: .tsv .txt, .csv, .jsonl .ndjson, .parquet, .nt, .nq, .ttl, .rdf .owl .xml, .esv .nell (NELL's
    dump), 2id.txt (OpenKE), numeric_triples.tsv.gz (PyKEEN); .gz and .zst after any of them. Columns that the format
    of OUT cannot store are left out with a notice. If the input is faulty, nothing is written.

    Examples: `doxa data convert facts.ttl.gz facts.parquet`, `doxa data convert fb15k numbers --to openke`
    """
    from doxa import formats
    from doxa.render import terminal
    from doxa.storage import sources

    options = reading(format_, read_)
    if str(source) != "-" and source.resolve() == out.resolve():
        raise UsageError(f"{out} is what is being read", "choose another file")
    counts: dict[str, int] = {}

    def counted(path: Path, name: str) -> Iterator[pl.DataFrame]:
        for table in sources.blocks(path, on_error_rule(on_error), allow_zero_confidence=True, options=options):
            counts[name] = counts.get(name, 0) + len(table)
            yield table

    writing = formats.Options(format=to, prefixes=options.prefixes, formulas=quoting(safe_csv)).parse(write_)
    options.prefixes.update(writing.prefixes)
    if source.is_dir():
        parts = sources.dataset(source).parts()
        formats.write_parts({name: counted(path, name) for name, path in parts.items()}, out, writing)
    else:
        formats.write_frames(counted(source, "beliefs"), out, replace(writing, prefixes=options.prefixes))
    terminal.remark(f"{out}: {', '.join(f'{count:,} {name}' for name, count in counts.items())}")


def split(
    source: Annotated[Path, typer.Argument(metavar="IN", help="A file of beliefs; - is standard input.")],
    out: Annotated[Path, typer.Argument(metavar="OUT", help="Folder for train, valid and test.")],
    valid: ShareOption = 0.1,
    test: ShareOption = 0.1,
    apart: ApartOption = [],  # noqa: B006
    seed: SeedOption = 0,
    to: ToOption = "",
    on_error: OnErrorOption = "raise",
    format_: FormatOption = "",
    read_: ReadOption = [],  # noqa: B006
) -> None:
    """Split beliefs into train, valid and test, so that train has every entity and relation of the other two.

    Rows of the same triple stay in one part; --apart keeps more rows together.

    Example: `doxa data split beliefs.tsv dataset --valid .1 --test .1 --apart pair --apart mention`
    """
    from doxa import formats
    from doxa.data.splits import split as split_beliefs
    from doxa.render import terminal

    options = reading(format_, read_)
    if any((out / f"{name}{ending}").exists() for name in PARTS for ending in DATASET_ENDINGS):
        raise DoxaError(f"{out} already holds a dataset", "choose another folder, or remove it first")
    beliefs = read(source, on_error, options, allow_zero_confidence=True)
    parts = dict(zip(PARTS, split_beliefs(beliefs, (valid, test), seed, apart), strict=True))
    parts = {name: part for name, part in parts.items() if len(part)}
    writing = formats.Options(format=to, prefixes=options.prefixes)
    formats.write_parts({name: part.frames() for name, part in parts.items()}, out, writing)
    sizes = (f"{len(part):,} {name} ({len(part) / len(beliefs):.1%})" for name, part in parts.items())
    terminal.say(f"{out}: {', '.join(sizes)}")


def negatives(
    source: Annotated[Path, typer.Argument(metavar="IN", help="True beliefs, such as a test file.")],
    out: Annotated[Path, typer.Argument(metavar="OUT", help="File to write, in any format.")],
    known: Annotated[
        list[Path], typer.Option("--known", help="Files of other known facts, such as train and valid; repeatable.")
    ] = [],  # noqa: B006
    among: Annotated[
        str, typer.Option(help="Replace by an entity seen in that slot of the relation (relation), or by any (all).")
    ] = "relation",
    seed: SeedOption = 0,
) -> None:
    """Add a negative to every belief, for triplet classification: label 1 is true, -1 false.

    Head or tail is replaced by an entity seen in that slot of the relation, in IN or in the known files. A negative is
    never one of their facts. Beliefs with names that the first known file lacks are left out. With train and valid as
    known files, these are the negatives that `doxa evaluate` makes.

    Example: `doxa data negatives test.tsv labeled.tsv --known train.tsv --known valid.tsv`
    """
    import numpy as np

    from doxa import formats
    from doxa.data.negatives import labeled_beliefs
    from doxa.data.triples import TripleIndex
    from doxa.render import terminal

    chosen_of("--among", among, ("relation", "all"))
    first, *others = [read(path, "raise", formats.Options()) for path in (*known, source)]
    parts = [first, *(beliefs.encode(first.vocabularies) for beliefs in others)]
    triples = np.concatenate([beliefs.positives().triples for beliefs in parts])
    facts = TripleIndex(triples, len(first.vocabularies.entities), len(first.vocabularies.relations))
    labeled = labeled_beliefs(parts[-1].positives(), facts, seed, among)
    labeled = labeled.where(labeled.seen)
    formats.write(labeled.frames(), out)
    terminal.say(f"{out}: {len(labeled) // 2:,} beliefs, each with a negative")


def generate(
    out: Annotated[Path, typer.Argument(metavar="OUT", help="File to write, in any format; .gz and .zst too.")],
    beliefs: Annotated[int, typer.Option(help="Number of beliefs.", min=1)] = 1_000_000,
    entities: Annotated[int, typer.Option(help="Number of entities.", min=1)] = 100_000,
    relations: Annotated[int, typer.Option(help="Number of relations.", min=1)] = 100,
    seed: SeedOption = 0,
) -> None:
    """Generate a synthetic knowledge base of any size with planted structure, for measurements.

    Each relation leads from every group of entities to one other group. A few entities occur in many beliefs.

    Example: `doxa data generate made.tsv --beliefs 10000000 --entities 1000000`
    """
    from doxa import formats
    from doxa.data.synthetic import frames
    from doxa.render import terminal

    formats.write(frames(beliefs, entities, relations, seed), out)
    terminal.say(f"{out}: {beliefs:,} beliefs")
