"""The living knowledge base: make, import, export, look back, copy."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from doxa.cli.options import (
    FormatOption,
    HeadArgument,
    JsonOption,
    OnErrorOption,
    ReadOption,
    RelationArgument,
    SafeCsvOption,
    TailArgument,
    ToOption,
    on_error_rule,
    quoting,
    reading,
)
from doxa.errors import UsageError
from doxa.render.plain import print_json

if TYPE_CHECKING:
    import polars as pl

    from doxa.storage.store.knowledge_base import KnowledgeBase

StoreArgument = Annotated[
    str, typer.Argument(metavar="KB", help="A knowledge base: kb.db, or postgresql://user@host/database.")
]
CuratorOption = Annotated[
    str,
    typer.Option("--as", metavar="NAME", help="Who decides; the name of the user by default.", envvar="DOXA_CURATOR"),
]
AtOption = Annotated[
    str | None, typer.Option("--at", metavar="MOMENT", help="A snapshot number, or a time such as 2026-03-01T12:00.")
]
ValidFromOption = Annotated[str | None, typer.Option(metavar="TIME", help="Since when they are true.")]
ValidToOption = Annotated[str | None, typer.Option(metavar="TIME", help="Until when they are true.")]
HASHED = 2**20


def open_store(path: str, curator: str = "", read_only: bool = False, whole: bool = True) -> KnowledgeBase:
    """The knowledge base of a command; a moment or a part of one only if it need not be `whole`."""
    from doxa.storage.store.knowledge_base import KnowledgeBase
    from doxa.storage.store.place import require_place, require_whole

    place = require_place(path)
    if whole:
        require_whole(place)
    return KnowledgeBase(place, curator=curator or None, read_only=read_only)


def counted_text(number: int, noun: str) -> str:
    """`1 row`, `2 rows`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def say(text: str) -> None:
    """Print a line."""
    from doxa.render import terminal

    terminal.say(text)


def init(
    store: StoreArgument,
    valid: Annotated[float, typer.Option(help="Share of facts for validation.", min=0, max=1)] = 0.05,
    test: Annotated[float, typer.Option(help="Share of facts for tests.", min=0, max=1)] = 0.05,
    split_by: Annotated[
        str, typer.Option(help="fact, or pair: all facts between two entities stay in one split.")
    ] = "fact",
) -> None:
    """Make an empty knowledge base: a SQLite file, or tables in a PostgreSQL database.

    A hash of each fact decides its split, so that a fact never changes its split as the knowledge base grows.

    Example: `doxa kb init kb.db --valid .1 --split-by pair`
    """
    from doxa.storage.store.knowledge_base import KnowledgeBase

    kb = KnowledgeBase.create(store, valid=valid, test=test, split_by=split_by)
    say(f"{kb.place}: an empty knowledge base")


