"""The panel of notebook 13: where recognizers look while they learn."""

from lnlab.panels.attention.state import AttentionState
from lnlab.panels.attention.view import attention

__all__ = ["AttentionState", "attention"]
