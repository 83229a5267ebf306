"""Failing writes: the n-th write, fsync or rename of a command fails as on a full disk; then the next command.

A library that is loaded before all others stands between doxa and the system. It is compiled with cc when needed.
"""

import ctypes
import os
import random
import shutil
import subprocess
import sys
from pathlib import Path

from tests.faults import tools, trials

NAMES = (*trials.NAMES, "export")


def why_not():
    """The reason why writes cannot be made to fail here; empty when they can."""
    if not sys.platform.startswith("linux"):
        return "failing writes need Linux"
    return "" if shutil.which("cc") else "there is no C compiler (cc) to build the failing writes with"


def with_shim(arguments):
    """Start this program again, with the shim loaded, unless it is; returns its exit code, or None inside."""
    if "DOXA_SHIM" in os.environ:
        return None
    with tools.scratch() as folder:
        library = folder / "failing.so"
        source = Path(__file__).with_name("failing.c")
        subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", library, source, "-ldl"], check=True)
        env = os.environ | {"LD_PRELOAD": str(library), "DOXA_SHIM": str(library)}
        return subprocess.run([sys.executable, "-m", "tests.faults", *arguments], env=env, check=False).returncode


def failing(place, every, *arguments):
    """A command whose `place`-th write fails, and with `every` all that follow."""
    run = tools.command(*arguments)

    def work():
        ctypes.CDLL(os.environ["DOXA_SHIM"]).doxa_fail(ctypes.c_long(place), ctypes.c_long(every))
        run()

    return work


def run(most, more, seed, names=NAMES):
    """For each command: every n up to `most` until the command no longer writes so often, then `more` at random."""
    chance, faults, count, failed, past = random.Random(seed), [], 0, 0, 0
    with tools.scratch() as folder:
        trials.prepare(folder / "base")
        for name in names:
            places, reached = list(range(1, most + 1)), most
            for place in places:
                code = _attempt(folder, name, place, 0, faults)
                count, failed = count + 1, failed + (code != 0)
                if code == 0 and place > 3:
                    past += 1
                    if past >= 3:  # three in a row: the command makes fewer writes than this
                        reached = place
                        break
                else:
                    past = 0
            past = 0
            for _ in range(more):
                code = _attempt(folder, name, chance.randint(1, reached), 1, faults)
                count, failed = count + 1, failed + (code != 0)
            print(f"  {name}: {count} trials so far, {failed} commands failed, {len(faults)} faults", flush=True)
    print(f"failing writes: seed {seed}, {count} trials, {failed} commands failed, {len(faults)} faults", flush=True)
    return faults


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
