"""Cells of text files: TABs and line breaks with escapes, and formulas of spreadsheets."""

import polars as pl
from hypothesis import given, strategies

import doxa
from doxa import formats as files
from doxa.formats import cells

ODD = ["a\tb", "c\nd", "\\t", "\\\\n", "e\r\n", "\\"]


def test_tabs_and_line_breaks_are_read_back_with_escapes(tmp_path):
    table = pl.DataFrame({"head": ODD, "relation": "r", "tail": ODD[::-1]})
    files.write(table, tmp_path / "a.tsv", escapes="yes")
    assert len((tmp_path / "a.tsv").read_text().splitlines()) == len(ODD)
    assert doxa.read(tmp_path / "a.tsv", escapes="yes").to_frame().rows() == table.rows()


@given(strategies.lists(strategies.text("\\tnr\t\n\ra", max_size=6), min_size=1, max_size=5))
def test_escapes_are_one_to_one(texts):
    table = pl.DataFrame({"head": texts})
    escaped = cells.escaped(table)
    assert not cells.has_breaks(escaped)
    assert cells.unescaped(escaped).rows() == table.rows()


def test_formulas_get_a_quote(tmp_path):
    names = ["=1+1", "+x", "-x", "@x", " =1", "a=b", "x"]
    table = pl.DataFrame({"head": names, "relation": "r", "tail": "t", "label": [-1] * len(names)})
    for ending in ("csv", "tsv"):
        path = tmp_path / f"a.{ending}"
        files.write(table, path, formulas="quote")
        rows = files.read_frame(path)
        assert rows["head"].to_list() == ["'=1+1", "'+x", "'-x", "'@x", "' =1", "a=b", "x"]
        assert rows["label"].to_list() == [-1] * len(names)
        files.write(table, path)
        assert files.read_frame(path)["head"].to_list() == names
