"""Training: objectives, the candidates they need, the optimizer and the loop."""

VERSION = 1
"""Raised whenever training with the same settings and seed gives other weights; results of experiments state it."""
