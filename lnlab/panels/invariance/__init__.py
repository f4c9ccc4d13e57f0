"""The panel of notebooks 00 and 02: what stays the same when weights or inputs change."""

from lnlab.panels.invariance.state import InvarianceState
from lnlab.panels.invariance.view import invariance

__all__ = ["InvarianceState", "invariance"]
