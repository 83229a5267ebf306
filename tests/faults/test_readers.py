"""A short run of the fault harness of readers, and its own detection of faults."""

import pytest

from tests.faults import readers
from tests.formats.fuzz import seeds


def test_mutated_files_are_read_or_refused():
    """In a child of its own, because memory counts from the start of a process: this one has run other tests."""
    whole = list(seeds())
    harness = readers.Readers(7, whole)
    harness.run(range(2 * len(whole)), 1)
    assert harness.faults == {}
    assert len(harness.seconds) == 2 * len(whole)


def test_a_reader_that_dies_or_fails_is_a_fault(monkeypatch):
    class Pipe:
        """A child that begins file 3 and ends."""

        def __init__(self):
            self.messages = [("begun", 2), ("done", (2, 0.1, "")), ("begun", 3)]

        def send(self, batch):
            pass

        def poll(self, seconds):
            return True

        def recv(self):
            if not self.messages:
                raise EOFError
            return self.messages.pop(0)

    harness = readers.Readers(0, [])
    assert harness._follow(Pipe(), [2, 3, 4, 5]) == [4, 5]
    assert harness.faults == {3: "died"}
    monkeypatch.setattr(readers, "attempt", lambda *file: ValueError("bad"))
    ((_, _, text),) = readers.read_batch([0], 0, [("tsv", "a.tsv", b"a\tr\tb\n")], lambda number: None)
    assert text == "ValueError: bad"


@pytest.mark.parametrize("process", range(len(readers.PROCESSES)))
def test_memory_beyond_the_bound_is_a_fault_once(monkeypatch, process):
    """Of the process that reads, and of those that it starts."""
    peaks = dict.fromkeys(readers.PROCESSES, 2**20)

    def attempt(form, name, content, folder):
        if content == b"large":
            peaks[readers.PROCESSES[process]] = 2**31

    monkeypatch.setattr(readers, "attempt", attempt)
    monkeypatch.setattr(readers, "peak", lambda who: peaks[who])
    monkeypatch.setattr(readers, "mutated", lambda number, seed, whole: whole[number])
    whole = [("tsv", "a.tsv", content) for content in (b"small", b"large", b"small")]
    texts = [text for _, _, text in readers.read_batch(range(3), 0, whole, lambda number: None)]
    assert texts == ["", "memory of 2,048 MB", ""]
