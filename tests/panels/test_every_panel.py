"""What every panel promises, whatever it shows."""

import html
import json
import shlex
import sys
from dataclasses import fields, replace
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import ipywidgets
import numpy as np
import pytest
import torch

from lnlab import panels
from lnlab.book import value
from lnlab.nn import LayerNorm
from lnlab.panels.controls import COLUMN
from lnlab.panels.panel import Panel
from lnlab.panels.playable import same
from lnlab.papers.attentive_reader.panel import reading as reading_panel
from lnlab.papers.draw.panel import drawing as drawing_panel
from lnlab.papers.handwriting.panel import writing as writing_panel
from lnlab.papers.las.panel import attention as attention_panel
from lnlab.papers.mnist import train_landscape_networks
from lnlab.papers.order_embeddings.data import COCO_BOXES, Boxes, CaptionedImages, Captions
from lnlab.papers.order_embeddings.model import OrderEmbedding
from lnlab.papers.order_embeddings.panel import order as order_panel
from lnlab.papers.skip_thoughts.panel import thoughts as thoughts_panel
from lnlab.papers.transformer.panel import transformer as transformer_panel
from lnlab.training.random_state import default_dtype
from tests.golden import write as golden
from tests.panels.test_thoughts import thinkers
from tests.panels.test_writing import hands, line
from tests.unpacked import unpacked

TAG = "<img/src=x/onerror=alert`1`>"
LAB = 848
"""Pixels that JupyterLab gives a cell's output beside its file browser, on a screen of 1280."""
FUNCTIONS = {name: getattr(panels, name) for name in panels.__all__ if name != "LivePlot"} | {
    "attention": attention_panel,
    "drawing": drawing_panel,
    "order": order_panel,
    "reading": reading_panel,
    "thoughts": thoughts_panel,
    "transformer": transformer_panel,
    "writing": writing_panel,
}
"""Every panel by its name."""


class Case(NamedTuple):
    """How a panel is made, and what its controls can be set to.

    Attributes:
        given: what it shows, where it is given data.
        start: where it starts; small, so that it is there at once.
        other: a value of every field that is not the one at the start.
        wrong: by field values that make no sense, and what has to be said of them.
    """

    given: tuple
    start: dict[str, Any]
    other: dict[str, Any]
    wrong: list[tuple[dict[str, Any], str]]


def photographs(text) -> tuple[dict[str, Any], Captions]:
    """A net that never learned, and pictures of which nobody knows what is true."""
    boxes = Boxes(np.array([0]), np.array([[0.1, 0.1, 0.5, 0.5]]))
    vectors = np.random.default_rng(0).random((9, 4), np.float32)
    names = tuple(f"{text} {n}" for n in range(9))
    part = CaptionedImages(names, vectors, (text,) * 45, (boxes,) * 9)
    parts = dict.fromkeys(("train", "valid", "test"), part)
    dataset = Captions(COCO_BOXES, lambda: parts, lambda: f"test {text}", (text,))
    return {text: OrderEmbedding(dataset.vocabulary, 4, 8, 6, LayerNorm)}, dataset


