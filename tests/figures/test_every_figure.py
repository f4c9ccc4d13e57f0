"""Every figure: labels are shown as letters."""

import html
import pkgutil
from importlib import import_module
from inspect import getmembers, isfunction
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go
import pytest

from lnlab import figures
from lnlab.figures import curves, landscape, style, tables
from lnlab.papers.claims.figure import effects_figure

TAG = "<img src=x onerror=alert`1`>"
AT = np.linspace(0.1, 1, 4)
SEEDS = np.stack([AT, 2 * AT])
NUMBERS = dict.fromkeys(["q05", "q25", "q50", "q75", "q95"], AT)


def layers(text) -> pd.DataFrame:
    return pd.DataFrame({**NUMBERS, "step": np.arange(4), "name": [text + "0", "1", "2", "3"]})


def claims(text) -> list[dict]:
    said = dict.fromkeys(("id", "says", "verdict", "effect", "setting"), text)
    return [{**said, "word": "supported", "size": "", "n": 5, "axis": [1.0, 0.5, 9.0]}]


def plane(*at) -> Any:
    losses = np.ones([len(each) for each in at])
    return SimpleNamespace(coordinates=at, losses=losses, centre_loss=0.5, bn_stats="running")


def path_on_plane(text) -> go.Figure:
    settings: Any = {
        "explained_variance_ratio": [0.5, 0.4], "distances_from_plane": AT, "made_on": text
    }  # fmt: skip
    return landscape.path_on_plane(plane(AT, AT), SEEDS.T, **settings)


def drawn() -> go.Figure:
    return go.Figure(go.Scatter(name="line", y=AT), layout={"height": 300, "margin": {"t": 9}})


FIGURES: dict[Any, Any] = {
    curves.add_horizontal_line: lambda t: curves.add_horizontal_line(drawn(), 0.5, t),
    curves.line_chart: lambda t: curves.line_chart(
        {t: {t: (AT, SEEDS)}}, x=t, y=t, made_on=t, dots=[t], mark=(0.5, t)
    ),
    curves.line_chart_over_depth: lambda t: curves.line_chart_over_depth(
        [t, "1"], {t: AT[:2]}, y=t
    ),
    curves.paired_differences: lambda t: curves.paired_differences(
        {t: ([1.0], (0.0, 2.0))}, x=t, made_on=t
    ),
    curves.quantile_ribbons: lambda t: curves.quantile_ribbons({t: layers(t)}, y=t),
    curves.smoothness_ribbons: lambda t: curves.smoothness_ribbons(
        {t: {t: (AT, SEEDS, SEEDS)}}, made_on=t
    ),
    landscape.loss_lines_and_range_bands: lambda t: landscape.loss_lines_and_range_bands(
        {t: {t: [plane(AT)]}}, x=t, made_on=t
    ),
    landscape.path_on_plane: path_on_plane,
    landscape.loss_surfaces: lambda t: landscape.loss_surfaces({t: plane(AT, AT)}, made_on=t),
    style.add_footnote: lambda t: style.add_footnote(drawn(), t),
    style.add_title: lambda t: style.add_title(drawn(), t, t),
    tables.configuration_heatmaps: lambda t: tables.configuration_heatmaps(
        {t: (np.arange(16.0),) * 3}, value=t, made_on=t, outlined={t: 3}
    ),
    tables.matrices: lambda t: tables.matrices({t: SEEDS}, rows=t, columns=t),
    tables.picture_rows: lambda t: tables.picture_rows(
        np.zeros((1, 2, 3, 4, 4)), rows=[t], made_on=t
    ),
    tables.table: lambda t: tables.table(pd.DataFrame({t: [t]})),
    effects_figure: lambda t: effects_figure(claims(t)),
}
"""Every figure, drawn with a text wherever it takes one."""


def functions_that_draw():
    for info in pkgutil.iter_modules(figures.__path__, "lnlab.figures."):
        for name, function in getmembers(import_module(info.name), isfunction):
            public = function.__module__ == info.name and not name.startswith("_")
            if public and function.__annotations__.get("return") in (go.Figure, "go.Figure"):
                yield function


def test_no_figure_is_forgotten():
    assert {*functions_that_draw()} <= {*FIGURES}


@pytest.mark.parametrize("draw", FIGURES, ids=lambda draw: draw.__name__)
def test_figure_shows_tags_as_letters(draw, strings):
    texts = strings(FIGURES[draw](TAG))
    assert not [text for text in texts if TAG in text]
    assert [text for text in texts if html.escape(TAG) in text]
