"""Damaged Parquet files are refused; none of them ends the process."""

import random

import polars as pl
import pytest

import doxa
from doxa.errors import BadFile
from doxa.formats import limits, parquet_check, parquet_checker

ROWS = [(f"h{number % 97}", f"r{number % 5}", f"é{number % 89}") for number in range(500)]


@pytest.fixture(scope="module")
def content(tmp_path_factory):
    path = tmp_path_factory.mktemp("parquet") / "whole.parquet"
    table = pl.DataFrame(ROWS, schema=["head", "relation", "tail"], orient="row")
    table.write_parquet(path, compression="uncompressed", row_group_size=200)
    return path.read_bytes()


def test_a_flipped_bit_is_read_or_refused(content, tmp_path):
    chance, path, refused = random.Random(3), tmp_path / "flipped.parquet", 0
    for _ in range(60):
        flipped = bytearray(content)
        flipped[chance.randrange(len(flipped))] ^= 1 << chance.randrange(8)
        path.write_bytes(flipped)
        try:
            doxa.read(path)
        except BadFile:
            refused += 1
    assert refused > 10


def test_a_file_that_ends_the_checking_process_is_refused(content, tmp_path, monkeypatch):
    fatal = tmp_path / "check.py"
    fatal.write_text("import os, sys\nsys.stdin.readline()\nos.abort()\n")
    (tmp_path / "a.parquet").write_bytes(content)
    parquet_checker._stop()
    with monkeypatch.context() as patch:
        patch.setattr(parquet_check, "__file__", str(fatal))
        with pytest.raises(BadFile, match=r"a\.parquet: not a whole Parquet file"):
            doxa.read(tmp_path / "a.parquet")
        fatal.write_text("import time\ntime.sleep(60)\n")
        monkeypatch.setattr("doxa.formats.parquet.SECONDS", 0.2)
        with pytest.raises(BadFile, match=r"a\.parquet: not a whole Parquet file"):
            doxa.read(tmp_path / "a.parquet")
    monkeypatch.undo()
    assert doxa.read(tmp_path / "a.parquet").to_frame().rows() == ROWS


def test_few_bytes_of_many_rows_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(limits, "ALLOWANCE", 2**20)
    path = tmp_path / "bomb.parquet"
    pl.DataFrame({name: pl.repeat("a", 2_000_000, eager=True) for name in ("head", "relation", "tail")}).write_parquet(
        path
    )
    with pytest.raises(BadFile, match="DOXA_MAX_RATIO"):
        doxa.read(path)
