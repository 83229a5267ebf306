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


def why_not():
    """The reason why writes cannot be made to fail here; empty when they can."""
    if not sys.platform.startswith("linux"):
        return "failing writes need Linux"
    return "" if shutil.which("cc") else "there is no C compiler (cc) to build the failing writes with"


def with_shim(scale, seed, names=None):
    """Run this part, for the commands of these names or all, in a new process with the shim; its faults and figures."""
    with tools.scratch() as folder:
        library, figures = folder / "failing.so", folder / "figures.json"
        source = Path(__file__).with_name("failing.c")
        subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", library, source, "-ldl"], check=True)
        env = os.environ | {"LD_PRELOAD": str(library), "DOXA_SHIM": str(library)}
        options = ["--scale", str(scale), "--seed", str(seed), "--json", figures]
        options += ["--commands", *names] if names else []
        command = [sys.executable, "-m", "tests.faults", "writes", *options]
        code = subprocess.run(command, env=env, check=False).returncode
        faults = ["failing writes: see above"] * (code != 0)
        return faults, json.loads(figures.read_text())["parts"]["writes"] if figures.exists() else {}


def failing(place, every, *arguments, count=None):
    """A command whose `place`-th write fails, and with `every` all that follow; `count` is a file for their number."""
    run = tools.command(*arguments)

    def work():
        shim = ctypes.CDLL(os.environ["DOXA_SHIM"])
        shim.doxa_fail(ctypes.c_long(place), ctypes.c_long(every))
        try:
            run()
        finally:
            if count is not None:
                count.write_text(str(shim.doxa_calls()))

    return work


def number_of_writes(folder, name):
    """How many writes, fsyncs and renames a command makes if none fails."""
    trial, count = trials.Trial(name, folder / "base", folder / "trial"), folder / "count"
    code = tools.ended(tools.start(failing(2**40, 0, *trial.arguments, count=count), trial.log))
    assert code == 0, trial.log.read_text()
    trial.remove()
    return int(count.read_text())


def plan(writes, most, more, chance):
    """Which writes fail: every n up to `most` alone; then `more` at random of larger n, and of n with all that follow.

    A trial is the same whenever it is repeated, so none is planned twice.
    """
    alone = [(place, 0) for place in range(1, min(writes, most) + 1)]
    others = [(place, every) for place in range(1, writes + 1) for every in (0, 1) if every or place > most]
    return alone + chance.sample(others, min(more, len(others)))


def run(most, more, seed, names=trials.WRITING):
    """Fail the planned writes of each command; returns the faults and figures of each command."""
    chance, faults, figures = random.Random(seed), [], {}
    with tools.scratch() as folder:
        trials.prepare(folder / "base")
        for name in names:
            writes = number_of_writes(folder, name)
            codes = [_attempt(folder, name, *trial, faults) for trial in plan(writes, most, more, chance)]
            figures[name] = {"writes": writes, "trials": len(codes), "failed": sum(code != 0 for code in codes)}
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
        left = [path for path in tools.hidden(trial.folder) if not path.endswith(".search")]
        assert not left, left
        trial.finish()
    except AssertionError as fault:
        faults.append(f"{name}, write {place}{' and all after it' if every else ''}: {fault}")
        print(f"fault: {faults[-1]}", flush=True)
    trial.remove()
    return code
