"""The tables of a knowledge base.

| family | tables |
|---|---|
| names | entity, relation, alias |
| evidence | source, run, belief, assertion |
| log | decision (append-only); undone, belief_state (its projections) |
| review | proposal |
| models | model_version, job |
| people | account, audit |
| about the store | setting |

Times are microseconds since 1970 in UTC. Ids are never used again. The state at any moment is a function of `decision`
up to that moment; `undone`, `belief_state`, `run.active`, `alias` and the columns `name` and `merged_into` hold its
present value and change in the transaction that writes the decision.
"""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    SmallInteger,
    Table,
    Text,
    UniqueConstraint,
)
from sqlalchemy.types import TypeEngine

metadata = MetaData(
    naming_convention={
        "pk": "pk_%(table_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
        "uq": "uq_%(table_name)s_%(column_0_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "ix": "ix_%(table_name)s_%(column_0_name)s",
    }
)

Id: TypeEngine[int] = BigInteger().with_variant(Integer(), "sqlite")
"""A 64-bit id; SQLite makes a rowid only of INTEGER."""

ASSERTED, ACCEPTED, REJECTED = 1, 2, -1
"""Status of a belief: stated by an active source, accepted by a curator, rejected by a curator.

The last effective decision of a curator outranks all sources. Positive = in the knowledge base."""

TRAIN, VALID, TEST = 0, 1, 2
SPLITS = {"train": TRAIN, "valid": VALID, "test": TEST}

KINDS = ("entity", "relation")


def _names(table: str) -> Table:
    return Table(
        table,
        metadata,
        Column("id", Id, primary_key=True),
        Column("name", Text, nullable=False, unique=True),
        Column("iri", Text, unique=True),
        Column("merged_into", Id, ForeignKey(f"{table}.id"), index=True),
    )


entity = _names("entity")
relation = _names("relation")
NAMED = {"entity": entity, "relation": relation}

alias = Table(
    "alias",
    metadata,
    Column("kind", Text, primary_key=True),
    Column("name", Text, primary_key=True),
    Column("target", Id, nullable=False, index=True),
)
"""Former names, which imports still understand."""

setting = Table(
    "setting",
    metadata,
    Column("name", Text, primary_key=True),
    Column("value", Text, nullable=False),
)

source = Table(
    "source",
    metadata,
    Column("id", Id, primary_key=True),
    Column("uri", Text, nullable=False),
    Column("license", Text),
    Column("sha256", Text),
    UniqueConstraint("uri", "sha256"),
)

run = Table(
    "run",
    metadata,
    Column("id", Id, primary_key=True),
    Column("command", Text, nullable=False),
    Column("model", Text),
    Column("settings", Text),
    Column("source_id", Id, ForeignKey("source.id")),
    Column("started", BigInteger, nullable=False),
    Column("active", Boolean, nullable=False, default=False),
)
"""A command that wrote assertions or proposals. Its assertions count while it is `active`."""

belief = Table(
    "belief",
    metadata,
    Column("id", Id, primary_key=True),
    Column("head", Id, ForeignKey("entity.id"), nullable=False),
    Column("relation", Id, ForeignKey("relation.id"), nullable=False),
    Column("tail", Id, ForeignKey("entity.id"), nullable=False),
    Column("split", SmallInteger, nullable=False),
    UniqueConstraint("head", "relation", "tail"),
    Index("ix_belief_tail", "tail"),
)
"""A triple and its split. A row alone says nothing about its truth."""

assertion = Table(
    "assertion",
    metadata,
    Column("id", Id, primary_key=True),
    Column("belief_id", Id, ForeignKey("belief.id"), nullable=False, index=True),
    Column("run_id", Id, ForeignKey("run.id"), nullable=False, index=True),
    Column("source_id", Id, ForeignKey("source.id"), nullable=False),
    Column("mention", Text),
    Column("confidence", Float(53)),
    Column("extractor", Text),
    Column("valid_from", Text),
    Column("valid_to", Text),
    Column("recorded_at", BigInteger, nullable=False),
)

