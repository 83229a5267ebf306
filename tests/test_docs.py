"""The docs follow the code: links, changelog, generated pages, experiments, public names."""

import importlib.util
import inspect
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import typer

import doxa
from doxa import cli, systems
from doxa.cli.reference import settings_page
from doxa.config import describe
from doxa.data.results import Result
from doxa.lab import experiments
from doxa.lab.page import page
from doxa.lab.report import results

ROOT = Path(__file__).parent.parent
PAGES = [
    "README.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    *(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md")),
]
TAKE_SETTINGS = {"doxa.Settings.changed"}
"""The callables with a catch-all for settings; `fit` and `tune` name every setting in their signature."""


def callables():
    """Public functions, and public methods of public classes, by name."""
    for name in doxa.__all__:
        thing = getattr(doxa, name)
        if not inspect.isclass(thing):
            yield f"doxa.{name}", thing
            continue
        for member in vars(thing):
            value = getattr(thing, member)
            if not member.startswith("_") and callable(value):
                yield f"doxa.{name}.{member}", value


def test_dir_shows_the_public_names():
    import doxa.model

    assert [name for name in dir(doxa) if not name.startswith("_")] == sorted(doxa.__all__)
    assert len(set(doxa.__all__)) == len(doxa.__all__)
    assert all(hasattr(doxa, name) for name in dir(doxa))


def test_what_the_main_methods_return_is_public():
    results = {
        "Answer",
        "Comparison",
        "Evaluation",
        "Explanation",
        "Judgment",
        "Profile",
        "Proposals",
        "Suspects",
        "Tuning",
    }
    assert {name for name in doxa.__all__ if is_result(getattr(doxa, name))} == results


def is_result(thing):
    return inspect.isclass(thing) and issubclass(thing, Result)


@pytest.mark.parametrize(("name", "function"), [pytest.param(*pair, id=pair[0]) for pair in callables()])
def test_public_functions_are_documented_and_have_full_signatures(name, function):
    assert inspect.getdoc(function), "no docstring"
    kinds = {parameter.kind for parameter in inspect.signature(function).parameters.values()}
    assert (inspect.Parameter.VAR_KEYWORD in kinds) == (name in TAKE_SETTINGS)


def test_the_changelog_has_this_version():
    assert f"## {doxa.__version__}" in (ROOT / "CHANGELOG.md").read_text()


@pytest.mark.parametrize(("users", "expected"), [({}, "3000"), ({"GOMP_SPINCOUNT": "7"}, "7")])
def test_threads_spin_briefly_unless_the_user_decided(users, expected):
    environment = {name: value for name, value in os.environ.items() if name != "GOMP_SPINCOUNT"} | users
    code = "import doxa, os; print(os.environ['GOMP_SPINCOUNT'])"
    run = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert run.stdout.strip() == expected


def test_the_settings_page_is_what_the_settings_say():
    assert (ROOT / "docs/settings.md").read_text() == settings_page(), "make docs writes it"


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page):
    text = (ROOT / page).read_text()
    for target, anchor in re.findall(r"\]\(([^)#\s]*)(#[^)\s]+)?\)", text):
        if not target.startswith("http"):
            path = (ROOT / page).parent / target if target else ROOT / page
            assert path.exists(), target
            if anchor:
                assert anchor in anchors(path.read_text()), f"{target}{anchor}"


def anchors(text):
    """The anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {"#" + re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_the_results_page_is_made_from_the_results():
    made = page(results(ROOT / "experiments" / "results"))
    assert (ROOT / "docs/results.md").read_text() == made, "doxa reproduce report writes it"
    assert "| **TransE, here**" in made


def test_the_figures_of_the_curation_page_are_made_from_the_results():
    made = importlib.util.spec_from_file_location("figures", ROOT / "experiments" / "curation" / "figures.py")
    figures = importlib.util.module_from_spec(made)
    made.loader.exec_module(figures)
    assert (ROOT / "docs/curation.md").read_text().endswith(f"{figures.BEGIN}\n\n{figures.figures()}")


@pytest.mark.parametrize(("name", "experiment"), experiments.every().items())
def test_every_experiment_is_one_that_can_be_run_and_its_results_are_of_its_data(name, experiment):
    assert {"data", "tasks", "settings"} <= set(experiment)
    systems.recipe(experiment["settings"])
    for run in experiments.runs([name]):
        result = experiments.result(run, ROOT / "experiments" / "results")
        if result is not None:  # results of other settings are marked on the page
            assert (result["experiment"]["data"], result["seed"]) == (experiment["data"], run.seed)


def commands(group=None, path=()):
    """The options of every command, by its words."""
    group = group or typer.main.get_command(cli.app)
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, (*path, name))
        else:
            yield (*path, name), {option for parameter in command.params for option in parameter.opts}


@pytest.mark.parametrize("page", [page for page in PAGES if page != "CHANGELOG.md"])
def test_commands_options_and_settings_of_the_docs_exist(page):
    known, names = dict(commands()), {row[1] for row in describe()} | {row[1] for row in systems.describe_options()}
    text = (ROOT / page).read_text()
    for line in re.findall(r"(?:^\$ |`|^    |^ +|/bin/)doxa ([a-z][^`\n]*)", text, re.MULTILINE):
        words = line.split()
        path = next((tuple(words[:count]) for count in (3, 2, 1) if tuple(words[:count]) in known), None)
        assert path or words[0] in ("data", "review"), f"doxa {line}"
        if path:
            assert set(re.findall(r"(?<!\S)--[a-z][a-z-]*", line)) <= known[path] | {"--help"}, f"doxa {line}"
    assert set(re.findall(r"--set ([a-z_0-9]+)=", text)) - {"name"} <= names
