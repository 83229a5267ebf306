"""The equations on the map are the ones that run: their calls are counted, and so are the steps that lead to Eq. 7."""

import importlib
import re
import sys
import traceback
from collections import Counter
from pathlib import Path

import pytest
import torch

import doxa
from doxa import estimators, pbe
from doxa.data.beliefs import Beliefs
from doxa.pbe import PBE
from doxa.scores import pairwise
from doxa.scores.translation import Translation
from doxa.slots import Slot
from tests.worlds import board

ROOT = Path(__file__).parent.parent
ROW = re.compile(r"^\| (Eq\. \d+|Section [\d.]+) \|[^|]*\| `([^`]+)` \| `([^`]+)` \| ([^|]*?) ?\|$", re.MULTILINE)

MOST_FRAMES = {"ask": 6, "fit": 10}
"""Frames of doxa on the stack where h + r − t is computed or its kernel is called."""

FAST = {"dimension": 8, "epochs": 2, "threads": 1, "validation_fraction": 0.3, "seed": 0}


def paper_map():
    return ROW.findall((ROOT / "docs/paper_map.md").read_text())


def equations_named(text):
    """Every equation a text names: "Eq. 7", "Eqs 4, 5" and "Eqs 13–16, 18" alike."""
    named = set()
    for listed in re.findall(r"Eqs?\.? ([\d–, ]+)", text):
        for first, _, last in (part.strip().partition("–") for part in listed.split(",") if part.strip()):
            named |= set(range(int(first), int(last or first) + 1))
    return named


def locate(function, file):
    """The module of a row, the object that holds its function, and the function's name there."""
    module = importlib.import_module(file.removesuffix(".py").replace("/", "."))
    holder = module
    *path, name = function.split(".")
    for part in path:
        holder = getattr(holder, part)
    return module, holder, name


def test_the_map_holds_every_equation():
    mapped = {int(rule.removeprefix("Eq. ")) for rule, *_ in paper_map() if rule.startswith("Eq")}
    assert mapped == set(range(1, 19)) - {2, 3}


@pytest.mark.parametrize(("rule", "function", "file", "calls"), paper_map())
def test_each_rule_is_where_the_map_says(rule, function, file, calls):
    module = importlib.import_module(file.removesuffix(".py").replace("/", "."))
    target = module
    if function != module.__name__:
        _, holder, name = locate(function, file)
        target = getattr(holder, name)
        assert target.__module__ == module.__name__
    if rule.startswith("Eq"):
        assert int(rule.removeprefix("Eq. ")) in equations_named(target.__doc__)
    else:
        assert rule in target.__doc__


class Calls:
    """Counts the calls of every equation on the map while it is installed."""

    def __init__(self, monkeypatch):
        self.counts, self.term, self.patch = Counter(), "", monkeypatch
        rows = [row for row in paper_map() if row[0].startswith("Eq")]
        for function, file in dict.fromkeys((function, file) for _, function, file, _ in rows):
            keys = [(rule, calls) for rule, *key, calls in rows if key == [function, file]]
            self.install(function, file, keys)
        self.follow_terms()

    def install(self, function, file, keys):
        module, holder, name = locate(function, file)
        original = getattr(holder, name)

        def counted(*args, **kwargs):
            for rule, calls in keys:
                kind, _, value = calls.partition(" ")
                if (kind == "slot" and str(args[1]) != value) or (kind == "term" and self.term != value):
                    continue
                self.counts[rule] += 1
            return original(*args, **kwargs)

        if holder is not module:
            self.patch.setattr(holder, name, counted)
            return
        for other in [other for key, other in sys.modules.items() if key.split(".")[0] == "doxa"]:
            if getattr(other, name, None) is original:
                self.patch.setattr(other, name, counted)

    def follow_terms(self):
        """Which term is being estimated: the last one that an estimator was chosen for."""
        original = estimators.estimator

        def followed(settings, term, batch):
            self.term = term.name
            return original(settings, term, batch)

        for other in [other for key, other in sys.modules.items() if key.split(".")[0] == "doxa"]:
            if getattr(other, "estimator", None) is original:
                self.patch.setattr(other, "estimator", followed)

    def missing(self, *numbers):
        return [number for number in numbers if not self.counts[f"Eq. {number}"]]


