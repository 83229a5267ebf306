"""The estimate of a sum of exponentials from a sample, line by line: one entity and one draw at a time."""

import math


def chance(cells, scores, cell):
    """The chance of drawing one entity of a cell; `cells` are lists of entities, `scores` the centroids' logits."""
    weights = [len(members) * math.exp(0.7 * score) for members, score in zip(cells, scores, strict=True)]
    candidates = sum(len(members) for members in cells)
    by_score = weights[cell] / sum(weights) / len(cells[cell])
    return 0.9 * by_score + 0.1 / candidates


def estimate(logits, best, draws, cells, scores):
    """The estimated total and its relative standard error.

    `logits` are those of all entities, `best` the entities that are counted exactly, `draws` the entities drawn.
    """
    home = {entity: cell for cell, members in enumerate(cells) for entity in members}
    values = []
    for entity in draws:
        if entity in best:
            values.append(0.0)
        else:
            values.append(math.exp(logits[entity]) / chance(cells, scores, home[entity]))
    mean = sum(values) / len(values)
    total = sum(math.exp(logits[entity]) for entity in best) + mean
    variance = sum((value - mean) ** 2 for value in values) / (len(values) - 1)
    return total, math.sqrt(variance / len(values)) / total
