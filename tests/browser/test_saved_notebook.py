"""A notebook with a panel, saved and opened again where its kernel is no more."""

from benchmarks._jupyterlab import PATIENCE, opened, plotted, write_notebook

PANEL = """
from lnlab import panels
panels.recurrence(steps=25, recurrent=2.0)
"""
PLOTS = ".js-plotly-plot:not(.lnlab-plot)"


def test_what_a_panel_showed_is_there_when_the_notebook_is_opened_again(
    browser, address, folder
):
    write_notebook(folder / "saved.ipynb", [PANEL])
    with opened(browser, address, "saved.ipynb") as page:
        plotted(page)
        page.wait_for_selector(PLOTS, state="attached")
        hidden = page.locator(PLOTS).last
        assert not hidden.is_visible(), "beside the live one it would be there twice"
        page.evaluate("window.jupyterapp.commands.execute('docmanager:save')")
        page.wait_for_function(
            "() => !window.jupyterapp.shell.currentWidget.context.model.dirty"
        )
    page = browser.new_page(viewport={"width": 1400, "height": 900})
    try:
        page.goto(address.format("saved.ipynb"))
        page.wait_for_selector(PLOTS, timeout=PATIENCE)
        assert page.locator(".lnlab-plot").count() == 0
        lost = page.get_by_text("model not found")
        lost.wait_for(state="attached")
        assert not lost.is_visible(), "it would stand over the figure"
        title = page.locator(".gtitle").text_content() or ""
        assert title.startswith("RNN, relu (eq. 4), W_h × 2")
        words = page.locator(".gtitle-subtitle").text_content() or ""
        assert "from step 25" in words
    finally:
        page.evaluate("window.jupyterapp?.serviceManager.sessions.shutdownAll()")
        page.close()
