"""The sentence of the drawing panel."""

from lnlab.panels.drawing.measurement import DrawingMeasurement
from lnlab.panels.drawing.state import DrawingState


def sentence(state: DrawingState, measurement: DrawingMeasurement) -> str:
    """A sentence that says when it is, and how good each net is then."""
    bounds = "; ".join(f"{name} {nats:.1f}" for name, nats in measurement.bounds.items())
    return (
        f"After update {state.update}, glimpse {state.glimpse}. "
        f"Bound on validation, nats a picture: {bounds}."
    )
