"""The living knowledge base: make, import, export, change, look back."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from doxa.cli.options import (
    FormatOption,
    HeadArgument,
    JsonOption,
    MentionOption,
    OnErrorOption,
    ReadOption,
    RelationArgument,
    TailArgument,
    on_error_rule,
    reading,
)
from doxa.errors import UsageError

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
NoteOption = Annotated[str | None, typer.Option(help="A remark to keep with the decision.")]
ReasonOption = Annotated[str | None, typer.Option(help="Why, for example 'wrong tail' or 'no longer true'.")]
AtOption = Annotated[
    str | None, typer.Option("--at", metavar="MOMENT", help="A snapshot number, or a time such as 2026-03-01T12:00.")
]
KindOption = Annotated[str, typer.Option("--kind", help="entity or relation.")]
HASHED = 2**20


def open_store(path: str, curator: str = "", read_only: bool = False) -> KnowledgeBase:
    """The knowledge base of a command."""
    from doxa.storage.store.knowledge_base import KnowledgeBase

    return KnowledgeBase(path, curator=curator or None, read_only=read_only)


def _say(text: str) -> None:
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
    _say(f"{kb.place}: an empty knowledge base")


def import_(
    store: StoreArgument,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Beliefs, a dataset folder, or a log of `doxa kb log`.")],
    source: Annotated[
        str | None, typer.Option(help="Where the beliefs come from; the name of the file by default.")
    ] = None,
    license_: Annotated[str | None, typer.Option("--license", help="License of the source.")] = None,
    extractor: Annotated[str | None, typer.Option(help="The program that extracted them.")] = None,
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
    from doxa import formats
    from doxa.render import terminal
    from doxa.storage.store import exchange

    kb = open_store(store, curator)
    if file.is_file() and exchange.is_log(file):
        _say(f"{kb.place}: {kb.import_log(file):,} decisions replayed")
        return
    if file.is_file() and exchange.is_decisions(file):
        _say(f"{kb.place}: {kb.import_decisions(file):,} new decisions")
        return
    options, rule = reading(format_, read_), on_error_rule(on_error)
    parts: dict[Any, Iterator[pl.DataFrame]] = {None: formats.blocks(file, rule, True, options)}
    if file.is_dir():
        parts = {
            name: formats.blocks(path, rule, True, options) for name, path in formats.dataset(file).parts().items()
        }
    with terminal.busy("importing") as state:
        number = kb.import_beliefs(
            parts, source=source or file.name, license=license_, sha256=_sha256(file), extractor=extractor,
            report=lambda rows: state(f"importing: {rows:,} beliefs"),
        )  # fmt: skip
    sizes = kb.status()
    _say(f"{kb.place}: decision {number}; {sizes['beliefs']:,} beliefs, {sizes['entities']:,} entities")


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
    decisions: Annotated[bool, typer.Option("--decisions", help="Write the effective decisions with labels.")] = False,
    prov: Annotated[bool, typer.Option("--prov", help="Write the log as PROV-O in RDF: .ttl or .nt.")] = False,
) -> None:
    """Write the beliefs as they are, or as they were at a moment.

    Example: `doxa kb export kb.db beliefs.tsv --at 2026-03-01`
    """
    from doxa import formats

    kb = open_store(store, read_only=True)
    if prov:
        _say(f"{out}: {kb.write_prov(out):,} statements")
        return
    if decisions:
        table = kb.decisions_table()
        formats.write(table, out)
        _say(f"{out}: {len(table):,} decisions")
        return
    columns = ["head", "relation", "tail", *kb.details(at)]
    count = 0

    def counted() -> Iterator[pl.DataFrame]:
        nonlocal count
        for frame in kb.frames(part, at):
            count += len(frame)
            yield frame.select(columns)

    formats.write_frames(counted(), out)
    if str(out) != "-":
        _say(f"{out}: {count:,} rows at snapshot {kb.snapshot(at)}")


def add(
    store: StoreArgument,
    head: HeadArgument,
    relation: RelationArgument,
    tail: TailArgument,
    mention: MentionOption = None,
    confidence: Annotated[float | None, typer.Option(help="Confidence, above 0 and at most 1.")] = None,
    source: Annotated[str | None, typer.Option(help="Where it is stated.")] = None,
    note: NoteOption = None,
    curator: CuratorOption = "",
) -> None:
    """State a belief.

    Example: `doxa kb add kb.db Lyon 'located in' France --mention 'Lyon is a city in France'`
    """
    kb = open_store(store, curator)
    number = kb.add(head, relation, tail, mention=mention, confidence=confidence, source=source, note=note)
    _say(f"decision {number}: added {head} · {relation} · {tail}")


def retract(
    store: StoreArgument,
    head: HeadArgument,
    relation: RelationArgument,
    tail: TailArgument,
    reason: ReasonOption = None,
    note: NoteOption = None,
    curator: CuratorOption = "",
) -> None:
    """Remove a belief that the knowledge base holds; no import brings it back, `doxa kb undo` does.

    Example: `doxa kb retract kb.db Lyon 'located in' Spain --reason 'wrong tail'`
    """
    number = open_store(store, curator).retract(head, relation, tail, reason=reason, note=note)
    _say(f"decision {number}: retracted {head} · {relation} · {tail}")


def rename(
    store: StoreArgument,
    old: Annotated[str, typer.Argument(metavar="OLD", help="The present name.")],
    new: Annotated[str, typer.Argument(metavar="NEW", help="The new name.")],
    kind: KindOption = "entity",
    note: NoteOption = None,
    curator: CuratorOption = "",
) -> None:
    """Give an entity or relation another name; imports still understand the old one.

    Example: `doxa kb rename kb.db Bombay Mumbai`
    """
    _say(f"decision {open_store(store, curator).rename(old, new, kind=kind, note=note)}: {old} is now {new}")


def merge(
    store: StoreArgument,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The entity or relation to merge.")],
    into: Annotated[str, typer.Argument(metavar="INTO", help="The one that it is the same as.")],
    kind: KindOption = "entity",
    note: NoteOption = None,
    curator: CuratorOption = "",
) -> None:
    """Let an entity or relation count as another one; undoing the merge separates their beliefs again.

    Example: `doxa kb merge kb.db 'NYC' 'New York'`
    """
    _say(f"decision {open_store(store, curator).merge(name, into, kind=kind, note=note)}: {name} counts as {into}")


def undo(
    store: StoreArgument,
    decision: Annotated[int, typer.Argument(metavar="DECISION", help="A number of the log.")],
    note: NoteOption = None,
    curator: CuratorOption = "",
) -> None:
    """Undo any decision of the log: an import, a rename, a merge, a review; undoing an undo is a redo.

    Example: `doxa kb undo kb.db 41`
    """
    _say(f"decision {open_store(store, curator).undo(decision, note=note)}: decision {decision} is undone")


def rollback(
    store: StoreArgument,
    to: Annotated[str, typer.Option("--to", metavar="MOMENT", help="A snapshot number or a time.")],
    note: NoteOption = None,
    curator: CuratorOption = "",
) -> None:
    """Return to the state of a moment by undoing what came after; the log keeps everything.

    Example: `doxa kb rollback kb.db --to 41`
    """
    kb = open_store(store, curator)
    numbers = kb.rollback(to, note=note)
    _say(f"{kb.place}: {len(numbers):,} decisions undone; the state is that of snapshot {to}")


def status(store: StoreArgument, json_: JsonOption = False) -> None:
    """Count beliefs, names, decisions and open proposals, and name the live model.

    Example: `doxa kb status kb.db`
    """
    from doxa.render import terminal

    kb = open_store(store, read_only=True)
    sizes = kb.status()
    if json_:
        print(json.dumps(sizes, ensure_ascii=False))
        return
    live = sizes.pop("live_model")
    terminal.show_table(
        str(kb.place), ("what", "count"), [(name.replace("_", " "), f"{n:,}") for name, n in sizes.items()]
    )
    _say(
        f"live model: version {live['id']}, {live['folder']}, snapshot {live['snapshot']}" if live else "no live model"
    )


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
        _say(f"{out}: the log up to snapshot {kb.snapshot()}")
        return
    table = kb.entries(last)
    if json_:
        print(json.dumps(table.to_dicts(), ensure_ascii=False))
        return
    for row in table.iter_rows(named=True):
        _say(entry_text(row))


def entry_text(row: dict[str, Any]) -> str:
    """A decision in one line."""
    from doxa.storage.store.history import time_text

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
    text = f"{row['decision']:6}  {time_text(row['at'])[:19]}  {row['curator']}  {row['verdict']}  {about}"
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
        print(json.dumps(record, ensure_ascii=False))
        return
    _say(f"{head} · {relation} · {tail}: {'holds' if record['holds'] else 'does not hold'}")
    for stated in record["assertions"]:
        confidence = "" if stated["confidence"] is None else f", confidence {stated['confidence']:g}"
        undone = "" if stated["active"] else "  (undone)"
        _say(f"  stated by {stated['uri']}: {stated['mention'] or 'no mention'}{confidence}{undone}")
    for row in record["decisions"]:
        _say(entry_text(row))


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
    _say(f"{out}: snapshot {kb.snapshot()} of {kb.place}")
