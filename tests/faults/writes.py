"""Failing writes: the n-th write, fsync, rename or new file of a command fails as on a full disk; then the next one."""

import random

from tests.faults import tools, trials
from tests.faults.commands import SLOW
from tests.faults.failing import Failing, why_not

__all__ = ["number_of_writes", "plan", "run", "why_not"]


def number_of_writes(folder, name):
    """How many writes, fsyncs, renames and new files a command makes if none fails."""
    trial, counted = trials.Trial(name, folder / "base", folder / "trial"), Failing(2**40)
    assert counted.run(trial.action(), trial.log) == 0, trial.log.read_text()
    trial.remember()
    trial.remove()
    return len(counted.calls)


def plan(writes, most, more, chance):
    """Which writes fail: every n up to `most` alone; then `more` at random of larger n, and of n with all that follow.

    A trial is the same whenever it is repeated, so none is planned twice.
    """
    alone = [(place, 0) for place in range(1, min(writes, most) + 1)]
    others = [(place, every) for place in range(1, writes + 1) for every in (0, 1) if every or place > most]
    return alone + chance.sample(others, min(more, len(others)))


def run(most, more, seed, names=trials.WRITING):
    """Fail the planned writes of each command; returns the faults and figures of each command.

    A command that takes seconds has a tenth of the random trials.
    """
    chance, faults, figures = random.Random(seed), [], {}
    with tools.scratch() as folder:
        trials.prepare(folder / "base")
        tools.shorten_demo()
        for name in names:
            writes = number_of_writes(folder, name)
            planned = plan(writes, most, -(-more // 10) if name in SLOW else more, chance)
            codes = [_attempt(folder, name, *trial, faults) for trial in planned]
            figures[name] = {"writes": writes, "trials": len(codes), "failed": sum(code != 0 for code in codes)}
            print(f"  {name}: {figures[name]}, {len(faults)} faults so far", flush=True)
    count = sum(figure["trials"] for figure in figures.values())
    print(f"failing writes: seed {seed}, {count} trials, {len(faults)} faults", flush=True)
    return faults, {"trials": count, "by_command": figures}


def _attempt(folder, name, place, every, faults):
    trial = trials.Trial(name, folder / "base", folder / "trial")
    code, failing = None, Failing(place, bool(every))
    try:
        code = failing.run(trial.action(), trial.log)
        text = trial.log.read_text()
        assert code in (0, 1), (code, text)
        assert "fault in doxa" not in text, text
        assert "Traceback" not in text, text
        left = [path for path in tools.hidden(trial.folder) if not path.endswith(".search")]
        left += [path.name for path in trial.temporary.iterdir()]
        assert not left, left
        trial.finish(done=code == 0)
    except AssertionError as fault:
        which = f"write {place}{' and all after it' if every else ''} ({failing.failed})"
        faults.append(f"{name}, {which}: {fault}")
        print(f"fault: {faults[-1]}", flush=True)
    trial.remove()
    return code
