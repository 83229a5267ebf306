"""The command line: every command of doxa under its name."""

from __future__ import annotations

import contextlib
import gc
import os
import sys
from typing import Annotated, Any

import typer

from doxa import __version__
from doxa.cli import (
    about,
    benchmarks,
    curation,
    data,
    evaluation,
    exploration,
    indexing,
    kb,
    kb_admin,
    kb_changes,
    models,
    questions,
    reviewing,
    serving,
    signals,
    tuning,
)
from doxa.cli import lab as reproduction
from doxa.cli.hints import FAILURE, INTERRUPTED, error_text, exit_code, system_text, unexpected_text
from doxa.errors import DoxaError, UsageError

app = typer.Typer(
    name="doxa",
    help="Complete a knowledge base: train a model on its beliefs, then ask, judge and evaluate with probabilities.",
    epilog="Start with: doxa demo",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)
data_app = typer.Typer(help="Inspect, convert, split, download and generate files of beliefs.", no_args_is_help=True)
app.add_typer(data_app, name="data")
kb_app = typer.Typer(help="A living knowledge base: import, change, look back.", no_args_is_help=True)
app.add_typer(kb_app, name="kb")
review_app = typer.Typer(help="Review proposals of a knowledge base, or apply a reviewed file.", no_args_is_help=True)
app.add_typer(review_app, name="review")

DASHED_NAMES = {"ignore_unknown_options": True}
"""Names of entities and relations may begin with a dash."""

app.command()(models.train)
app.command()(tuning.tune)
app.command()(models.calibrate)
app.command()(models.average)
app.command()(indexing.index)
app.command()(models.info)
app.command()(models.check)
app.command(context_settings=DASHED_NAMES)(questions.ask)
app.command(context_settings=DASHED_NAMES)(questions.judge)
app.command()(evaluation.evaluate)
app.command()(evaluation.compare)
app.command()(models.export)
app.command()(curation.complete)
app.command()(curation.audit)
app.command(context_settings=DASHED_NAMES)(exploration.explain)
app.command(context_settings=DASHED_NAMES)(exploration.similar)
app.command()(exploration.duplicates)
app.command("map")(exploration.map_)
app.command()(curation.update)
app.command()(serving.serve)
app.command()(serving.mcp)
review_app.command("next")(reviewing.next_)
review_app.command()(reviewing.decide)
review_app.command()(reviewing.undo)
review_app.command()(reviewing.stats)
review_app.command()(curation.apply)
kb_app.command()(kb.init)
kb_app.command("import")(kb.import_)
kb_app.command()(kb.export)
kb_app.command(context_settings=DASHED_NAMES)(kb_changes.add)
kb_app.command(context_settings=DASHED_NAMES)(kb_changes.retract)
kb_app.command(context_settings=DASHED_NAMES)(kb_changes.rename)
kb_app.command(context_settings=DASHED_NAMES)(kb_changes.merge)
kb_app.command()(kb_changes.undo)
kb_app.command()(kb_changes.rollback)
kb_app.command()(kb.status)
kb_app.command()(kb.log)
kb_app.command(context_settings=DASHED_NAMES)(kb.history)
kb_app.command()(kb.backup)
kb_app.command()(kb_admin.models)
kb_app.command()(kb_admin.publish)
account_app = typer.Typer(help="Accounts of a knowledge base: who may read and decide.", no_args_is_help=True)
kb_app.add_typer(account_app, name="account")
account_app.command("add")(kb_admin.add_account)
account_app.command("list")(kb_admin.list_accounts)
account_app.command("remove")(kb_admin.remove_account)
account_app.command("log")(kb_admin.audit_trail)
app.command()(about.systems)
app.command()(about.settings)
app.command()(reproduction.bench)
app.command()(reproduction.reproduce)
app.command()(about.demo)
data_app.command()(data.inspect)
data_app.command()(data.convert)
data_app.command()(data.split)
data_app.command()(data.negatives)
data_app.command("falsehoods", hidden=True, deprecated=True)(data.negatives)
data_app.command()(data.generate)
data_app.command("list")(benchmarks.list_)
data_app.command()(benchmarks.get)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"doxa {__version__}")
        raise typer.Exit


@app.callback()
def common(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", is_eager=True, callback=_print_version)
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks.")] = False,
) -> None:
    """Options of every command."""
    from doxa.render import terminal

    terminal.show_notices()


def main() -> None:
    """Run the command line; an error is a short text and an exit code, with a traceback only under --debug."""
    gc.set_threshold(100_000)  # a tenth of a cold start is garbage collection among modules that were just loaded
    received: list[int] = []
    try:
        with signals.as_interrupts(received):
            code = _run(received)
    except KeyboardInterrupt:
        code = INTERRUPTED
    sys.exit(signals.exit_code(received, code))


def _run(received: list[int]) -> Any:
    """The command of sys.argv; returns its exit code.

    An error after a signal is an interrupt: libraries turn Ctrl-C into errors of their own where it meets them. A panic
    of a library in Rust is such an error and no `Exception`.
    """
    debug = "--debug" in sys.argv
    if debug:
        sys.argv.remove("--debug")
    try:
        _check_arguments()
        try:
            app()
        except SystemExit as ending:
            if sys.stdout is not None:
                sys.stdout.flush()
            return ending.code
    except BrokenPipeError:
        _drop_output()
        return FAILURE
    except KeyboardInterrupt:
        raise
    except BaseException as fault:
        if received:
            raise KeyboardInterrupt from fault
        if debug:
            raise
        return _reported(fault)
    return 0


def _reported(fault: BaseException) -> int:
    """Print what went wrong; returns the exit code."""
    if isinstance(fault, DoxaError):
        print(f"Error: {error_text(fault)}", file=sys.stderr)
        return exit_code(fault)
    print(f"Error: {system_text(fault) or unexpected_text(fault)}", file=sys.stderr)
    if isinstance(fault, OSError):
        _drop_output()
    return FAILURE


def _drop_output() -> None:
    """Let Python not try again, when it ends, to write what standard output did not take."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _check_arguments() -> None:
    """Refuse arguments that are not UTF-8."""
    for argument in sys.argv[1:]:
        try:
            argument.encode()
        except UnicodeEncodeError:
            raise UsageError(f"the argument {argument!a} is not UTF-8 text", "rename the file, or convert it") from None
