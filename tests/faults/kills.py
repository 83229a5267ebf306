"""Kills: SIGKILL, SIGTERM or SIGINT at a random moment of every command that writes, then the next command."""

import random
import signal
import time

from tests.faults import tools, trials


def seconds_of(name, base, folder):
    """How long a command takes if nothing ends it."""
    trial = trials.Trial(name, base, folder)
    began = time.monotonic()
    assert tools.call(trial.log, *trial.arguments) == 0, trial.log.read_text()
    seconds = time.monotonic() - began
    trial.remove()
    return seconds


def run(count, seed, names=trials.NAMES, number=signal.SIGKILL):
    """So many kills over the commands in turn; returns the faults, each as text."""
    chance, faults, cut = random.Random(seed), [], 0
    with tools.scratch() as folder:
        trials.prepare(folder / "base")
        lengths = {name: seconds_of(name, folder / "base", folder / f"length-{name}") for name in names}
        for place in range(count):
            name = names[place % len(names)]
            trial = trials.Trial(name, folder / "base", folder / f"{place}-{name}")
            wait = chance.uniform(0, lengths[name])
            try:
                code = tools.killed(trial.log, wait, *trial.arguments, number=number)
                cut += code != 0
                if number != signal.SIGKILL:
                    assert code in (0, 128 + number, -number), (code, trial.log.read_text())
                    left = [path for path in tools.hidden(trial.folder) if not path.endswith(".search")]
                    assert code < 0 or not left, left
                trial.check()
                trial.go_on()
            except AssertionError as fault:
                faults.append(f"{name}, seed {seed}, trial {place}, after {wait:.3f} s: {fault}")
                print(f"fault: {faults[-1]}", flush=True)
            trial.remove()
            if (place + 1) % 25 == 0:
                print(f"  {place + 1} trials, {cut} cut short, {len(faults)} faults", flush=True)
    kind = signal.Signals(number).name
    print(f"{kind}: seed {seed}, {count} trials, {cut} cut short, {len(faults)} faults", flush=True)
    return faults
