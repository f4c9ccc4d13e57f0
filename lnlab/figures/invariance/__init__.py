"""The panel of invariance in pictures: what moves, and Table 1 with what was measured."""

from .movement import Moved, Sweep, movement, movement_layout, movement_traces
from .table import Measured, table, table_layout, table_traces

__all__ = [
    "Measured",
    "Moved",
    "Sweep",
    "movement",
    "movement_layout",
    "movement_traces",
    "table",
    "table_layout",
    "table_traces",
]
