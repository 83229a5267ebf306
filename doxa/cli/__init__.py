"""The command line: one file per family of commands, each a docstring, an example and one library call."""

from doxa.cli.app import app, main

__all__ = ["app", "main"]
