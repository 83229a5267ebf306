"""The public names of doxa."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from doxa import formats as files
from doxa.config import Settings as Settings
from doxa.data.beliefs import Beliefs as Beliefs
from doxa.data.splits import split as split
from doxa.errors import DoxaError as DoxaError
from doxa.evaluation.report import Evaluation as Evaluation
from doxa.evaluation.report import evaluate as evaluate
from doxa.formats import OnError
from doxa.inference import Answer as Answer
from doxa.model import Model as Model
from doxa.training.fit import fit as fit


def read(path: str | Path, on_error: OnError = "raise", refuted: bool = False, **told: Any) -> Beliefs:
    """The beliefs of a file of any format; `on_error="skip"` leaves faulty lines out and logs how many.

    What else can be told are the fields of `doxa.formats.Options`, for example `format="nt"` or `literals="drop"`.
    `refuted` lets beliefs of confidence 0 pass, which are held false: for files to measure with.
    """
    return Beliefs.from_frames(files.blocks(path, on_error, refuted, **told))


def write(beliefs: Beliefs, path: str | Path, **told: Any) -> None:
    """Write beliefs to a file in the format its ending tells, compressed if that is .gz or .zst."""
    files.write(beliefs.frames(), path, **told)


def load(folder: str | Path) -> Model:
    """The model of a folder."""
    return Model.load(folder)
