"""The sentence of the transformer panel, of gradients at the start."""

from lnlab.figures.style import number
from lnlab.panels.transformer.measurement import TransformerMeasurement
from lnlab.panels.transformer.state import TransformerState


def conditions(state: TransformerState) -> str:
    """The title: what was measured, in short."""
    kind = "no norm, damped branches" if state.kind == "none" else f"{state.kind} norm"
    layers = "1 layer" if state.depth == 1 else f"{state.depth} layers"
    return f"{kind}, {layers}, before the first update"


def sentence(state: TransformerState, measurement: TransformerMeasurement) -> str:
    """The gradient at the top, and that at the bottom as a multiple of it."""
    if not state.places:
        return f"{conditions(state)}. Choose a place to see its gradients."
    said = []
    for place, norms in measurement.profiles.items():
        bottom, top = norms.mean(0)[[0, -1]]
        said.append(f"{place} {number(top)} ({number(bottom / top) if top else 'NaN'})")
    return (
        "Gradient of W₂ in the top layer at the start, and that of the bottom layer as a "
        f"multiple of it: {', '.join(said)}."
    )
