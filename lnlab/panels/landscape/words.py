"""The sentence of the landscape panel, of a net and of the loss around it."""

from lnlab.figures.landscape import outside
from lnlab.figures.style import number
from lnlab.panels.landscape.measurement import LandscapeMeasurement
from lnlab.panels.landscape.state import FOLLOW, LandscapeState


def conditions(state: LandscapeState) -> str:
    """The title: what is looked at, in short."""
    return (
        f"{state.normalizer}, W × {state.size:g}, directions {FOLLOW[state.lengths]}, "
        f"seed {state.seed}"
    )


def sentence(measurement: LandscapeMeasurement) -> str:
    """A sentence that says whether the plot is of the net that was trained."""
    greatest = max(float(line.losses.max()) for line in measurement.lines)
    here, there = number(measurement.lines[0].centre), number(measurement.trained)
    said = (
        f"The loss at w is {here} nats; the training ended at {there}. Along the five lines it "
        f"goes up to {number(greatest)}. {outside(measurement.lines)}"
    )
    return said.strip()
