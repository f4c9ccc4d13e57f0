"""Measurements: a module, or what a layer is given, in; numbers out."""

from lnlab.lazy import lazy

__getattr__, __dir__ = lazy(__name__)
