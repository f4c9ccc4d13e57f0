"""The panel of notebook 06 in a real JupyterLab: what one sees when one touches it."""

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

PANEL = """
from lnlab import panels
panels.recurrence(steps=25)
"""
NONE, LAYER = 0, 1
START = """lnlab run 06 -p panel '{"steps": 25}'"""


@pytest.fixture(scope="module")
def page(browser, address, folder):
    write_notebook(folder / "recurrence.ipynb", [PANEL])
    with opened(browser, address, "recurrence.ipynb") as page:
        errors = []
        page.on("pageerror", lambda error: errors.append(error))
        plotted(page)
        yield page
        assert errors == []


@pytest.fixture(autouse=True)
def from_the_start(page):
    """Every test starts where the panel does: from the defaults, but for 25 steps."""
    page.get_by_role("button", name="Reset", exact=True).click()
    settled(page, "from step 25")
    commanded(page, START)


def path(page, part, slot):
    """A line as it is on the screen."""
    return page.evaluate(
        """([part, slot]) => {
          const plot = document.querySelector('.lnlab-plot');
          const { uid } = plot._fullData.find(({ name }) => name === `${part} ${slot}`);
          return plot.querySelector(`.trace${uid} path.js-line`)?.getAttribute('d') ?? null;
        }""",
        [part, slot],
    )


def test_keys_scale_the_recurrent_weights_and_the_plain_net_explodes(page):
    for _ in range(5):
        slider(page, "W_h times").press("ArrowRight")
    commanded(page, '"recurrent": 6.31')
    assert slider(page, "W_h times").get_attribute("aria-valuetext") == "6.31"
    top = page.evaluate("document.querySelector('.lnlab-plot').layout.yaxis2.range[1]")
    assert top == 4  # the axis stays, so that the curves can be compared
    plain, y = page.evaluate(
        """() => [0, 1].map((slot) => [...document.querySelector('.lnlab-plot')._fullData
                 .find(({ name }) => name === `hidden ${slot}`).y])"""
    )
    assert max(plain) >= 1e14  # 25 steps, each by 6.31 / sqrt 2
    assert 0.6 < min(y) <= max(y) < 0.8


def test_the_lstm_under_layer_norm_does_not_see_its_recurrent_weights(page):
    choose(page, "cell", "LSTM   eq. 20-22")
    commanded(page, "LSTM")
    before, plain = path(page, "gradient", LAYER), path(page, "gradient", NONE)
    said = settled(page, "layer").split("layer")[1]
    slider(page, "W_h times").press("ArrowLeft")
    commanded(page, '"recurrent": 1.58')
    assert settled(page, "layer").split("layer")[1].split(",")[0] == said.split(",")[0]
    assert path(page, "gradient", NONE) != plain
    assert distance(path(page, "gradient", LAYER), before) < 0.5


def distance(one, other):
    """The largest distance between the points of two paths, in pixels."""
    points = [
        [float(n) for n in d.replace("M", " ").replace("L", " ").replace(",", " ").split()]
        for d in (one, other)
    ]
    assert len(points[0]) == len(points[1])
    return max(abs(a - b) for a, b in zip(*points, strict=True))


def test_a_normalizer_that_is_taken_away_leaves_the_picture(page):
    page.get_by_role("button", name="none", exact=True).click()
    commanded(page, '"layer"')
    names = page.locator(".lnlab-plot .annotation-text").all_text_contents()
    assert not any("none" in name for name in names)
    assert any("layer" in name for name in names)
    assert path(page, "gradient", 2) is None


def test_the_gain_belongs_to_a_normalizer(page):
    gain = page.locator(".widget-slider", has=slider(page, "gain g"))
    assert gain.locator("[disabled]").count() == 0
    for name in ("layer", "recurrent batch"):
        page.get_by_role("button", name=name, exact=True).click()
    commanded(page, '["none"]')
    assert gain.locator("[disabled]").count() >= 1


def test_reset_brings_everything_back(page):
    slider(page, "gain g").press("Home")
    commanded(page, '"gain": 0.1')
    page.get_by_role("button", name="Reset", exact=True).click()
    settled(page, "from step 25")
    assert page.locator(".lnlab-command code").text_content() == START


def test_every_control_and_the_plot_have_a_name(page):
    for name in ("W_h times", "W_x times", "gain g", "steps T"):
        assert slider(page, name).count() == 1
    assert page.get_by_label("cell", exact=True).count() == 1
    assert page.get_by_role("group", name="normalizers").count() == 1
    (name,) = page.locator(".lnlab-plot").evaluate_all("all => all.map((p) => p.ariaLabel)")
    assert len(name) > 40


def test_the_cell_run_again_leaves_one_panel(page):
    page.evaluate("document.querySelectorAll('.lnlab-plot').forEach((p) => p.remove())")
    run_all(page)
    plotted(page)
    settled(page, "from step 25")
    assert page.locator(".lnlab-plot").count() == 1
