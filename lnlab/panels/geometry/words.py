"""The sentence of the geometry panel, of a step and of its cost."""

from lnlab.figures.style import number
from lnlab.panels.geometry.measurement import GeometryMeasurement
from lnlab.panels.geometry.state import CASES, INPUTS, GeometryState


def conditions(state: GeometryState) -> str:
    """The title: what was measured, in short."""
    return (
        f"{state.family} outputs, H = {state.units}, W × {state.length:.3g}, "
        f"x × {state.inputs:.3g}, D = {INPUTS}, {CASES} cases"
    )


def sentence(state: GeometryState, measurement: GeometryMeasurement) -> str:
    """A sentence on the cost of a step at this length and these inputs, against both at 1."""
    if not state.normalizers:
        return f"{conditions(state)}. Choose a normalizer to see what a step costs."
    factors = ", ".join(
        f"{name} {number(turn)} and {number(stretch)}"
        for name, (turn, stretch) in measurement.factors.items()
    )
    errors = ", ".join(
        f"{number(error.value)} ({name})" for name, (_, _, error) in measurement.curves.items()
    )
    return (
        "Against W × 1 and x × 1 the same step of W, and of a gain, changes the outputs by a "
        f"factor of: {factors}. Eq. 13 is off by {errors}."
    )
