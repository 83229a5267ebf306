"""Options and checks that several commands share."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from doxa.errors import DoxaError, UsageError, one_of

if TYPE_CHECKING:
    from doxa.data.beliefs import Beliefs
    from doxa.formats import Options

ModelFolder = Annotated[Path, typer.Argument(metavar="MODEL", help="A model folder made by `doxa train`.")]
OnErrorOption = Annotated[str, typer.Option("--on-error", help="Faulty lines: raise (stop), or skip and count.")]
MemoryOption = Annotated[
    str, typer.Option("--memory", help="For tables of scores, e.g. 500MB; a quarter of what is free if left out.")
]
FormatOption = Annotated[
    str,
    typer.Option(
        "--format",
        help="Of the file if its ending does not tell: tsv csv jsonl parquet nt nq ttl rdf nell openke pykeen.",
    ),
]
ReadOption = Annotated[
    list[str],
    typer.Option(
        "--read",
        metavar="NAME=VALUE",
        help="How to read it: delimiter, header=yes|no, columns, literals=keep|drop, prefix, patterns.",
    ),
]

SystemOption = Annotated[str | None, typer.Option(help="The recipe, pbe if left out; `doxa systems` lists them.")]
ScoreOption = Annotated[
    str | None, typer.Option(help="D(h, r, t), the plausibility of a triple; the system's own if left out.")
]
SettingsOption = Annotated[
    Path | None,
    typer.Option("--settings", metavar="FILE", help="A TOML with [settings], such as `doxa tune` writes."),
]
SetOption = Annotated[list[str], typer.Option("--set", metavar="NAME=VALUE", help="Any setting; see `doxa settings`.")]


UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}


def parse_size(text: str) -> int:
    """Bytes from `500MB`, `2G`, `1.5 GB` or a number of bytes."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]?)(?:i?B)?\s*", text, re.IGNORECASE)
    if not match or not float(match[1]):
        raise UsageError(f"--memory {text!r}; expected a size such as 500MB or 2GB")
    return int(float(match[1]) * UNITS[match[2].upper()])


def chosen_settings(file: Path | None, assignments: list[str], **options: Any) -> dict[str, Any]:
    """Values of settings: those of the file, then of options that were given, then of --set."""
    from doxa.config import parse_assignments, read_toml

    given = {name: value for name, value in options.items() if value is not None}
    return (read_toml(file) if file else {}) | given | parse_assignments(assignments)


def reading(format_: str, told: list[str]) -> Options:
    """What --format and --read say."""
    from doxa.formats import Options

    return Options(format=format_).parse(told)


def read(path: Path, on_error: str, options: Options, allow_zero_confidence: bool = False) -> Beliefs:
    """The beliefs of a file; `allow_zero_confidence` accepts a confidence of 0."""
    from doxa.data.beliefs import Beliefs
    from doxa.formats import blocks

    return Beliefs.from_frames(blocks(path, on_error_rule(on_error), allow_zero_confidence, options))


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


def read_dataset(
    data: Path, valid: Path | None, on_error: str, format_: str, told: list[str]
) -> tuple[Beliefs, Beliefs | None]:
    """What is loaded from and what is validated with, if there is such; both are told."""
    from doxa import formats as files
    from doxa.render import terminal as display

    parts, options = files.dataset(data), reading(format_, told)
    train = read(parts.train, on_error, options)
    display.tell(f"{parts.train}: {train}")
    path = valid or parts.valid
    if path is None:
        return train, None
    held = read(path, on_error, options)
    display.tell(f"{path}: {held}")
    return train, held
