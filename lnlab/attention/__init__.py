"""Attention: where a net looks, how well that fits the truth, and what a decoder says by it."""

from lnlab.attention.additive import Annotations, Attention
from lnlab.attention.alignment import entropy, mass, monotonicity
from lnlab.attention.search import Hypothesis, search

__all__ = [
    "Annotations",
    "Attention",
    "Hypothesis",
    "entropy",
    "mass",
    "monotonicity",
    "search",
]
