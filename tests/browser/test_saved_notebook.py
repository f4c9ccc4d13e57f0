"""A notebook with a panel, saved and opened again where its kernel is no more."""

from contextlib import contextmanager

from benchmarks._jupyterlab import PATIENCE, opened, plotted, write_notebook

PANEL = """
from lnlab import panels
panels.recurrence(steps=25, recurrent_weight_scale=2.0)
"""
CURVE = """
from lnlab.figures.curves import line_chart
line_chart({"a": {"layer": ([0, 1, 2], [1.0, 2.0, 3.0])}}, x="x", y="y")
"""
PLOTS = ".js-plotly-plot:not(.lnlab-plot)"
DIRTY = "window.jupyterapp.shell.currentWidget.context.model.dirty"


def save(page):
    page.evaluate("window.jupyterapp.commands.execute('docmanager:save')")
    page.wait_for_function(f"() => !{DIRTY}")


@contextmanager
def reopened(browser, address, name):
    """A page on a saved notebook whose kernel is no more."""
    page = browser.new_page(viewport={"width": 1400, "height": 900})
    page.set_default_timeout(PATIENCE)
    try:
        page.goto(address.format(name))
        yield page
    finally:
        page.evaluate("window.jupyterapp?.serviceManager.sessions.shutdownAll()")
        page.close()


def test_what_a_panel_showed_is_there_when_the_notebook_is_opened_again(
    browser, address, folder
):
    write_notebook(folder / "saved.ipynb", [PANEL])
    with opened(browser, address, "saved.ipynb") as page:
        plotted(page)
        page.wait_for_selector(PLOTS, state="attached")
        hidden = page.locator(PLOTS).last
        assert not hidden.is_visible(), "beside the live one it would be there twice"
        save(page)
    with reopened(browser, address, "saved.ipynb") as page:
        page.wait_for_selector(PLOTS)
        assert page.locator(".lnlab-plot").count() == 0
        lost = page.get_by_text("model not found")
        lost.wait_for(state="attached")
        assert not lost.is_visible(), "it would stand over the figure"
        title = page.locator(".gtitle").text_content() or ""
        assert title.startswith("RNN, relu (eq. 4), weights W_h × 2")
        # line by line: the text of all lines together has no space where one ends
        words = " ".join(page.locator(".gtitle-subtitle tspan.line").all_text_contents())
        assert "divided by that at time step 25" in words
        assert "Run this cell for live controls." in words
        page.wait_for_timeout(3000)  # a kernel writes its version, a figure its picture
        assert not page.evaluate(DIRTY), "it was only opened"
        page.evaluate(
            "window.jupyterapp.shell.currentWidget.content.widgets[0].model.sharedModel"
            ".setSource('1 + 1')"
        )
        page.wait_for_function(DIRTY)


def test_a_figure_that_was_saved_is_dark_where_the_theme_is(browser, address, folder):
    file = write_notebook(folder / "figure.ipynb", [CURVE])
    with opened(browser, address, file.name) as page:
        # beside the figure JupyterLab puts a picture of it, which is what it shows at first
        page.wait_for_function(
            """() => window.jupyterapp.shell.currentWidget.content.model.cells
                  .get(0).outputs?.get(0)?.data["image/png"]""",
            timeout=PATIENCE,
        )
        save(page)
    with reopened(browser, address, file.name) as page:
        page.wait_for_selector(".plot-img")
        assert page.locator(PLOTS).count() == 0, "in the light the picture will do"
        page.evaluate("document.body.dataset.jpThemeLight = 'false'")
        page.wait_for_selector(PLOTS)
        look = "getComputedStyle(document.querySelector('.jp-RenderedPlotly')).filter"
        page.wait_for_function(f"{look}.includes('invert')")
        assert not page.locator(".plot-img").is_visible()
