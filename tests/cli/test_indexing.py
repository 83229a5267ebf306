"""`doxa index`, and commands that use the index."""

import json

import pytest

from tests.index.models import grouped_model


@pytest.fixture
def folder(tmp_path):
    grouped_model(entities=200, groups=10).save(tmp_path / "m")
    return tmp_path / "m"


def test_index_and_ask(doxa, folder):
    code, _, err = doxa("ask", folder, "e1", "r0", "?", "--index")
    assert code == 1
    assert "doxa index MODEL" in err
    code, out, _ = doxa("index", folder, "--recall", "0.9", "--cells", "12")
    assert code == 0
    assert "index of 200 entities in 12 cells" in out
    assert "on 600 questions" in out
    code, out, _ = doxa("ask", folder, "e1", "r0", "?", "--index", "--json")
    assert json.loads(out)["relative_standard_error"] >= 0
    assert set(json.loads(out)["index"]) == {"recall", "probability_error"}
    assert "by the index" in doxa("ask", folder, "e1", "r0", "?", "--index")[1]
    assert "by the index" not in doxa("ask", folder, "e1", "r0", "?")[1]
    code, out, _ = doxa("check", folder)
    assert "7 files" in out


def test_complete_by_the_index(doxa, folder, tmp_path):
    doxa("index", folder)
    for option in ("--index", "--exact"):
        doxa("complete", folder, "--out", tmp_path / f"{option}.tsv", "--min-credence", "0", "--top", "50", option)
    one, other = ((tmp_path / f"{option}.tsv").read_text().splitlines() for option in ("--index", "--exact"))
    assert len(one) == len(other) == 51
