"""Evaluation: ranks, the protocol of the paper, calibration, and the report."""
