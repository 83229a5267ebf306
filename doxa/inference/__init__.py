"""Inference: questions in, answers with probabilities out; beliefs in, judgments out."""

from doxa.calibration.rules import log_terms
from doxa.inference.answer import Answer, Candidate
from doxa.inference.entities import heads, tails
from doxa.inference.judgment import Judgment, judge
from doxa.inference.query import Question, ask
from doxa.inference.relations import relations

__all__ = [
    "Answer",
    "Candidate",
    "Judgment",
    "Question",
    "ask",
    "heads",
    "judge",
    "log_terms",
    "relations",
    "tails",
]
