"""Options and checks that several commands share."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from doxa.errors import DoxaError, UsageError, one_of

if TYPE_CHECKING:
    from doxa.data.beliefs import Beliefs
    from doxa.formats import Options
    from doxa.inference.rows import RowRunner

# Arguments
ModelFolder = Annotated[Path, typer.Argument(metavar="MODEL", help="A model folder made by `doxa train`.")]
DataArgument = Annotated[
    Path, typer.Argument(metavar="DATA", help="A file of beliefs, a folder with train and valid, or a knowledge base.")
]
SourceArgument = Annotated[
    Path,
    typer.Argument(metavar="IN", help="A file of beliefs, a dataset folder or a knowledge base; - is standard input."),
]
HeadArgument = Annotated[str, typer.Argument(metavar="HEAD", help="Head entity.")]
RelationArgument = Annotated[str, typer.Argument(metavar="RELATION", help="Relation.")]
TailArgument = Annotated[str, typer.Argument(metavar="TAIL", help="Tail entity.")]

# Reading files
OnErrorOption = Annotated[
    str, typer.Option("--on-error", metavar="RULE", help="Faulty lines: raise (stop), or skip and count.")
]
StrictOption = Annotated[
    bool, typer.Option("--strict", help="Stop at a validation belief with a name that training never sees.")
]
FormatOption = Annotated[
    str,
    typer.Option(
        "--format",
        help="Format of the input if its ending does not say: tsv csv jsonl parquet nt nq ttl rdf nell openke pykeen.",
    ),
]
ReadOption = Annotated[
    list[str],
    typer.Option(
        "--read",
        metavar="NAME=VALUE",
        help="How to read the input: delimiter, header=yes|no, columns, literals=keep|drop, prefix, patterns, escapes.",
    ),
]

# Writing files
ToOption = Annotated[str, typer.Option("--to", metavar="FORMAT", help="Format of OUT if its ending does not say.")]
WriteOption = Annotated[
    list[str],
    typer.Option("--write", metavar="NAME=VALUE", help="How to write OUT: delimiter, header=yes|no, prefix, escapes."),
]
SafeCsvOption = Annotated[
    bool,
    typer.Option(
        "--safe-csv", help="In CSV and TSV, put a quote before cells that a spreadsheet would run as a formula."
    ),
]
ForceOption = Annotated[bool, typer.Option("--force", help="Replace the model in --out.")]
ReviewFile = Annotated[
    Path | None, typer.Option("--out", help="TSV or CSV file to write, with a column `review` to fill in.")
]

# Settings
ValidOption = Annotated[Path | None, typer.Option(help="Validation beliefs, if they are not in the folder.")]
SystemOption = Annotated[str | None, typer.Option(help="The recipe; pbe by default. `doxa systems` lists all.")]
ScoreOption = Annotated[
    str | None,
    typer.Option(
        help="The score D(h, r, t) of a triple; by default the one of the system, with pbe the best of a race."
    ),
]
SettingsOption = Annotated[
    Path | None,
    typer.Option("--settings", metavar="FILE", help="A TOML file with [settings], as `doxa tune` writes it."),
]
SetOption = Annotated[
    list[str],
    typer.Option("--set", metavar="NAME=VALUE", help="Any setting, repeatable; `doxa settings` lists all."),
]

# Running and showing
SeedOption = Annotated[int, typer.Option(help="Seed of every random draw.", min=0)]
MemoryOption = Annotated[
    str, typer.Option("--memory", metavar="SIZE", help="Limit for score tables, e.g. 500MB; default: ¼ of free memory.")
]
ClusterOption = Annotated[
    str,
    typer.Option("--cluster", metavar="RAY", help="Work on a Ray cluster: local, auto, or ray://HOST:10001."),
]
PartsOption = Annotated[
    Path | None,
    typer.Option(
        "--parts", metavar="FOLDER", help="Keep the cluster's tables here; a command that is run again goes on."
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]
JsonFile = Annotated[Path | None, typer.Option("--json", metavar="FILE", help="Write the report as JSON.")]
MentionOption = Annotated[str | None, typer.Option(metavar="TEXT", help="The words that state the belief.")]

UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}


IndexOption = Annotated[
    bool | None,
    typer.Option(
        "--index/--exact",
        help="Answer by the index of `doxa index`, or score every entity; by default by the index from a million "
        "entities on, if there is one.",
        show_default=False,
    ),
]

BaseRateOption = Annotated[
    float | None,
    typer.Option(
        "--base-rate",
        help="Share of true beliefs that credence shall hold for; by default as in calibration, mostly 0.5.",
        min=0.0001,
        max=0.9999,
    ),
]


@contextmanager
def rows_runner(
    cluster: str, parts: Path | None, model: Path, report: Callable[[float], None] | None = None
) -> Iterator[RowRunner | None]:
    """Where the rows of a command are worked on: None for here, or a Ray cluster that --cluster names."""
    if not cluster:
        if parts is not None:
            raise UsageError("--parts is for work on a cluster", "add --cluster local")
        yield None
        return
    from tempfile import TemporaryDirectory

    from doxa.cluster.connection import connected
    from doxa.cluster.rows import ClusterRows

    with TemporaryDirectory(prefix="doxa-") as folder, connected(cluster) as ray:
        yield ClusterRows(ray, model, parts or Path(folder), report)


def memory_limit(text: str) -> int:
    """The value of --memory in bytes; 0 = automatic."""
    return parse_size(text) if text else 0


def parse_size(text: str) -> int:
    """`"500MB"`, `"2G"`, `"1.5 GB"` or a number of bytes, as bytes."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]?)(?:i?B)?\s*", text, re.IGNORECASE)
    if not match or not float(match[1]):
        raise UsageError(f"--memory {text!r}; expected a size such as 500MB or 2GB")
    return int(float(match[1]) * UNITS[match[2].upper()])


