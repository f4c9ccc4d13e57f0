"""The panel of notebook 19: a transformer at its start, by depth, place and kind of norm."""

from lnlab.panels.transformer.state import TransformerState
from lnlab.panels.transformer.view import transformer

__all__ = ["TransformerState", "transformer"]
