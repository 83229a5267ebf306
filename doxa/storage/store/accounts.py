"""Accounts and the audit trail: who may do what, by the hash of a token, and what was done besides decisions."""

from __future__ import annotations

import hashlib
import secrets
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from doxa.errors import UnknownName, UsageError, one_of
from doxa.storage.store.connect import now
from doxa.storage.store.schema import account, audit

if TYPE_CHECKING:
    from doxa.storage.store.knowledge_base import KnowledgeBase

ROLES = ("reader", "curator", "admin")


def token_hash(token: str) -> str:
    """The hash that is stored; a token has 256 random bits, so it needs no salt."""
    return hashlib.sha256(token.encode()).hexdigest()


class Accounts:
    """The people of a knowledge base."""

    def __init__(self, kb: KnowledgeBase) -> None:
        self.kb = kb

    def add(self, name: str, role: str = "curator") -> str:
        """Make an account; its token, which is shown only once."""
        one_of("role", role, ROLES)
        token = secrets.token_urlsafe(32)
        values = {"name": name, "role": role, "token_hash": token_hash(token), "created": now()}
        with self.kb.writing() as connection:
            if connection.execute(sa.select(account.c.name).where(account.c.name == name)).first():
                raise UsageError(f"there is already an account {name!r}", "choose another name")
            connection.execute(sa.insert(account).values(values))
            self.record_within(connection, f"add account {name}", role)
        return token

    def remove(self, name: str) -> None:
        """Remove an account; its decisions stay."""
        with self.kb.writing() as connection:
            if not connection.execute(sa.delete(account).where(account.c.name == name)).rowcount:
                raise UnknownName(f"no account {name!r}")
            self.record_within(connection, f"remove account {name}")

    def of_token(self, token: str) -> tuple[str, str] | None:
        """Name and role of the owner of a token."""
        with self.kb.reading() as connection:
            query = sa.select(account.c.name, account.c.role).where(account.c.token_hash == token_hash(token))
            row = connection.execute(query).first()
            return None if row is None else (row.name, row.role)

    def all(self) -> list[dict[str, Any]]:
        """All accounts without their tokens."""
        columns = (account.c.name, account.c.role, account.c.created)
        with self.kb.reading() as connection:
            return [dict(row) for row in connection.execute(sa.select(*columns).order_by(account.c.name)).mappings()]

    def record(self, action: str, detail: str | None = None) -> None:
        """Write into the audit trail."""
        with self.kb.writing() as connection:
            self.record_within(connection, action, detail)

    def record_within(self, connection: sa.Connection, action: str, detail: str | None = None) -> None:
        """Write into the audit trail, within a transaction."""
        values = {"at": now(), "account": self.kb.curator, "action": action, "detail": detail}
        connection.execute(sa.insert(audit).values(values))

    def trail(self) -> list[dict[str, Any]]:
        """The audit trail, in order."""
        with self.kb.reading() as connection:
            return [dict(row) for row in connection.execute(sa.select(audit).order_by(audit.c.id)).mappings()]
