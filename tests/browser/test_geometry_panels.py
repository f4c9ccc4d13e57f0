"""The panels of notebooks 03 and 15 in a real JupyterLab: what one sees on touching them."""

import pytest

from benchmarks._jupyterlab import (
    choose,
    commanded,
    opened,
    plotted,
    run_all,
    settled,
    slider,
    write_notebook,
)

GEOMETRY = """
from lnlab import panels
panels.geometry(units=4)
"""
DISTRIBUTIONS = """
import torch
from torch import nn
from lnlab import panels
from lnlab.analysis.recorder import record

net, x = nn.Sequential(*(nn.Linear(5, 5) for _ in range(3))), torch.randn(20, 5)
with record(net, what=["activations", "gradients"]) as seen:
    for _ in range(4):
        net(x).square().sum().backward()
        with torch.no_grad():
            net[0].weight.mul_(2)
panels.distributions({"net": {"none": seen.to_frame(), "layer": seen.to_frame()}})
"""


def page_of(browser, address, folder, name, source):
    write_notebook(folder / name, [source])
    with opened(browser, address, name) as page:
        errors = []
        page.on("pageerror", lambda error: errors.append(error))
        plotted(page)
        yield page
        assert errors == []


@pytest.fixture(scope="module")
def geometry(browser, address, folder):
    yield from page_of(browser, address, folder, "geometry.ipynb", GEOMETRY)


@pytest.fixture(scope="module")
def distributions(browser, address, folder):
    yield from page_of(browser, address, folder, "distributions.ipynb", DISTRIBUTIONS)


def values(page, name):
    """What a trace is drawn from, on the page."""
    return page.evaluate(
        """(wanted) => [...document.querySelector('.lnlab-plot')._fullData
             .find(({ name }) => name === wanted).y]""",
        name,
    )


def test_keys_make_the_weights_longer_and_steps_of_layer_norm_cheaper(geometry):
    (before,), (plain,) = values(geometry, "turn 1 here"), values(geometry, "turn 0 here")
    for _ in range(3):
        slider(geometry, "W times").press("ArrowRight")
    commanded(geometry, '"length": 2')
    settled(geometry, "layer 0.25 and 1")
    assert values(geometry, "turn 1 here")[0] == pytest.approx(before / 4, rel=0.01)
    assert values(geometry, "turn 0 here")[0] == pytest.approx(plain, rel=1e-6)
    geometry.get_by_role("button", name="Reset", exact=True).click()
    settled(geometry, "layer 1 and 1")


def test_other_outputs_are_a_choice(geometry):
    choose(geometry, "outputs", "Bernoulli")
    commanded(geometry, "Bernoulli")
    geometry.get_by_role("button", name="Reset", exact=True).click()
    settled(geometry, "layer 1 and 1")


def test_every_control_has_a_name(geometry):
    for name in ("W times", "x times", "units H"):
        assert slider(geometry, name).count() == 1
    (label,) = geometry.locator(".lnlab-plot").evaluate_all(
        "all => all.map((p) => p.ariaLabel)"
    )
    assert len(label) > 40


def test_keys_move_through_the_steps(distributions):
    before = values(distributions, "wide 0")
    slider(distributions, "step").press("ArrowRight")
    settled(distributions, "step 2")
    assert max(values(distributions, "wide 0")) != max(before)
    choose(distributions, "shown", "gradient of the loss by it")
    settled(distributions, "gradient of the loss by it, step 2")
    distributions.get_by_role("button", name="none", exact=True).click()
    commanded(distributions, '"layer"')
    titles = distributions.locator(".lnlab-plot .annotation-text").all_text_contents()
    assert titles == ["layer"]


def test_the_cell_run_again_leaves_one_panel(distributions):
    run_all(distributions)
    plotted(distributions)
    settled(distributions, "step 1")
    assert distributions.locator(".lnlab-plot").count() == 1
