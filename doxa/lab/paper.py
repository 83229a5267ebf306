"""The figures of the paper, and the statistics of its datasets."""

from __future__ import annotations

Figures = tuple[float | None, ...]

ENTITY = ("MR raw", "MR filtered", "Hits@10 raw", "Hits@10 filtered")
RELATION = ("average rank", "Hits@10", "Hits@1")
CLASSIFICATION = ("accuracy",)

SMALL_IS_GOOD = ("MR raw", "MR filtered", "average rank", "MSE", "MAE")

ENTITY_INFERENCE: dict[str, dict[str, Figures]] = {
    "NELL-50K": {
        "transe": (2436, 2426, 18.9, 19.6),
        "transm": (2296, 2285, 20.5, 21.3),
        "transh": (2185, 2072, 21.6, 28.8),
        "pbe": (2078, 1996, 22.5, 26.4),
    },
    "WN-100K": {
        "transe": (10623, 10575, 3.8, 4.1),
        "transm": (14586, 13276, 1.8, 2.0),
        "transh": (12542, 12463, 2.3, 2.6),
        "pbe": (8462, 8409, 9.0, 10.1),
    },
    "FB-500K": {
        "transe": (243, 125, 34.9, 47.1),
        "transm": (196, 93, 44.6, 55.2),
        "transh": (211, 84, 42.5, 58.5),
        "pbe": (165, 61, 50.5, 64.6),
    },
}
"""Tables 2, 3 and 4: the columns of ENTITY."""

RELATION_PREDICTION: dict[str, dict[str, Figures]] = {
    "NELL-50K": {
        "transe": (131.8, 16.3, 3.0),
        "transm": (70.2, 18.9, 4.3),
        "transh": (46.3, 20.0, 5.1),
        "jrme": (6.2, 87.8, 60.2),
        "pbe": (2.5, 96.6, 78.3),
    },
    "WN-100K": {
        "transe": (3.8, 98.3, 15.1),
        "transm": (4.6, 97.5, 14.8),
        "transh": (3.4, 99.0, 19.3),
        "jrme": (3.9, 99.0, 15.9),
        "pbe": (2.0, 99.1, 72.6),
    },
    "FB-500K": {
        "transe": (762.7, 7.3, 1.9),
        "transm": (402.3, 13.4, 3.2),
        "transh": (79.5, 39.2, 15.6),
        "jrme": (60.9, 27.4, 7.2),
        "pbe": (2.6, 97.3, 66.7),
    },
}
"""Table 5: the columns of RELATION, raw."""

TRIPLET_CLASSIFICATION: dict[str, dict[str, Figures]] = {
    "NELL-50K": {"transe": (80.5,), "transm": (82.0,), "transh": (83.6,), "pbe": (90.2,)},
    "WN-100K": {"transe": (64.2,), "transm": (57.2,), "transh": (59.5,), "pbe": (67.8,)},
    "FB-500K": {"transe": (79.9,), "transm": (85.8,), "transh": (87.7,), "pbe": (92.6,)},
}
"""Table 6."""

STATISTICS: dict[str, tuple[int, int, int, int, int]] = {
    "NELL-50K": (29904, 233, 57356, 10710, 10711),
    "WN-100K": (38696, 11, 112581, 5218, 21088),
    "FB-500K": (14951, 1345, 483142, 50000, 59071),
}
"""Table 1: entities, relations, and beliefs of train, valid and test."""

WN11_ACCURACY = {"se": 53.0, "slm": 69.9, "bilinear": 73.8, "ntn": 70.4, "transe": 75.9, "transh": 78.8}
"""Published accuracy on the same labeled test set, without word vectors."""
