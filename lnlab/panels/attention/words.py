"""The sentence of the attention panel, of an utterance and of those who heard it."""

from lnlab.panels.attention.measurement import AttentionMeasurement, quoted_words
from lnlab.panels.attention.state import AttentionState


def sentence(state: AttentionState, measurement: AttentionMeasurement) -> str:
    """A sentence that says what each of the recognizers heard at that moment."""
    units = measurement.spoken.units
    said, words = " ".join(units), quoted_words(units)
    said = f"{words} ({said})" if words else said
    heard = "; ".join(f"{name}: {told(it)}" for name, it in measurement.heard.items())
    return f"Epoch {state.epoch:g}. Said: {said}. Heard by {heard}."


LONG = 16
"""The most units that are told of what a recognizer heard: one that never learned talks on."""


def told(heard: str) -> str:
    """The units that were heard, or the first of them and how many there are."""
    units = heard.split()
    if len(units) <= LONG:
        return heard or "(nothing)"
    return f"{' '.join(units[:LONG])} … ({len(units)} in all)"
