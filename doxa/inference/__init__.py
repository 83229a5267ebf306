"""Inference: questions in, answers with probabilities out; beliefs in, judgments out."""

from doxa.inference.answer import Answer, Candidate
from doxa.inference.judgment import Judgment, judge
from doxa.inference.query import Question, ask

__all__ = ["Answer", "Candidate", "Judgment", "Question", "ask", "judge"]
