"""How much memory there is, and how much of it a table may take."""

from __future__ import annotations

import os
import re

from doxa.errors import UsageError

UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}


def free() -> int:
    """Bytes that can be had without pushing others out; 2 GB where the system does not tell."""
    try:
        with open("/proc/meminfo", encoding="utf-8") as lines:
            return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:"))
    except (OSError, StopIteration):
        pass
    try:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return 2 * 2**30


def parse(text: str) -> int:
    """`"500MB"`, `"2G"`, `"1.5 GB"` or a number of bytes, as bytes."""
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]?)(?:i?B)?\s*", text, re.IGNORECASE)
    if not found or not float(found[1]):
        raise UsageError(f"--memory {text!r}; expected a size such as 500MB or 2GB")
    return int(float(found[1]) * UNITS[found[2].upper()])
