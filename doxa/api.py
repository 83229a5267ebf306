"""The public names of doxa."""

from __future__ import annotations

from pathlib import Path

from doxa.config import Settings as Settings
from doxa.data.beliefs import Beliefs as Beliefs
from doxa.data.splits import split as split
from doxa.errors import DoxaError as DoxaError
from doxa.evaluation.report import Evaluation as Evaluation
from doxa.evaluation.report import evaluate as evaluate
from doxa.formats import inspect as inspect
from doxa.formats import read as read
from doxa.formats import write as write
from doxa.inference import Answer as Answer
from doxa.model import Model as Model

fit = Model.fit


def load(folder: str | Path) -> Model:
    """The model of a folder."""
    return Model.load(folder)
