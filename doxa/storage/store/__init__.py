"""The living knowledge base: beliefs, evidence, decisions and model versions in SQLite or PostgreSQL."""
