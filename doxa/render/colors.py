"""The colors of plots and pages."""

from __future__ import annotations

INK, ACCENT, PALE = "#1f2d3d", "#c8553d", "#8fa3b5"
BLUE, GRAY = "#2a6f97", "#6b7f91"

GROUPS = (BLUE, ACCENT, "#588157", "#8a6d3b", "#7b5ea7", "#d4a017", "#3d8f8a", "#a4466c", "#5c6b73", "#9c6644")
"""Colors of the groups of a map; group n has color n, and the list repeats."""

ROLES = {
    "head": ACCENT,
    "tail": BLUE,
    "runner-up": "#8a6d3b",
    "like head": "#e3a394",
    "like tail": "#9fc3d8",
}
"""Colors of the entities around an explained belief, by role."""
