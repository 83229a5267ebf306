"""README's tour in order, and the scripts of docs/examples, run against a demo built once.

Texts must agree exactly. Numbers may differ, since arithmetic does between processors: percentages by a few points,
fractions by a few hundredths, counts above 100 by 2 %. Times are not shown.
"""

import re
import shlex
import sys

import pytest

from tests.conftest import ROOT, shell

README = (ROOT / "README.md").read_text(encoding="utf-8")
EXAMPLES = sorted((ROOT / "docs" / "examples").glob("*.py"))

NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?%?")
PROGRESS = re.compile(r"^ *\d+%  ")
POINTS, FRACTION, SHARE, COUNT = 6.0, 0.05, 0.02, 15
"""How far percentages, fractions and large counts may differ; counts by a share, or by 15 where that is more."""


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```", README, re.MULTILINE | re.DOTALL)


def tour():
    """Each command of the console blocks with the output below it."""
    for block in blocks("console"):
        for part in block.split("$ ")[1:]:
            command, _, output = part.partition("\n")
            yield command, output


def differences(expected, actual):
    """What is wrong with a number that should be about another; nothing if it is near enough."""
    exact, number = (float(text.rstrip("%").replace(",", "")) for text in (expected, actual))
    if expected.endswith("%"):
        near = abs(exact - number) <= POINTS
    elif "." in expected:
        near = abs(exact - number) <= FRACTION
    else:
        near = abs(exact - number) <= (max(SHARE * exact, COUNT) if exact > 100 else 0)
    return [] if near else [f"{actual} where README has {expected}"]


def compare(expected, actual):
    """Assert the same text with about the same numbers."""
    lines = [line for line in actual.splitlines() if not PROGRESS.match(line)]
    texts = [re.sub(r"[\s─═]+", " ", NUMBER.sub("#", text)).strip() for text in (expected, "\n".join(lines))]
    assert texts[1] == texts[0]
    pairs = zip(NUMBER.findall(expected), NUMBER.findall("\n".join(lines)), strict=True)
    assert [fault for pair in pairs for fault in differences(*pair)] == []


@pytest.mark.tour
def test_the_tour_shows_what_the_commands_print(demo_folder):
    commands = list(tour())
    assert len(commands) >= 8
    for command, output in commands:
        compare(output, shell(demo_folder, command, code=int(output.startswith("Error"))))
    assert {"judged.tsv", "missing.tsv"} <= {path.name for path in demo_folder.iterdir()}


@pytest.mark.tour
def test_the_lines_of_python_print_what_readme_shows(demo_folder):
    (lines,), (output,) = blocks("python"), blocks("text")
    assert len([line for line in lines.splitlines() if line]) <= 10
    (demo_folder / "lines.py").write_text(lines, encoding="utf-8")
    compare(output, shell(demo_folder, f"{shlex.quote(sys.executable)} lines.py"))


@pytest.mark.tour
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_each_example_is_short_and_answers_right(demo_folder, path):
    statements = [line for line in path.read_text(encoding="utf-8").splitlines() if line and not line.startswith('"""')]
    assert len(statements) <= 10
    output = shell(demo_folder, f"{shlex.quote(sys.executable)} {shlex.quote(str(path))}")
    if path.stem == "pykeen_user":
        mrr, hits = (float(number) for number in re.findall(r"0\.\d+", output)[:2])
        assert 0.4 < mrr < hits < 0.9
        assert re.search(r"Poland +┆ 0\.[6-9]", output)
    else:
        assert re.search(r"Kyoto +located in +Japan +0\.9\d+ +true", output)
        assert re.search(r"Kyoto +located in +China +0\.[0-4]\d+ +false", output)


def test_there_are_examples_for_two_kinds_of_users():
    assert [path.stem for path in EXAMPLES] == ["pandas_user", "pykeen_user"]
    for path in EXAMPLES:
        assert f"docs/examples/{path.name}" in README


@pytest.mark.parametrize(
    ("expected", "actual"),
    [("56.75%  Berlin", "48.10%  Berlin"), ("MRR 0.54", "MRR 0.61"), ("3,590 true", "3,490 true"),
     ("50 new", "51 new"), ("50 new", "50 old"), ("1 a\n2 b", "1 a")],
)  # fmt: skip
def test_other_outputs_would_be_noticed(expected, actual):
    with pytest.raises((AssertionError, ValueError)):
        compare(expected, actual)


def test_small_differences_of_numbers_are_none():
    compare("   56.75%  Berlin\n3,590 true", "    58.1%  Berlin\n  50%  busy\n3,601 true")


def test_sentences_are_short():
    """Under 25 words, outside code and tables."""
    prose = re.sub(r"^```.*?^```|^    .*?$|^\|.*?$|^#.*?$", "\n\n", README, flags=re.MULTILINE | re.DOTALL)
    prose = re.sub(r"\]\([^)]*\)|`[^`]*`", " x ", prose)
    sentences = re.split(r"(?<=[.:;!?])\s|\n\n|\n- ", prose)
    assert [sentence for sentence in sentences if len(sentence.split()) > 25] == []
