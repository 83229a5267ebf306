"""What commands print: odd names, odd terminals, odd encodings and extreme numbers."""

import json
import subprocess
import sys

import pytest

from doxa import fit
from doxa.cli import reviewing
from doxa.errors import BadFile
from doxa.render import plain

STEER = "\x1b]0;owned\x07\x9b31m"
NAMES = [f"a{STEER}", "tab\there", "line\nbreak", "=1+1", "back\\slash", "é"]
COMMAND = [sys.executable, "-c", "from doxa.cli import main; main()"]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    rows = [(name, "r", NAMES[(place + 1) % len(NAMES)]) for place, name in enumerate(NAMES)] * 2
    folder = tmp_path_factory.mktemp("odd") / "model"
    fit([(*row, None, 0.5) for row in rows], epochs=1, dimension=4, score="translation").save(folder)
    return folder


@pytest.fixture
def beliefs(tmp_path):
    path = tmp_path / "b.jsonl"
    rows = [{"head": name, "relation": "r", "tail": NAMES[0], "confidence": 1e-300} for name in NAMES]
    path.write_text("\n".join(map(json.dumps, rows)) + "\n")
    return path


def test_judged_rows_are_read_back(doxa, model, beliefs, tmp_path):
    code, out, err = doxa("judge", model, beliefs)
    assert code == 0
    assert len(out.splitlines()) == 1 + len(NAMES)
    assert "--read escapes=yes" in err
    (tmp_path / "judged.tsv").write_text(out)
    code, out, _ = doxa("data", "convert", tmp_path / "judged.tsv", tmp_path / "c.jsonl", "--read", "escapes=yes")
    assert code == 0
    assert [json.loads(line)["head"] for line in (tmp_path / "c.jsonl").open()] == NAMES


def test_a_pair_of_duplicates_is_one_row(doxa, model, tmp_path):
    code, _, err = doxa("duplicates", model, "--out", tmp_path / "pairs.tsv", "--min-similarity", "-1")
    assert code == 0, err
    lines = (tmp_path / "pairs.tsv").read_text().split("\n")
    assert len(lines) > 2
    assert {line.count("\t") for line in lines[:-1]} == {4}


def test_names_do_not_steer_the_terminal(doxa, model, beliefs):
    for arguments in (
        ["ask", model, NAMES[-1], "r", "?"],
        ["ask", model, NAMES[-1], "r", "?", "--json"],
        ["ask", model, STEER, "r", "?"],
        ["judge", model, *NAMES[:1], "r", NAMES[1]],
        ["judge", model, beliefs, "--json"],
        ["data", "inspect", beliefs],
    ):
        _, out, err = doxa(*arguments)
        assert out + err
        assert not plain.CONTROL.search(out + err), arguments
    _, out, _ = doxa("judge", model, beliefs, "--json")
    assert [json.loads(line)["head"] for line in out.split("\n") if line] == NAMES


def test_formulas_are_quoted_on_request(doxa, model, beliefs, tmp_path):
    for option, first in (("--safe-csv", "'=1+1"), (None, "=1+1")):
        code, _, _ = doxa("judge", model, beliefs, "--out", tmp_path / "j.csv", *filter(None, [option]))
        assert code == 0
        assert f"\n{first}," in (tmp_path / "j.csv").read_text()
    assert doxa("data", "convert", beliefs, tmp_path / "c.csv", "--safe-csv")[0] == 0
    assert "\n'=1+1," in (tmp_path / "c.csv").read_text()
    assert doxa("kb", "init", tmp_path / "kb.db")[0] == 0
    assert doxa("kb", "import", tmp_path / "kb.db", beliefs)[0] == 0
    assert doxa("kb", "export", tmp_path / "kb.db", tmp_path / "e.csv", "--safe-csv")[0] == 0
    assert "\n'=1+1," in (tmp_path / "e.csv").read_text()


def test_a_report_on_tiny_confidences_is_json(doxa, model, beliefs, tmp_path):
    code, _, err = doxa("evaluate", model, beliefs, "--json", tmp_path / "report.json")
    assert code == 0, err
    assert json.loads((tmp_path / "report.json").read_text())["confidence"]["ndcg_exponential"] > 0


def test_odd_terminals_and_encodings(model):
    odd = {"COLUMNS": "0", "PYTHONIOENCODING": "ascii", "LC_ALL": "C", "PATH": "/usr/bin:/bin"}
    for arguments in (["ask", model, "é", "r", "?", "--json"], ["data", "list"]):
        run = subprocess.run([*COMMAND, *map(str, arguments)], env=odd, capture_output=True, text=True, check=False)
        assert run.returncode == 0, run.stderr
        assert run.stdout.strip()


def test_standard_input_that_is_closed_is_said_as_such():
    code = (
        "import sys; sys.stdin = None; sys.argv = ['doxa', 'data', 'inspect', '-']; from doxa.cli import main; main()"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert run.returncode == 1
    assert run.stderr == "Error: cannot read standard input: it is closed\n"


def test_a_review_needs_an_open_standard_input(monkeypatch):
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(BadFile, match="standard input is closed"):
        reviewing._key()
