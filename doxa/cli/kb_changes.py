"""Changes of a knowledge base by a curator; each is a decision of the log and can be undone."""

from __future__ import annotations

from typing import Annotated

import typer

from doxa.cli.kb import CuratorOption, StoreArgument, ValidFromOption, ValidToOption, counted_text, open_store, say
from doxa.cli.options import HeadArgument, MentionOption, RelationArgument, TailArgument

REASONS = "Why: wrong head, wrong tail, wrong relation, not stated by the mention, no longer true, duplicate or other."
NoteOption = Annotated[str | None, typer.Option(help="A remark to keep with the decision.")]
ReasonOption = Annotated[
    str | None,
    typer.Option(help=REASONS),
]
KindOption = Annotated[str, typer.Option("--kind", help="entity or relation.")]


def add(
    store: StoreArgument,
    head: HeadArgument,
    relation: RelationArgument,
    tail: TailArgument,
    mention: MentionOption = None,
    confidence: Annotated[float | None, typer.Option(help="Confidence, above 0 and at most 1.")] = None,
    valid_from: ValidFromOption = None,
    valid_to: ValidToOption = None,
    source: Annotated[str | None, typer.Option(help="Where it is stated.")] = None,
    note: NoteOption = None,
    curator: CuratorOption = "",
) -> None:
    """State a belief.

    Example: `doxa kb add kb.db Lyon 'located in' France --mention 'Lyon is a city in France'`
    """
    kb = open_store(store, curator)
    number = kb.add(
        head, relation, tail, mention=mention, confidence=confidence, valid_from=valid_from, valid_to=valid_to,
        source=source, note=note,
    )  # fmt: skip
    say(f"decision {number}: added {head} · {relation} · {tail}")


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
    say(f"decision {number}: retracted {head} · {relation} · {tail}")


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
    say(f"decision {open_store(store, curator).rename(old, new, kind=kind, note=note)}: {old} is now {new}")


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
    say(f"decision {open_store(store, curator).merge(name, into, kind=kind, note=note)}: {name} counts as {into}")


def undo(
    store: StoreArgument,
    decision: Annotated[int, typer.Argument(metavar="DECISION", help="A number of the log.")],
    note: NoteOption = None,
    curator: CuratorOption = "",
) -> None:
    """Undo any decision of the log: an import, a rename, a merge, a review; undoing an undo is a redo.

    Example: `doxa kb undo kb.db 41`
    """
    say(f"decision {open_store(store, curator).undo(decision, note=note)}: decision {decision} is undone")


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
    say(f"{kb.place}: {counted_text(len(numbers), 'decision')} undone or redone; the state is that of snapshot {to}")
