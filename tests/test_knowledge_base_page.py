"""docs/knowledge_base.md, command by command.

Each line of a console block that begins with `$` is run. The lines below it are its output, in order; `…` stands for
any number of lines. Times and fractions may differ.
"""

import io
import re
import shlex
import shutil
import subprocess

import pytest

import doxa as package
from tests.conftest import ROOT

PAGE = (ROOT / "docs" / "knowledge_base.md").read_text(encoding="utf-8")
CHANCE = re.compile(r"\d{4}-\d\d-\d\dT[\d:]+|\d+\.\d+")
"""Times and fractions, which differ between runs and processors."""


def commands():
    for block in re.findall(r"^```console\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, output = part.partition("\n")
            yield command, output


def pattern(output):
    """A regular expression for an output, in which a line `…` is any number of lines."""
    lines = (r"(?:.*\n)*?" if line == "…" else re.escape(normal(line)) + r"\n" for line in output.splitlines())
    return "".join(lines)


def normal(text):
    return "\n".join(line.rstrip() for line in CHANCE.sub("#", text).splitlines() if line.strip())


@pytest.fixture
def run(doxa, monkeypatch, tmp_path):
    """Run a line of the page in a folder with the CSV file; commands of doxa run in this process, which is faster."""
    shutil.copy(ROOT / "docs" / "examples" / "towns.csv", tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")

    def shell(line):
        return subprocess.run(["bash", "-c", line], capture_output=True, check=True, text=True).stdout

    def run(line):
        before, _, last = line.rpartition(" | ")
        if not last.startswith("doxa "):
            return shell(line)
        monkeypatch.setattr("sys.stdin", io.StringIO(shell(before) if before else ""))
        code, out, err = doxa(*shlex.split(last)[1:])
        assert code == 0, err
        return err + out

    return run


def test_the_commands_print_what_the_page_shows(run):
    lines = list(commands())
    assert len(lines) >= 20
    for command, output in lines:
        printed = normal(run(command)) + "\n"
        if output:
            assert re.search(rf"^{pattern(output)}", printed, re.MULTILINE), f"{command}\n{printed}"
    (code,) = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    exec(code, {})
    kb = package.open("kb.db")
    assert kb.snapshot() == 8
    assert kb.holds("Lille", "language", "French")
    assert not kb.holds("Lyon", "continent", "Asia")
    assert package.open("backup.db").holds("Beijing", "language", "Chinese")
    assert next(version.state for version in kb.models.all()) in ("live", "retired")


def test_another_output_would_be_noticed():
    assert re.search(pattern("a 0.5\n…\nb"), "a #\nx\ny\nb\n")
    assert not re.search(pattern("a\n…\nb"), "a\nx\n")
