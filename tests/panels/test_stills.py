"""Every panel where no kernel runs: what can be set shows what the panel would show."""

import base64
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from lnlab import panels
from lnlab.book.html import figure as on_page
from lnlab.book.html import share
from lnlab.panels.live_plot import as_json
from lnlab.panels.panel import PLOTLY, Panel, still
from lnlab.papers.attentive_reader.panel import reading as reading_panel
from lnlab.papers.draw.panel import drawing as drawing_panel
from lnlab.papers.handwriting.panel import writing as writing_panel
from lnlab.papers.las.panel import attention as attention_panel
from lnlab.papers.mnist import train_landscape_networks
from lnlab.papers.order_embeddings.panel import order as order_panel
from lnlab.papers.skip_thoughts.panel import thoughts as thoughts_panel
from lnlab.papers.transformer.panel import transformer as transformer_panel
from tests.panels.test_drawing import digits, drawer
from tests.panels.test_every_panel import FUNCTIONS, embeddings, maps
from tests.panels.test_reading import question, reader
from tests.panels.test_thoughts import thinkers
from tests.panels.test_writing import hands
from tests.unpacked import unpacked, write_page

ASKED = [question(number=k) for k in range(2)]
PANELS: dict[str, Callable[..., Panel]] = {
    "attention": lambda recognizers, _: attention_panel(*recognizers, example=2),
    "distributions": lambda _, frames: panels.distributions(frames),
    "drawing": lambda *_: drawing_panel({"none": drawer(), "layer": drawer(1)}, digits()),
    "geometry": lambda *_: panels.geometry(normalizers=("none", "layer")),
    "invariance": lambda *_: panels.invariance(delta=-2.5),
    "order": lambda *_: order_panel(*embeddings(), net="layer"),
    "landscape": lambda *_: panels.landscape(*train_landscape_networks()),
    "positions": lambda *_: panels.positions(*maps(), time="after"),
    "recurrence": lambda *_: panels.recurrence(steps=25),
    "reading": lambda *_: reading_panel({"none": reader(), "layer": reader(1)}, ASKED),
    "thoughts": lambda *_: thoughts_panel(*thinkers(), book=1),
    "writing": lambda *_: writing_panel(hands(), text="fox"),
    "transformer": lambda *_: transformer_panel(depth=2),
}


def test_no_panel_is_forgotten():
    assert {*FUNCTIONS} == {*PANELS}


