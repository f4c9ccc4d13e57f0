"""A picture that is drawn while its cell is far from the window is whole on arrival."""

from benchmarks._jupyterlab import PATIENCE, opened, write_notebook

LONG = "\n" * 60 + "pass"
PANEL = """
from lnlab import panels
panels.recurrence(steps=25, recurrent_weight_scale=2.0)
"""
FIGURE = """
import plotly.graph_objects as go
go.Figure(go.Scatter(y=[1, 2]), {"title": {"text": "a line"}})
"""
SKIPPED = """() => [...document.querySelectorAll('.jp-Notebook .jp-Cell')].map(
    cell => getComputedStyle(cell).contentVisibility === 'auto')"""
MISSING = """() => [...document.querySelectorAll('.js-plotly-plot')]
    .filter(plot => plot.offsetParent)
    .flatMap(plot => [...plot.querySelectorAll('text')])
    .filter(text => text.textContent && !text.getBoundingClientRect().width)
    .map(text => text.textContent)"""


def test_no_text_is_missing_of_what_was_drawn_out_of_sight(folder, address, browser):
    # JupyterLab scrolls to the last cell as it runs all of them.
    write_notebook(folder / "far.ipynb", [*[LONG] * 3, PANEL, FIGURE, *[LONG] * 6])
    with opened(browser, address, "far.ipynb") as page:
        # Not until it is visible: to ask would lay out what the browser skips.
        page.wait_for_selector(".lnlab-plot[data-frames]", state="attached")
        page.wait_for_selector(".jp-RenderedPlotly .main-svg >> nth=-1", state="attached")
        assert any(page.evaluate(SKIPPED)), "this JupyterLab skips no cells"
        # Chromium may apply the rule for cells with a figure a frame after the figure is there.
        page.wait_for_function(f"!({SKIPPED})().slice(3, 5).includes(true)", timeout=PATIENCE)
        for plot in (".lnlab-plot", ".jp-RenderedPlotly"):
            page.locator(plot).last.scroll_into_view_if_needed()
            page.wait_for_timeout(500)
        assert page.evaluate(MISSING) == []
