"""Scores D(h, r, t): one file each, with its equation. A new score is one file and one line here."""

from doxa.scores.mention import Mention
from doxa.scores.score import Score
from doxa.scores.translation import Translation

SCORES: dict[str, type[Score]] = {
    "translation": Translation,
}

__all__ = ["SCORES", "Mention", "Score"]
