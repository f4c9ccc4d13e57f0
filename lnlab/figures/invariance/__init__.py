"""The panel of invariance in pictures: what moves, and Table 1 with what was measured."""

from lnlab.figures.invariance.movement import (
    Moved,
    Sweep,
    movement,
    movement_layout,
    movement_traces,
)
from lnlab.figures.invariance.table import Measured, table, table_layout, table_traces

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
