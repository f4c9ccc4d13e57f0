"""The drawing panel of notebook 11 in a real JupyterLab: glimpses, updates, pictures."""

import pytest

from benchmarks._jupyterlab import choose, opened, plotted, settled, slider, write_notebook

SOURCE = """
import tempfile
from pathlib import Path
from lnlab.papers.draw.panel import drawing as drawing_panel
from lnlab.training.runs import read
from lnlab.papers import draw
from lnlab.training import train_steps

root = Path(tempfile.mkdtemp())
tasks = draw.Experiment.arms("smoke", values=("none", "layer"), epochs=2)
for task in tasks.values():
    for step in train_steps(task, root=root):
        pass
runs = {run.config["norm"]: run for run in read(root)}
valid = tasks["none"].dataset().valid
drawing_panel(runs, 255 * valid.x.reshape(-1, 16, 16).numpy())
"""


@pytest.fixture(scope="module")
def panel(browser, address, folder):
    write_notebook(folder / "drawing.ipynb", [SOURCE])
    with opened(browser, address, "drawing.ipynb") as page:
        errors = []
        page.on("pageerror", lambda error: errors.append(error))
        plotted(page)
        yield page
        assert errors == []


PLOTTED = """() => Object.fromEntries(document.querySelector('.lnlab-plot')._fullData.map(
    ({ name, z, x, y }) => [name, JSON.stringify([z ?? null, x ?? null, y ?? null])]))"""
"""All that is drawn, by name: the ink of pictures, the corners of windows."""


def drawn(page):
    return page.evaluate(PLOTTED)


def test_keys_go_back_through_the_glimpses(panel):
    after_all = drawn(panel)
    slider(panel, "glimpse").press("ArrowLeft")
    settled(panel, "glimpse 1.")
    before = drawn(panel)
    assert before.keys() == after_all.keys()
    assert {name for name in before if before[name] != after_all[name]}
    slider(panel, "glimpse").press("ArrowRight")
    settled(panel, "glimpse 2.")
    assert drawn(panel) == after_all


def test_keys_go_back_through_the_training(panel):
    last, said = drawn(panel), panel.locator(".lnlab-sentence").text_content()
    slider(panel, "update").press("ArrowLeft")
    settled(panel, "After update 2,")
    assert panel.locator(".lnlab-sentence").text_content() != said
    assert drawn(panel) != last
    slider(panel, "update").press("ArrowRight")
    settled(panel, "After update 4,")
    assert drawn(panel) == last


def test_another_picture_is_another_drawing(panel):
    first = drawn(panel)
    for picture, same in (("number 2", False), ("number 1", True)):
        choose(panel, "picture", picture)
        panel.wait_for_function(
            f"([was, same]) => (JSON.stringify(({PLOTTED})()) === was) === same",
            arg=[panel.evaluate("JSON.stringify", first), same],
        )
    assert drawn(panel) == first
