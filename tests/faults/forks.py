"""A model answers alike in a forked process, a pool of forked or spawned processes, and threads.

`python -m tests.faults.forks [--rounds N]` trains a small model and compares all of them, N times.
"""

import argparse
import functools
import math
import multiprocessing
import os
import signal
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import doxa

SECONDS = 60
"""An answer that takes longer counts as a hang."""

ROWS = [(f"e{i % 20}", f"r{i % 3}", f"e{i * 7 % 20}", f"word{i % 9} Été common", 0.5) for i in range(120)]


def make_model(folder):
    """A small model with mentions and confidences, saved and loaded."""
    doxa.fit(ROWS, score="translation", epochs=2, dimension=8, time_budget=0).save(folder)
    return doxa.load(folder)


def answers(model, number=0):
    """Questions of every kind, and a judgment, as plain data; `number` varies the questions."""
    head, tail = f"e{number % 20}", f"e{(number + 3) % 20}"
    questions = [model.tails(head, "r1", top=3), model.heads("r0", tail, top=3), model.relations(head, tail)]
    questions += [
        model.relations(head, tail, mention="ÉTÉ word1, unheard-of"),
        model.tails(head, "r2", 3, new_only=True),
    ]
    judged = model.judge([*(row[:4] for row in ROWS[:6]), ("unseen", "r1", "e1", "word2")])
    try:
        model.tails("http://example.org/nobody", "r1")
        unknown = ""
    except doxa.errors.UnknownName as fault:
        unknown = type(fault).__name__
    return {"asked": [one.as_dict() for one in questions], "judged": judged.as_dict(), "unknown": unknown}


def same(one, other):
    """Whether two results agree: equal texts, numbers up to rounding."""
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=1e-4, abs_tol=1e-6)
    return one == other


@functools.cache
def _loaded(folder):
    return doxa.load(folder)


def _answer_of_folder(folder, number):
    return answers(_loaded(folder), number)


_shared = {}


def _answer_of_shared(number):
    return answers(_shared["model"], number)


def in_one_fork(model, number=0, folder=None):
    """Whether a process made by os.fork answers as this one does; with a folder, it loads the model by itself."""
    expected = answers(model, number)
    child = os.fork()
    if child == 0:
        signal.alarm(SECONDS)
        code = 1
        try:
            asked = model if folder is None else doxa.load(folder)
            code = 0 if same(answers(asked, number), expected) else 2
        finally:
            os._exit(code)
    return os.waitpid(child, 0)[1] == 0


def in_a_fork_pool(model, numbers, processes=2):
    """Whether a pool of forked processes answers as this one does."""
    _shared["model"] = model
    with multiprocessing.get_context("fork").Pool(processes) as pool:
        results = pool.map_async(_answer_of_shared, numbers).get(SECONDS)
    return all(map(same, results, [answers(model, number) for number in numbers]))


def in_a_spawn_pool(model, folder, numbers, processes=1):
    """Whether a pool of new processes that load the folder answers as this one does."""
    with multiprocessing.get_context("spawn").Pool(processes) as pool:
        results = pool.starmap_async(_answer_of_folder, [(folder, number) for number in numbers]).get(5 * SECONDS)
    return all(map(same, results, [answers(model, number) for number in numbers]))


def in_threads(model, numbers, threads=8):
    """Whether threads that share the model answer as one does."""
    with ThreadPoolExecutor(threads) as pool:
        results = list(pool.map(functools.partial(answers, model), numbers))
    return all(map(same, results, [answers(model, number) for number in numbers]))


def run(rounds):
    """Compare all of them so many times; returns the faults, each as text, and figures."""
    faults = []
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "model"
        model = make_model(folder)
        for number in range(rounds):
            numbers = range(number * 16, number * 16 + 16)
            checks = {
                "fork": lambda numbers=numbers: in_one_fork(model, numbers[0]),
                "fork that loads": lambda numbers=numbers: in_one_fork(model, numbers[0], folder),
                "fork pool": lambda numbers=numbers: in_a_fork_pool(model, numbers, 4),
                "spawn pool": lambda numbers=numbers: in_a_spawn_pool(model, folder, numbers, 2),
                "8 threads": lambda numbers=numbers: in_threads(model, numbers),
            }
            for name, check in checks.items():
                began = time.monotonic()
                fine = check()
                result = f"round {number + 1}, {name}: {'same' if fine else 'DIFFERENT'}"
                faults += [] if fine else [result]
                print(f"{result}, {time.monotonic() - began:.1f} s", flush=True)
    return faults, {"rounds": rounds, "compared": list(checks)}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    raise SystemExit(bool(run(parser.parse_args().rounds)[0]))


if __name__ == "__main__":
    main()
