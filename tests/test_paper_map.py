"""The equations on the map are the ones that run: their calls are counted, and so are the steps that lead to Eq. 7."""

import importlib
import re
import sys
import traceback
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import doxa
import doxa.curation.complete
import doxa.inference.judgment
import doxa.inference.query
import doxa.training.fit
from doxa import estimators, pbe
from doxa.calibration.judge import Judge
from doxa.data.beliefs import Beliefs
from doxa.pbe import PBE
from doxa.scores import pairwise
from doxa.scores.translation import Translation
from doxa.slots import Slot
from doxa.training.loop import TrainingLoop
from tests.worlds import board

ROOT = Path(__file__).parent.parent
ROW = re.compile(r"^\| (Eq\. \d+|Section [\d.]+) \|[^|]*\| `([^`]+)` \| `([^`]+)` \| ([^|]*?) ?\|$", re.MULTILINE)

MOST_FRAMES = {"ask": 6, "fit": 13}
"""Frames of doxa on the stack where h + r − t is computed or its kernel is called; threads, parts and terms are among
them in `fit`."""

FAST = {"dimension": 8, "epochs": 2, "threads": 1, "validation_fraction": 0.3, "seed": 0, "mention_term": "joint"}


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


REQUIRED = {
    "train": ["Eq. 4", "Eq. 7 pairs", "Eq. 11 forward", "Eq. 11 each"],
    "train by negative sampling": ["Eq. 4", *(f"Eq. {number}" for number in range(13, 19))],
    "train on confidence": ["Eq. 5", *(f"Eq. {number}" for number in range(13, 19))],
    "ask": ["Eq. 6", "Eq. 7 pairs", "Eq. 8", "Eq. 9", "Eq. 10", "Eq. 11 forward", "Eq. 12"],
    "judge": [
        "Eq. 1",
        "Eq. 6",
        "Eq. 7 each",
        "Eq. 7 pairs",
        *(f"Eq. {n}" for n in (8, 9, 10)),
        "Eq. 11 forward",
        "Eq. 12",
    ],
    "complete": ["Eq. 7 each", "Eq. 7 pairs", "Eq. 8", "Eq. 9", "Eq. 10"],
}
"""The equations that each task must run; where an equation has several functions, which one."""


def rows_by_key():
    """The rows of the map by equation, with the name of the function where an equation has several."""
    rows = [row for row in paper_map() if row[0].startswith("Eq")]
    several = {rule for rule, number in Counter(row[0] for row in rows).items() if number > 1}
    return {f"{row[0]} {row[1].rpartition('.')[2]}" if row[0] in several else row[0]: row for row in rows}


class Watch:
    """Replaces the functions of the map by ones that count their calls, and that spoil one result on request.

    Calls count while `active`; `term` is the one that an estimator was chosen for last.
    """

    def __init__(self, monkeypatch, spoiled=""):
        self.counts, self.term, self.active, self.patch, self.spoiled = Counter(), "", True, monkeypatch, spoiled
        keys_of = {}
        for key, (_, function, file, calls) in rows_by_key().items():
            keys_of.setdefault((function, file), []).append((key, calls))
        for (function, file), keys in keys_of.items():
            self.install(function, file, keys)
        self.replace(estimators, "estimator", self.follow)

    def install(self, function, file, keys):
        module, holder, name = locate(function, file)

        def watched(original, *args, **kwargs):
            value, concerned = original(*args, **kwargs), []
            for key, calls in keys:
                kind, _, wanted = calls.partition(" ")
                if (kind == "slot" and str(args[1]) != wanted) or (kind == "term" and self.term != wanted):
                    continue
                concerned.append(key)
            if self.active:
                self.counts.update(concerned)
            return spoil(name, value) if self.active and self.spoiled in concerned else value

        self.replace(holder, name, watched, everywhere=holder is module)

    def follow(self, original, settings, term, batch):
        self.term = term.name
        return original(settings, term, batch)

    def replace(self, holder, name, function, everywhere=True):
        original = getattr(holder, name)
        holders = [holder]
        if everywhere:
            loaded = [module for key, module in sys.modules.items() if key.split(".")[0] == "doxa"]
            holders = [module for module in loaded if getattr(module, name, None) is original]
        for place in holders:
            self.patch.setattr(place, name, lambda *args, **kwargs: function(original, *args, **kwargs))

    def only_in_training(self):
        """Count in the training loop alone, not in the validation and calibration around it."""
        run, validate = TrainingLoop.run, TrainingLoop._end_epoch
        self.active = False

        def during(value, original):
            def switched(loop, *args):
                before, self.active = self.active, value
                try:
                    return original(loop, *args)
                finally:
                    self.active = before

            return switched

        self.patch.setattr(TrainingLoop, "run", during(True, run))
        self.patch.setattr(TrainingLoop, "_end_epoch", during(False, validate))


def spoil(name, value):
    """A result that is wrong in a way that no later normalization undoes."""
    if name in ("distribution", "mention_distribution", "with_mention"):
        tilt = torch.linspace(0, 3, value.logits.shape[1], dtype=value.logits.dtype)
        return pbe.Distribution(value.logits + tilt, value.log_total + 1, value.columns)
    if name == "pairs":
        return replace(value, points=1.5 * value.points)
    if name == "negative_sampling":
        return value._replace(by_truth=0 * value.by_truth, weights=0 * value.weights)
    if name == "log_logistic":
        return tuple(0 * part for part in value)
    return 0.5 * value - 1 if name == "log_credence" else 0 * value


