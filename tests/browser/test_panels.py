"""Panels in a real JupyterLab, each run once: keys, lists, buttons and texts move them."""

from contextlib import contextmanager

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
from lnlab.papers import skip_thoughts
from lnlab.papers.skip_thoughts.evaluate import load_snapshots
from lnlab.papers.skip_thoughts.panel import SentenceMap
from lnlab.papers.skip_thoughts.panel import thoughts as thoughts_panel
from lnlab.training import train

GEOMETRY = "from lnlab import panels\npanels.geometry(units=4)"
RECURRENCE = "from lnlab import panels\npanels.recurrence(steps=25)"
TRANSFORMER = "from lnlab.papers.transformer.panel import transformer\ntransformer(depth=1)"
WRITING = """
from lnlab.papers.handwriting.panel import included_writers, writing
writing(included_writers(), text="fox")
"""
DISTRIBUTIONS = """
import torch
from torch import nn
from lnlab import panels
from lnlab.analysis.recorder import record

net, x = nn.Sequential(*(nn.Linear(5, 5) for _ in range(3))), torch.randn(20, 5)
with record(net, what=["activations", "gradients"]) as recorder:
    for _ in range(4):
        net(x).square().sum().backward()
        with torch.no_grad():
            net[0].weight.mul_(2)
frame = recorder.to_frame()
panels.distributions({"net": {"none": frame, "layer": frame}})
"""
TRAINED = """
import tempfile
from pathlib import Path
from lnlab.papers import draw, las, skip_thoughts
from lnlab.training import train

root = Path(tempfile.mkdtemp())
"""
ATTENTION = (
    TRAINED
    + """
from lnlab.papers.las.panel import attention
tasks = las.Experiment.arms("smoke", epochs=2)
runs = {norm: train(tasks[norm], norm, root=root) for norm in ("none", "both")}
attention(runs, tasks["none"].dataset().test)
"""
)
DRAWING = (
    TRAINED
    + """
from lnlab.papers.draw.panel import drawing
tasks = draw.Experiment.arms("smoke", values=("none", "layer"), epochs=2)
runs = {norm: train(task, norm, root=root) for norm, task in tasks.items()}
drawing(runs, 255 * tasks["none"].dataset().valid.x.reshape(-1, 16, 16).numpy())
"""
)
THOUGHTS = (
    TRAINED
    + """
from lnlab.papers.skip_thoughts.evaluate import load_snapshots
from lnlab.papers.skip_thoughts.panel import thoughts
tasks = skip_thoughts.Experiment.arms("smoke", downstream_tasks="none")
numbered = tasks["none"].dataset()
runs = {name: train(task, root=root) for name, task in tasks.items()}
thoughts(
    {name: load_snapshots(task, runs[name], numbered) for name, task in tasks.items()}, numbered
)
"""
)
PLOTTED = """() => Object.fromEntries(document.querySelector('.lnlab-plot')._fullData.map(
    ({ name, z, x, y, text }) => [name, JSON.stringify([z, x, y, text])]))"""
"""All that is drawn, by the name of its trace."""


@pytest.fixture
def open_panel(browser, address, folder, request):
    """Return a context that runs a cell with a panel, without any error of its scripts."""

    @contextmanager
    def open_one(source):
        name = f"{request.node.name}.ipynb"
        write_notebook(folder / name, [source])
        with opened(browser, address, name) as page:
            errors = []
            page.on("pageerror", lambda error: errors.append(error))
            plotted(page)
            yield page
            labels = page.locator(".lnlab-plot").evaluate_all(
                "all => all.map(p => p.ariaLabel)"
            )
            assert all(len(label) > 40 for label in labels)
            assert errors == []

    return open_one


def values(page, name):
    """Return what a trace is drawn from, on the page."""
    return page.evaluate(
        """(wanted) => [...document.querySelector('.lnlab-plot')._fullData
             .find(({ name }) => name === wanted).y]""",
        name,
    )


def reset(page):
    page.get_by_role("button", name="Reset", exact=True).click()


def test_geometry(open_panel):
    with open_panel(GEOMETRY) as page:
        (before,), (plain,) = values(page, "turn 1 here"), values(page, "turn 0 here")
        for _ in range(3):
            slider(page, "W times").press("ArrowRight")
        commanded(page, '"length": 2')
        settled(page, "layer 0.25 and 1")
        assert values(page, "turn 1 here")[0] == pytest.approx(before / 4, rel=0.01)
        assert values(page, "turn 0 here")[0] == pytest.approx(plain, rel=1e-6)
        choose(page, "outputs", "Bernoulli")
        commanded(page, "Bernoulli")
        reset(page)
        settled(page, "layer 1 and 1")
        page.get_by_role("button", name="x times 10: which dots").click()
        commanded(page, '"inputs": 10')


def test_recurrence(open_panel):
    with open_panel(RECURRENCE) as page:
        for _ in range(5):
            slider(page, "W_h times").press("ArrowRight")
        commanded(page, '"recurrent": 6.31')
        assert slider(page, "W_h times").get_attribute("aria-valuetext") == "6.31"
        assert max(values(page, "hidden 0")) >= 1e14  # 25 steps, each by 6.31 / sqrt 2
        assert 0.6 < min(values(page, "hidden 1")) <= max(values(page, "hidden 1")) < 0.8
        reset(page)
        choose(page, "cell", "LSTM   eq. 20-22")
        commanded(page, "LSTM")
        layer = settled(page, "layer").split("layer")[1].split(",")[0]
        slider(page, "W_h times").press("ArrowLeft")
        commanded(page, '"recurrent": 1.58')
        assert settled(page, "layer").split("layer")[1].split(",")[0] == layer
        for name in ("layer", "recurrent batch"):
            page.get_by_role("button", name=name, exact=True).click()
        commanded(page, '["none"]')
        gain = page.locator(".widget-slider", has=slider(page, "gain g"))
        assert gain.locator("[disabled]").count() >= 1, "only a normalizer has a gain"
        names = page.locator(".lnlab-plot .annotation-text").all_text_contents()
        assert not any("layer" in name for name in names)
        page.evaluate("document.querySelector('.lnlab-plot').remove()")
        run_all(page)
        plotted(page)
        assert page.locator(".lnlab-plot").count() == 1


