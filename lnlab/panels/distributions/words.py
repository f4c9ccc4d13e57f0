"""The sentence of the distributions panel, of the layers of a net."""

from lnlab.figures.style import number
from lnlab.panels.distributions.measurement import DistributionsMeasurement
from lnlab.panels.distributions.state import WHAT, DistributionsState


def conditions(state: DistributionsState) -> str:
    """The title: what is shown, in short."""
    return f"{state.net}: {WHAT[state.what]}, step {state.step}"


def sentence(state: DistributionsState, measurement: DistributionsMeasurement) -> str:
    """The width of the distribution of the last layer, against that of the first."""
    if not state.arms:
        return f"{conditions(state)}. Choose a normalizer to see its layers."
    sections = {arm: frame for arm, frame in measurement.sections.items() if len(frame)}
    if not sections:
        return f"{conditions(state)}. There is nothing to see of it."
    said = []
    for arm, frame in sections.items():
        widths = (frame["q95"] - frame["q05"]).to_numpy()
        said.append(f"{arm} {number(float(widths[-1] / widths[0])) if widths[0] else 'NaN'}")
    return (
        f"{conditions(state)}. From the first layer to the last its width changes by a factor "
        f"of: {', '.join(said)}."
    )
