"""Lines that can be told apart and are the same everywhere; axes and numbers one can read."""

import re
from itertools import combinations

import numpy as np
import pytest

from lnlab.figures.style import (
    BLACK,
    GREY,
    GREYS,
    NAMED,
    NORMALIZERS,
    OTHERS,
    legend_rank,
    line_colors_and_widths,
    linear_axis_avoiding_fractional_ticks,
    log_axis,
    shade_or_tint,
    variant_base_name_or_empty,
)
from lnlab.live.bundle import read_asset
from lnlab.nn import NORMS

TURNED = np.array([[-0.574, 1.43, 0.144], [0.426, 0.43, 0.144], [0.426, 1.43, -0.856]])
"""The matrix of the CSS filter hue-rotate(180deg) (W3C, Filter Effects Module, 9.3)."""


def parts(color: str) -> np.ndarray:
    """Red, green and blue of #rrggbb or #rgb, from 0 to 1."""
    digits = color[1:] if len(color) == 7 else "".join(2 * digit for digit in color[1:])
    return np.array([int(digits[i : i + 2], 16) / 255 for i in (0, 2, 4)])


def light(rgb: np.ndarray) -> np.ndarray:
    """Red, green and blue as light (sRGB)."""
    return np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)


def contrast(one: np.ndarray, other: np.ndarray) -> float:
    """Contrast of two colors, by their relative luminances (WCAG 2.1)."""
    low, high = sorted(float(light(rgb) @ (0.2126, 0.7152, 0.0722)) for rgb in (one, other))
    return (high + 0.05) / (low + 0.05)


def inverted(rgb: np.ndarray) -> np.ndarray:
    """A color after the CSS filter invert(0.9)."""
    return 0.9 - 0.8 * rgb


def turned(rgb: np.ndarray) -> np.ndarray:
    """A color after the CSS filter hue-rotate(180deg)."""
    return np.clip(TURNED @ rgb, 0, 1)


def seen(color: str) -> np.ndarray:
    """CIE 1976 L*a*b*, in which distances are about what one sees."""
    to_xyz = [[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]
    xyz = np.array(to_xyz) @ light(parts(color)) / (0.9505, 1.0, 1.089)
    f = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def test_every_normalizer_is_in_the_table():
    assert set(NORMALIZERS) == set(NORMS)


def test_lines_have_a_contrast_of_3_on_light_and_dark_pages():
    greys = [shade_or_tint(BLACK, n) for n in range(len(GREYS))]
    white = np.ones(3)
    for color in (*NAMED.values(), *OTHERS, GREY, *greys):
        rgb = parts(color)
        assert contrast(rgb, white) >= 3, color
        # as page.css and live_plot.css have it, without and beside a map of colors
        for dark in (turned(inverted(rgb)), inverted(turned(rgb))):
            assert contrast(dark, inverted(white)) >= 3, color


def test_lines_of_the_playground_have_a_contrast_of_3():
    rules = re.findall(r"--paper: (#\w+).*?(--none: .*?)\n", read_asset("style.css"), re.DOTALL)
    assert len(rules) == 3  # light, and dark on a page and in JupyterLab
    for paper, colors in rules:
        lines = dict(re.findall(r"--(\w+): (#\w+);", colors))
        assert len(lines) == 5
        for name, color in lines.items():
            assert contrast(parts(color), parts(paper)) >= 3, (name, color, paper)


def test_no_two_names_look_alike():
    for one, other in combinations([*NAMED.values(), *OTHERS], 2):
        # about 2 is what one just notices side by side; lines are thin and apart
        assert np.linalg.norm(seen(one) - seen(other)) > 15, (one, other)


def test_a_variant_has_the_colour_of_its_normalizer_or_a_shade_of_it():
    base = variant_base_name_or_empty("weight, mean-only batch, frozen")
    assert base == "weight, mean-only batch"
    assert variant_base_name_or_empty("batch hidden") == "batch"
    assert variant_base_name_or_empty("layered") == ""
    assert (
        line_colors_and_widths(["batch, frozen"])["batch, frozen"]["color"]
        == NORMALIZERS["batch"]
    )
    looks = line_colors_and_widths(["batch, frozen", "layer", "batch", "batch, recomputed"])
    assert looks["batch"]["color"] == NORMALIZERS["batch"]
    assert len({look["color"] for look in looks.values()}) == 4
    assert looks["batch, recomputed"]["color"] not in NAMED.values()


def test_legends_have_one_order():
    given = ["rms", "an arm", "batch", "layer, eps = 0", "none", "layer"]
    given += ["layer, per position", "both"]
    expected = ["none", "layer", "layer, eps = 0", "layer, per position"]
    expected += ["batch", "rms", "both", "an arm"]
    assert sorted(given, key=legend_rank) == expected


@pytest.mark.parametrize(
    ("values", "labels"),
    [
        ([1.2, 1.9], {"tickformat": "~g"}),
        ([0.02, 0.7], {"tickformat": "~g", "dtick": "D2"}),
        ([1e-3, 1e4], {"tickformat": "~g", "dtick": 1}),
        ([1e-12, 1e4], {"exponentformat": "power", "dtick": 2}),
    ],
)
def test_a_logarithmic_axis_has_few_labels(values, labels):
    assert log_axis([np.array(values)]) == {"type": "log"} | labels


@pytest.mark.parametrize(
    ("values", "each"), [([[1, 2, 3], [5]], True), ([[0, 0.5, 1, 2]], False), ([], False)]
)
def test_a_few_whole_numbers_have_a_label_each(values, each):
    axis = linear_axis_avoiding_fractional_ticks(np.array(one, float) for one in values)
    assert axis == {"type": "linear"} | ({"dtick": 1} if each else {})
