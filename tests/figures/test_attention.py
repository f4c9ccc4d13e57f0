"""An utterance alone, and with what recognizers made of it."""

import numpy as np

from lnlab.papers.las.panel import FIRST, SLOTS, AttentionMap, Spoken, attention_figure

SAID = Spoken(
    "test", np.zeros((20, 5)), 0.01, ("a", "b"), np.array([0.0, 0.1]), np.array([0.1, 0.2])
)


def layout_of(count):
    attentions = {f"net {k}": AttentionMap(np.eye(2, 5), 0.04, "") for k in range(count)}
    return attention_figure(SAID, attentions).layout


def shown(count):
    layout = layout_of(count)
    return [
        layout[f"{axis}axis{slot + FIRST}"].visible for slot in range(SLOTS) for axis in "xy"
    ]


def test_only_attentions_that_are_there_have_axes():
    assert shown(0) == [False] * 2 * SLOTS
    assert shown(3) == [None] * 6 + [False] * 2
    assert shown(SLOTS) == [None] * 2 * SLOTS


def test_no_numbers_stand_where_the_title_of_the_next_picture_does():
    labels = {
        count: [
            layout_of(count)[f"xaxis{slot + FIRST}"].showticklabels for slot in range(count)
        ]
        for count in (1, 3, 4)
    }
    assert labels == {1: [True], 3: [False, True, True], 4: [False, False, True, True]}


def test_the_sound_stands_above_each_column_on_its_time_axis():
    layout = layout_of(4)
    for sound, below in (("", ("3", "5")), ("2", ("4", "6"))):
        axis = layout[f"xaxis{sound}"]
        for other in below:
            assert layout[f"xaxis{other}"].domain == axis.domain
            assert layout[f"xaxis{other}"].range == axis.range
    assert layout_of(1).xaxis2.visible is False
    assert layout_of(0).xaxis.domain[1] > 0.9
