"""The generated pages: docs/cli.md says what the command line does, docs/api.md what the library offers."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from doxa.cli import app
from doxa.cli.reference import reference
from tools import api_page

DOCS = Path(__file__).parent.parent.parent / "docs"


def commands(group=None, path=()):
    group = group or typer.main.get_command(app)
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, (*path, name))
        elif not command.hidden:
            yield (*path, name), command


def test_the_page_of_the_command_line_is_what_the_commands_say():
    assert (DOCS / "cli.md").read_text() == reference(), "make docs writes it"


def test_the_page_of_the_library_is_what_the_code_says():
    assert (DOCS / "api.md").read_text() == api_page.page(), "make docs writes it"


def test_every_command_and_option_is_on_the_page():
    page = reference()
    for path, command in commands():
        section = page.split(f"\n## doxa {' '.join(path)}\n")[1].split("\n## ")[0]
        for parameter in command.params:
            if parameter.name != "help":
                assert parameter.help, f"{path}: {parameter.name} has no help"
                assert parameter.help.replace("|", "\\|") in section
    assert "falsehoods" not in page


@pytest.mark.parametrize("path", [" ".join(path) for path, _ in commands()])
def test_every_command_has_a_sentence_and_an_example(path):
    help_text = {" ".join(words): command.help for words, command in commands()}[path]
    assert help_text.split("\n\n")[0].endswith(".")
    assert f"doxa {path}" in help_text
    assert "Example" in help_text


def test_the_page_does_not_depend_on_the_terminal():
    pages = [
        subprocess.run(
            [sys.executable, "-m", "doxa.cli.reference"],
            env=os.environ | {"COLUMNS": width, "TERM": terminal},
            capture_output=True, text=True, check=True,
        ).stdout
        for width, terminal in (("40", "dumb"), ("200", "xterm-256color"))
    ]  # fmt: skip
    assert pages[0] == pages[1] == reference()


def test_signatures_of_the_library_keep_their_defaults():
    page = api_page.page()
    assert "top: int = 10" in page
    assert "on_error: " in page
    assert "= 'raise'" in page
    assert "doxa.Model" in page
