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
panels.landscape()
"""
LINES, PLANE = 0, 1
START = "lnlab run 16"


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


def test_statistics_belong_to_batch_norm(page):
    statistics = page.get_by_label("statistics", exact=True)
    assert statistics.is_enabled()
    choose(page, "normalizer", "layer")
    commanded(page, "layer")
    assert statistics.is_disabled()


def test_every_control_and_both_plots_have_a_name(page):
    for name in ("W times", "extent", "seed"):
        assert slider(page, name).count() == 1
    for name in ("normalizer", "statistics", "directions"):
        assert page.get_by_label(name, exact=True).count() == 1
    names = page.locator(".lnlab-plot").evaluate_all("all => all.map((p) => p.ariaLabel)")
    assert len(names) == 2
    assert all(len(name) > 40 for name in names)
