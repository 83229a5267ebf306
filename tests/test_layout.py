"""The layout: who may import whom, how long files and functions may be, and which words are no names."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "doxa"

BASE = {"errors", "config", "slots"}
ROWS = {
    "data": set(),
    "formats": {"data"},
    "scores": {"data"},
    "pbe": {"scores", "data"},
    "estimators": {"pbe", "scores", "data"},
    "systems": {"pbe", "scores", "data"},
    "index": {"pbe", "scores", "data"},
    "calibration": {"index", "pbe", "estimators", "data"},
    "model": {"calibration", "pbe", "systems", "formats", "data"},
    "inference": {"model", "calibration", "pbe", "systems", "formats", "data"},
    "storage": {"model", "calibration", "pbe", "systems", "formats", "data"},
    "evaluation": {"inference", "calibration", "pbe", "data"},
    "cluster": {"inference", "storage"},
    "training": {"evaluation", "storage", "cluster"},
    "curation": {"training"},
    "render": {"curation"},
    "demo": {"render"},
    "lab": {"render"},
    "server": {"render"},
    "cli": {"demo", "lab", "server"},
}
"""What each package may import, beside `BASE` and what its row may import in turn. Only the command line imports demo,
lab and server; the package's own `__init__` names public things lazily and imports nothing."""

FORBIDDEN = {"found", "given", "told", "said", "held", "some", "those", "own"}
LONGEST_FILE, LONGEST_FUNCTION, LONGEST_TEST_FILE = 400, 60, 450


def modules():
    return sorted(PACKAGE.rglob("*.py"))


def package_of(path):
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def allowed(package):
    """The closure of the table."""
    reached, waiting = set(BASE) | {package}, set(ROWS[package])
    while waiting:
        name = waiting.pop()
        if name not in reached:
            reached.add(name)
            waiting |= ROWS[name]
    return reached


class Imports(ast.NodeVisitor):
    """The packages of doxa that a module imports, lazily or not.

    Left out are imports for type checkers and those inside methods of model.py and `_repr_html_`.
    """

    def __init__(self, path):
        self.is_model, self.lines, self.exempt = path == PACKAGE / "model.py", [], 0

    def visit_If(self, node):
        if not (isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"):
            self.generic_visit(node)

    def visit_FunctionDef(self, node):
        exempt = self.is_model or node.name == "_repr_html_"
        self.exempt += exempt
        self.generic_visit(node)
        self.exempt -= exempt

    def visit_Import(self, node):
        self.note([alias.name for alias in node.names], node)

    def visit_ImportFrom(self, node):
        self.note([f"{node.module}.{alias.name}" for alias in node.names], node)

    def note(self, names, node):
        parts = [name.split(".") for name in names]
        self.lines += [
            (part[1], node.lineno) for part in parts if part[0] == "doxa" and len(part) > 1 and not self.exempt
        ]


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_follow_the_table(path):
    package = package_of(path)
    if package == "__init__":
        return
    imports = Imports(path)
    imports.visit(ast.parse(path.read_text()))
    may = allowed(package) if package not in BASE else BASE
    for name, line in imports.lines:
        assert name in may or name == "__version__", f"{path.relative_to(ROOT)}:{line} imports doxa.{name}"


def test_every_module_has_a_row():
    assert {package_of(path) for path in modules()} - {"__init__"} == set(ROWS) | BASE


def test_the_root_of_the_package_is_small():
    assert len(list(PACKAGE.glob("*.py"))) <= 8


def test_rendering_needs_no_torch():
    for path in (PACKAGE / "render").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not any(name.split(".")[0] == "torch" for name in names), path.name


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(ROOT)))
def test_files_and_functions_stay_short(path):
    assert len(path.read_text().splitlines()) <= LONGEST_FILE
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = node.end_lineno - node.lineno + 1
            assert length <= LONGEST_FUNCTION, f"{node.name} has {length} lines"


@pytest.mark.parametrize("path", sorted((ROOT / "tests").rglob("*.py")), ids=lambda path: str(path.relative_to(ROOT)))
def test_test_files_stay_short(path):
    assert len(path.read_text().splitlines()) <= LONGEST_TEST_FILE


def names_bound_in(tree):
    """Every variable, parameter, field and attribute that a module binds, with its line."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id, node.lineno
        elif isinstance(node, ast.arg):
            yield node.arg, node.lineno
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr, node.lineno
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name, node.lineno
        elif isinstance(node, ast.alias) and node.asname:
            yield node.asname, node.lineno


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(ROOT)))
def test_names_say_what_they_name(path):
    for name, line in names_bound_in(ast.parse(path.read_text())):
        assert name not in FORBIDDEN, f"{path.relative_to(ROOT)}:{line} binds {name!r}"


@pytest.mark.parametrize("module", ["doxa.inference.query", "doxa.model", "doxa.evaluation.report"])
def test_inference_never_loads_training(module):
    """Also not through what it imports in turn: a fresh process says what it loaded."""
    code = f"import sys, {module}; print(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    loaded = run.stdout.split()
    assert module in loaded
    assert [name for name in loaded if name.startswith(("doxa.training", "doxa.curation"))] == []
