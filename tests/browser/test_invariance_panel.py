"""The panel of notebook 02 in a real JupyterLab: what one sees when one touches it."""

import pytest

from benchmarks._jupyterlab import (
    commanded,
    opened,
    plotted,
    rested,
    settled,
    slider,
    write_notebook,
)

PANEL = """
from lnlab import panels
panel = panels.invariance(eps=0.0)
panel
"""
BREAK = """
import time
draw = panel._draw
def breaks(settings):
    if settings.batch_size == 1:
        raise RuntimeError("this <b>breaks</b>")
    if settings.batch_size == 16:
        time.sleep(1.5)
    return draw(settings)
panel._draw = breaks
"""
# Each patch is for nobody until the page can draw: what counts is that it can meanwhile.
BUSY = """
import time, numpy as np
from lnlab.panels.live_plot import LivePlot
line = lambda y: {"data": [{"name": "y", "y": np.full(2, y)}], "layout": {}}
plot = LivePlot(line(0.0), "busy")
display(plot)
for step in range(150):
    plot.update_figure(line(float(step)))
    time.sleep(0.1)
print("done")
"""
ALONE = "panels.invariance(only_delta=True, eps=0.0, transformation=4)"
LAYER, WEIGHT = 3, 2
START = """lnlab run 02 -p panel '{"eps": 0.0}'"""


@pytest.fixture(scope="module")
def page(browser, address, folder):
    write_notebook(folder / "panel.ipynb", [PANEL, BREAK])
    with opened(browser, address, "panel.ipynb") as page:
        page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        errors = []
        page.on("pageerror", lambda error: errors.append(error))
        plotted(page, 2)
        yield page
        assert errors == []


@pytest.fixture(autouse=True)
def from_the_start(page):
    """Every test starts where the panel does: from the defaults, but for eps = 0."""
    page.get_by_role("button", name="Reset", exact=True).click()
    settled(page, "W → δW with δ = 2.51: batch")
    commanded(page, START)


def lines(page, slot):
    """The path of an outline after the change, as it is on the screen, and its strings."""
    return page.evaluate(
        """slot => {
          const plot = document.querySelector('.lnlab-plot');
          const paths = (kind) => {
            const { uid } = plot._fullData.find(({ name }) => name === `${kind} ${slot}`);
            const drawn = plot.querySelectorAll(`.trace${uid} path.js-line`);
            return [...drawn].map((path) => path.getAttribute('d'));
          };
          return [paths('after'), paths('strings')];
        }""",
        slot,
    )


def test_a_panel_that_takes_long_says_so(page):
    busy = page.locator(".lnlab-panel[aria-busy=true]")
    slider(page, "batch size").press("ArrowLeft")
    busy.wait_for(timeout=1_400)
    commanded(page, '"batch_size": 16')
    busy.wait_for(state="detached", timeout=1_000)


def test_an_error_is_shown_as_text_and_goes_away(page):
    alert = page.locator(".lnlab-error")
    slider(page, "batch size").press("Home")
    page.wait_for_function("!document.querySelector('.lnlab-error').hidden")
    assert alert.text_content() == "RuntimeError: this <b>breaks</b>"
    slider(page, "batch size").press("End")
    page.wait_for_function("document.querySelector('.lnlab-error').hidden")


def test_a_reloaded_page_shows_the_state_of_the_kernel(page):
    slider(page, "δ or shift").press("End")
    settled(page, "δ = 10000")
    before = lines(page, 0)
    page.evaluate("window.jupyterapp.commands.execute('docmanager:save')")
    page.wait_for_timeout(1000)
    page.reload()
    plotted(page, 2)
    settled(page, "δ = 10000")
    assert lines(page, 0) == before
    slider(page, "δ or shift").press("ArrowLeft")
    settled(page, "δ = 7940")


@pytest.fixture(scope="module")
def others(browser, address, folder):
    """A second notebook, for what needs none of that panel; its cells run in this order."""
    cells = ["from lnlab import panels", BUSY, ALONE]
    write_notebook(folder / "others.ipynb", cells)
    with opened(browser, address, "others.ipynb") as page:
        yield page


def test_a_plot_is_drawn_while_its_cell_is_running(others):
    others.wait_for_function(
        "Number(document.querySelector('.lnlab-plot')?.dataset.frames) > 5", timeout=60_000
    )
    printed = others.locator(".jp-OutputArea-output").get_by_text("done", exact=True)
    assert printed.count() == 0
    printed.wait_for()
    others.wait_for_timeout(500)
    assert others.evaluate("document.querySelector('.lnlab-plot').data[0].y[0]") == 149


def test_alone_it_plays_and_says_what_it_sees(others):
    plotted(others, 2)  # behind that of the cell before it
    plots = others.locator(".lnlab-panel .lnlab-plot:visible")
    assert plots.count() == 1
    others.locator(".widget-play button").first.click()
    settled(others, "X → δX with δ = 0.1")
    others.locator(".widget-play button").first.click()
    rested(others)
    assert plots.locator(".textpoint").all_text_contents().count("unchanged") >= 2
    others.get_by_role("button", name="More").click()
    others.locator(".lnlab-panel .widget-dropdown:visible").first.wait_for()
    others.wait_for_timeout(1000)
    assert others.locator(".lnlab-panel[aria-busy=true]").count() == 0, "nothing is computed"


TOPS = """() => {
  const plot = document.querySelector(".lnlab-panel .lnlab-plot");
  return ["x", "x2", "x3"].map((axis) => plot._fullLayout[axis.replace("x", "yaxis")]._offset);
}"""


def test_in_a_narrow_cell_the_distributions_stand_in_two_rows(others):
    """Also while the slider moves, and in one row again where there is room."""
    one_row, two_rows = "new Set({}()).size === 1", "new Set({}()).size === 2"
    others.wait_for_function(one_row.format(f"({TOPS})"))
    others.set_viewport_size({"width": 560, "height": 900})
    others.wait_for_function(two_rows.format(f"({TOPS})"))
    slider(others, "δ").press("End")
    settled(others, "X → δX with δ = 10000")
    assert len({*others.evaluate(TOPS)}) == 2
    others.set_viewport_size({"width": 1400, "height": 900})
    others.wait_for_function(one_row.format(f"({TOPS})"))
