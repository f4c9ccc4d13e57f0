"""Handwriting with its text: Graves (2013), with layer norm as in Ba et al. (2016), 6.5."""

from .net import HandwritingNet, Written
from .task import Handwriting
from .writing import Ink, write

__all__ = ["Handwriting", "HandwritingNet", "Ink", "Written", "write"]