CASES = {
    "attention": Case(
        ({"none": golden.recognizer(0), "both": golden.recognizer(1)}, golden.utterances()),
        {},
        {"example": 1, "epoch": 0.0},
        [({"example": 9}, "example is 9: give 0 to 1")],
    ),
    "distributions": Case(
        (golden.recorded(),),
        {},
        {"arms": ("layer",), "step": 10, "net": "wide", "what": "gradients"},
        [
            ({"net": "thin"}, "net is 'thin'"),
            ({"arms": ["batch"]}, "'batch'"),
        ],
    ),
    "geometry": Case(
        (),
        {"units": 4},
        {
            "normalizers": ("layer",),
            "family": "Bernoulli",
            "length": 0.5,
            "inputs": 2.0,
            "units": 8,
        },
        [
            ({"inputs": 11.0}, "inputs is 11"),
            ({"normalizers": ["rms"]}, "'rms'"),
        ],
    ),
    "invariance": Case(
        (),
        {"eps": 0.0},
        {
            "normalizers": ("rms",), "transformation": 2, "delta": 10.0, "shift": 10.0,
            "eps": 1e-3, "dtype": "float32", "batch": 4, "mode": "frozen",
        },
        [
            ({"normalizers": ("nobody",)}, "a normalizer is 'nobody': choose from none"),
            ({"normalizers": ["layer"] * 5}, "5 normalizers: compare at most 4"),
            ({"delta": 0.0}, "delta is 0.0 in size"),
            ({"dtype": "float16"}, "dtype is 'float16': choose from float64"),
        ],
    ),
    "landscape": Case(
        train_landscape_networks(),
        {},
        {
            "statistics": "frozen", "size": 2.0, "lengths": "stay", "extent": 0.5, "seed": 3,
            "normalizer": "none",
        },
        [
            ({"normalizer": "ghost"}, "normalizer is 'ghost'"),
            ({"statistics": "stale"}, "statistics is 'stale'"),
        ],
    ),
    "order": Case(
        golden.untrained("order_embeddings"),
        {"caption": "a star"},
        {"caption": "a small red heart left of a square", "net": "layer"},
        [
            ({"net": "batch"}, "net is 'batch': choose from none, layer"),
            ({"caption": "a dog"}, "'a dog' is not understood: say it like"),
        ],
    ),
    "positions": Case(
        (golden.feature_maps(),),
        {},
        {"norm": "none", "padding": "reflection", "time": "after", "layer": "second"},
        [
            ({"norm": "batch"}, "norm is 'batch': choose from layer, none"),
        ],
    ),
    "drawing": Case(
        ({"none": golden.drawer(0), "layer": golden.drawer(1)}, golden.digits()),
        {},
        {"picture": 1, "glimpse": 2, "update": 40},
        [({"picture": 9}, "picture is 9: give 0 to 1")],
    ),
    "reading": Case(
        ({"none": golden.reader(0), "layer": golden.reader(1)}, golden.questions()),
        {},
        {"question": 1, "update": 0},
        [({"question": 9}, "question is 9: give 0 to 1")],
    ),
    "recurrence": Case(
        (),
        {"steps": 25},
        {
            "normalizers": ("rms",), "cell": "GRU", "recurrent": 0.5, "inputs": 2.0,
            "gain": 0.1, "steps": 50,
        },
        [
            ({"cell": "QRNN"}, "cell is 'QRNN'"),
            ({"normalizers": ["ghost"]}, "'ghost'"),
        ],
    ),
    "thoughts": Case(
        thinkers(),
        {},
        {"sentence": "w3 w5", "book": 1, "update": 0},
        [({"book": 99}, "book is 99: give 0 to")],
    ),
    "transformer": Case(
        (),
        {"depth": 2},
        {"places": ("sandwich",), "kind": "dyt", "depth": 4},
        [
            ({"places": ["middle"]}, "a place is 'middle': choose from pre, post, sandwich"),
        ],
    ),
    "writing": Case(
        (hands(), [line()]),
        {"text": "fox"},
        {"text": "ox", "bias": 2.0, "update": 0, "like": 0, "pen": 40},
        [
            ({"text": " "}, "text is ' ': give 1 to 40 characters"),
            ({"text": "Fox"}, "'F', which this net never learned"),
            ({"pen": 101}, "pen is 101: give 0 to 100"),
        ],
    ),
}  # fmt: skip


def made(name: str, **settings: Any) -> Panel:
    case = CASES[name]
    return FUNCTIONS[name](*case.given, **case.start | settings)


@pytest.fixture(scope="module", params=CASES)
def shared(request) -> tuple[str, Panel]:
    return request.param, made(request.param)


@pytest.fixture
def name(shared) -> str:
    return shared[0]


@pytest.fixture
def panel(shared) -> Panel:
    """The panel where it started, on no page."""
    shared[1].reset()
    return shared[1]


def test_no_panel_is_forgotten():
    papers = Path(panels.__file__).parents[1] / "papers"
    assert {*CASES} == {*FUNCTIONS}
    assert {f.__module__ for f in FUNCTIONS.values() if "papers" in f.__module__} == {
        f"lnlab.papers.{path.parent.name}.panel" for path in papers.glob("*/panel.py")
    }


def test_controls_have_room_beside_the_file_browser(panel):
    letter, arrow = 6.9, 34  # pixels, in JupyterLab's font
    column, margins = int(COLUMN["width"].removesuffix("px")), 4
    assert all(plot.least_width <= LAB for plot in panel.plots.values())
    for control in panel.controls.values():
        width = control.layout.width or ""
        if width.endswith("px"):
            assert int(width.removesuffix("px")) + margins <= column
        if isinstance(control, ipywidgets.Dropdown):
            longest = max(len(words) for words, _ in control.options)
            beside = int(control.style.description_width.removesuffix("px")) + arrow
            assert letter * longest + beside <= int(width.removesuffix("px"))


def test_every_field_has_a_control_that_moves_the_panel_at_once(name, panel, monkeypatch):
    shown, show = [], panel._show
    monkeypatch.setattr(panel, "_show", lambda state: shown.append(state) or show(state))
    assert {*panel.controls} == {*CASES[name].other} == {f.name for f in fields(panel.state)}
    for field, new in CASES[name].other.items():
        before = panel.bar.command
        panel.controls[field].value = new
        assert getattr(panel.state, field) == new
        assert panel.bar.error == ""
        assert panel.bar.command != before
        assert shown == [panel.state]
        assert panel.bar.sentence == show(panel.state).sentence
        shown.clear()


