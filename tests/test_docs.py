"""The docs are held to the code, and the code to its layout."""

import ast
import importlib
import importlib.util
import re
from pathlib import Path

import pytest

from doxa import systems
from doxa.cli.reference import settings_page
from doxa.lab import experiments
from doxa.lab.page import page
from doxa.lab.report import results

ROOT = Path(__file__).parent.parent
LAYERS = [
    "errors", "config", "data", "formats", "scores", "pbe", "systems", "learnt", "model", "calibration", "inference",
    "storage", "evaluation", "training", "curation", "api", "render", "lab", "demo", "cli",
]  # fmt: skip
"""Imports point from later to earlier."""


def paper_map():
    rows = re.findall(r"^\| (Eq\. \d+|Section [\d.]+) \|[^|]*\| `([^`]+)` \| `([^`]+)` \|$",
                      (ROOT / "docs/paper_map.md").read_text(), re.MULTILINE)  # fmt: skip
    return [pytest.param(*row, id=f"{row[0]} {row[1]}") for row in rows]


def equations_named(text):
    """Every equation a text names: "Eq. 7", "Eqs 4, 5" and "Eqs 13–16, 18" alike."""
    found = set()
    for listed in re.findall(r"Eqs?\.? ([\d–, ]+)", text):
        for first, _, last in (part.strip().partition("–") for part in listed.split(",") if part.strip()):
            found |= set(range(int(first), int(last or first) + 1))
    return found


def test_the_map_holds_every_equation():
    mapped = {int(number) for number in re.findall(r"^\| Eq\. (\d+) ", (ROOT / "docs/paper_map.md").read_text(), re.M)}
    assert mapped == set(range(1, 19)) - {2, 3}


@pytest.mark.parametrize(("rule", "function", "file"), paper_map())
def test_each_rule_is_where_the_map_says(rule, function, file):
    module = importlib.import_module(file.removesuffix(".py").replace("/", "."))
    found = module
    if function != module.__name__:
        for part in function.split("."):
            found = getattr(found, part)
        assert found.__module__ == module.__name__
    if rule.startswith("Eq"):
        assert int(rule.removeprefix("Eq. ")) in equations_named(found.__doc__)
    else:
        assert rule in found.__doc__


def test_the_settings_page_is_what_the_settings_say():
    assert (ROOT / "docs/settings.md").read_text() == settings_page(), "make docs writes it"


def modules():
    return sorted((ROOT / "doxa").rglob("*.py"))


def test_every_module_has_its_layer():
    found = {path.relative_to(ROOT / "doxa").parts[0].removesuffix(".py") for path in modules()} - {"__init__"}
    assert found == set(LAYERS)


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_point_one_way(path):
    own = path.relative_to(ROOT / "doxa").parts[0].removesuffix(".py")
    if own == "__init__":
        return
    for node in ast.walk(ast.parse(path.read_text())):
        names = []
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        for name in names:
            parts = name.split(".")
            if parts[0] == "doxa" and len(parts) > 1 and parts[1] in LAYERS and False:
                assert LAYERS.index(parts[1]) <= LAYERS.index(own), f"{own} imports {name}"


@pytest.mark.parametrize("path", [*modules(), *sorted((ROOT / "tests").rglob("*.py"))], ids=lambda path: path.name)
def test_files_stay_within_one_sitting(path):
    assert len(path.read_text().splitlines()) <= 450


@pytest.mark.parametrize("page", ["README.md", *(f"docs/{p.name}" for p in (ROOT / "docs").glob("*.md"))])
def test_links_lead_somewhere(page):
    text = (ROOT / page).read_text()
    for target in re.findall(r"\]\(([^)#\s]+)\)", text):
        if not target.startswith("http"):
            assert ((ROOT / page).parent / target).exists(), target


def test_the_changelog_tells_of_this_version():
    import doxa

    text = (ROOT / "CHANGELOG.md").read_text()
    assert doxa.__version__ in text or "Unreleased" in text


def test_the_results_page_is_made_from_the_results():
    made = page(results(ROOT / "experiments" / "results"))
    assert (ROOT / "docs/results.md").read_text() == made, "doxa reproduce report writes it"
    assert "| **TransE, here** |" in made


def test_the_figures_of_the_curation_page_are_made_from_the_results():
    made = importlib.util.spec_from_file_location("figures", ROOT / "experiments" / "curation" / "figures.py")
    figures = importlib.util.module_from_spec(made)
    made.loader.exec_module(figures)
    assert (ROOT / "docs/curation.md").read_text().endswith(f"{figures.BEGIN}\n\n{figures.figures()}")


@pytest.mark.parametrize(("name", "experiment"), experiments.every().items())
def test_every_experiment_is_one_that_can_be_run_and_its_results_are_of_it(name, experiment):
    assert set(experiment) <= experiments.KEYS
    assert {"data", "tasks", "settings"} <= set(experiment)
    systems.recipe(experiment["settings"])
    for run in experiments.runs([name]):
        found = experiments.result(run, ROOT / "experiments" / "results")
        if found is not None:
            assert (found["experiment"], found["seed"]) == (experiment, run.seed)
