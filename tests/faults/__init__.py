"""The fault harness: kills, failing writes, damaged and forged model folders. `python -m tests.faults` runs all."""
