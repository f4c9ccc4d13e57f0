"""The panel of notebook 09: where readers look for an answer while they learn."""

from lnlab.panels.reading.state import ReadingState
from lnlab.panels.reading.view import reading

__all__ = ["ReadingState", "reading"]
