"""Every command of doxa is tried with failing writes, or only reads."""

import typer.main

from doxa.cli import app
from tests.faults.commands import ADDING, COMMANDS, FOLDERS, NAMES, NEW, OUTPUTS, WRITING

READING = {"check", "data list", "info", "kb account list", "kb account log", "kb history", "kb models", "kb status",
           "settings", "similar", "systems"}  # fmt: skip
"""Commands that write nothing."""

OTHERS = {"serve", "mcp", "data falsehoods"}
"""Servers, which tests.faults.server kills, and the former name of another command."""


def paths(group, *before):
    for name, command in group.commands.items():
        yield from paths(command, *before, name) if hasattr(command, "commands") else [" ".join((*before, name))]


def test_every_command_that_writes_is_tried():
    every = set(paths(typer.main.get_command(app)))
    tried = {path for path in every for arguments in COMMANDS.values() if path.split() == _words(arguments, path)}
    assert tried | READING | OTHERS == every
    assert not tried & (READING | OTHERS)


def _words(arguments, path):
    return list(arguments[: len(path.split())])


def test_the_tables_name_commands():
    assert {*ADDING, *FOLDERS, *NAMES, *NEW, *OUTPUTS} <= set(COMMANDS)
    assert sorted(WRITING) == sorted(COMMANDS)
