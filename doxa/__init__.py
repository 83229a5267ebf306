"""doxa completes knowledge bases: it learns from beliefs and answers with probabilities."""

from __future__ import annotations

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

# Threads that spin while they wait block the threads they wait for as soon as anything else runs on the machine:
# training was seen to slow down twentyfold. A short spin, then sleep, costs nothing on an idle machine. It must be set
# before torch is loaded; a value that the user set stays.
os.environ.setdefault("GOMP_SPINCOUNT", "3000")

__version__ = "0.2.0"

_PUBLIC = {
    "Answer": "doxa.inference.answer",
    "BadFile": "doxa.errors",
    "BadModel": "doxa.errors",
    "BadStore": "doxa.errors",
    "Beliefs": "doxa.data.beliefs",
    "CannotAnswer": "doxa.errors",
    "Comparison": "doxa.evaluation.compare",
    "DoxaError": "doxa.errors",
    "Evaluation": "doxa.evaluation.report",
    "Explanation": "doxa.curation.explanation",
    "Judgment": "doxa.inference.judgment",
    "KnowledgeBase": "doxa.storage.store.knowledge_base",
    "Model": "doxa.model",
    "Profile": "doxa.data.profile",
    "Proposals": "doxa.curation.complete",
    "Settings": "doxa.config",
    "Slot": "doxa.slots",
    "Suspects": "doxa.curation.audit",
    "Tuning": "doxa.training.tuning",
    "UnknownName": "doxa.errors",
    "UsageError": "doxa.errors",
    "average": "doxa.curation.average",
    "compare": "doxa.evaluation.compare",
    "evaluate": "doxa.evaluation.report",
    "fit": "doxa.model",
    "inspect": "doxa.storage.sources",
    "load": "doxa.model",
    "open": "doxa.storage.store.knowledge_base",
    "read": "doxa.storage.sources",
    "split": "doxa.data.splits",
    "tune": "doxa.training.tuning",
    "write": "doxa.formats",
}
"""Public names and the modules that define them."""

if TYPE_CHECKING:
    from doxa.config import Settings
    from doxa.curation.audit import Suspects
    from doxa.curation.average import average
    from doxa.curation.complete import Proposals
    from doxa.curation.explanation import Explanation
    from doxa.data.beliefs import Beliefs
    from doxa.data.profile import Profile
    from doxa.data.splits import split
    from doxa.errors import BadFile, BadModel, BadStore, CannotAnswer, DoxaError, UnknownName, UsageError
    from doxa.evaluation.compare import Comparison, compare
    from doxa.evaluation.report import Evaluation, evaluate
    from doxa.formats import write
    from doxa.inference.answer import Answer
    from doxa.inference.judgment import Judgment
    from doxa.model import Model, fit, load
    from doxa.slots import Slot
    from doxa.storage.sources import inspect, read
    from doxa.storage.store.knowledge_base import KnowledgeBase, open
    from doxa.training.tuning import Tuning, tune

__all__ = [
    "Answer",
    "BadFile",
    "BadModel",
    "BadStore",
    "Beliefs",
    "CannotAnswer",
    "Comparison",
    "DoxaError",
    "Evaluation",
    "Explanation",
    "Judgment",
    "KnowledgeBase",
    "Model",
    "Profile",
    "Proposals",
    "Settings",
    "Slot",
    "Suspects",
    "Tuning",
    "UnknownName",
    "UsageError",
    "average",
    "compare",
    "evaluate",
    "fit",
    "inspect",
    "load",
    "open",
    "read",
    "split",
    "tune",
    "write",
]


def __getattr__(name: str) -> Any:
    """Public names are loaded when first used, so that `import doxa` and `doxa --help` stay quick."""
    if name in _PUBLIC:
        return getattr(import_module(_PUBLIC[name]), name)
    raise AttributeError(f"module 'doxa' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__", "__doc__"])