def import_(
    store: StoreArgument,
    file: Annotated[
        Path,
        typer.Argument(metavar="FILE", help="Beliefs, a dataset folder, another store, or a log of `doxa kb log`."),
    ],
    source: Annotated[
        str | None, typer.Option(help="Where the beliefs come from; the name of the file by default.")
    ] = None,
    license_: Annotated[str | None, typer.Option("--license", help="License of the source.")] = None,
    extractor: Annotated[str | None, typer.Option(help="The program that extracted them.")] = None,
    valid_from: ValidFromOption = None,
    valid_to: ValidToOption = None,
    curator: CuratorOption = "",
    on_error: OnErrorOption = "raise",
    format_: FormatOption = "",
    read_: ReadOption = [],  # noqa: B006
) -> None:
    """Import beliefs as assertions of a source, all or nothing.

    Known beliefs gain an assertion. A belief that a curator rejected stays rejected. The parts of a dataset folder stay
    the splits of its new facts. A log written by `doxa kb log --out` goes into an empty knowledge base; a file of
    decisions (`doxa kb export --decisions`) into any.

    Example: `doxa kb import kb.db beliefs.tsv --source https://example.org/dump --license CC0`
    """
    from doxa.render import terminal
    from doxa.storage import sources
    from doxa.storage.store import exchange
    from doxa.storage.store.place import store_place

    kb = open_store(store, curator)
    if file.exists() and not kb.place.is_postgres and file.resolve() == kb.place.path.resolve():
        raise UsageError(f"{file} is the knowledge base itself", "import another file")
    if file.is_file() and exchange.is_log(file):
        say(f"{kb.place}: {counted_text(kb.import_log(file), 'decision')} replayed")
        return
    if file.is_file() and exchange.is_decisions(file):
        say(f"{kb.place}: {counted_text(kb.import_decisions(file), 'new decision')}")
        return
    options, rule = reading(format_, read_), on_error_rule(on_error)
    parts: dict[Any, Path] = {None: file}
    if file.is_dir() or store_place(file) is not None:
        parts = dict(sources.dataset(file).parts())
    source, sha256 = source or sources.shown(file.name), _sha256(file)
    former = None if sha256 is None else kb.last_import(source, sha256)
    if former is not None:
        terminal.remark(f"Note: decision {former} imported the same file before; this import states its beliefs again")
    with terminal.busy("importing") as state:
        number = kb.import_beliefs(
            {part: sources.blocks(path, rule, True, options) for part, path in parts.items()},
            source=source, license=license_, sha256=sha256, extractor=extractor,
            valid_from=valid_from, valid_to=valid_to, prefixes=options.prefixes,
            report=lambda rows: state(f"importing: {rows:,} beliefs"),
        )  # fmt: skip
    sizes = kb.status()
    say(f"decision {number}: imported {file.name}")
    say(f"{kb.place}: {sizes['beliefs']:,} beliefs about {sizes['entities']:,} entities")


def _sha256(file: Path) -> str | None:
    if not file.is_file():
        return None
    digest = hashlib.sha256()
    with file.open("rb") as content:
        while piece := content.read(HASHED):
            digest.update(piece)
    return digest.hexdigest()


def export(
    store: StoreArgument,
    out: Annotated[Path, typer.Argument(metavar="OUT", help="File to write, in any format; - is standard output.")],
    at: AtOption = None,
    part: Annotated[str | None, typer.Option(help="Only train, valid or test.")] = None,
    to: ToOption = "",
    safe_csv: SafeCsvOption = False,
    decisions: Annotated[bool, typer.Option("--decisions", help="Write the effective decisions with labels.")] = False,
    prov: Annotated[bool, typer.Option("--prov", help="Write the log as PROV-O in RDF: .ttl or .nt.")] = False,
) -> None:
    """Write the beliefs as they are, or as they were at a moment.

    Example: `doxa kb export kb.db beliefs.tsv --at 2026-03-01`
    """
    from doxa import formats
    from doxa.formats.registry import is_rdf

    kb = open_store(store, read_only=True, whole=prov or decisions)
    if prov:
        say(f"{out}: {counted_text(kb.write_prov(out), 'statement')}")
        return
    if decisions:
        table = kb.decisions_table()
        formats.write(table, out, formulas=quoting(safe_csv))
        say(f"{out}: {counted_text(len(table), 'decision')}")
        return
    columns = ["head", "relation", "tail", *kb.details(at)]
    prefixes = formats.Prefixes.of(kb.prefixes())
    count, options = 0, formats.Options(format=to, prefixes=prefixes, formulas=quoting(safe_csv))

    def counted() -> Iterator[pl.DataFrame]:
        nonlocal count
        for frame in kb.frames(part, at, iris=is_rdf(out, to)):
            count += len(frame)
            yield frame.select(columns)

    formats.write_frames(counted(), out, options)
    if str(out) != "-":
        say(f"{out}: {counted_text(count, 'row')} at snapshot {kb.snapshot(at)}")


