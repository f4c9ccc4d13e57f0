"""Every panel: controls, one state, plots that follow; errors are seen, nothing piles up."""

import ast
import math
import shlex
import threading
from dataclasses import dataclass, replace

import ipywidgets
import plotly.graph_objects as go
import pytest
import torch

from lnlab.book import value
from lnlab.panels.live_plot import plotly_script
from lnlab.panels.panel import PLOTLY, Drawing, Panel, Settable, View, descendants, sizes

WIDGET = "application/vnd.jupyter.widget-view+json"


@dataclass(frozen=True)
class State:
    delta: float = 1.0
    name: str = "layer"


def look(state):
    """A panel's view: y = delta, and delta squared once it rests."""
    if state.delta > 90:
        raise ValueError("delta is too large for <words>.")
    y = torch.full((2,), state.delta).numpy()
    return View(
        f"{state.name}: {state.delta:g}",
        {"line": f"delta {state.delta:g}", "late": f"its square, {state.delta**2:g}"},
        {"line": Drawing({"line": {"y": y}}, {})},
        {"late": lambda: Drawing({"line": {"y": y**2}}, {})},
    )


def drawn_anew(state):
    y = [state.delta, state.delta]
    line = go.Figure([go.Scatter(name="line", y=y)])
    late = go.Figure([go.Scatter(name="line", y=[y**2 for y in y])])
    return {"line": line, "late": late}


def settable(state):
    deltas = sizes([1.0, 2.0], state.delta)
    put = lambda state, delta: replace(state, delta=delta)  # noqa: E731
    return [Settable("δ", deltas, f"{state.delta:g}", put)]


def panel(**settings):
    controls = {
        "delta": ipywidgets.FloatLogSlider(min=-4, max=2, step=0.1, description="delta"),
        "name": ipywidgets.Text(description="name"),
    }
    about = {"line": "the number", "late": "its square"}
    box = ipywidgets.VBox(list(controls.values()))
    return Panel(
        "test", "02", State(**settings), box, controls, about, look, drawn_anew, settable
    )


def drawn(panel, name="line"):
    return panel.plots[name].current("line")["y"].tolist()


def test_plots_and_sentence_follow_a_control():
    shown = panel()
    shown.controls["delta"].value = 3.0
    assert shown.state == State(delta=3.0)
    assert (drawn(shown), drawn(shown, "late")) == ([3.0, 3.0], [9.0, 9.0])
    assert shown.bar.sentence == "layer: 3"


def test_setting_the_state_moves_the_controls_and_draws_once(monkeypatch):
    shown = panel()
    draws = []
    monkeypatch.setattr(shown, "_look", lambda state: draws.append(state) or look(state))
    shown.state = State(7.0, "batch")
    assert (shown.controls["delta"].value, shown.controls["name"].value) == (7.0, "batch")
    shown.reset()
    assert draws == [State(7.0, "batch"), State()]
    assert drawn(shown) == [1.0, 1.0]


def test_a_state_is_what_one_reads_on_the_controls():
    shown = panel()
    shown.controls["delta"].value = 2.51188643150958
    assert shown.state.delta == 2.51


@pytest.mark.parametrize("settings", [{}, {"delta": 2.5}, {"delta": 0.001, "name": "it's δ"}])
def test_the_command_brings_the_state_back(settings):
    words = shlex.split(panel(**settings).command)
    assert words[:3] == ["lnlab", "run", "02"]
    if settings:
        assert words[3:5] == ["-p", "panel"]
    given = value(words[5]) if settings else {}
    assert given == settings
    assert panel(**given).state == State(**settings)


def test_what_starts_elsewhere_is_told_of_the_defaults():
    shown = panel(delta=5.0)
    shown.controls["delta"].value = State().delta
    assert shlex.split(shown.command)[3:] == ["-p", "panel", "{}"]


def test_the_command_is_a_python_literal():
    assert ast.literal_eval(shlex.split(panel(delta=2.5).command)[-1]) == {"delta": 2.5}


def test_an_error_is_seen_and_goes_away():
    shown = panel()
    shown.controls["delta"].value = 95.0
    assert shown.bar.error == "ValueError: delta is too large for <words>."
    assert drawn(shown) == [1.0, 1.0]
    shown.controls["delta"].value = 2.0
    assert shown.bar.error == ""
    assert drawn(shown) == [2.0, 2.0]


def test_an_error_at_the_start_is_raised():
    with pytest.raises(ValueError, match="too large"):
        panel(delta=95.0)


