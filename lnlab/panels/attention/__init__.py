"""The panel of notebook 13: where recognizers look while they learn."""

from .state import AttentionState
from .view import attention

__all__ = ["AttentionState", "attention"]
