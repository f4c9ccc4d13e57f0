"""The sentence of the recurrence panel, of a net and of its gradients."""

from collections.abc import Mapping

import numpy as np

from lnlab.analysis.rnn_dynamics import Dynamics
from lnlab.figures.recurrence import leaving
from lnlab.figures.style import number
from lnlab.panels.recurrence.state import RecurrenceState


def conditions(state: RecurrenceState) -> str:
    """The title: what was measured, in short."""
    return (
        f"{state.cell} ({state.equation}), W_h × {state.recurrent:.3g}, "
        f"W_x × {state.inputs:.3g}, gain {state.gain:.3g}, {state.steps} steps"
    )


def sentence(state: RecurrenceState, courses: Mapping[str, Dynamics]) -> str:
    """A sentence that says what becomes of the gradient on its way back."""
    if not state.normalizers:
        return f"{conditions(state)}. Choose a normalizer to see what becomes of the gradient."
    said = ", ".join(
        f"{name} {number(float(each.gradient[0]))} ({each.rate:.2f} a step)"
        for name, each in courses.items()
    )
    back = (
        f"On its way back from step {state.steps} to 1 the gradient is multiplied by: {said}."
    )
    lines = {name: [*map(np.asarray, it)] for name, it in courses.items()}
    outside = ", ".join(f"“{name}”" for name in leaving(lines))
    return f"{back} The lines of {outside} leave the picture." if outside else back
