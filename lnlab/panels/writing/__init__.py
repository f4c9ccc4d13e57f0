"""The panel of notebook 12: a text, written point by point by each arm at each stage."""

from lnlab.panels.writing.state import WritingState
from lnlab.panels.writing.view import writing

__all__ = ["WritingState", "writing"]
