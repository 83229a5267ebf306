"""Scores D(h, r, t): one file each, with its equation. A new score is one file and one line here."""

from doxa.scores.base import Score
from doxa.scores.bilinear import Bilinear
from doxa.scores.complex import Complex
from doxa.scores.distmult import DistMult
from doxa.scores.hyperplane import Hyperplane
from doxa.scores.mention import Mention, SeparateMention
from doxa.scores.neural_tensor import NeuralTensor
from doxa.scores.rotate import Rotate
from doxa.scores.single_layer import SingleLayer
from doxa.scores.structured import Structured
from doxa.scores.translation import Translation
from doxa.scores.unstructured import Unstructured
from doxa.scores.weighted_translation import WeightedTranslation

SCORES: dict[str, type[Score]] = {
    "translation": Translation,
    "weighted_translation": WeightedTranslation,
    "hyperplane": Hyperplane,
    "unstructured": Unstructured,
    "structured": Structured,
    "single_layer": SingleLayer,
    "bilinear": Bilinear,
    "neural_tensor": NeuralTensor,
    "distmult": DistMult,
    "complex": Complex,
    "rotate": Rotate,
}

__all__ = ["SCORES", "Mention", "Score", "SeparateMention"]
