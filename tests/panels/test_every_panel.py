"""What every panel promises, whatever it shows."""

import html
import json
import shlex
import sys
from dataclasses import fields, replace
from itertools import product
from pathlib import Path
from typing import Any

import ipywidgets
import numpy as np
import pytest
import torch

from lnlab import panels
from lnlab.book.notebooks import parse_literal_or_text
from lnlab.panels.controls import MultiSelectButtons
from lnlab.panels.live_plot import is_equal
from lnlab.panels.panel import Panel
from lnlab.papers import order_embeddings
from lnlab.papers.attentive_reader.panel import reading
from lnlab.papers.draw.panel import drawing
from lnlab.papers.handwriting.panel import writing
from lnlab.papers.las.panel import attention
from lnlab.papers.order_embeddings.data import (
    COCO_BOXES,
    CaptionedImages,
    Captions,
    CategoriesAndBoxes,
)
from lnlab.papers.order_embeddings.model import OrderEmbedding
from lnlab.papers.order_embeddings.panel import order
from lnlab.papers.skip_thoughts.panel import thoughts
from lnlab.papers.transformer.panel import stream_and_gradients_over_depth, transformer
from lnlab.training.random_state import default_dtype
from tests.panels import given
from tests.papers.test_panels import line, untrained_models, untrained_writers
from tests.unpacked import unpacked

TAG = "<img/src=x/onerror=alert`1`>"
PAPERS = (
    attention,
    drawing,
    order,
    stream_and_gradients_over_depth,
    reading,
    thoughts,
    transformer,
    writing,
)
FUNCTIONS = {name: getattr(panels, name) for name in dir(panels) if name != "read_settings"} | {
    function.__name__: function for function in PAPERS
}
"""Every panel by its name."""
GIVEN = (
    dict.fromkeys(FUNCTIONS, ())
    | given.arguments()
    | {
        "thoughts": untrained_models(),
        "writing": (untrained_writers(), [line()]),
    }
)
"""What each panel is given."""
START: dict[str, dict[str, Any]] = {
    "geometry": {"units": 8},
    "order": {"caption": "a star"},
    "stream_and_gradients_over_depth": {"depth": 4},
    "recurrence": {"steps": 25},
    "transformer": {"depth": 2},
    "writing": {"text": "fox"},
}
"""Where panels start whose default takes long."""
WRONG = [
    ("distributions", {"arms": ["batch"]}, "'batch'"),
    (
        "invariance",
        {"normalizers": ["layer"] * 5},
        "5 normalizers are too many: choose at most 4",
    ),
    ("invariance", {"delta": 0.0}, "delta is 0.0: give a number from 0.0001 to 10000"),
    ("order", {"caption": "a dog"}, "'a dog' is not understood: say it like"),
    ("thoughts", {"book": 99}, "book is 99: choose from 0, 1"),
]


def another(control: Any) -> Any:
    """Return a value that a control does not have."""
    if isinstance(control, MultiSelectButtons):
        return tuple(control.buttons)[-1:] if len(control.value) == 1 else control.value[-1:]
    if isinstance(control, ipywidgets.Combobox):
        return next(text for text in control.options if text != control.value)
    if hasattr(control, "options"):
        return next(option for _, option in control.options if option != control.value)
    if isinstance(control, ipywidgets.Text):
        return "ox"
    return 40 if isinstance(control, ipywidgets.IntSlider) else 0.1


def made(name: str, **settings: Any) -> Panel:
    return FUNCTIONS[name](*GIVEN[name], **START.get(name, {}) | settings)


@pytest.fixture(scope="module", params=FUNCTIONS)
def shared(request) -> tuple[str, Panel]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("lnlab.papers.transformer.panel.DEEP", (4, 12))  # 200 layers take long
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
    assert {*GIVEN} == {*FUNCTIONS}
    assert {function.__module__ for function in PAPERS} == {
        f"lnlab.papers.{path.parent.name}.panel" for path in papers.glob("*/panel.py")
    }


def test_every_field_has_a_control_and_what_is_moved_is_the_figure_of_its_state(
    name, panel, monkeypatch
):
    states, draw = [], panel._draw
    monkeypatch.setattr(panel, "_draw", lambda state: states.append(state) or draw(state))
    assert {*panel.controls} == {field.name for field in fields(panel.settings)}
    for field, control in panel.controls.items():
        before, new = panel.footer.command, another(control)
        control.value = new
        assert getattr(panel.settings, field) == new
        assert panel.footer.error == ""
        assert panel.footer.command != before
        assert states == [panel.settings], "drawn once"
        for plot, frame in panel.draw_all(panel.settings).items():
            assert panel.footer.sentence == frame.sentence
            moved = panel.plots[plot]
            assert is_equal(moved._traces, frame.figure["data"])
            assert is_equal(moved._layout, frame.figure["layout"])
        states.clear()
    *words, text = shlex.split(panel.footer.command)
    assert words == ["lnlab", "run", panel.notebook, "-p", "panel"]
    again = FUNCTIONS[name](*GIVEN[name], **parse_literal_or_text(text))
    assert again.settings == panel.settings
    assert again.footer.sentence == panel.footer.sentence
    for state in panel.suggestions.values():
        panel.settings = state
        assert panel.footer.error == ""
        assert panel.settings == state, "the sliders reach it"


