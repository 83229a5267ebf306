"""How much memory there is, and how much of it a table may take."""

from __future__ import annotations

import os


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
