"""Failing writes: the n-th write, fsync or rename of a command fails as on a full disk; then the next command.

A library that is loaded before all others stands between doxa and the system. It is compiled with cc when needed.
"""

import ctypes
import json
import os
import random
import shutil
import subprocess
import sys
from pathlib import Path

from tests.faults import tools, trials

NAMES = (*trials.NAMES, "export")

LAST = 3
"""So many trials in a row in which no write failed: the command makes no more writes."""


def why_not():
    """The reason why writes cannot be made to fail here; empty when they can."""
    if not sys.platform.startswith("linux"):
        return "failing writes need Linux"
    return "" if shutil.which("cc") else "there is no C compiler (cc) to build the failing writes with"


def with_shim(scale, seed):
    """Run this part in a new process that has loaded the shim; returns its faults and figures."""
    with tools.scratch() as folder:
        library, figures = folder / "failing.so", folder / "figures.json"
        source = Path(__file__).with_name("failing.c")
        subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", library, source, "-ldl"], check=True)
        env = os.environ | {"LD_PRELOAD": str(library), "DOXA_SHIM": str(library)}
        options = ["--scale", str(scale), "--seed", str(seed), "--json", figures]
        command = [sys.executable, "-m", "tests.faults", "writes", *options]
        code = subprocess.run(command, env=env, check=False).returncode
        faults = ["failing writes: see above"] * (code != 0)
        return faults, json.loads(figures.read_text())["parts"]["writes"] if figures.exists() else {}


def failing(place, every, *arguments):
    """A command whose `place`-th write fails, and with `every` all that follow."""
    run = tools.command(*arguments)

    def work():
        ctypes.CDLL(os.environ["DOXA_SHIM"]).doxa_fail(ctypes.c_long(place), ctypes.c_long(every))
        run()

    return work


def run(most, more, seed, names=NAMES):
    """For each command: every n up to `most` until the command no longer writes so often, then `more` at random.

    Returns the faults and, for each command, the trials, the failed commands and the largest n that it reached.
    """
    chance, faults, figures = random.Random(seed), [], {}
    with tools.scratch() as folder:
        trials.prepare(folder / "base")
        for name in names:
            codes = []
            for place in range(1, most + 1):
                codes.append(_attempt(folder, name, place, 0, faults))
                if place >= LAST + 3 and not any(codes[-LAST:]):
                    break  # the command makes fewer writes than this
            reached = max((place for place, code in enumerate(codes, 1) if code != 0), default=1)
            for _ in range(more):
                codes.append(_attempt(folder, name, chance.randint(1, reached), 1, faults))
            figures[name] = {"trials": len(codes), "failed": sum(code != 0 for code in codes), "writes": reached}
            print(f"  {name}: {figures[name]}, {len(faults)} faults so far", flush=True)
    count = sum(figure["trials"] for figure in figures.values())
    print(f"failing writes: seed {seed}, {count} trials, {len(faults)} faults", flush=True)
    return faults, {"trials": count, "by_command": figures}


def _attempt(folder, name, place, every, faults):
    trial = trials.Trial(name, folder / "base", folder / "trial")
    code = None
    try:
        code = tools.ended(tools.start(failing(place, every, *trial.arguments), trial.log))
        text = trial.log.read_text()
        assert code in (0, 1), (code, text)
        assert "fault in doxa" not in text, text
        assert "Traceback" not in text, text
        trial.check()
        left = [path for path in tools.hidden(trial.folder) if not path.endswith(".search")]
        assert not left, left
        trial.go_on()
    except AssertionError as fault:
        faults.append(f"{name}, write {place}{' and all after it' if every else ''}: {fault}")
        print(f"fault: {faults[-1]}", flush=True)
    trial.remove()
    return code
