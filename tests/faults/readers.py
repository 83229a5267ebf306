"""Mutated files over all readers: each is read or refused with a `DoxaError`, in bounded time and memory.

`python -m tests.faults.readers [--files N] [--seed N] [--workers N]` damages valid files of every format at random and
reads them in child processes with a limit on memory. A child that dies, hangs or grows is a fault; the file is kept in
tests/formats/corpus, which the tests read.
"""

import argparse
import hashlib
import logging
import multiprocessing
import os
import random
import resource
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

from tests.formats.fuzz import CORPUS, attempt, damaged, seeds

SECONDS, PATIENCE = 10, 60
"""Processor seconds that a file may take, and seconds by the clock after which its child counts as hung."""

MEMORY, MEMORY_PER_BYTE = 2**30, 20
"""Bytes of memory that reading may take, and more per byte of the file."""

RUNNING = "running children"
PROCESSES = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN, RUNNING)
"""Whose time and memory are measured: the process that reads, and those that it starts, ended and running."""

TICKS = os.sysconf("SC_CLK_TCK")

BATCH = 50
"""Files per message to a child."""


def flipped(content, chance):
    """The content with one flipped bit, which checksums of formats may not notice."""
    changed = bytearray(content)
    changed[chance.randrange(len(changed))] ^= 1 << chance.randrange(8)
    return bytes(changed)


def mutated(number, seed, whole):
    """File `number` of a run: its format, name and content."""
    chance = random.Random(f"{seed}/{number}")
    form, name, content = whole[number % len(whole)]
    return form, name, (flipped if chance.random() < 0.3 else damaged)(content, chance)


def children(name):
    """This file of each process that was started by this one and has not ended; a process may end meanwhile."""
    numbers = [
        number for thread in Path("/proc/self/task").iterdir() for number in _content(thread / "children").split()
    ]
    return [content for number in numbers if (content := _content(Path("/proc") / number / name))]


def _content(path):
    try:
        return path.read_text()
    except (FileNotFoundError, ProcessLookupError):  # of a thread or process that has ended
        return ""


def peak(who):
    """The largest memory so far in bytes: of this process, or of the largest of its children, ended or running."""
    if who == RUNNING:
        states = [state.partition("VmHWM:")[2].split() for state in children("status")]
        return max((int(state[0]) for state in states if state), default=0) * 1024
    return resource.getrusage(who).ru_maxrss * 1024


def processor_seconds():
    """The processor seconds of this process and of its children, ended and running."""
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    states = [state.rpartition(")")[2].split() for state in children("stat")]
    running = sum(int(state[11]) + int(state[12]) for state in states) / TICKS
    return time.process_time() + ended.ru_utime + ended.ru_stime + running


def read_batch(numbers, seed, whole, report):
    """Read files one after the other, and report the number, processor seconds and fault of each."""
    with tempfile.TemporaryDirectory() as folder:
        for number in numbers:
            form, name, content = mutated(number, seed, whole)
            report(number)
            began, before = processor_seconds(), [peak(who) for who in PROCESSES]
            fault = attempt(form, name, content, Path(folder))
            seconds, after = processor_seconds() - began, [peak(who) for who in PROCESSES]
            text = "" if fault is None else f"{type(fault).__name__}: {str(fault)[:120]}"
            grown = max(new if new > old else 0 for old, new in zip(before, after, strict=True))
            if grown > MEMORY + MEMORY_PER_BYTE * len(content):
                text = text or f"memory of {grown / 2**20:,.0f} MB"
            (Path(folder) / name).unlink(missing_ok=True)
            yield number, seconds, text


def _child(pipe, seed, whole):
    """Serve batches of numbers until the pipe closes."""
    logging.getLogger("doxa").setLevel(logging.ERROR)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # messages of panics
    try:
        while True:
            for result in read_batch(pipe.recv(), seed, whole, lambda number: pipe.send(("begun", number))):
                pipe.send(("done", result))
            pipe.send(("batch", None))
    except EOFError:
        return


class Readers:
    """Child processes that read files; one that dies or hangs is replaced, and its file is a fault."""

    def __init__(self, seed, whole):
        self.seed, self.whole = seed, whole
        self.faults, self.seconds = {}, []

    def run(self, numbers, workers):
        """Read all the files, with several children at a time."""
        waiting = [numbers[start : start + BATCH] for start in range(0, len(numbers), BATCH)][::-1]
        threads = [threading.Thread(target=self._serve, args=(waiting,)) for _ in range(workers)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _serve(self, waiting):
        context = multiprocessing.get_context("spawn")
        child, pipe = None, None
        while waiting:
            try:
                batch = waiting.pop()
            except IndexError:
                break
            if child is None:
                pipe, other = context.Pipe()
                child = context.Process(target=_child, args=(other, self.seed, self.whole), daemon=True)
                child.start()
                other.close()
            rest = self._follow(pipe, batch)
            if rest is not None:
                child.kill()
                child.join()
                child = None
                if rest:
                    waiting.append(rest)
        if child is not None:
            pipe.close()
            child.join()

    def _follow(self, pipe, batch):
        """Take the results of a batch; returns the files after one that ended or held up the child, else None."""
        pipe.send(batch)
        current = batch[0]
        while True:
            try:
                kind, value = pipe.recv() if pipe.poll(PATIENCE) else ("hang", None)
            except (EOFError, OSError):
                kind, value = "died", None
            if kind == "begun":
                current = value
            elif kind == "done":
                number, seconds, text = value
                self.seconds.append(seconds)
                if seconds > SECONDS:
                    text = text or f"{seconds:.0f} processor seconds"
                if text:
                    self.faults[number] = text
            elif kind == "batch":
                return None
            else:
                self.faults[current] = kind
                return [number for number in batch if number > current]


def keep(number, seed, whole):
    """Put a faulty file into the corpus; returns its path."""
    form, name, content = mutated(number, seed, whole)
    path = CORPUS / f"{form}-{hashlib.sha256(content).hexdigest()[:12]}-{name}"
    path.write_bytes(content)
    return path


def replayed():
    """The files of the corpus, which were faults once, read again; returns those that are."""
    faults = []
    with tempfile.TemporaryDirectory() as folder:
        for path in sorted(CORPUS.glob("*-*-*")):
            form, _, name = path.name.split("-", 2)
            fault = attempt(form, name, path.read_bytes(), Path(folder))
            faults += [] if fault is None else [f"{path}: {type(fault).__name__}: {str(fault)[:120]}"]
    return faults


def run(files, seed, workers=1):
    """Read so many damaged files, and those of the corpus; returns the faults, each as text, and figures."""
    print(f"seed {seed}", flush=True)
    whole = list(seeds())
    readers = Readers(seed, whole)
    readers.run(list(range(files)), workers)
    faults = replayed()
    faults += [f"file {number}, {keep(number, seed, whole)}: {text}" for number, text in sorted(readers.faults.items())]
    print(*faults, sep="\n")
    counts = Counter(whole[number % len(whole)][0] for number in range(files))
    print(f"seed {seed}: {files:,} files ({', '.join(f'{form} {n:,}' for form, n in counts.items())})")
    slowest = max(readers.seconds, default=0)
    print(f"{len(faults)} faults; slowest {slowest:.1f} processor seconds")
    return faults, {"files": files, "by_format": dict(counts), "slowest_processor_seconds": round(slowest, 2)}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--workers", type=int, default=1)
    options = parser.parse_args()
    seed = options.seed if options.seed is not None else time.time_ns() % 2**32
    raise SystemExit(bool(run(options.files, seed, options.workers)[0]))


if __name__ == "__main__":
    main()
