"""The attention scrubber of notebook 13 in a real JupyterLab: epochs and examples."""

import re

import pytest

from benchmarks._jupyterlab import choose, opened, plotted, settled, slider, write_notebook

SOURCE = """
import tempfile
from pathlib import Path
from lnlab.papers.las.panel import attention as attention_panel
from lnlab.training.runs import read
from lnlab.papers import las
from lnlab.training import train_steps

root = Path(tempfile.mkdtemp())
tasks = las.Experiment.arms("smoke", epochs=2)
for norm in ("none", "both"):
    for step in train_steps(tasks[norm], root=root):
        pass
found = {run.config["norm"]: run for run in read(root)}
runs = {norm: found[norm] for norm in ("none", "both")}
attention_panel(runs, tasks["none"].dataset().test)
"""


@pytest.fixture(scope="module")
def panel(browser, address, folder):
    write_notebook(folder / "attention.ipynb", [SOURCE])
    with opened(browser, address, "attention.ipynb") as page:
        errors = []
        page.on("pageerror", lambda error: errors.append(error))
        plotted(page)
        yield page
        assert errors == []


def drawn(page, name):
    """The rows of a heat-map on the page."""
    return page.evaluate(
        """(wanted) => [...document.querySelector('.lnlab-plot')._fullData
             .find(({ name }) => name === wanted).z].map((row) => [...row])""",
        name,
    )


def test_keys_go_back_through_the_training(panel):
    last = drawn(panel, "attention 0")
    slider(panel, "epoch").press("ArrowLeft")
    settled(panel, "Epoch 1.")
    assert drawn(panel, "attention 0") != last
    slider(panel, "epoch").press("ArrowRight")
    settled(panel, "Epoch 2.")
    assert drawn(panel, "attention 0") == last


def test_another_example_is_another_sound(panel):
    before = panel.locator(".lnlab-sentence").text_content()
    sound = drawn(panel, "sound")
    options = panel.get_by_label("example", exact=True).locator("option").all_text_contents()
    choose(panel, "example", options[1])
    panel.wait_for_function(
        "was => document.querySelector('.lnlab-sentence').textContent !== was", arg=before
    )
    panel.wait_for_timeout(300)
    assert drawn(panel, "sound") != sound
    titles = panel.locator(".lnlab-plot .annotation-text").all_text_contents()
    assert [re.match("[a-z]+", title)[0] for title in titles[1:]] == ["none", "both"]
