"""Build the atlas: `python -m tools.atlas.build` writes `atlas.tsv.zst`, `--describe` prints its relations.

The same packages give the same bytes: all randomness comes from one seed.
"""

from __future__ import annotations

import argparse
import io
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import zstandard

from tools.atlas.cities import Fact

SEED = 1951
ATLAS = Path(__file__).parents[2] / "doxa" / "demo" / "atlas.tsv.zst"
COLUMNS = ("split", "head", "relation", "tail", "mention", "confidence", "planted")
WITHHELD = {"test": 0.10, "valid": 0.10}
LEFT_IN_TRAIN = 2  # facts that every entity keeps in train
SEVERAL = 1.5  # an average from which a side counts as «N»
# Well-known pairs put into test, for questions a person can check.
WELL_KNOWN = (
    ("Barcelona (Spain)", "Spain"),
    ("Osaka", "Japan"),
    ("Chicago", "United States"),
    ("Cairo", "Egypt"),
    ("Lyon", "France"),
    ("Warsaw", "Poland"),
    ("Naples", "Italy"),
    ("Melbourne", "Australia"),
    ("Mexico", "Spanish"),
    ("Austria", "German"),
    ("Portugal", "Euro"),
    ("Kenya", "Uganda"),
    ("France", "Belgium"),
    ("Peru", "South America"),
    ("Munich", "Europe/Berlin"),
    ("Poland", ".pl"),
    ("Marseille", "Euro"),
    ("Argentina", "Chile"),
    ("San Diego", "California"),
    ("Madrid", "Spanish"),
)


class Belief(NamedTuple):
    """One line of the atlas."""

    split: str
    head: str
    relation: str
    tail: str
    mention: str
    confidence: float
    planted: int


def pairs(facts: Iterable[Fact]) -> dict[frozenset[str], list[Fact]]:
    """The facts about each unordered pair of entities."""
    groups: dict[frozenset[str], list[Fact]] = defaultdict(list)
    for fact in facts:
        groups[frozenset({fact.head, fact.tail})].append(fact)
    return groups


def split(facts: Sequence[Fact], chance: np.random.Generator) -> dict[str, list[Fact]]:
    """Withhold whole pairs, so that no withheld fact has its inverse in train.

    A pair stays in train when withholding it would leave an entity with fewer than two facts there.
    """
    groups = pairs(facts)
    left = Counter(name for fact in facts for name in (fact.head, fact.tail))
    parts: dict[str, list[Fact]] = {"train": [], "valid": [], "test": []}
    known = [frozenset(pair) for pair in WELL_KNOWN]
    for pair in known:
        if pair not in groups:
            raise ValueError(f"no fact about the well-known pair {sorted(pair)}: correct WELL_KNOWN")
    drawn = list(groups)
    shuffled = (drawn[int(place)] for place in chance.permutation(len(drawn)))
    for pair in [*known, *(pair for pair in shuffled if pair not in known)]:
        group = groups[pair]
        wanting = [part for part, share in WITHHELD.items() if len(parts[part]) < share * len(facts)]
        if wanting and all(left[name] - len(group) >= LEFT_IN_TRAIN for name in pair):
            part = "test" if pair in known else min(wanting, key=lambda part: len(parts[part]))
            parts[part] += group
            left.subtract({name: len(group) for name in pair})
        else:
            parts["train"] += group
    return parts


def beliefs() -> list[Belief]:
    """All lines of the atlas, in the order in which they are written."""
    from tools.atlas.extractor import Extractor
    from tools.atlas.facts import collect

    world = collect()
    splitting, wording = (np.random.default_rng(seed) for seed in np.random.SeedSequence(SEED).spawn(2))
    parts = split(world.facts, splitting)
    extractor = Extractor(world, wording)
    planted = extractor.false_facts(parts["train"])
    lines: list[Belief] = []
    for part, facts in parts.items():
        stated = [(fact, False) for fact in facts] + [(fact, True) for fact in planted if part == "train"]
        stated.sort()
        for fact, false in stated:
            mention = extractor.mention(fact.relation, false)
            confidence = extractor.confidence(fact.relation, mention, false)
            lines.append(Belief(part, *fact, mention, confidence, int(false)))
    return lines


def write(lines: Sequence[Belief], path: Path = ATLAS) -> None:
    """Write the lines as compressed, tab-separated text."""
    text = io.StringIO()
    text.write("\t".join(COLUMNS) + "\n")
    for line in lines:
        text.write("\t".join([*line[:5], f"{line.confidence:.3f}", str(line.planted)]) + "\n")
    path.write_bytes(zstandard.ZstdCompressor(level=19).compress(text.getvalue().encode()))


def read(path: Path = ATLAS) -> list[Belief]:
    """Read back what `write` wrote."""
    rows = zstandard.ZstdDecompressor().decompress(path.read_bytes()).decode().splitlines()[1:]
    lines: list[Belief] = []
    for row in rows:
        part, head, relation, tail, mention, confidence, planted = row.split("\t")
        lines.append(Belief(part, head, relation, tail, mention, float(confidence), int(planted)))
    return lines


def kind(facts: Sequence[Belief]) -> str:
    """Mapping kind of a relation: heads per tail and tails per head, each «N» from 1.5 on."""
    heads_per_tail = len(facts) / len({fact.tail for fact in facts})
    tails_per_head = len(facts) / len({fact.head for fact in facts})
    return f"{'N' if heads_per_tail >= SEVERAL else '1'}-{'N' if tails_per_head >= SEVERAL else '1'}"


def describe(lines: Sequence[Belief]) -> str:
    """A Markdown table of the relations, most frequent first; planted false beliefs are not counted."""
    groups: dict[str, list[Belief]] = defaultdict(list)
    for line in lines:
        if not line.planted:
            groups[line.relation].append(line)
    names = {name for line in lines for name in (line.head, line.tail)}
    parts = Counter(line.split for line in lines)
    rows = [
        f"{len(lines):,} beliefs, {len(names):,} entities, {len(groups)} relations; "
        f"train {parts['train']:,} (of which {sum(line.planted for line in lines):,} planted false beliefs), "
        f"valid {parts['valid']:,}, test {parts['test']:,}.",
        "",
        "| relation | kind | facts | example |",
        "|---|---|---:|---|",
    ]
    fame = Counter(name for line in lines for name in (line.head, line.tail))
    for relation, facts in sorted(groups.items(), key=lambda item: (-len(item[1]), item[0])):
        known = max(facts, key=lambda fact: (min(fame[fact.head], fame[fact.tail]), fact))
        example = f"{known.head} *{known.mention}* {known.tail}"
        rows.append(f"| {relation} | {kind(facts)} | {len(facts):,} | {example} |")
    return "\n".join(rows)


def main(arguments: Sequence[str] | None = None) -> None:
    """Build the atlas, or describe the existing one."""
    parser = argparse.ArgumentParser(prog="python -m tools.atlas.build", description=__doc__)
    parser.add_argument("--describe", action="store_true", help="print the relations of the built atlas")
    if parser.parse_args(arguments).describe:
        print(describe(read()))
    else:
        lines = beliefs()
        write(lines)
        print(f"{ATLAS.name}: {len(lines):,} beliefs, {ATLAS.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
