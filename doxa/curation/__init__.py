"""Curation: what is missing, what is wrong, why, and what changes as the knowledge base grows."""