proposal = Table(
    "proposal",
    metadata,
    Column("id", Id, primary_key=True),
    Column("belief_id", Id, ForeignKey("belief.id"), nullable=False, index=True),
    Column("run_id", Id, ForeignKey("run.id"), nullable=False),
    Column("kind", Text, nullable=False),
    Column("credence", Float(53), nullable=False),
    Column("suggestion", Id, ForeignKey("belief.id")),
    Column("evidence", Text),
    Column("second", Boolean, nullable=False, default=False),
    Column("state", Text, nullable=False, default="open"),
    Column("leased_by", Text),
    Column("leased_until", BigInteger),
    Column("decided_by", Text),
    CheckConstraint("kind IN ('missing', 'suspect')", name="kind"),
    CheckConstraint("state IN ('open', 'decided', 'withdrawn')", name="state"),
    Index("ix_proposal_queue", "state", "credence"),
    UniqueConstraint("run_id", "belief_id", "second"),
)
"""A belief to review. `second` marks the copy for a second reviewer."""

decision = Table(
    "decision",
    metadata,
    Column("id", Id, primary_key=True),
    Column("at", BigInteger, nullable=False, index=True),
    Column("curator", Text, nullable=False),
    Column("verdict", Text, nullable=False),
    Column("belief_id", Id, ForeignKey("belief.id"), index=True),
    Column("replacement_id", Id, ForeignKey("belief.id"), index=True),
    Column("proposal_id", Id, ForeignKey("proposal.id"), index=True),
    Column("run_id", Id, ForeignKey("run.id")),
    Column("kind", Text),
    Column("subject", Id),
    Column("object", Id),
    Column("old_name", Text),
    Column("new_name", Text),
    Column("reason", Text),
    Column("note", Text),
    Column("credence", Float(53)),
    Column("undoes", Id, ForeignKey("decision.id"), index=True),
)
"""The log. `subject`, `object`, `old_name` and `new_name` are those of a rename or merge of the `kind`."""

undone = Table(
    "undone",
    metadata,
    Column("decision_id", Id, ForeignKey("decision.id"), primary_key=True, autoincrement=False),
)
"""The decisions that are not effective at present."""

belief_state = Table(
    "belief_state",
    metadata,
    Column("belief_id", Id, ForeignKey("belief.id"), primary_key=True, autoincrement=False),
    Column("status", SmallInteger, nullable=False),
    Column("decision_id", Id, ForeignKey("decision.id")),
)

model_version = Table(
    "model_version",
    metadata,
    Column("id", Id, primary_key=True),
    Column("folder", Text, nullable=False),
    Column("sha256", Text),
    Column("snapshot", Id, nullable=False),
    Column("parent", Id, ForeignKey("model_version.id")),
    Column("created", BigInteger, nullable=False),
    Column("state", Text, nullable=False),
    Column("reason", Text),
    Column("figures", Text),
    CheckConstraint("state IN ('live', 'candidate', 'retired')", name="state"),
)
Index(
    "ix_model_version_live",
    model_version.c.state,
    unique=True,
    sqlite_where=model_version.c.state == "live",
    postgresql_where=model_version.c.state == "live",
)
"""One model is live."""

job = Table(
    "job",
    metadata,
    Column("id", Id, primary_key=True),
    Column("kind", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("created", BigInteger, nullable=False),
    Column("started", BigInteger),
    Column("finished", BigInteger),
    Column("settings", Text),
    Column("progress", Float(53)),
    Column("message", Text),
    CheckConstraint("state IN ('waiting', 'running', 'done', 'failed')", name="state"),
)

account = Table(
    "account",
    metadata,
    Column("name", Text, primary_key=True),
    Column("role", Text, nullable=False),
    Column("token_hash", Text, unique=True),
    Column("created", BigInteger, nullable=False),
    CheckConstraint("role IN ('reader', 'curator', 'admin')", name="role"),
)

audit = Table(
    "audit",
    metadata,
    Column("id", Id, primary_key=True),
    Column("at", BigInteger, nullable=False),
    Column("account", Text, nullable=False),
    Column("action", Text, nullable=False),
    Column("detail", Text),
)
