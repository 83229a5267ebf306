"""Migrations of the store's schema run within the transaction that `doxa.storage.store.versions` opens."""

from alembic import context

context.configure(connection=context.config.attributes["connection"], transactional_ddl=False)
context.run_migrations()
