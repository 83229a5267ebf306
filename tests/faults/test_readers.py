"""A short run of the fault harness of readers, and its own detection of faults."""

from tests.faults import readers
from tests.formats.fuzz import seeds


def test_mutated_files_are_read_or_refused():
    whole = list(seeds())
    results = list(readers.read_batch(range(2 * len(whole)), 7, whole, lambda number: None))
    assert [text for _, _, text in results if text] == []
    assert len(results) == 2 * len(whole)


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
