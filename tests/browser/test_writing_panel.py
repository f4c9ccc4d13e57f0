"""The writing panel of notebook 12 in a real JupyterLab: texts, bias, the pen on its way."""

import pytest

from benchmarks._jupyterlab import opened, plotted, settled, slider, write_notebook

SOURCE = """
from lnlab.papers.handwriting.panel import writing as writing_panel
from lnlab.papers.handwriting.panel import shipped

writing_panel(shipped(), text="fox")
"""


@pytest.fixture(scope="module")
def panel(browser, address, folder):
    write_notebook(folder / "writing.ipynb", [SOURCE])
    with opened(browser, address, "writing.ipynb") as page:
        errors = []
        page.on("pageerror", lambda error: errors.append(error))
        plotted(page)
        yield page
        assert errors == []


def ink(page):
    """The places of the pen so far, of the first net."""
    return page.evaluate(
        """() => [...document.querySelector('.lnlab-plot')._fullData
             .find(({ name }) => name === 'ink 0').x]"""
    )


def inked(page, compared, whole):
    """Waits until the pen of the first net has made fewer steps than ``whole``, or as many."""
    page.wait_for_function(
        f"""(whole) => document.querySelector('.lnlab-plot')._fullData
             .find(({{ name }}) => name === 'ink 0').x.length {compared} whole""",
        arg=whole,
    )


def test_keys_go_from_bias_to_bias(panel):
    before = ink(panel)
    slider(panel, "bias").press("ArrowRight")
    settled(panel, "bias 2")
    assert ink(panel) != before
    slider(panel, "bias").press("ArrowLeft")
    settled(panel, "bias 1")
    assert ink(panel) == before


def test_what_is_typed_is_written(panel):
    box = panel.get_by_label("text", exact=True)
    box.fill("ox")
    box.press("Enter")
    settled(panel, "“ox”")
    box.fill("Ox")
    box.press("Enter")
    panel.get_by_text("'O', which this net never learned").wait_for()
    box.fill("fox")
    box.press("Enter")
    settled(panel, "“fox”")


def test_the_windows_stay_where_they_are_while_the_pen_moves(panel):
    def windows():
        maps = panel.locator(".lnlab-plot .heatmaplayer image")
        return maps.evaluate_all("maps => maps.map((map) => map.href.baseVal)")

    before, whole = windows(), len(ink(panel))
    slider(panel, "pen, %").press("Home")
    inked(panel, "<", whole)
    assert len(before) == 2
    assert windows() == before
    slider(panel, "pen, %").press("End")
    inked(panel, "===", whole)


def test_the_triangle_moves_the_pen(panel):
    whole = len(ink(panel))
    panel.locator(".jupyter-widgets-play, .widget-play").locator("button").first.click()
    inked(panel, "<", whole)
    inked(panel, "===", whole)
