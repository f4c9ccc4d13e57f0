"""The panel of notebook 08: a caption, the pictures below it, the captions around it."""

from .state import OrderState
from .view import order

__all__ = ["OrderState", "order"]
