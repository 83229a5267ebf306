"""The race in slow, obvious code: the dense core of a graph, and the order of members."""


def core_rows(pairs, size):
    """Rows of (head, tail) that remain when entities of the smallest degree leave, until at most `size` rows remain."""
    rows, level = list(range(len(pairs))), 0
    while len(rows) > size:
        degree = {}
        for row in rows:
            for entity in pairs[row]:
                degree[entity] = degree.get(entity, 0) + 1
        level = max(level, min(degree.values()))
        kept = rows
        for entity in sorted(entity for entity in degree if degree[entity] <= level):
            if len(kept) > size:
                kept = [row for row in kept if entity not in pairs[row]]
        if not kept:
            break
        rows = kept
    return rows


def order(figures, tolerance, members):
    """Numbers of members (score, n3) from the best to the worst.

    Members close to the best figure go on to the next figure. Among those left, the best by the last figure decides
    which score wins, and the largest n3 of this score comes first.
    """
    rest, ordered = list(range(len(figures))), []
    while rest:
        close = rest
        for column in range(len(figures[0])):
            best = max(figures[member][column] for member in close)
            close = [member for member in close if figures[member][column] >= best - tolerance]
        winner = max(close, key=lambda member: figures[member][::-1])
        for other in close:
            if members[other][0] == members[winner][0] and members[other][1] > members[winner][1]:
                winner = other
        ordered.append(winner)
        rest = [member for member in rest if member != winner]
    return ordered


def work(runs, batch, candidates, relations, dimension, entities, validation):
    """Multiplications of runs of so many steps, each followed by a validation."""
    total = 0
    for steps in runs:
        for product in ("scores", "gradient of queries", "gradient of candidates"):
            assert product
            total += steps * batch * (candidates + candidates + relations) * dimension
        for part in ("ranks", "positives", "negatives"):
            assert part
            total += validation * (entities + entities + relations) * dimension
    return total
