"""Who is signed in, accounts, and the audit trail."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Path, Query
from fastapi.responses import Response
from pydantic import Field

from doxa.server import schemas
from doxa.server.context import API, Parts, as_json
from doxa.server.problems import PROBLEMS
from doxa.server.security import Principal, Requires

router = APIRouter(prefix=API, tags=["accounts"], responses=PROBLEMS)

Anybody = Annotated[Principal, Depends(Requires(None))]
Admin = Annotated[Principal, Depends(Requires("admin"))]


class NewAccount(schemas.Body):
    """An account to make."""

    name: str = Field(min_length=1, max_length=200, examples=["ada"])
    role: Literal["reader", "curator", "admin"] = "curator"


class Me(schemas.Lenient):
    """Who asks, what they may do, and whether the server can be written to."""

    name: str
    role: Literal["reader", "curator", "admin"] | None
    writable: bool


class Account(schemas.Lenient):
    """An account without its token."""

    name: str
    role: Literal["reader", "curator", "admin"]


class Accounts(schemas.Lenient):
    """All accounts."""

    accounts: list[Account]


class AccountWithToken(Account):
    """A new account; its token is shown once."""

    token: str


class Removed(schemas.Lenient):
    """The name of an account that is gone."""

    name: str


class Action(schemas.Lenient):
    """Something that an account did."""

    id: int
    at: int = Field(description="Microseconds since 1970.")
    account: str
    action: str
    detail: str | None


class Trail(schemas.Lenient):
    """The audit trail, in order."""

    trail: list[Action]


@router.get("/me", response_model=Me, summary="Who asks")
async def me(parts: Parts, who: Anybody) -> Response:
    """The name and role of the sender, and whether this server serves a knowledge base."""
    return as_json({"name": who.name, "role": who.role, "writable": parts.source.kb is not None})


@router.get("/accounts", response_model=Accounts, summary="All accounts")
async def list_(parts: Parts, who: Admin) -> Response:
    """Names and roles; tokens are stored as hashes and cannot be shown again."""
    kb = parts.source.store()
    return as_json({"accounts": await parts.quick(kb.accounts.all)})


@router.post("/accounts", response_model=AccountWithToken, summary="Make an account")
async def add(parts: Parts, who: Admin, account: NewAccount) -> Response:
    """The token is in the response and nowhere else."""
    kb = parts.signed(who)
    token = await parts.quick(lambda: kb.accounts.add(account.name, account.role))
    return as_json({"name": account.name, "role": account.role, "token": token}, {"Cache-Control": "no-store"})


@router.delete("/accounts/{name}", response_model=Removed, summary="Remove an account")
async def remove(parts: Parts, who: Admin, name: str = Path(max_length=200)) -> Response:
    """Its token is refused from now on; its decisions stay."""
    kb = parts.signed(who)
    await parts.quick(lambda: kb.accounts.remove(name))
    parts.keys.forget()
    return as_json({"name": name})


@router.get("/trail", response_model=Trail, summary="The audit trail")
async def trail(parts: Parts, who: Admin, last: int = Query(200, ge=1, le=10_000)) -> Response:
    """Who started jobs, published models, imported files and changed accounts; decisions are in the log of beliefs."""
    kb = parts.source.store()

    def work() -> Any:
        return {"trail": kb.accounts.trail()[-last:]}

    return as_json(await parts.quick(work))
