"""Lines that can be told apart."""

from itertools import combinations
from typing import Any

import pytest

from lnlab.figures.palette import COLORS, NORMALIZERS, TEMPLATE, line, lines
from lnlab.norms import NORMS


def luminance(color: str) -> float:
    """Relative luminance of #rrggbb (WCAG 2.1)."""
    parts = (int(color[i : i + 2], 16) / 255 for i in (1, 3, 5))
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_every_normalizer_has_a_line_of_its_own():
    assert set(NORMALIZERS) == set(NORMS)
    looks = [(line(name)["color"], line(name)["dash"]) for name in NORMS]
    assert len(set(looks)) == len(NORMS)


def test_a_variant_has_the_colour_of_its_normalizer():
    assert line("batch, frozen")["color"] == line("batch")["color"]
    assert line("encoder, over time")["color"] == line("encoder")["color"]
    assert line("batch, frozen")["dash"] != line("batch")["dash"]
    assert (
        line("weight, mean-only batch, frozen")["color"]
        == (line("weight, mean-only batch")["color"])
    )


def test_a_name_of_no_normalizer_always_gets_the_same_line():
    assert line("an arm of one's own") == line("an arm of one's own")


@pytest.mark.parametrize("names", list(combinations(NORMALIZERS, 4))[::97])
def test_a_few_lines_never_share_a_colour(names):
    looks = lines(names)
    assert list(looks) == list(names)
    assert len({look["color"] for look in looks.values()}) == len(names)
    assert looks[names[0]] == line(names[0])


def test_more_lines_than_colours_still_have_one_each():
    looks = lines(NORMALIZERS)
    assert len(looks) == len(NORMALIZERS)
    assert {look["color"] for look in looks.values()} == set(COLORS)


@pytest.mark.parametrize("color", COLORS)
def test_lines_stand_out_from_white(color):
    # 2.2: the palest of Okabe & Ito's colours but yellow, which has 1.3
    assert 1.05 / (luminance(color) + 0.05) > 2.2


def test_a_figure_is_a_white_card_with_dark_text():
    layout: Any = TEMPLATE.layout
    assert layout.paper_bgcolor == "white"
    # 7: WCAG's contrast of small text, its stricter level
    assert 1.05 / (luminance(layout.font.color) + 0.05) > 7
