"""The panel of notebook 19 in a real JupyterLab: what one sees on touching it."""

import pytest

from benchmarks._jupyterlab import choose, commanded, settled, slider
from tests.browser.test_geometry_panels import page_of, values

SOURCE = """
from lnlab.papers.transformer.panel import transformer as transformer_panel
transformer_panel(depth=1)
"""


@pytest.fixture(scope="module")
def page(browser, address, folder):
    yield from page_of(browser, address, folder, "transformer.ipynb", SOURCE)


def test_keys_stack_layers_and_lists_change_the_kind(page):
    assert len(values(page, "mean 0")) == 1
    slider(page, "layers L").press("ArrowRight")
    commanded(page, '"depth": 2')
    settled(page, "Gradient of W₂ in the top layer")
    assert len(values(page, "mean 0")) == 2
    before = values(page, "mean 0")
    choose(page, "kind", "dyt")
    commanded(page, '"kind": "dyt"')
    settled(page, "multiple of it")
    assert values(page, "mean 0") != before
    page.get_by_role("button", name="Reset", exact=True).click()
    settled(page, "multiple of it")


def test_every_control_and_plot_has_a_name(page):
    assert slider(page, "layers L").count() == 1
    labels = page.locator(".lnlab-plot").evaluate_all("all => all.map((p) => p.ariaLabel)")
    assert len(labels) == 2
    assert all(len(label) > 40 for label in labels)