@pytest.fixture
def calls(monkeypatch):
    import doxa.curation.complete
    import doxa.inference.judgment
    import doxa.inference.query
    import doxa.training.fit  # noqa: F401 - loaded before their names are replaced

    return Calls(monkeypatch)


@pytest.fixture(scope="module")
def world():
    return Beliefs.from_frame(board(5))


@pytest.fixture(scope="module")
def model(world):
    return doxa.fit(world, **FAST)


def ask_all(model):
    model.ask([("1,1", "up", "?"), ("?", "right", "2,2"), ("1,1", "?", "1,2", "one step up")])


def test_training_runs_eqs_4_7_and_11(calls, world):
    doxa.fit(world, **FAST)
    assert calls.missing(4, 7, 11) == []


def test_the_negative_estimator_runs_eqs_13_to_18(calls, world):
    doxa.fit(world, estimator="negative", **FAST)
    assert calls.missing(4, *range(13, 19)) == []


def test_fitting_confidence_runs_eq_5(calls, world):
    frame = world.to_frame().with_columns(confidence=0.7)
    doxa.fit(frame, objective="confidence", **FAST)
    assert calls.missing(5, *range(13, 19)) == []


def test_asking_runs_eqs_6_8_9_10_and_12(calls, model):
    ask_all(model)
    assert calls.missing(6, 7, 8, 9, 10, 11, 12) == []


def test_judging_runs_eqs_1_6_8_9_10_and_12(calls, model, world):
    model.judge(world)
    assert calls.missing(1, 6, 7, 8, 9, 10, 11, 12) == []


def test_completing_runs_eqs_1_8_and_9(calls, model):
    model.complete(min_credence=0.0, top=5)
    assert calls.missing(1, 7, 8, 9) == []


def test_a_bypass_is_noticed(calls, model, monkeypatch):
    """A mutant that writes its own softmax in place of the one on the map."""
    original = PBE.distribution

    def bypass(self, slot, batch, *, temperature=1.0, without=None):
        if slot is not Slot.TAIL:
            return original(self, slot, batch, temperature=temperature, without=without)
        logits = self.logits(slot, batch)
        return pbe.Distribution(logits, logits.logsumexp(1), torch.arange(self.entities))

    monkeypatch.setattr(PBE, "distribution", bypass)
    ask_all(model)
    assert calls.missing(6, 8, 9, 10, 12) == [8]


class Depths:
    """The number of doxa frames on the stack wherever the arithmetic of Eq. 7 runs."""

    def __init__(self, monkeypatch, until):
        self.deepest, self.until = 0, until
        for holder, name in ((Translation, "each"), (Translation, "pairs"), (pairwise.Distances, "values")):
            self.wrap(monkeypatch, holder, name)
        self.wrap(monkeypatch, estimators, "fused_softmax")

    def wrap(self, monkeypatch, holder, name):
        original = vars(holder)[name]
        call = original.__func__ if isinstance(original, staticmethod) else original

        def measured(*args, **kwargs):
            frames = [frame for frame in traceback.extract_stack() if frame.filename.startswith(str(ROOT / "doxa"))]
            if any(frame.name == self.until for frame in frames):
                self.deepest = max(self.deepest, len(frames) + 1)
            return call(*args, **kwargs)

        monkeypatch.setattr(holder, name, staticmethod(measured) if isinstance(original, staticmethod) else measured)


def test_few_hops_lead_from_a_question_to_eq_7(monkeypatch, model):
    depths = Depths(monkeypatch, until="ask")
    ask_all(model)
    assert 0 < depths.deepest <= MOST_FRAMES["ask"]


def test_few_hops_lead_from_fit_to_eq_7(monkeypatch, world):
    depths = Depths(monkeypatch, until="run")
    doxa.fit(world, **FAST)
    assert 0 < depths.deepest <= MOST_FRAMES["fit"]
