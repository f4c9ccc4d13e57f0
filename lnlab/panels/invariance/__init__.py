"""The panel of notebooks 00 and 02: what stays the same when weights or inputs change."""

from .state import InvarianceState
from .view import invariance

__all__ = ["InvarianceState", "invariance"]
