"""The panel of notebook 08: a caption, the pictures below it, the captions around it."""

from lnlab.panels.order.state import OrderState
from lnlab.panels.order.view import order

__all__ = ["OrderState", "order"]
