"""The command line: every command of doxa under its name."""

from __future__ import annotations

import gc
import sys
from typing import Annotated

import typer

from doxa.cli import about, curation, data, models, questions, tuning
from doxa.cli import lab as reproduction
from doxa.errors import DoxaError, UsageError

app = typer.Typer(
    name="doxa",
    help="Complete a knowledge base: learn from its beliefs, then ask, judge and evaluate with probabilities.",
    epilog="Start with: doxa demo",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)
data_app = typer.Typer(help="Look at files of beliefs, convert, split, get and make them.", no_args_is_help=True)
app.add_typer(data_app, name="data")
review_app = typer.Typer(help="Put to use what a curator decided.", no_args_is_help=True)
app.add_typer(review_app, name="review")

app.command()(models.train)
app.command()(tuning.tune)
app.command(context_settings={"ignore_unknown_options": True})(questions.ask)
app.command()(questions.judge)
app.command()(models.evaluate)
app.command()(questions.export)
app.command()(curation.complete)
app.command()(curation.audit)
app.command()(curation.explain)
app.command()(curation.similar)
app.command()(curation.duplicates)
app.command("map")(curation.map_)
app.command()(curation.update)
review_app.command()(curation.apply)
app.command()(about.systems)
app.command()(about.settings)
app.command()(models.bench)
app.command()(reproduction.reproduce)
app.command()(about.demo)
data_app.command()(data.inspect)
data_app.command()(data.convert)
data_app.command()(data.split)
data_app.command()(data.falsehoods)
data_app.command()(data.generate)
data_app.command("list")(data.list_)
data_app.command()(data.get)


@app.callback()
def common(debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks.")] = False) -> None:
    """Shared by all commands."""
    from doxa.render import terminal as display

    display.show_notices()


def main() -> None:
    """Run the command line; a fault is one line and an exit code, with a traceback only under --debug."""
    gc.set_threshold(100_000)  # a tenth of a cold start is looking for garbage among what was just loaded
    if "--debug" in sys.argv:
        sys.argv.remove("--debug")
        app()
        return
    try:
        app()
    except DoxaError as fault:
        print(f"Error: {fault}", file=sys.stderr)
        sys.exit(2 if isinstance(fault, UsageError) else 1)
    except BrokenPipeError:
        sys.exit(1)
    except Exception as fault:
        print(f"Error: unexpected {type(fault).__name__}: {fault}\n  this is a fault in doxa; "
              "`doxa --debug …` shows where", file=sys.stderr)  # fmt: skip
        sys.exit(1)