def with_few_stops(panel: Panel) -> Panel:
    """The panel with the ends, the middle and its own place of every choice, and no others."""
    settings = panel._settable

    def few(state):
        for setting in settings(state):
            words = list(setting.values)
            kept = {words[0], words[len(words) // 2], words[-1], setting.at}
            yield replace(
                setting, values={w: v for w, v in setting.values.items() if w in kept}
            )

    panel._settable = lambda state: list(few(state))
    return panel


WHOLE = [pytest.param((name, True), marks=pytest.mark.dear, id=name) for name in PANELS]
FEW = [pytest.param((name, False), id=f"{name}, few stops") for name in PANELS]


@pytest.fixture(scope="module", params=[*FEW, *WHOLE])
def panel(request, recognizers, frames):
    name, whole = request.param
    made = PANELS[name](recognizers, frames)
    return made if whole else with_few_stops(made)


@pytest.fixture(scope="module")
def headless(panel):
    """The output of the panel where its notebook is executed for a page; made once for all."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LNLAB_HEADLESS", "1")
        return [bundle[PLOTLY] for bundle in panel.bundles()]


@pytest.fixture(scope="module")
def played(headless):
    return [single(figure) for figure in headless]


def test_run_headless_it_leaves_figures_that_can_be_played_with(panel, headless):
    assert len(headless) == len(panel.plots)
    first, *_ = headless
    (slider,) = first["layout"]["sliders"]
    assert len(first["frames"]) == len(slider["steps"]) >= 2
    # two of them on a page of at most 1.5 MB, plotly.js aside
    assert sum(len(on_page(figure, "n")) for figure in headless) < 700_000
    assert all(figure["layout"]["title"]["text"] for figure in headless)


def some_places(panel) -> dict[tuple[int, ...], Any]:
    """The states at the ends and in the middle of every choice, the others as they are."""
    settings = panel._settable(panel.state)
    at = [setting.choice.at for setting in settings]
    found = {tuple(at): panel.state}
    for position, setting in enumerate(settings):
        values = list(setting.values.values())
        for stop in {0, len(values) // 2, len(values) - 1}:
            place = (*at[:position], stop, *at[position + 1 :])
            found[place] = setting.put(panel.state, values[stop])
    return found


def fresh(panel, state) -> list[dict[str, Any]]:
    """The figures of a state, drawn for it alone."""
    drawn = panel._drawn(state)
    for name, figure in drawn.items():
        figure.update_layout(meta={"width": panel.plots[name].least_width})
    return [single(as_json(figure)) for figure in still(drawn, panel._look(state))]


def single(value: Any) -> Any:
    """Plotly's JSON with its arrays in float32, as frames store them: a pixel may see it."""
    if isinstance(value, list):
        return [single(item) for item in value]
    if not isinstance(value, dict):
        return value
    if value.get("dtype") == "f8":
        packed = base64.b64encode(np.float32(arrays(value).ravel()).tobytes()).decode()
        return value | {"dtype": "f4", "bdata": packed}
    return {key: single(item) for key, item in value.items()}


def arrays(value: Any) -> Any:
    """Plotly's JSON with its packed arrays as lists of numbers."""
    if isinstance(value, dict) and "bdata" in value:
        raw = np.frombuffer(base64.b64decode(value["bdata"]), value["dtype"])
        shape = value.get("shape")
        return raw.reshape([int(n) for n in shape.split(",")]) if shape else raw
    return value


def test_a_frame_is_the_picture_of_its_state(panel, played):
    stored = [unpacked(figure) for figure in played]
    for place, state in some_places(panel).items():
        for figure, frames, alone in zip(played, stored, fresh(panel, state), strict=True):
            frame = frames[",".join(map(str, place))]
            shown = [dict(trace) for trace in figure["data"]]
            for index, new in frame["traces"].items():
                shown[index] |= new
            for trace, wanted in zip(shown, alone["data"], strict=True):
                assert_same(trace, wanted)
            assert frame["layout"]["title"] == alone["layout"]["title"]
            assert frame["layout"]["meta"]["caption"] == alone["layout"]["meta"]["caption"]
            for key in {*alone["layout"]} - {"height", "margin", "meta", "template"}:
                there = frame["layout"].get(key, figure["layout"].get(key))
                assert_same(visible(there), visible(alone["layout"][key]))


def visible(value):
    """Notes and shapes without those that are there to hide others."""
    if not isinstance(value, list):
        return value
    kept = [item for item in value if not isinstance(item, dict) or item.get("visible", True)]
    return [
        {k: v for k, v in item.items() if k != "visible"} if isinstance(item, dict) else item
        for item in kept
    ]


def assert_same(one, other):
    if isinstance(one, dict) and isinstance(other, dict) and "bdata" not in {**one, **other}:
        hidden = one.get("visible") is False and other.get("visible") is False
        for key in () if hidden else one.keys() | other.keys():
            assert_same(one.get(key), other.get(key))
        return
    one, other = arrays(one), arrays(other)
    if isinstance(one, np.ndarray) or isinstance(other, np.ndarray):
        np.testing.assert_array_equal(one, other)
    else:
        assert one == other


@pytest.mark.parametrize("panel", WHOLE, indirect=True)
@pytest.mark.browser
def test_on_a_page_every_control_shows_what_is_drawn_afresh(panel, played, browser, tmp_path):
    share(tmp_path)
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    problems = []
    page.on("pageerror", lambda error: problems.append(str(error)))

    def opened(path):
        page.goto(path.as_uri())
        page.wait_for_selector("body[data-drawn]", timeout=60_000)

    def seen():
        # where there are no controls, all stands higher, and what two figures say is said twice
        words = page.locator(".title, figcaption").all_text_contents()
        page.add_style_tag(content=".choices, .title, figcaption { display: none !important }")
        pictures = [each.screenshot() for each in page.locator(".picture").all()]
        page.evaluate("document.head.lastElementChild.remove()")
        return pictures, words

    settings = panel._settable(panel.state)
    at = [setting.choice.at for setting in settings]
    moved, before = {}, (None,) * len(settings)
    opened(write_page(tmp_path, "played.html", played))
    for place in some_places(panel):
        for position, stop in enumerate(place):
            if stop == before[position]:
                continue
            control = page.locator(".choices input, .choices select").nth(position)
            if settings[position].slides:
                control.focus()
                control.press("Home")
                for _ in range(stop):
                    control.press("ArrowRight")
            else:
                control.select_option(str(stop))
        before = place
        name = ",".join(map(str, place))
        page.wait_for_function(
            "name => document.querySelector('figure[data-stops]')?.dataset.stops === name",
            arg=name,
        )
        moved[place] = seen()
    for place, state in some_places(panel).items():
        opened(write_page(tmp_path, "fresh.html", fresh(panel, state)))
        pictures, words = seen()
        assert moved[place][1] == words
        for number, (there, here) in enumerate(zip(moved[place][0], pictures, strict=True)):
            same = there == here  # pytest would explain two pictures for an hour
            assert same, f"figure {number} at {place}, at first {at}"
    assert not problems
    page.close()
