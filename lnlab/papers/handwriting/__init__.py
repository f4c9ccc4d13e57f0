"""Handwriting with its text: Graves (2013), with layer norm as in Ba et al. (2016), 6.5."""

from lnlab.lazy import lazy

__getattr__, __dir__ = lazy(__name__)