def test_on_a_page_the_late_plot_waits_until_it_is_asked_for():
    shown = panel()
    shown._heard(shown.bar, {"kind": "ready"}, [])
    shown.controls["delta"].value = 3.0
    assert (drawn(shown), drawn(shown, "late")) == ([3.0, 3.0], [1.0, 1.0])
    shown._heard(shown.bar, {"kind": "rest"}, [])
    assert drawn(shown, "late") == [9.0, 9.0]


def test_the_page_can_reset():
    shown = panel(delta=5.0)
    shown.controls["delta"].value = 7.0
    shown._heard(shown.bar, {"kind": "reset"}, [])
    assert shown.state == State(delta=5.0)


def test_what_is_typed_moves_the_panel_or_is_refused_in_it():
    shown = panel()
    near = "delta stands at 2.51, the place of its slider nearest to 2,5."
    for text, delta, says in (("2,5", 2.51, near), ("1e9", 2.51, "give 0.0001 to 100")):
        answers = shown.bar.answers
        shown._heard(shown.bar, {"kind": "typed", "name": "delta", "text": text}, [])
        assert shown.state.delta == delta
        assert says in shown.bar.error
        assert shown.bar.answers > answers


def test_what_a_browser_makes_of_a_place_leaves_the_note_where_it_is():
    shown = panel()
    shown._heard(shown.bar, {"kind": "typed", "name": "delta", "text": "2,5"}, [])
    said, answers = shown.bar.error, shown.bar.answers
    place = shown.controls["delta"].value
    shown.controls["delta"].value = math.nextafter(place, 0.0)
    assert shown.controls["delta"].value != place
    assert shown.bar.error == said != ""
    assert shown.bar.answers == answers + 1
    shown._heard(shown.bar, {"kind": "typed", "name": "delta", "text": "2,51"}, [])
    assert shown.bar.error == ""


def test_every_move_is_answered():
    shown = panel()
    for delta in (3.0, 95.0):  # the second is an error
        answers = shown.bar.answers
        shown.controls["delta"].value = delta
        assert shown.bar.answers == answers + 1


def test_callbacks_in_threads_see_whole_states_and_no_gradients(monkeypatch):
    shown = panel()
    seen, inside = [], threading.Semaphore(1)

    def watched(state):
        seen.append((torch.is_grad_enabled(), inside.acquire(blocking=False)))
        view = look(state)
        inside.release()
        return view

    monkeypatch.setattr(shown, "_look", watched)
    threads = [
        threading.Thread(target=setattr, args=(shown.controls["delta"], "value", float(n)))
        for n in range(2, 30)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not shown.bar.error
    assert set(seen) == {(False, True)}
    assert drawn(shown) == [shown.state.delta] * 2


def test_a_panel_takes_the_place_of_the_one_before():
    first = panel()
    parts = [widget.comm for widget in descendants(first)]
    second = panel()
    assert all(comm is not None for comm in parts)
    assert all(widget.comm is None for widget in descendants(first))
    assert all(widget.comm is not None for widget in descendants(second))
    assert plotly_script().comm is not None


def test_run_headless_it_leaves_figures_to_play_with(monkeypatch):
    monkeypatch.setenv("LNLAB_HEADLESS", "1")
    bundles = panel(delta=4.0).bundles()
    titles = [bundle[PLOTLY]["layout"]["title"]["text"] for bundle in bundles]
    assert titles == ["delta 4", "its square, 16"]
    for bundle, title in zip(bundles, ("delta {}", "its square, {}"), strict=True):
        frames = bundle[PLOTLY]["frames"]
        of = (1, 4, 16) if "square" in title else (1, 2, 4)
        assert [frame["layout"]["title"]["text"] for frame in frames] == [
            title.format(each) for each in of
        ]
        assert [frame["data"][0]["y"]["dtype"] for frame in frames] == ["f4"] * 3
    assert all(WIDGET not in bundle for bundle in bundles)
    assert bundles[0]["text/plain"] == "layer: 4"


def test_in_jupyterlab_it_leaves_the_widget_and_a_still_picture(monkeypatch):
    monkeypatch.delenv("LNLAB_HEADLESS", raising=False)
    shown = panel(delta=4.0)
    live, bundle = shown.bundles()
    assert live[WIDGET]["model_id"] == shown.model_id
    assert live["text/plain"] == "layer: 4"
    assert PLOTLY not in live
    assert WIDGET not in bundle
    assert bundle[PLOTLY]["layout"]["title"]["text"] == "delta 4"
    assert bundle[PLOTLY]["layout"]["title"]["subtitle"]["text"] == "layer: 4"
    assert "frames" not in bundle[PLOTLY]
    assert bundle["text/plain"] == "layer: 4"
