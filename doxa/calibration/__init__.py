"""Calibration: everything fitted on validation data."""
