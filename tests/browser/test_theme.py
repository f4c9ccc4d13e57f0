"""Figures that no panel drew follow the theme of JupyterLab."""

from benchmarks._jupyterlab import opened, write_notebook

CURVE = """
import numpy as np
from lnlab.figures.curves import curves
curves({"a": {"layer": ([0, 1, 2], [1.0, 2.0, 3.0])}}, x="x", y="y")
"""
OWN = """
import plotly.graph_objects as go
go.Figure(go.Scatter(y=[1, 2]), layout={"template": "plotly_dark"})
"""
LOOK = "plot => getComputedStyle(plot).filter"


def test_a_figure_without_a_panel_is_dark_where_the_theme_is(browser, address, folder):
    write_notebook(folder / "theme.ipynb", [CURVE, OWN])
    with opened(browser, address, "theme.ipynb") as page:
        plots = page.locator(".jp-RenderedPlotly:has(.main-svg)")
        plots.nth(1).wait_for()
        assert [plot.evaluate(LOOK) for plot in plots.all()] == ["none", "none"]
        page.evaluate("document.body.dataset.jpThemeLight = 'false'")
        page.wait_for_function(
            "getComputedStyle(document.querySelector('.jp-RenderedPlotly')).filter != 'none'"
        )
        ours, dark = (plot.evaluate(LOOK) for plot in plots.all())
        assert "invert" in ours
        assert dark == "none", "one that is dark by itself would be made light"