def test_distributions(open_panel):
    with open_panel(DISTRIBUTIONS) as page:
        before = values(page, "wide 0")
        slider(page, "step").press("ArrowRight")
        settled(page, "step 2")
        assert max(values(page, "wide 0")) != max(before)
        choose(page, "shown", "gradient of the loss by it")
        settled(page, "gradient of the loss by it, step 2")
        page.get_by_role("button", name="none", exact=True).click()
        commanded(page, '"layer"')
        titles = page.locator(".lnlab-plot .annotation-text").all_text_contents()
        assert titles == ["layer"]


def test_transformer(open_panel):
    with open_panel(TRANSFORMER) as page:
        slider(page, "layers L").press("ArrowRight")
        commanded(page, '"depth": 2')
        before = values(page, "mean 0")
        assert len(before) == 2
        choose(page, "kind", "dyt")
        commanded(page, '"kind": "dyt"')
        settled(page, "multiple of it")
        assert values(page, "mean 0") != before


def test_attention(open_panel):
    with open_panel(ATTENTION) as page:
        last = page.evaluate(PLOTTED)
        slider(page, "epoch").press("ArrowLeft")
        settled(page, "Epoch 1.")
        assert page.evaluate(PLOTTED)["attention 0"] != last["attention 0"]
        slider(page, "epoch").press("ArrowRight")
        settled(page, "Epoch 2.")
        assert page.evaluate(PLOTTED) == last
        options = page.get_by_label("example", exact=True).locator("option").all_text_contents()
        choose(page, "example", options[1])
        page.wait_for_function(f"was => ({PLOTTED})()['sound'] !== was", arg=last["sound"])


def test_drawing(open_panel):
    with open_panel(DRAWING) as page:
        last = page.evaluate(PLOTTED)
        for name, back, forth in (
            ("glimpse", "glimpse 1.", "glimpse 2."),
            ("update", "After update 2,", "After update 4,"),
        ):
            slider(page, name).press("ArrowLeft")
            settled(page, back)
            assert page.evaluate(PLOTTED) != last
            slider(page, name).press("ArrowRight")
            settled(page, forth)
            assert page.evaluate(PLOTTED) == last
        choose(page, "picture", "number 2")
        page.wait_for_function(
            f"was => ({PLOTTED})()['looked 0'] !== was", arg=last["looked 0"]
        )


def inked(page, compared, whole):
    """Wait until the pen of the first model has made fewer steps than ``whole``, or as many."""
    page.wait_for_function(
        f"""(whole) => document.querySelector('.lnlab-plot')._fullData
             .find(({{ name }}) => name === 'ink 0').x.length {compared} whole""",
        arg=whole,
    )


def test_writing(open_panel):
    with open_panel(WRITING) as page:
        before, whole = page.evaluate(PLOTTED), len(values(page, "ink 0"))
        slider(page, "bias").press("ArrowRight")
        settled(page, "bias 2")
        assert page.evaluate(PLOTTED) != before
        slider(page, "bias").press("ArrowLeft")
        settled(page, "bias 1")
        for end, compared in (("Home", "<"), ("End", "===")):
            slider(page, "pen, %").press(end)
            inked(page, compared, whole)
        page.locator(".jupyter-widgets-play, .widget-play").locator("button").first.click()
        inked(page, "<", whole)
        inked(page, "===", whole)
        text = page.get_by_label("text", exact=True)
        for typed, answer in (("ox", "“ox”"), ("fox", "“fox”")):
            text.fill(typed)
            text.press("Enter")
            settled(page, answer)
        text.fill("Ox")
        text.press("Enter")
        page.get_by_text("'O', which this model never learned").wait_for()


def test_thoughts(open_panel, tmp_path):
    tasks = skip_thoughts.Experiment.arms("smoke", downstream_tasks="none")
    numbered = tasks["none"].dataset()
    models = {
        name: load_snapshots(task, train(task, root=tmp_path), numbered)
        for name, task in tasks.items()
    }
    sentences = SentenceMap(models, numbered)

    def sentence(**settings):
        return thoughts_panel(models, numbered, **settings).bar.sentence

    with open_panel(THOUGHTS) as page:
        settled(page, sentence())
        pictures = [page.evaluate(PLOTTED)]
        text = page.get_by_label("sentence", exact=True)
        slider(page, "update").press("ArrowLeft")
        settled(page, sentence(update=3))
        pictures.append(page.evaluate(PLOTTED))
        slider(page, "update").press("ArrowRight")
        settled(page, sentence())
        for typed in ("Anna was glad about the dragon .", sentences.texts[1]):
            text.fill(typed)
            text.press("Enter")
            settled(page, sentence(sentence=typed))
            pictures.append(page.evaluate(PLOTTED))
        choose(page, "book", f"2: {sentences.texts[sentences.books[1][0]]}")
        settled(page, sentence(sentence=sentences.texts[1], book=1))
        page.wait_for_function(
            f"was => JSON.stringify(({PLOTTED})()) !== JSON.stringify(was)", arg=pictures[-1]
        )
        assert all(one not in pictures[:i] for i, one in enumerate(pictures))
