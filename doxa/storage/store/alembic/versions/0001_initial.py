"""The first schema."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Make all tables, and forbid changes to the log."""
    _names()
    _evidence()
    _review()
    _administration()
    _append_only()


def _names() -> None:
    """Entities, relations and their former names."""
    op.create_table(
        "entity",
        sa.Column("id", ID, nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("iri", sa.Text(), nullable=True),
        sa.Column("merged_into", ID, nullable=True),
        sa.ForeignKeyConstraint(["merged_into"], ["entity.id"], name=op.f("fk_entity_merged_into")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_entity")),
        sa.UniqueConstraint("name", name=op.f("uq_entity_name")),
        sa.UniqueConstraint("iri", name=op.f("uq_entity_iri")),
    )
    op.create_index(op.f("ix_entity_merged_into"), "entity", ["merged_into"], unique=False)
    op.create_table(
        "relation",
        sa.Column("id", ID, nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("iri", sa.Text(), nullable=True),
        sa.Column("merged_into", ID, nullable=True),
        sa.ForeignKeyConstraint(["merged_into"], ["relation.id"], name=op.f("fk_relation_merged_into")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_relation")),
        sa.UniqueConstraint("name", name=op.f("uq_relation_name")),
        sa.UniqueConstraint("iri", name=op.f("uq_relation_iri")),
    )
    op.create_index(op.f("ix_relation_merged_into"), "relation", ["merged_into"], unique=False)
    op.create_table(
        "alias",
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("target", ID, nullable=False),
        sa.PrimaryKeyConstraint("kind", "name", name=op.f("pk_alias")),
    )
    op.create_index(op.f("ix_alias_target"), "alias", ["target"], unique=False)


def _evidence() -> None:
    """Sources, runs, beliefs and assertions."""
    op.create_table(
        "source",
        sa.Column("id", ID, nullable=False),
        sa.Column("uri", sa.Text(), nullable=False),
        sa.Column("license", sa.Text(), nullable=True),
        sa.Column("sha256", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_source")),
        sa.UniqueConstraint("uri", "sha256", name=op.f("uq_source_uri")),
    )
    op.create_table(
        "run",
        sa.Column("id", ID, nullable=False),
        sa.Column("command", sa.Text(), nullable=False),
        sa.Column("model", sa.Text(), nullable=True),
        sa.Column("settings", sa.Text(), nullable=True),
        sa.Column("source_id", ID, nullable=True),
        sa.Column("started", sa.BigInteger(), nullable=False),
        sa.Column("active", sa.Boolean(), nullable=False),
        sa.ForeignKeyConstraint(["source_id"], ["source.id"], name=op.f("fk_run_source_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_run")),
    )
    op.create_table(
        "belief",
        sa.Column("id", ID, nullable=False),
        sa.Column("head", ID, nullable=False),
        sa.Column("relation", ID, nullable=False),
        sa.Column("tail", ID, nullable=False),
        sa.Column("split", sa.SmallInteger(), nullable=False),
        sa.ForeignKeyConstraint(["head"], ["entity.id"], name=op.f("fk_belief_head")),
        sa.ForeignKeyConstraint(["relation"], ["relation.id"], name=op.f("fk_belief_relation")),
        sa.ForeignKeyConstraint(["tail"], ["entity.id"], name=op.f("fk_belief_tail")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_belief")),
        sa.UniqueConstraint("head", "relation", "tail", name=op.f("uq_belief_head")),
    )
    op.create_index("ix_belief_tail", "belief", ["tail"], unique=False)
    op.create_table(
        "assertion",
        sa.Column("id", ID, nullable=False),
        sa.Column("belief_id", ID, nullable=False),
        sa.Column("run_id", ID, nullable=False),
        sa.Column("source_id", ID, nullable=False),
        sa.Column("mention", sa.Text(), nullable=True),
        sa.Column("confidence", sa.Float(precision=53), nullable=True),
        sa.Column("extractor", sa.Text(), nullable=True),
        sa.Column("valid_from", sa.Text(), nullable=True),
        sa.Column("valid_to", sa.Text(), nullable=True),
        sa.Column("recorded_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["belief_id"], ["belief.id"], name=op.f("fk_assertion_belief_id")),
        sa.ForeignKeyConstraint(["run_id"], ["run.id"], name=op.f("fk_assertion_run_id")),
        sa.ForeignKeyConstraint(["source_id"], ["source.id"], name=op.f("fk_assertion_source_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_assertion")),
    )
    op.create_index(op.f("ix_assertion_run_id"), "assertion", ["run_id"], unique=False)
    op.create_index(op.f("ix_assertion_belief_id"), "assertion", ["belief_id"], unique=False)


def _review() -> None:
    """Proposals, and what was decided."""
    op.create_table(
        "proposal",
        sa.Column("id", ID, nullable=False),
        sa.Column("belief_id", ID, nullable=False),
        sa.Column("run_id", ID, nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("credence", sa.Float(precision=53), nullable=False),
        sa.Column("suggestion", ID, nullable=True),
        sa.Column("evidence", sa.Text(), nullable=True),
        sa.Column("second", sa.Boolean(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("leased_by", sa.Text(), nullable=True),
        sa.Column("leased_until", sa.BigInteger(), nullable=True),
        sa.Column("decided_by", sa.Text(), nullable=True),
        sa.CheckConstraint("kind IN ('missing', 'suspect')", name=op.f("ck_proposal_kind")),
        sa.CheckConstraint("state IN ('open', 'decided', 'withdrawn')", name=op.f("ck_proposal_state")),
        sa.ForeignKeyConstraint(["belief_id"], ["belief.id"], name=op.f("fk_proposal_belief_id")),
        sa.ForeignKeyConstraint(["run_id"], ["run.id"], name=op.f("fk_proposal_run_id")),
        sa.ForeignKeyConstraint(["suggestion"], ["belief.id"], name=op.f("fk_proposal_suggestion")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_proposal")),
        sa.UniqueConstraint("run_id", "belief_id", "second", name=op.f("uq_proposal_run_id")),
    )
    op.create_index(op.f("ix_proposal_belief_id"), "proposal", ["belief_id"], unique=False)
    op.create_index("ix_proposal_queue", "proposal", ["state", "credence"], unique=False)
    _log()


def _log() -> None:
    """The log and its projections."""
    op.create_table(
        "decision",
        sa.Column("id", ID, nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("curator", sa.Text(), nullable=False),
        sa.Column("verdict", sa.Text(), nullable=False),
        sa.Column("belief_id", ID, nullable=True),
        sa.Column("replacement_id", ID, nullable=True),
        sa.Column("proposal_id", ID, nullable=True),
        sa.Column("run_id", ID, nullable=True),
        sa.Column("kind", sa.Text(), nullable=True),
        sa.Column("subject", ID, nullable=True),
        sa.Column("object", ID, nullable=True),
        sa.Column("old_name", sa.Text(), nullable=True),
        sa.Column("new_name", sa.Text(), nullable=True),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("note", sa.Text(), nullable=True),
        sa.Column("credence", sa.Float(precision=53), nullable=True),
        sa.Column("undoes", ID, nullable=True),
        sa.ForeignKeyConstraint(["belief_id"], ["belief.id"], name=op.f("fk_decision_belief_id")),
        sa.ForeignKeyConstraint(["proposal_id"], ["proposal.id"], name=op.f("fk_decision_proposal_id")),
        sa.ForeignKeyConstraint(["replacement_id"], ["belief.id"], name=op.f("fk_decision_replacement_id")),
        sa.ForeignKeyConstraint(["run_id"], ["run.id"], name=op.f("fk_decision_run_id")),
        sa.ForeignKeyConstraint(["undoes"], ["decision.id"], name=op.f("fk_decision_undoes")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_decision")),
    )
    op.create_index(op.f("ix_decision_at"), "decision", ["at"], unique=False)
    op.create_index(op.f("ix_decision_belief_id"), "decision", ["belief_id"], unique=False)
    op.create_index(op.f("ix_decision_proposal_id"), "decision", ["proposal_id"], unique=False)
    op.create_index(op.f("ix_decision_replacement_id"), "decision", ["replacement_id"], unique=False)
    op.create_index(op.f("ix_decision_undoes"), "decision", ["undoes"], unique=False)
    op.create_table(
        "undone",
        sa.Column("decision_id", ID, autoincrement=False, nullable=False),
        sa.ForeignKeyConstraint(["decision_id"], ["decision.id"], name=op.f("fk_undone_decision_id")),
        sa.PrimaryKeyConstraint("decision_id", name=op.f("pk_undone")),
    )
    op.create_table(
        "belief_state",
        sa.Column("belief_id", ID, autoincrement=False, nullable=False),
        sa.Column("status", sa.SmallInteger(), nullable=False),
        sa.Column("decision_id", ID, nullable=True),
        sa.ForeignKeyConstraint(["belief_id"], ["belief.id"], name=op.f("fk_belief_state_belief_id")),
        sa.ForeignKeyConstraint(["decision_id"], ["decision.id"], name=op.f("fk_belief_state_decision_id")),
        sa.PrimaryKeyConstraint("belief_id", name=op.f("pk_belief_state")),
    )


def _administration() -> None:
    """Settings, models, jobs and people."""
    op.create_table(
        "setting",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("value", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_setting")),
    )
    op.create_table(
        "model_version",
        sa.Column("id", ID, nullable=False),
        sa.Column("folder", sa.Text(), nullable=False),
        sa.Column("sha256", sa.Text(), nullable=True),
        sa.Column("snapshot", ID, nullable=False),
        sa.Column("parent", ID, nullable=True),
        sa.Column("created", sa.BigInteger(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("figures", sa.Text(), nullable=True),
        sa.CheckConstraint("state IN ('live', 'candidate', 'retired')", name=op.f("ck_model_version_state")),
        sa.ForeignKeyConstraint(["parent"], ["model_version.id"], name=op.f("fk_model_version_parent")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_model_version")),
    )
    op.create_table(
        "job",
        sa.Column("id", ID, nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("created", sa.BigInteger(), nullable=False),
        sa.Column("started", sa.BigInteger(), nullable=True),
        sa.Column("finished", sa.BigInteger(), nullable=True),
        sa.Column("settings", sa.Text(), nullable=True),
        sa.Column("progress", sa.Float(precision=53), nullable=True),
        sa.Column("message", sa.Text(), nullable=True),
        sa.CheckConstraint("state IN ('waiting', 'running', 'done', 'failed')", name=op.f("ck_job_state")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_job")),
    )
    op.create_table(
        "account",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("role", sa.Text(), nullable=False),
        sa.Column("token_hash", sa.Text(), nullable=True),
        sa.Column("created", sa.BigInteger(), nullable=False),
        sa.CheckConstraint("role IN ('reader', 'curator', 'admin')", name=op.f("ck_account_role")),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_account")),
        sa.UniqueConstraint("token_hash", name=op.f("uq_account_token_hash")),
    )
    op.create_table(
        "audit",
        sa.Column("id", ID, nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("account", sa.Text(), nullable=False),
        sa.Column("action", sa.Text(), nullable=False),
        sa.Column("detail", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_audit")),
    )
    live = sa.text("state = 'live'")
    op.create_index(
        "ix_model_version_live", "model_version", ["state"], unique=True, sqlite_where=live, postgresql_where=live
    )


def _append_only() -> None:
    """Let the database refuse to change or remove a decision."""
    if op.get_bind().dialect.name == "sqlite":
        for action in ("UPDATE", "DELETE"):
            op.execute(
                f"CREATE TRIGGER decision_no_{action.lower()} BEFORE {action} ON decision "
                "BEGIN SELECT RAISE(ABORT, 'the log is append-only'); END"
            )
        return
    op.execute(
        "CREATE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN RAISE EXCEPTION 'the log is append-only'; END $$"
    )
    op.execute(
        "CREATE TRIGGER decision_append_only BEFORE UPDATE OR DELETE ON decision "
        "FOR EACH ROW EXECUTE FUNCTION refuse_change()"
    )