def test_on_a_page_every_stop_has_its_frame(panel, monkeypatch):
    """At the ends of every choice alone: all together are many."""
    stops = {
        field: {words: value for words, value in every.items() if value in ends(panel, field)}
        for field, every in panel.page_values_by_field_and_label(panel.settings).items()
    }
    monkeypatch.setattr(panel, "page_values_by_field_and_label", lambda state: stops)
    for figure, name in zip(panel.static_figures(with_controls=True), panel.plots, strict=True):
        frames = unpacked(json.loads(figure.to_json()))
        for place in product(*(range(len(every)) for every in stops.values())):
            chosen = {f: [*stops[f].values()][at] for f, at in zip(stops, place, strict=True)}
            frame = panel.draw_all(replace(panel.settings, **chosen))[name]
            layout = frames[",".join(map(str, place))]["layout"]
            assert layout["title"]["text"] == html.escape(frame.title, quote=False)
            assert layout["meta"]["caption"] == html.escape(frame.sentence, quote=False)


def ends(panel, field):
    """The first and the last value that a field can have on a page, and the one it has."""
    values = [*panel.page_values_by_field_and_label(panel.settings)[field].values()]
    return [values[0], values[-1], getattr(panel.settings, field)]


def test_a_first_view_depends_on_no_default_and_disturbs_no_generator(name):
    generator, views = torch.get_rng_state(), []
    for dtype in (torch.float32, torch.float64):
        with default_dtype(dtype):
            for cached in vars(sys.modules[FUNCTIONS[name].__module__]).values():
                if hasattr(cached, "cache_clear"):
                    cached.cache_clear()
            panel = made(name)
            views.append(panel.draw_all(panel.settings))
    assert torch.equal(torch.get_rng_state(), generator)
    first, again = views
    assert is_equal(again, first)


@pytest.mark.parametrize(("name", "wrong", "says"), WRONG)
def test_what_makes_no_sense_does_not_start(name, wrong, says):
    with pytest.raises(ValueError, match=says):
        made(name, **wrong)


def photographs(text) -> tuple[dict[str, Any], Captions]:
    """A net that never learned, and pictures of which nobody knows what is true."""
    boxes = CategoriesAndBoxes(np.array([0]), np.array([[0.1, 0.1, 0.5, 0.5]]))
    vectors = np.random.default_rng(0).random((9, 4), np.float32)
    names = tuple(f"{text} {n}" for n in range(9))
    part = CaptionedImages(names, vectors, (text,) * 45, (boxes,) * 9)
    parts = dict.fromkeys(("train", "valid", "test"), part)
    dataset = Captions(COCO_BOXES, lambda: parts, lambda: f"test {text}", (text,))
    config = order_embeddings.Experiment(units=(8,), embedding_size=6)
    return {text: OrderEmbedding(config, dataset.vocabulary, 4)}, dataset


TAGGED = {
    "attention": (
        {TAG: given.recognizer(0)},
        [
            replace(each, name=f"{each.name} {TAG}", speaker=TAG, units=(TAG, "b"))
            for each in given.utterances()
        ],
    ),
    "distributions": ({TAG: {TAG: given.recorded()["deep"]["none"]}},),
    "drawing": ({TAG: given.drawer(0)}, given.digits()),
    "order": photographs(TAG),
    "reading": (
        {TAG: given.reader(0)},
        [
            replace(each, query=f"{TAG} @placeholder", sentences=(f"{TAG} a b .",) * 2)
            for each in given.questions()
        ],
    ),
    "thoughts": untrained_models(TAG, words=[TAG]),
    "writing": (untrained_writers(TAG), [line(TAG, TAG)]),
}
"""The panels that are given data, with a tag wherever these have text."""


@pytest.mark.parametrize("name", TAGGED)
def test_text_of_data_is_shown_as_letters(name, strings):
    panel = FUNCTIONS[name](*TAGGED[name])
    assert panel.footer.error == ""
    shown = [figure.to_plotly_json() for figure in panel.static_figures(with_controls=True)]
    shown += [{"layout": plot._layout} for plot in panel.plots.values()]
    for figure in shown:
        texts = strings(figure)
        assert not [text for text in texts if TAG in text]
        assert [text for text in texts if html.escape(TAG) in text]
