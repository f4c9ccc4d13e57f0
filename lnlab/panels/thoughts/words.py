"""The sentences of the thoughts panel, of a sentence and of the nets that read it."""

from textwrap import shorten

from lnlab.panels.thoughts.measurement import ThoughtsMeasurement
from lnlab.panels.thoughts.state import ThoughtsState

LONG = 70
"""The most letters of what a net would let follow: one that never learned finds no end."""


def sentence(state: ThoughtsState, measurement: ThoughtsMeasurement) -> str:
    """A sentence that says which neighbour each net finds, and what it would let follow."""
    said = [f"“{measurement.sentence}” after update {state.update}."]
    if measurement.unknown:
        unknown = ", ".join(measurement.unknown)
        said.append(f"Words that they do not know, all read as one unknown word: {unknown}.")
    for name, one in measurement.seen.items():
        text, cosine = one.near[0]
        said.append(
            f"{name}: nearest is “{text}” (cosine {cosine:.2f}), "
            f"and “{shorten(one.told, LONG, placeholder=' …')}” would follow."
        )
    if measurement.follows:
        said.append(f"In the book there follows “{measurement.follows}”.")
    return " ".join(said)
