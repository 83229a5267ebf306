"""The knowledge base in plain Python: a list of decisions that is replayed from the start for every question."""

from doxa.errors import DoxaError

KIND_OF_SLOT = ("entity", "relation", "entity")
TRUTH = {"add": True, "accept": True, "reject": False, "retract": False, "replace": False}


class Refused(DoxaError):
    pass


class ReferenceStore:
    """Decisions are dictionaries; number n of the log is `log[n - 1]`. Triples are tuples of ids."""

    def __init__(self, split):
        self.log = []
        self.originals = {"entity": [], "relation": []}  # the first name of each id
        self.splits = {}  # of every triple that ever had a row, in the order of their rows
        self.split = split  # by names

    # What is effective

    def effective(self, number, snapshot):
        return not any(
            one["undoes"] == number and self.effective(place, snapshot)
            for place, one in enumerate(self.log[:snapshot], 1)
            if one["verdict"] == "undo"
        )

    def decisions(self, snapshot):
        """(number, decision) of all that is effective, in order."""
        return [(n, one) for n, one in enumerate(self.log[:snapshot], 1) if self.effective(n, snapshot)]

    # Names

    def all_names(self, kind, snapshot):
        """For each id its names in order; the last is the present one."""
        names = [[name] for name in self.originals[kind]]
        for _, one in self.decisions(snapshot):
            if one["verdict"] == "rename" and one["kind"] == kind:
                names[one["subject"]].append(one["new"])
        return names

    def find(self, kind, name):
        owners = [i for i, names in enumerate(self.all_names(kind, len(self.log))) if name in names]
        assert len(owners) <= 1
        return owners[0] if owners else None

    def require(self, kind, name):
        number = self.find(kind, name)
        if number is None:
            raise Refused(f"no {kind} {name}")
        return number

    def make(self, kind, name):
        number = self.find(kind, name)
        if number is None:
            self.originals[kind].append(name)
            number = len(self.originals[kind]) - 1
        return number

    def merges(self, kind, snapshot):
        rows = [
            (d["subject"], d["object"])
            for _, d in self.decisions(snapshot)
            if d["verdict"] == "merge" and d["kind"] == kind
        ]
        return rows

    def root(self, kind, number, snapshot):
        parents = dict(self.merges(kind, snapshot))
        while number in parents:
            number = parents[number]
        return number

    def root_triple(self, triple, snapshot):
        return tuple(self.root(kind, i, snapshot) for kind, i in zip(KIND_OF_SLOT, triple, strict=True))

    def ids(self, names, make):
        find = self.make if make else self.require
        triple = tuple(find(kind, name) for kind, name in zip(KIND_OF_SLOT, names, strict=True))
        if make:
            self.splits.setdefault(triple, self.split(names))
        return triple

    # The state at a snapshot

    def verdicts(self, snapshot):
        """For each decided fact: (is it true, was a proposal of it decided, the first triple in the order of rows)."""
        last, reviewed = {}, set()
        for _, one in self.decisions(snapshot):
            if one["verdict"] in TRUTH:
                about = [(one["belief"], TRUTH[one["verdict"]])]
                about += [(one["replacement"], True)] if one.get("replacement") else []
                for triple, truth in about:
                    fact = self.root_triple(triple, snapshot)
                    last[fact] = truth
                    reviewed |= {fact} if one.get("proposal") else set()
        return last, reviewed

    def rows(self, snapshot):
        """(head, relation, tail, mention, split) of every assertion of what holds, and of accepted beliefs without."""
        last, reviewed = self.verdicts(snapshot)
        asserted = [row for _, one in self.decisions(snapshot) for row in one.get("rows", ())]
        names = {kind: [all_[-1] for all_ in self.all_names(kind, snapshot)] for kind in self.originals}
        first_split = {}
        for triple, split in self.splits.items():
            first_split.setdefault(self.root_triple(triple, snapshot), split)

        def row(fact, mention):
            texts = tuple(names[kind][i] for kind, i in zip(KIND_OF_SLOT, fact, strict=True))
            return (*texts, mention, 0 if fact in reviewed else first_split[fact])

        facts = [(self.root_triple(triple, snapshot), mention) for triple, mention in asserted]
        rows = [row(fact, mention) for fact, mention in facts if last.get(fact, True)]
        rows += [row(fact, None) for fact, truth in last.items() if truth and fact not in {fact for fact, _ in facts}]
        return sorted(rows, key=repr)

    def holds(self, names):
        triple = tuple(self.find(kind, name) for kind, name in zip(KIND_OF_SLOT, names, strict=True))
        if None in triple:
            return False
        now = len(self.log)
        fact = self.root_triple(triple, now)
        last, _ = self.verdicts(now)
        asserted = {self.root_triple(t, now) for _, one in self.decisions(now) for t, _ in one.get("rows", ())}
        return last.get(fact, fact in asserted)

    # Decisions

    def write(self, **decision):
        self.log.append(decision)
        try:
            self.check()
        except Refused:
            self.log.pop()
            raise
        return len(self.log)

    def check(self):
        """Names belong to one id, and merges have neither a cycle nor two ends."""
        now = len(self.log)
        for kind in self.originals:
            sets = [set(names) for names in self.all_names(kind, now)]
            if len(set().union(*sets)) < sum(map(len, sets)):
                raise Refused("a name of two ids")
            subjects = [subject for subject, _ in self.merges(kind, now)]
            parents = dict(self.merges(kind, now))
            if len(set(subjects)) < len(subjects) or any(loops(parents, subject) for subject in subjects):
                raise Refused("two merges of one id")

    def import_(self, rows):
        return self.write(verdict="import", rows=[(self.ids(names, True), mention) for *names, mention in rows])

    def add(self, names):
        triple = self.ids(names, True)
        return self.write(verdict="add", belief=triple, rows=[(triple, None)])

    def decide(self, verdict, names, replacement=None, proposal=None):
        triple = self.ids(names, True)
        other = self.ids(replacement, True) if replacement else None
        return self.write(verdict=verdict, belief=triple, replacement=other, proposal=proposal)

    def retract(self, names):
        self.ids(names, False)
        if not self.holds(names):
            raise Refused("does not hold")
        return self.write(verdict="retract", belief=self.ids(names, True))

    def rename(self, kind, old, new):
        number = self.require(kind, old)
        if old == new or self.root(kind, number, len(self.log)) != number:
            raise Refused("merged, or no other name")
        return self.write(verdict="rename", kind=kind, subject=number, new=new)

    def merge(self, kind, name, into):
        subject, target = self.require(kind, name), self.require(kind, into)
        now = len(self.log)
        if self.root(kind, subject, now) != subject or self.root(kind, target, now) == subject:
            raise Refused("already merged")
        return self.write(verdict="merge", kind=kind, subject=subject, object=target)

    def undo(self, number):
        if not 1 <= number <= len(self.log) or not self.effective(number, len(self.log)):
            raise Refused("not effective")
        return self.write(verdict="undo", undoes=number)


def loops(parents, number):
    seen = set()
    while number in parents:
        if number in seen:
            return True
        seen.add(number)
        number = parents[number]
    return False
