"""Who asks, and what they may do: tokens, roles, and the rule that every route states.

| role | may |
|---|---|
| reader | ask, judge, explain, search, export |
| curator | also review, add and retract beliefs |
| admin | also import files, run jobs, publish models |

A request from this machine without a token reads; it never writes. From another machine every request needs a token.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from dataclasses import dataclass
from http.cookies import CookieError, SimpleCookie
from typing import Any

from fastapi import Request
from starlette.datastructures import Headers

from doxa.server.problems import Refused

ROLES = ("reader", "curator", "admin")
COOKIE = "doxa_token"
REMEMBER, REMEMBERED = 2.0, 1000
"""Seconds that the owner of a token is remembered, and tokens that are."""

FORWARDED = ("forwarded", "x-forwarded-for", "x-real-ip")


@dataclass(frozen=True)
class Principal:
    """Who asks: the name that decisions are signed with, and a role; no role may do nothing."""

    name: str
    role: str | None

    def may(self, role: str) -> bool:
        return self.role is not None and ROLES.index(self.role) >= ROLES.index(role)


NOBODY = Principal("", None)
VISITOR = Principal("visitor", "reader")
"""Somebody on this machine without a token."""


def new_token() -> str:
    """A token of 256 random bits."""
    return secrets.token_urlsafe(32)


def hashed(token: str) -> str:
    """The form in which a token is kept; it has 256 random bits, so it needs no salt."""
    return hashlib.sha256(token.encode()).hexdigest()


class Keys:
    """The tokens that are accepted: the server's own, which is an admin's, and those of accounts in the store."""

    def __init__(self, token: str | None, owner: str, accounts: Any = None) -> None:
        self._hash, self.owner, self.accounts = hashed(token) if token else "", owner, accounts
        self._recent: dict[str, tuple[float, Principal]] = {}

    def remembered(self, token: str) -> Principal | None:
        """The owner of a token if no look into the store is needed."""
        key = hashed(token)
        if self._hash and hmac.compare_digest(key, self._hash):
            return Principal(self.owner, "admin")
        until, principal = self._recent.get(key, (0.0, NOBODY))
        return principal if time.monotonic() < until else None

    def of(self, token: str) -> Principal | None:
        """The owner of a token."""
        principal = self.remembered(token)
        if principal is None and self.accounts is not None:
            account = self.accounts.of_token(token)
            if account is not None:
                principal = Principal(*account)
                if len(self._recent) >= REMEMBERED:
                    self._recent.clear()
                self._recent[hashed(token)] = (time.monotonic() + REMEMBER, principal)
        return principal

    def forget(self) -> None:
        """Look every account up again: one of them was removed."""
        self._recent.clear()


def cookie_name(headers: Headers) -> str:
    """The cookie of the page: one for each port, so that two servers on one machine do not overwrite theirs."""
    port = headers.get("host", "").rpartition(":")[2]
    return f"{COOKIE}_{port}" if port.isdecimal() else COOKIE


def token_of(headers: Headers) -> str | None:
    """The token of a request: a bearer token, or the cookie of the page."""
    scheme, _, value = headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer" and value.strip():
        return value.strip()
    if "cookie" in headers:
        try:
            morsel = SimpleCookie(headers["cookie"]).get(cookie_name(headers))
        except CookieError:
            return None
        return morsel.value if morsel else None
    return None


def is_local(client: str | None, headers: Headers) -> bool:
    """Whether a request comes from this machine; one that a proxy forwarded does not."""
    if any(name in headers for name in FORWARDED):
        return False
    return client is None or client in ("::1", "localhost", "testclient") or client.startswith("127.")


class Requires:
    """The rule of a route: the least role that may use it; None is for everybody."""

    def __init__(self, role: str | None) -> None:
        self.role = role

    async def __call__(self, request: Request) -> Principal:
        principal: Principal = request.scope["state"]["principal"]
        if self.role is None or principal.may(self.role):
            return principal
        if principal.role in (None, "reader") and principal in (NOBODY, VISITOR):
            raise Refused(
                401,
                f"this needs the token of a {self.role}",
                "send it as 'Authorization: Bearer TOKEN', or open the address that `doxa serve` printed",
                headers={"WWW-Authenticate": 'Bearer realm="doxa"'},
            )
        raise Refused(403, f"this needs the role {self.role}; {principal.name} is a {principal.role}")


def rule_of(route: Any) -> Requires | None:
    """The strictest rule that a route states, None if it states none."""
    dependencies = getattr(getattr(route, "dependant", None), "dependencies", ())
    rules = [dependency.call for dependency in dependencies if isinstance(dependency.call, Requires)]
    return max(rules, key=lambda rule: ROLES.index(rule.role) if rule.role else -1, default=None)