def status(store: StoreArgument, json_: JsonOption = False) -> None:
    """Count beliefs, names, decisions and open proposals, and name the live model.

    Example: `doxa kb status kb.db`
    """
    from doxa.render import terminal

    kb = open_store(store, read_only=True)
    sizes = kb.status()
    if json_:
        print_json(sizes)
        return
    live = sizes.pop("live_model")
    terminal.show_table(
        str(kb.place), ("what", "count"), [(name.replace("_", " "), f"{n:,}") for name, n in sizes.items()]
    )
    say(f"live model: version {live['id']}, {live['folder']}, snapshot {live['snapshot']}" if live else "no live model")


def log(
    store: StoreArgument,
    last: Annotated[int, typer.Option(help="How many decisions to print.", min=1)] = 20,
    out: Annotated[Path | None, typer.Option("--out", help="Write the whole log as TSV, which imports again.")] = None,
    json_: JsonOption = False,
) -> None:
    """Print the last decisions, or write the whole log.

    Example: `doxa kb log kb.db --out log.tsv`
    """
    kb = open_store(store, read_only=True)
    if out is not None:
        kb.write_log(out)
        say(f"{out}: the log up to snapshot {kb.snapshot()}")
        return
    table = kb.entries(last)
    if json_:
        print_json(table.to_dicts())
        return
    for row in table.iter_rows(named=True):
        say(entry_text(row))


def entry_text(row: dict[str, Any]) -> str:
    """A decision in one line."""
    from doxa.storage.store.history import local_time

    about = " · ".join(row[name] for name in ("head", "relation", "tail")) if row["head"] else ""
    if row["verdict"] == "replace":
        about += f" by {row['replacement']}"
    if row["verdict"] == "rename":
        about = f"{row['kind']} {row['old_name']} → {row['new_name']}"
    elif row["verdict"] == "merge":
        about = f"{row['kind']} {row['name']} into {row['into']}"
    elif row["verdict"] == "undo":
        about = f"decision {row['undoes']}" + (f" ({about})" if about else "")
    elif row["verdict"] == "import":
        about = f"from {row['source']}"
    details = [row[name] for name in ("reason", "note") if row[name]]
    undone = "" if row["effective"] else "  (undone)"
    text = f"{row['decision']:6}  {local_time(row['at'])}  {row['curator']}  {row['verdict']}  {about}"
    return text + (f"  [{'; '.join(details)}]" if details else "") + undone


def history(
    store: StoreArgument,
    head: HeadArgument,
    relation: RelationArgument,
    tail: TailArgument,
    json_: JsonOption = False,
) -> None:
    """Show where a belief comes from, and everything that was decided about it.

    Example: `doxa kb history kb.db Lyon 'located in' France`
    """
    record = open_store(store, read_only=True).history(head, relation, tail)
    if json_:
        print_json(record)
        return
    say(f"{head} · {relation} · {tail}: {'holds' if record['holds'] else 'does not hold'}")
    for stated in record["assertions"]:
        confidence = "" if stated["confidence"] is None else f", confidence {stated['confidence']:g}"
        undone = "" if stated["active"] else "  (undone)"
        ends = [f" {word} {stated[f'valid_{word}']}" for word in ("from", "to") if stated[f"valid_{word}"]]
        valid = f", true{''.join(ends)}" if ends else ""
        say(f"  stated by {stated['uri']}: {stated['mention'] or 'no mention'}{confidence}{valid}{undone}")
    for row in record["decisions"]:
        say(entry_text(row))


def backup(
    store: StoreArgument,
    out: Annotated[Path, typer.Argument(metavar="OUT", help="A new file, such as backup.db.")],
) -> None:
    """Write a copy as a SQLite file, while others go on working; the copy is a knowledge base of its own.

    Example: `doxa kb backup kb.db backup.db`
    """
    kb = open_store(store, read_only=True)
    if str(out) == "-":
        raise UsageError("a backup is a file", "name it, for example backup.db")
    kb.backup(out)
    say(f"{out}: snapshot {kb.snapshot()} of {kb.place}")
