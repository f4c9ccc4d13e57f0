"""Every figure: labels are shown as letters, and a normalizer has its own colour."""

import html
import pkgutil
from collections.abc import Iterator
from importlib import import_module
from inspect import getmembers, isfunction
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go
import pytest

import lnlab
import lnlab.figures.curves
import lnlab.figures.style
import lnlab.papers.claims.figure
from lnlab.figures import curves, landscape, tables
from lnlab.figures.style import GREY, INK, NORMALIZERS

TAG = "<img src=x onerror=alert`1`>"
AT = np.linspace(0.1, 1, 4)
SEEDS = np.stack([AT, 2 * AT])
NUMBERS = dict.fromkeys(["q05", "q25", "q50", "q75", "q95"], AT)
RATIO = (10.0, 0.7, 0.6, 0.9)


def layers(text) -> pd.DataFrame:
    return pd.DataFrame({**NUMBERS, "step": np.arange(4), "name": [text + "0", "1", "2", "3"]})


def claims(text) -> list[dict]:
    said = dict.fromkeys(("id", "says", "verdict", "effect", "setting"), text)
    return [{**said, "word": "supported", "size": "", "n": 5, "axis": [1.0, 0.5, 9.0]}]


def plane(*at) -> Any:
    losses = np.ones([len(each) for each in at])
    return SimpleNamespace(at=at, losses=losses, centre=0.5, bn_stats="running")


def path_on_plane(text) -> go.Figure:
    settings: Any = {"explained": [0.5, 0.4], "distances": AT, "made_on": text}
    return landscape.path_on_plane(plane(AT, AT), SEEDS.T, **settings)


def drawn() -> go.Figure:
    return go.Figure(go.Scatter(name="line", y=AT), layout={"height": 300, "margin": {"t": 9}})


FIGURES = {
    tables.configurations: lambda text: tables.configurations(
        {text: (np.arange(16.0),) * 3}, value=text, made_on=text, outlined={text: 3}
    ),
    curves.line_chart: lambda text: curves.line_chart(
        {text: {text: (AT, AT)}}, x=text, y=text, dots=[text], mark=(0.5, text)
    ),
    tables.pictures: lambda text: tables.pictures(
        np.zeros((1, 2, 3, 4, 4)), rows=[text], made_on=text
    ),
    tables.table: lambda text: tables.table(pd.DataFrame({text: [text]})),
    tables.memory_bars: lambda text: tables.memory_bars({text: 3.0}, unit=text),
    landscape.bands: lambda text: landscape.bands(
        {text: {text: [plane(AT)]}}, x=text, made_on=text
    ),
    landscape.surfaces: lambda text: landscape.surfaces({text: plane(AT, AT)}, made_on=text),
    landscape.path_on_plane: path_on_plane,
    lnlab.figures.curves.learning_curves: lambda text: lnlab.figures.curves.learning_curves(
        {text: {text: (AT, SEEDS)}}, x=text, y=text, made_on=text
    ),
    lnlab.figures.curves.paired_differences: lambda text: (
        lnlab.figures.curves.paired_differences(
            {text: ([1.0], (0.0, 2.0))}, x=text, made_on=text
        )
    ),
    tables.matrices: lambda text: tables.matrices({text: SEEDS}, rows=text, columns=text),
    lnlab.figures.curves.ratio_curves: lambda text: lnlab.figures.curves.ratio_curves(
        {text: {"LN-GRU, fused": [RATIO]}}, made_on=text
    ),
    lnlab.figures.curves.over_depth: lambda text: lnlab.figures.curves.over_depth(
        [text, "1"], {text: AT[:2]}, y=text
    ),
    lnlab.figures.curves.ribbons: lambda text: lnlab.figures.curves.ribbons(
        {text: layers(text)}, x=text, y=text
    ),
    lnlab.figures.curves.smoothness_ribbons: lambda text: (
        lnlab.figures.curves.smoothness_ribbons(
            {text: {text: (AT, SEEDS, SEEDS)}}, made_on=text, x=text
        )
    ),
    lnlab.figures.curves.add_level: lambda text: lnlab.figures.curves.add_level(
        drawn(), 0.5, text
    ),
    lnlab.figures.curves.sweeps: lambda text: lnlab.figures.curves.sweeps(
        AT, {text: AT}, x=text, y=text
    ),
    lnlab.figures.style.with_footnote: lambda text: lnlab.figures.style.with_footnote(
        drawn(), text
    ),
    lnlab.figures.style.with_title: lambda text: lnlab.figures.style.with_title(
        drawn(), text, text
    ),
    lnlab.papers.claims.figure.dots: lambda text: lnlab.papers.claims.figure.dots(claims(text)),
}
"""Every figure, drawn with a text wherever it takes one."""

WITHOUT_TEXT = {tables.timeline, tables.lstm_step}


def functions_that_draw():
    for module in pkgutil.walk_packages(lnlab.__path__, "lnlab."):
        if not module.name.startswith("lnlab.figures."):
            continue
        for name, function in getmembers(import_module(module.name), isfunction):
            own = function.__module__ == module.name and not name.startswith("_")
            if own and function.__annotations__.get("return") in (go.Figure, "go.Figure"):
                yield function


def assert_literal(found: list[str]) -> None:
    assert not [said for said in found if TAG in said]
    assert [said for said in found if html.escape(TAG) in said]


def test_no_figure_is_forgotten():
    assert {*functions_that_draw()} <= {*FIGURES} | WITHOUT_TEXT


@pytest.mark.parametrize("draw", FIGURES, ids=lambda draw: draw.__name__)
def test_figure_shows_tags_as_letters(draw, strings):
    assert_literal(strings(FIGURES[draw](TAG)))


# what stands for no normalizer: a bar that is decided or not, a tag of a shape, a light share
NEUTRAL = {"#CBD0D8", "#D8DBE0", "white", GREY, INK, "#4B5563"}


@pytest.mark.parametrize("name", ["layer", "batch", "none", "recurrent batch"])
@pytest.mark.parametrize(
    "draw",
    [
        curves.line_chart,
        lnlab.figures.curves.over_depth,
        landscape.bands, lnlab.figures.curves.learning_curves,
        lnlab.figures.curves.ribbons,
        lnlab.figures.curves.smoothness_ribbons,
        lnlab.figures.curves.sweeps,
    ],
    ids=lambda draw: draw.__name__,
)  # fmt: skip
def test_a_normalizer_has_its_colour_in_every_figure(draw, name):
    figure = FIGURES[draw](name).update_layout(template=None).to_plotly_json()
    colors = {color for color in colored(figure) if color not in NEUTRAL}
    assert colors == {NORMALIZERS[name]}


def colored(part) -> Iterator[str]:
    """Every colour that a part of a figure names."""
    if isinstance(part, dict):
        for key, value in part.items():
            if isinstance(value, str):
                yield from [value] if key in ("color", "fillcolor") else []
            else:
                yield from colored(value)
    elif isinstance(part, list | tuple):
        for value in part:
            yield from (
                [value] if isinstance(value, str) and value[:1] == "#" else colored(value)
            )
