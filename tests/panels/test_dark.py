"""In JupyterLab's dark theme light and dark are exchanged, but not within a map of colours."""

import base64
from pathlib import Path

import numpy as np
import plotly.graph_objects as go
import pytest

from lnlab.figures.style import TEMPLATE
from lnlab.panels import live_plot

SHEET = Path(live_plot.__file__).with_suffix(".css")
YELLOW, RED, ORANGE = (253, 231, 55), (103, 0, 31), (213, 94, 0)
PIXEL = """async ([png, x, y]) => {
  const picture = await createImageBitmap(await (await fetch(png)).blob());
  const context = new OffscreenCanvas(picture.width, picture.height).getContext("2d");
  context.drawImage(picture, 0, 0);
  return [...context.getImageData(x, y, 1, 1).data].slice(0, 3);
}"""


def opened(browser, figure):
    page = browser.new_page(viewport={"width": 700, "height": 500})
    page.set_content(
        f"<style>{SHEET.read_text()}</style><body data-jp-theme-light=false>"
        f"<div class=jp-RenderedPlotly>{figure.to_html(full_html=False)}</div>"
    )
    page.wait_for_selector(".main-svg", state="attached")
    return page


def pixel(page, part):
    """The colour in the middle of a part, as it is on the screen."""
    box = page.locator(part).first.bounding_box()
    png = "data:image/png;base64," + base64.b64encode(page.screenshot()).decode()
    middle = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    return np.array(page.evaluate(PIXEL, [png, *map(int, middle)]))


@pytest.mark.browser
@pytest.mark.parametrize(
    ("kind", "layer"), [(go.Heatmap, ".heatmaplayer"), (go.Contour, ".contourlayer")]
)
def test_a_map_and_its_scale_stay_bright_where_they_are_high(browser, kind, layer):
    page = opened(browser, go.Figure(kind(z=np.eye(3)), {"template": TEMPLATE}))
    filters = [
        page.locator(part).evaluate("part => getComputedStyle(part).filter")
        for part in (".jp-RenderedPlotly", layer, ".cbfills")
    ]
    page.close()
    assert filters == ["invert(0.9)", "invert(1)", "invert(1)"]


@pytest.mark.browser
def test_a_surface_stays_light_for_its_words_are_in_its_picture(browser):
    page = opened(browser, go.Figure(go.Surface(z=np.eye(3)), {"template": TEMPLATE}))
    page.wait_for_selector(".gl-container canvas")
    found = page.locator(".jp-RenderedPlotly").evaluate("e => getComputedStyle(e).filter")
    page.close()
    assert found == "none"


@pytest.mark.browser
@pytest.mark.parametrize("colour", [YELLOW, RED])
def test_strong_colours_of_a_map_are_the_same_in_the_dark(browser, colour):
    scale = [[each, f"rgb{colour}"] for each in (0, 1)]
    figure = go.Figure(go.Heatmap(z=np.ones((3, 3)), colorscale=scale), {"template": TEMPLATE})
    page = opened(browser, figure)
    seen = pixel(page, ".hm")
    page.close()
    # but for the tenth that paper keeps from white, and ink from black
    np.testing.assert_allclose(seen, 0.8 * np.array(colour) + 25.5, atol=4)


@pytest.mark.browser
def test_a_line_on_a_map_keeps_its_hue_in_the_dark(browser):
    line = go.Scatter(
        x=[0, 2], y=[1, 1], mode="lines", line={"color": f"rgb{ORANGE}", "width": 20}
    )
    page = opened(browser, go.Figure([go.Heatmap(z=np.eye(3)), line], {"template": TEMPLATE}))
    red, green, blue = pixel(page, ".scatterlayer path.js-line")
    page.close()
    assert red > green + 50 > blue + 80
