"""doxa completes knowledge bases: it learns from beliefs and answers with probabilities."""

from __future__ import annotations

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from doxa.api import (
        Answer,
        Beliefs,
        DoxaError,
        Evaluation,
        Model,
        Settings,
        evaluate,
        fit,
        inspect,
        load,
        read,
        split,
        write,
    )

# Threads that wait by spinning hold up the very threads they wait for as soon as anything else runs on the machine:
# training was seen to slow down twentyfold. A short spin, then sleep, costs nothing when the machine is idle.
# It must be said before torch is loaded.
os.environ.setdefault("GOMP_SPINCOUNT", "3000")

__version__ = "0.1.0"
__all__ = [
    "Answer",
    "Beliefs",
    "DoxaError",
    "Evaluation",
    "Model",
    "Settings",
    "evaluate",
    "fit",
    "inspect",
    "load",
    "read",
    "split",
    "write",
]


def __getattr__(name: str) -> Any:
    """Public names are loaded when first used, so that `import doxa` and `doxa --help` stay quick."""
    if name in __all__:
        return getattr(import_module("doxa.api"), name)
    raise AttributeError(f"module 'doxa' has no attribute {name!r}")