@pytest.fixture(scope="module")
def world():
    return Beliefs.from_frame(board(5))


@pytest.fixture(scope="module")
def model(world):
    """A model whose credence is the logistic of log Pr(h,r,t,m), so that every change of it shows."""
    trained = doxa.fit(world, **FAST)
    return replace(trained, calibration=Judge.unfitted(2))


def run(task, model, world):
    """Do a task; returns its numbers."""
    if task.startswith("train"):
        more = {
            "train by negative sampling": {"estimator": "negative"},
            "train on confidence": {"objective": "confidence"},
        }
        beliefs = world.to_frame().with_columns(confidence=0.7) if "confidence" in task else world
        weights = doxa.fit(beliefs, **FAST, **more.get(task, {})).pbe.state_dict()
        return np.concatenate([weights[name].double().numpy().ravel() for name in sorted(weights)])
    if task == "ask":
        questions = [("1,1", "up", "?"), ("?", "right", "2,2"), ("1,1", "?", "1,2", "one step up")]
        return np.array([answer.probability for answers in model.ask(questions, top=2) for answer in answers])
    if task == "judge":
        return model.judge(world).credence
    proposals = model.complete(min_credence=0.0, top=5)
    return np.concatenate([proposals.credence, proposals.terms.ravel()])


@pytest.mark.parametrize("task", REQUIRED)
def test_each_task_runs_its_equations(task, model, world, monkeypatch):
    watch = Watch(monkeypatch)
    if task.startswith("train"):
        watch.only_in_training()
    run(task, model, world)
    assert [key for key in REQUIRED[task] if not watch.counts[key]] == []


@pytest.mark.parametrize(("task", "key"), [(task, key) for task, keys in REQUIRED.items() for key in keys])
def test_each_task_depends_on_its_equations(task, key, model, world):
    """A result that is computed and thrown away counts as no use: spoiling it must change what comes out."""
    with pytest.MonkeyPatch.context() as patch:
        Watch(patch)
        right = run(task, model, world)
    with pytest.MonkeyPatch.context() as patch:
        watch = Watch(patch, spoiled=key)
        if task.startswith("train"):
            watch.only_in_training()
        wrong = run(task, model, world)
    assert right.shape != wrong.shape or not np.allclose(right, wrong, rtol=1e-4, atol=1e-6)


def test_a_bypass_is_noticed(model, world, monkeypatch):
    """A mutant that writes its own softmax in place of the one on the map."""
    watch = Watch(monkeypatch)
    original = PBE.distribution

    def bypass(self, slot, batch, *, temperature=1.0, without=None):
        if slot is not Slot.TAIL:
            return original(self, slot, batch, temperature=temperature, without=without)
        logits = self.logits(slot, batch)
        return pbe.Distribution(logits, logits.logsumexp(1), torch.arange(self.entities))

    monkeypatch.setattr(PBE, "distribution", bypass)
    run("ask", model, world)
    assert [key for key in REQUIRED["ask"] if not watch.counts[key]] == ["Eq. 8"]


def test_a_softmax_is_written_in_one_place():
    """Estimators have their own, with its derivative; some calibration has log losses; the rest asks `doxa.pbe`."""
    allowed = ("rules.py", "labels.py", "contradictions.py")
    for path in (ROOT / "doxa").rglob("*.py"):
        if path.name not in ("pbe.py", "estimators.py"):
            calls = re.findall(r"\.(?:log_)?softmax\(|logsumexp\(|logaddexp\(", path.read_text())
            assert not calls or path.name in allowed, f"{path.relative_to(ROOT)}: {calls}"


class Depths:
    """The number of doxa frames on the stack wherever the arithmetic of Eq. 7 runs, below a function of that name."""

    def __init__(self, monkeypatch, below):
        self.deepest, self.below = 0, below
        places = [(Translation, "each"), (Translation, "pairs"), (pairwise.Distances, "values")]
        for holder, name in [*places, (estimators, "fused_softmax")]:
            self.wrap(monkeypatch, holder, name)

    def wrap(self, monkeypatch, holder, name):
        original = vars(holder)[name]
        call = original.__func__ if isinstance(original, staticmethod) else original

        def measured(*args, **kwargs):
            frames = [frame for frame in traceback.extract_stack() if frame.filename.startswith(str(ROOT / "doxa"))]
            if any(frame.name == self.below for frame in frames):
                self.deepest = max(self.deepest, len(frames) + 1)
            return call(*args, **kwargs)

        monkeypatch.setattr(holder, name, staticmethod(measured) if isinstance(original, staticmethod) else measured)


def test_few_hops_lead_from_a_question_to_eq_7(monkeypatch, model, world):
    depths = Depths(monkeypatch, below="ask")
    run("ask", model, world)
    assert 0 < depths.deepest <= MOST_FRAMES["ask"]


def test_few_hops_lead_from_fit_to_eq_7(monkeypatch, world):
    """In the steps of training and in validation; what is fitted after training is judging, not training."""
    depths = Depths(monkeypatch, below="run")
    doxa.fit(world, **FAST)
    assert 0 < depths.deepest <= MOST_FRAMES["fit"]
