"""The panel of notebook 16 in a real JupyterLab: lines that move, and a plane that follows."""

import pytest

from benchmarks._jupyterlab import (
    choose,
    commanded,
    opened,
    plotted,
    settled,
    slider,
    write_notebook,
)

PANEL = """
from lnlab import panels
from lnlab.papers.mnist import train_landscape_networks
panels.landscape(*train_landscape_networks())
"""
LINES, PLANE = 0, 1
START = """lnlab run 16 -p panel '{"normalizer": "batch"}'"""


@pytest.fixture(scope="module")
def page(browser, address, folder):
    write_notebook(folder / "landscape.ipynb", [PANEL])
    with opened(browser, address, "landscape.ipynb") as page:
        errors = []
        page.on("pageerror", lambda error: errors.append(error))
        plotted(page, 2)
        page.wait_for_selector(".lnlab-plot[data-frames] >> nth=1")
        yield page
        assert errors == []


@pytest.fixture(autouse=True)
def from_the_start(page):
    page.get_by_role("button", name="Reset", exact=True).click()
    page.wait_for_function(
        "start => document.querySelector('.lnlab-command code').textContent === start",
        arg=START,
    )
    settled(page, "The loss at w is 0.039")


def greatest(page, plot, trace, axis):
    """Of the numbers that the page itself draws from."""
    return page.evaluate(
        """([plot, trace, axis]) => {
          const { _fullData } = document.querySelectorAll('.lnlab-plot')[plot];
          const found = _fullData.find(({ name }) => name === trace)[axis];
          return Math.max(...[...found].flatMap((row) => (row.length ? [...row] : [row])));
        }""",
        [plot, trace, axis],
    )


def stamped(page, plot, words):
    page.wait_for_function(
        """([plot, words]) => document.querySelectorAll('.lnlab-plot')[plot]
             .layout.annotations[0].text.includes(words)""",
        arg=[plot, words],
    )


def test_frozen_statistics_are_stamped_and_steeper(page):
    line, sheet = greatest(page, LINES, "line 0", "y"), greatest(page, PLANE, "losses", "z")
    choose(page, "statistics", "frozen: of the population before the change")
    commanded(page, "frozen")
    for plot in (LINES, PLANE):
        stamped(page, plot, "frozen: of the population")
    assert greatest(page, LINES, "line 0", "y") > 2 * line
    assert greatest(page, PLANE, "losses", "z") > sheet + 0.3  # powers of 10


def test_a_longer_w_moves_the_frozen_landscape_alone(page):
    before = greatest(page, LINES, "line 0", "y")
    for _ in range(3):
        slider(page, "W times").press("ArrowRight")
    commanded(page, '"size": 2')
    assert greatest(page, LINES, "line 0", "y") == pytest.approx(before, rel=1e-3)  # eps
    choose(page, "statistics", "frozen: of the population before the change")
    settled(page, "the training ended at 0.04")
    stamped(page, LINES, "frozen")
    assert greatest(page, LINES, "w", "y") > 0.2


CAMERA = """() => {
  const { scene } = document.querySelectorAll(".lnlab-plot")[1]._fullLayout;
  const { eye } = scene._scene.getCamera();
  return [eye.x, eye.y, eye.z].map((place) => place.toFixed(3));
}"""


def test_over_the_surface_the_notebook_scrolls_and_reset_turns_it_back(page):
    before = page.evaluate(CAMERA)
    assert before == ["1.500", "-1.600", "1.000"]
    canvas = page.locator(".gl-container canvas").first
    canvas.scroll_into_view_if_needed()
    box = canvas.bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(x, y)
    page.mouse.wheel(0, -120)
    page.wait_for_function(
        "top => document.querySelector('.lnlab-plot canvas').getBoundingClientRect().top > top",
        arg=box["y"] + 40,
    )
    assert page.evaluate(CAMERA) == before
    y = canvas.bounding_box()["y"] + 60
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x + 60, y + 20, steps=5)
    page.mouse.up()
    assert page.evaluate(CAMERA) != before
    page.get_by_role("button", name="Reset", exact=True).click()
    page.wait_for_function(f"before => String(({CAMERA})()) === String(before)", arg=before)