def test_the_command_brings_the_panel_back(name, panel):
    for field, new in CASES[name].other.items():
        panel.controls[field].value = new
    program, run, notebook, flag, parameter, text = shlex.split(panel.bar.command)
    assert (program, run, flag, parameter) == ("lnlab", "run", "-p", "panel")
    assert notebook == panel.notebook
    again = FUNCTIONS[name](*CASES[name].given, **value(text))
    assert again.state == panel.state
    assert again.bar.sentence == panel.bar.sentence
    again.reset()
    assert again.state == panel.state


def test_a_plot_that_was_moved_is_the_figure_of_its_state(name, panel):
    for field, new in CASES[name].other.items():
        panel.controls[field].value = new
        _, frames = panel.view(panel.state)
        for plot, frame in frames.items():
            moved = panel.plots[plot]
            for trace, wanted in zip(moved._traces.values(), frame.figure["data"], strict=True):
                hidden = wanted.get("visible") is False
                assert hidden == (trace.get("visible") is False)
                assert hidden or same(trace, wanted), wanted["name"]
            assert same(moved._layout, frame.figure["layout"])


def test_on_a_page_every_stop_has_its_frame(panel):
    """At the ends of every choice alone: all together are many."""
    settings = [
        replace(each, stops={w: v for w, v in each.stops.items() if w in kept(each)})
        for each in panel.settings(panel.state)
    ]
    panel._on_page = [lambda state, each=each: each for each in settings]
    for figure, name in zip(panel.stills(play=True), panel.plots, strict=True):
        frames = unpacked(json.loads(figure.to_json()))
        for place in product(*(range(len(each.stops)) for each in settings)):
            state = panel.state
            for each, stop in zip(settings, place, strict=True):
                state = each.put(state, [*each.stops.values()][stop])
            sentence, views = panel.view(state)
            layout = frames[",".join(map(str, place))]["layout"]
            assert layout["title"]["text"] == html.escape(views[name].title, quote=False)
            assert layout["meta"]["caption"] == html.escape(sentence, quote=False)


def kept(setting):
    """The first and the last words of a setting, and those of its own value."""
    words = [*setting.stops]
    return {words[0], words[-1], words[setting.choice.at]}


def test_a_first_view_depends_on_no_default_and_disturbs_no_generator(name):
    generator, views = torch.get_rng_state(), []
    for dtype in (torch.float32, torch.float64):
        with default_dtype(dtype):
            for cached in vars(sys.modules[FUNCTIONS[name].__module__]).values():
                if hasattr(cached, "cache_clear"):
                    cached.cache_clear()
            panel = made(name)
            views.append(panel.view(panel.state))
    assert torch.equal(torch.get_rng_state(), generator)
    first, again = views
    assert same(again, first)


WRONG = [(name, *wrong) for name, case in CASES.items() for wrong in case.wrong]


@pytest.mark.parametrize(("name", "wrong", "says"), WRONG)
def test_what_makes_no_sense_does_not_start(name, wrong, says):
    with pytest.raises(ValueError, match=says):
        made(name, **wrong)


GIVEN = {
    "attention": (
        {TAG: golden.recognizer(0)},
        [
            replace(each, name=f"{each.name} {TAG}", speaker=TAG, units=(TAG, "b"))
            for each in golden.utterances()
        ],
    ),
    "distributions": ({TAG: {TAG: golden.recorded()["deep"]["none"]}},),
    "drawing": ({TAG: golden.drawer(0)}, golden.digits()),
    "order": photographs(TAG),
    "reading": (
        {TAG: golden.reader(0)},
        [
            replace(each, query=f"{TAG} @placeholder", sentences=(f"{TAG} a b .",) * 2)
            for each in golden.questions()
        ],
    ),
    "thoughts": thinkers(TAG, words=[TAG]),
    "writing": (hands(TAG), [line(TAG, TAG)]),
}
"""The panels that are given data, with a tag wherever these have text."""


@pytest.mark.parametrize("name", GIVEN)
def test_text_of_data_is_shown_as_letters(name, strings):
    panel = FUNCTIONS[name](*GIVEN[name])
    assert panel.bar.error == ""
    shown = [figure.to_plotly_json() for figure in panel.stills(play=True)]
    shown += [{"layout": plot._layout} for plot in panel.plots.values()]
    for figure in shown:
        found = strings(figure)
        assert not [said for said in found if TAG in said]
        assert [said for said in found if html.escape(TAG) in said]
