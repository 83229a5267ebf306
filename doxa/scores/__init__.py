"""Scores D(h, r, t): one file each, with its equation. A new score is one file and one line here."""

from doxa.scores.complex import Complex
from doxa.scores.distmult import DistMult
from doxa.scores.mention import Mention
from doxa.scores.rotate import Rotate
from doxa.scores.score import Score
from doxa.scores.translation import Translation

SCORES: dict[str, type[Score]] = {
    "translation": Translation,
    "distmult": DistMult,
    "complex": Complex,
    "rotate": Rotate,
}

__all__ = ["SCORES", "Mention", "Score"]
