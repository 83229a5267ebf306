"""Answering: a question in, an `Answer` with probabilities out."""

from doxa.answering.answer import Answer, Candidate
from doxa.answering.confidences import confidence
from doxa.answering.entities import heads, tails
from doxa.answering.questions import Question, ask
from doxa.answering.relations import relations
from doxa.answering.verdicts import Judgement, judge, log_terms

__all__ = [
    "Answer",
    "Candidate",
    "Judgement",
    "Question",
    "ask",
    "confidence",
    "heads",
    "judge",
    "log_terms",
    "relations",
    "tails",
]
