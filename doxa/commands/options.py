"""Options and checks that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from doxa.errors import DoxaError, UsageError, one_of

if TYPE_CHECKING:
    from doxa.beliefs import Beliefs

ModelFolder = Annotated[Path, typer.Argument(metavar="MODEL", help="A model folder made by `doxa train`.")]
OnErrorOption = Annotated[str, typer.Option("--on-error", help="Faulty lines: raise (stop), or skip and count.")]
MemoryOption = Annotated[
    str, typer.Option("--memory", help="For tables of scores, e.g. 500MB; a quarter of what is free if left out.")
]


def read(path: Path, on_error: str, refuted: bool = False) -> Beliefs:
    """The beliefs of a file; `refuted` lets those of confidence 0 pass."""
    from doxa.beliefs import Beliefs
    from doxa.files import blocks

    return Beliefs.from_tables(blocks(path, on_error_rule(on_error), refuted))


def on_error_rule(value: str) -> Any:
    """raise or skip."""
    return chosen_of("--on-error", value, ("raise", "skip"))


def chosen_of(option: str, value: str, choices: tuple[str, ...]) -> Any:
    """The value, which must be one of the choices."""
    one_of(option, value, choices)
    return value


def check_output(option: str, path: Path | None, model: Path, file: Path) -> None:
    """Refuse an output file that is a folder, the input, or part of the model."""
    if path is None:
        return
    if path.is_dir():
        raise DoxaError(f"cannot write {path}: it is a folder")
    if path.resolve() == file.resolve() or path.resolve().is_relative_to(model.resolve()):
        raise UsageError(f"{option} {path} would replace what is being read", "choose another file")