def chosen_settings(file: Path | None, assignments: list[str], **options: Any) -> dict[str, Any]:
    """Values of settings: first from the file, then from options of their own, then from --set."""
    from doxa.config import read_toml
    from doxa.systems import parse_assignments

    values = {name: value for name, value in options.items() if value is not None}
    return (read_toml(file) if file else {}) | values | parse_assignments(assignments)


def reading(format_: str, assignments: list[str]) -> Options:
    """The options of --format and --read."""
    from doxa.formats import Options

    return Options(format=format_).parse(assignments)


def test_part(path: Path) -> Path:
    """The test file of a dataset folder; any other path as it is."""
    from doxa.formats.dataset import parts_of

    parts = parts_of(path)
    if "train" not in parts:
        return path
    if "test" not in parts:
        raise UsageError(f"{path} has no test file", "name a file of test beliefs")
    return parts["test"]


def read(path: Path, on_error: str, options: Options, allow_zero_confidence: bool = False) -> Beliefs:
    """The beliefs of a file; `allow_zero_confidence` also admits beliefs of confidence 0."""
    from doxa.storage.sources import read_beliefs

    return read_beliefs(path, on_error_rule(on_error), allow_zero_confidence, options)


def read_dataset(
    data: Path, valid: Path | None, on_error: str, format_: str, assignments: list[str]
) -> tuple[Beliefs, Beliefs | None]:
    """The training and validation beliefs of a file or folder; prints the sizes of both."""
    from doxa.render import terminal
    from doxa.storage import sources

    parts, options = sources.dataset(data), reading(format_, assignments)
    train = read(parts.train, on_error, options)
    terminal.remark(f"{sources.shown(parts.train)}: {train}")
    path = valid or parts.valid
    if path is None:
        return train, None
    validation = read(path, on_error, options)
    terminal.remark(f"{sources.shown(path)}: {validation}")
    return train, validation


def on_error_rule(value: str) -> Any:
    """The value of --on-error: raise or skip."""
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


def write_text(path: Path, text: str) -> None:
    """Write a text file, all or nothing."""
    from doxa.data.atomic import written

    with written(path) as unfinished:
        unfinished.write_text(text, encoding="utf-8")


def quoting(safe_csv: bool) -> str:
    """The option `formulas` of writing, for --safe-csv."""
    return "quote" if safe_csv else "keep"
