"""What the style sheet does to figures and texts in JupyterLab."""

import base64
from pathlib import Path

import numpy as np
import plotly.graph_objects as go
import pytest

from lnlab.figures.style import TEMPLATE
from lnlab.panels import live_plot

pytestmark = pytest.mark.browser
SHEET = Path(live_plot.__file__).with_suffix(".css").read_text()
PIXEL = """async ([png, x, y]) => {
  const picture = await createImageBitmap(await (await fetch(png)).blob());
  const context = new OffscreenCanvas(picture.width, picture.height).getContext("2d");
  context.drawImage(picture, 0, 0);
  return [...context.getImageData(x, y, 1, 1).data].slice(0, 3);
}"""
LINES = """words => { const text = document.querySelector("pre").firstChild;
  return words.map((word) => {
    const range = document.createRange(), at = text.data.indexOf(word);
    range.setStart(text, at), range.setEnd(text, at + word.length);
    return range.getClientRects().length; }); }"""


@pytest.fixture
def dark(browser):
    """Return a function that opens a figure in a dark JupyterLab."""
    page = browser.new_page(viewport={"width": 700, "height": 500})

    def show(traces):
        figure = go.Figure(traces, {"template": TEMPLATE})
        page.set_content(
            f"<style>{SHEET}</style><body data-jp-theme-light=false>"
            f"<div class=jp-RenderedPlotly>{figure.to_html(full_html=False)}</div>"
        )
        page.wait_for_selector(".main-svg", state="attached")
        return page

    yield show
    page.close()


def filter_of(page, part):
    return page.locator(part).first.evaluate("part => getComputedStyle(part).filter")


def pixel(page, part):
    """Return the colour in the middle of a part, as it is on the screen."""
    box = page.locator(part).first.bounding_box()
    png = "data:image/png;base64," + base64.b64encode(page.screenshot()).decode()
    middle = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    return np.array(page.evaluate(PIXEL, [png, *map(int, middle)]))


@pytest.mark.parametrize("colour", [(253, 231, 55), (103, 0, 31)])
def test_the_colours_of_a_map_are_the_same_in_the_dark(dark, colour):
    scale = [[each, f"rgb{colour}"] for each in (0, 1)]
    page = dark(go.Heatmap(z=np.ones((3, 3)), colorscale=scale))
    # but for the tenth that paper keeps from white, and ink from black
    np.testing.assert_allclose(pixel(page, ".hm"), 0.8 * np.array(colour) + 25.5, atol=4)
    assert filter_of(page, ".cbfills") == "invert(1)"


def test_a_line_on_a_map_keeps_its_hue_in_the_dark(dark):
    line = go.Scatter(x=[0, 2], y=[1, 1], mode="lines")
    line.line = {"color": "rgb(213, 94, 0)", "width": 20}
    red, green, blue = pixel(dark([go.Heatmap(z=np.eye(3)), line]), ".scatterlayer .js-line")
    assert red > green + 50 > blue + 80


def test_a_surface_stays_light_for_its_words_are_in_its_picture(dark):
    page = dark(go.Surface(z=np.eye(3)))
    page.wait_for_selector(".gl-container canvas")
    assert filter_of(page, ".jp-RenderedPlotly") == "none"


def test_words_are_not_broken_if_they_fit(browser):
    page = browser.new_page()
    jupyterlab = ".jp-OutputArea-output pre {word-break: break-all; white-space: pre-wrap}"
    page.set_content(
        f"<style>{jupyterlab} {SHEET} pre {{width: 8ch}}</style>"
        "<div class='jp-RenderedText jp-OutputArea-output'>"
        "<pre>five sixsix andtwentyletterslong</pre></div>"
    )
    assert page.evaluate(LINES, ["five", "sixsix", "andtwentyletterslong"]) == [1, 1, 3]
    page.close()
