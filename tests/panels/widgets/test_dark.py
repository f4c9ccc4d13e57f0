"""In JupyterLab's dark theme light and dark are exchanged, but not within a map of colours."""

from pathlib import Path

import numpy as np
import plotly.graph_objects as go
import pytest

from lnlab.figures.style.palette import TEMPLATE
from lnlab.panels.widgets import live_plot

SHEET = Path(live_plot.__file__).with_suffix(".css")
NEGATIVE = "invert(1) hue-rotate(180deg)"
"""Twice exchanged is as it was, but for the tenth that paper keeps from white."""


@pytest.mark.browser
@pytest.mark.parametrize(
    ("kind", "layer"), [(go.Heatmap, ".heatmaplayer"), (go.Contour, ".contourlayer")]
)
def test_a_map_and_its_scale_stay_bright_where_they_are_high(browser, kind, layer):
    figure = go.Figure(kind(z=np.eye(3)), {"template": TEMPLATE})
    page = browser.new_page()
    page.set_content(
        f"<style>{SHEET.read_text()}</style><body data-jp-theme-light=false>"
        f"<div class=jp-RenderedPlotly>{figure.to_html(full_html=False)}</div>"
    )
    filters = [
        page.locator(part).evaluate("part => getComputedStyle(part).filter")
        for part in (".jp-RenderedPlotly", layer, ".cbfills")
    ]
    page.close()
    assert filters == ["invert(0.9) hue-rotate(180deg)", NEGATIVE, NEGATIVE]
