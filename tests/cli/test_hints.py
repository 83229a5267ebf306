"""Errors: the option to type, and the exit code."""

import re

import polars as pl
import pytest

from doxa.cli.hints import REMEDIES, error_text, exit_code, faults_of_data, system_text
from doxa.errors import BadFile, BadModel, CannotAnswer, DoxaError, UnknownName, UsageError


def test_the_remedy_becomes_the_option_to_type():
    fault = BadFile("b.tsv, line 2: 2 fields where other lines have 3", "expected 3", remedy="skip_errors")
    assert error_text(fault).splitlines() == [
        "b.tsv, line 2: 2 fields where other lines have 3",
        "  expected 3",
        "  to skip such lines and count them, pass --on-error skip",
    ]


def test_an_error_without_remedy_or_with_an_unknown_one_is_printed_as_it_is():
    assert error_text(DoxaError("no", "hint")) == "no\n  hint"
    assert error_text(DoxaError("no", remedy="something new")) == "no"


def test_a_hint_is_not_printed_twice():
    text = error_text(BadModel("m already holds a model", "pass --force to replace it", remedy="force"))
    assert text.count("--force") == 1


def test_every_remedy_names_an_option_or_a_command():
    assert {"skip_errors", "force", "resume", "columns", "prefix", "out"} <= set(REMEDIES)
    assert all(re.search(r"--[a-z]+|\bdoxa [a-z]+", text) for text in REMEDIES.values())


@pytest.mark.parametrize(
    ("hint", "remedy"),
    [
        ("force=True replaces it", "force"),
        ("doxa.config.describe() lists them all", "list_settings"),
        ("for example: ('Lyon', 'located in', '?')", "question"),
    ],
)
def test_a_remedy_replaces_a_hint_in_python(hint, remedy):
    assert error_text(UsageError("no", hint, remedy=remedy)) == f"no\n  {REMEDIES[remedy]}"


@pytest.mark.parametrize(
    ("kind", "code"), [(UsageError, 2), (UnknownName, 1), (BadFile, 1), (BadModel, 1), (CannotAnswer, 1), (OSError, 1)]
)
def test_exit_codes(kind, code):
    assert exit_code(kind("x")) == code


def test_a_fault_of_data_is_not_wrong_usage():
    with pytest.raises(DoxaError, match="taken") as caught, faults_of_data():
        raise UsageError("taken", "hint", remedy="force")
    assert exit_code(caught.value) == 1
    assert error_text(caught.value) == "taken\n  hint\n  pass --force to replace it"


def test_names_that_are_unknown_come_with_the_command_that_lists_them(doxa, tmp_path):
    (tmp_path / "b.tsv").write_text("a\tr\tb\n")
    for option, listing in (("--system", "systems"), ("--score", "systems"), ("--set", "settings")):
        code, _, err = doxa("train", tmp_path / "b.tsv", "--out", tmp_path / "m", option, "zzz=1")
        assert (code, f"`doxa {listing}` lists" in err, "describe()" in err) == (2, True, False)


def test_an_interrupt_ends_with_130(doxa, monkeypatch):
    def interrupted(**_):
        raise KeyboardInterrupt

    monkeypatch.setattr("doxa.systems.describe", lambda *_: interrupted())
    assert doxa("systems")[0] == 130


def test_an_unexpected_error_is_printed_without_a_traceback(doxa, monkeypatch):
    monkeypatch.setattr("doxa.systems.describe", lambda *_: 1 / 0)
    code, _, err = doxa("systems")
    assert code == 1
    assert "unexpected ZeroDivisionError" in err
    assert "Traceback" not in err


def test_a_full_disk_is_named_as_such_whatever_library_met_it():
    message = "parquet: File out of specification: underlying IO error: No space left on device (os error 28)"
    for fault in (pl.exceptions.ComputeError(message), OSError(28, "No space left on device")):
        assert system_text(fault) == "cannot read or write: no space left on device"
    assert system_text(pl.exceptions.ComputeError("cannot parse")) == ""


def test_an_encoding_that_cannot_show_a_name_is_said_as_such():
    with pytest.raises(UnicodeEncodeError) as fault:
        "é".encode("ascii")
    text = system_text(fault.value)
    assert "the encoding ascii of the terminal or file cannot show '\\xe9'" in text
    assert "PYTHONUTF8=1" in text
