"""The sentence of the writing panel."""

from lnlab.panels.writing.measurement import WritingMeasurement
from lnlab.panels.writing.state import WritingState


def sentence(state: WritingState, measurement: WritingMeasurement) -> str:
    """A sentence that says what was written, at which stage, and who came to its end."""
    told = "; ".join(
        f"{arm}: {points} points, "
        + ("the text came to its end" if measurement.ended[arm] else "cut off")
        for arm, points in measurement.points.items()
    )
    return (
        f"“{measurement.text}” after {state.update} updates, with bias {state.bias:g}. {told}."
    )
