"""The sentence of the attention panel, of an utterance and of those who heard it."""

from .measurement import AttentionMeasurement
from .state import AttentionState


def sentence(state: AttentionState, measurement: AttentionMeasurement) -> str:
    """A sentence that says what each of the recognizers heard at that moment."""
    said = " ".join(measurement.spoken.units)
    heard = "; ".join(f"{name}: {it or '(nothing)'}" for name, it in measurement.heard.items())
    return f"Epoch {state.epoch:g}. Said: {said}. Heard by {heard}."
