"""Executors: how the steps of an epoch are run."""
