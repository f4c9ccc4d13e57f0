"""The sentence of the positions panel: the border beside the middle."""

from lnlab.figures.style import number
from lnlab.panels.positions.measurement import PositionsMeasurement
from lnlab.panels.positions.state import PositionsState


def conditions(state: PositionsState) -> str:
    """The title: which layer of which net, and when."""
    return f"{state.layer}, norm {state.norm}, padding {state.padding}, {state.time}"


def sentence(measurement: PositionsMeasurement) -> str:
    """The shares of units that are on at the border and in the middle, and their distance."""
    found = measurement.contrast
    return (
        f"At the border a unit is on in {100 * found.border:.0f} % of the cases, in the middle "
        f"in {100 * found.middle:.0f} %; the means of its summed inputs are "
        f"{number(found.shift)} deviations apart."
    )
