"""Answering: a question in, an `Answer` with probabilities out."""

from doxa.calibration.confidence import confidence
from doxa.calibration.rules import Judgment, judge, log_terms
from doxa.inference.answer import Answer, Candidate
from doxa.inference.entities import heads, tails
from doxa.inference.query import Question, ask
from doxa.inference.relations import relations

__all__ = [
    "Answer",
    "Candidate",
    "Judgment",
    "Question",
    "ask",
    "confidence",
    "heads",
    "judge",
    "log_terms",
    "relations",
    "tails",
]
