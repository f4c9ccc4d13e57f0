"""An utterance alone, and with what recognizers made of it."""

import numpy as np

from lnlab.figures.attention import SLOTS, AttentionMap, Spoken, attention

SAID = Spoken(
    "test", np.zeros((20, 5)), 0.01, ("a", "b"), np.array([0.0, 0.1]), np.array([0.1, 0.2])
)


def shown(count):
    attentions = {f"net {k}": AttentionMap(np.eye(2, 5), 0.04, "") for k in range(count)}
    layout = attention(SAID, attentions).layout
    return [layout[f"{axis}axis{slot + 2}"].visible for slot in range(SLOTS) for axis in "xy"]


def test_only_attentions_that_are_there_have_axes():
    assert shown(0) == [False] * 2 * SLOTS
    assert shown(3) == [None] * 6 + [False] * 2
    assert shown(SLOTS) == [None] * 2 * SLOTS
