"""Kills: SIGKILL, SIGTERM or SIGINT at a random moment of every command that writes, then the next command."""

import random
import signal
import time
from collections import Counter

from tests.faults import tools, trials


def seconds_of(name, base, folder):
    """How long a command takes if nothing ends it."""
    trial = trials.Trial(name, base, folder)
    began = time.monotonic()
    assert tools.call(trial.log, trial.arguments) == 0, trial.log.read_text()
    seconds = time.monotonic() - began
    trial.remove()
    return seconds


SHORTER, LONGER = 0.9, 1.02
"""Factors of the time within which a command is cut, after one that had ended before and after one that was cut."""


def run(count, seed, names=trials.NAMES, number=signal.SIGKILL):
    """So many kills over the commands in turn; returns the faults, each as text, and figures.

    A command that ends before the signal is not counted: the next one gets it sooner. Signals that cut hardly any
    command are a fault too.
    """
    chance, faults, cut, ended = random.Random(seed), [], Counter(), 0
    with tools.scratch() as folder:
        trials.prepare(folder / "base")
        lengths = {name: seconds_of(name, folder / "base", folder / f"length-{name}") for name in names}
        place = 0
        while sum(cut.values()) < count:
            if ended > 10 * (sum(cut.values()) + len(names)):
                faults.append(f"only {sum(cut.values())} commands were cut short and {ended} had ended")
                break
            name, place = names[place % len(names)], place + 1
            trial = trials.Trial(name, folder / "base", folder / f"{place}-{name}")
            wait = chance.uniform(0, lengths[name])
            try:
                code = tools.killed(trial.log, wait, *trial.arguments, number=number)
                cut[name] += code != 0
                ended += code == 0
                lengths[name] *= LONGER if code else SHORTER
                if number != signal.SIGKILL:
                    assert code in (0, 128 + number, -number), (code, trial.log.read_text())
                    left = [path for path in tools.hidden(trial.folder) if not path.endswith(".search")]
                    assert code < 0 or not left, left
                trial.finish()
            except AssertionError as fault:
                faults.append(f"{name}, seed {seed}, trial {place}, after {wait:.3f} s: {fault}")
                print(f"fault: {faults[-1]}", flush=True)
            trial.remove()
            if place % 25 == 0:
                print(f"  {sum(cut.values())} cut short, {ended} had ended, {len(faults)} faults", flush=True)
    kind = signal.Signals(number).name
    print(f"{kind}: seed {seed}, {sum(cut.values())} cut short, {ended} had ended, {len(faults)} faults", flush=True)
    return faults, {"signals": sum(cut.values()), "by_command": dict(cut), "ended_before": ended}
