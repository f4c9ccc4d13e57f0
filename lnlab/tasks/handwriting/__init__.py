"""Handwriting with its text: Graves (2013), with layer norm as in Ba et al. (2016), 6.5."""

from lnlab.tasks.handwriting.net import HandwritingNet, Written
from lnlab.tasks.handwriting.task import Handwriting
from lnlab.tasks.handwriting.writing import Ink, write

__all__ = ["Handwriting", "HandwritingNet", "Ink", "Written", "write"]
