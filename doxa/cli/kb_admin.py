"""Models and accounts of a knowledge base."""

from __future__ import annotations

from typing import Annotated

import typer

from doxa.cli.kb import CuratorOption, StoreArgument, open_store, say
from doxa.cli.options import JsonOption
from doxa.render.plain import print_json

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="The name of the account.")]


def models(store: StoreArgument, json_: JsonOption = False) -> None:
    """List the models of a knowledge base: the live one, candidates, and those it replaced.

    `doxa train KB` records a model, `doxa update KB` records the next version.

    Example: `doxa kb models kb.db`
    """
    from doxa.render import terminal

    kb = open_store(store, read_only=True)
    versions = kb.models.all()
    if json_:
        print_json([version.as_dict() for version in versions])
        return
    if not versions:
        say(f"no model; train one: doxa train {kb.place} --out MODEL")
        return
    rows = [
        (str(one.id), one.state, str(one.snapshot), str(one.folder),
         ", ".join(f"{name} {value:.3f}" for name, value in one.figures.items() if value is not None))
        for one in versions
    ]  # fmt: skip
    terminal.show_table(f"{kb.place}: models", ("version", "state", "snapshot", "folder", "figures"), rows)
    for one in versions:
        if one.reason:
            say(f"version {one.id}: {one.reason}")


def publish(
    store: StoreArgument,
    version: Annotated[int, typer.Argument(metavar="VERSION", help="A number of `doxa kb models`.")],
    curator: CuratorOption = "",
) -> None:
    """Make a version of the model live: a candidate that `doxa update` kept back, or a former one.

    Example: `doxa kb publish kb.db 2`
    """
    from doxa.model import Model

    kb = open_store(store, curator)
    chosen = kb.models.get(version)
    Model.load(chosen.folder)  # a missing or damaged model is refused
    former = kb.models.live()
    kb.models.publish(version)
    replaced = f"; version {former.id} is retired" if former is not None and former.id != version else ""
    say(f"version {version} is live: {chosen.folder}{replaced}")


def add_account(
    store: StoreArgument,
    name: NameArgument,
    role: Annotated[str, typer.Option(help="reader, curator or admin.")] = "curator",
    curator: CuratorOption = "",
) -> None:
    """Make an account and print its token, which is not stored and not shown again.

    A server asks for the token. Commands on the store itself need none: the file or the database protects it.

    Example: `doxa kb account add kb.db ann --role curator`
    """
    from doxa.render import terminal

    token = open_store(store, curator).accounts.add(name, role)
    terminal.remark(f"{name} is a {role}; the token, shown only now:")
    say(token)


def list_accounts(store: StoreArgument, json_: JsonOption = False) -> None:
    """List accounts and their roles.

    Example: `doxa kb account list kb.db`
    """
    from doxa.render import terminal
    from doxa.storage.store.history import local_time

    accounts = open_store(store, read_only=True).accounts.all()
    if json_:
        print_json(accounts)
        return
    if not accounts:
        say("no account")
        return
    rows = [(one["name"], one["role"], local_time(one["created"])) for one in accounts]
    terminal.show_table("accounts", ("name", "role", "since"), rows)


def remove_account(store: StoreArgument, name: NameArgument, curator: CuratorOption = "") -> None:
    """Remove an account: its token is refused from now on, its decisions stay.

    Example: `doxa kb account remove kb.db ann`
    """
    open_store(store, curator).accounts.remove(name)
    say(f"{name} has no account any more")


def audit_trail(store: StoreArgument, json_: JsonOption = False) -> None:
    """Print what was done besides decisions: accounts added and removed, models published.

    Example: `doxa kb account log kb.db`
    """
    from doxa.storage.store.history import local_time

    trail = open_store(store, read_only=True).accounts.trail()
    if json_:
        print_json(trail)
        return
    for row in trail:
        detail = f" ({row['detail']})" if row["detail"] else ""
        say(f"{local_time(row['at'])}  {row['account']}  {row['action']}{detail}")
