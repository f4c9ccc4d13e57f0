"""Every panel: controls, one state, plots that follow; errors are seen, nothing piles up."""

import shlex
import threading
from dataclasses import dataclass

import ipywidgets
import pytest
import torch

from lnlab.book.html import figure_html
from lnlab.book.notebooks import parse_literal_or_text
from lnlab.panels.panel import PLOTLY, Panel, make_settings
from lnlab.panels.playable import TitledFigure
from tests.unpacked import unpacked

WIDGET = "application/vnd.jupyter.widget-view+json"


@dataclass(frozen=True)
class State:
    delta: float = 1.0
    name: str = "layer"


def figure(y):
    return {"data": [{"type": "scatter", "name": "line", "y": y}], "layout": {"height": 300}}


def show(state):
    """Show y = delta."""
    if state.name == "<b>":
        raise ValueError("this <b> is no name.")
    y = torch.full((2,), state.delta).numpy()
    title = f"delta {state.delta:.3g}"
    return TitledFigure(figure(y), title, f"{state.name}: {state.delta:g}")


def show_square(state):
    return figure([state.delta**2] * 2), f"its square, {state.delta**2:g}"


def panel(**settings):
    controls = {
        "delta": ipywidgets.FloatLogSlider(min=-1, max=1.5, step=0.5, description="δ"),
        "name": ipywidgets.Text(description="name"),
    }
    return Panel(
        State(**settings), controls, show, deferred={"late": show_square}, notebook="02",
        alt={"line": "the number", "late": "its square"}, on_page=["delta"],
        suggestions={"a small number": {"delta": 0.1}, "batch": {"name": "batch"}},
        locks={"name": lambda state: "too small for names" if state.delta < 0.5 else ""},
    )  # fmt: skip


def drawn(panel, name="line"):
    return list(panel.plots[name].current_trace("line")["y"])


def send(panel, **message):
    panel._on_page_message(panel.footer, message, [])


@pytest.mark.parametrize("settings", [{}, {"delta": 2.5}, {"delta": 0.1, "name": "it's δ"}])
def test_the_command_brings_the_state_back(settings):
    words = shlex.split(panel(**settings).notebook_shell_command)
    assert words[:3] == ["lnlab", "run", "02"]
    given = parse_literal_or_text(words[5]) if settings else {}
    assert given == settings
    assert panel(**given).settings == State(**settings)


def test_an_error_is_seen_and_goes_away_and_every_move_is_answered():
    shown = panel()
    for name, error in (("<b>", "ValueError: this <b> is no name."), ("batch", "")):
        num_answers = shown.footer.num_answers
        shown.controls["name"].value = name
        assert shown.footer.error == error
        assert shown.footer.num_answers == num_answers + 1
        assert shown.footer.sentence == ("layer: 1" if error else "batch: 1")
    with pytest.raises(ValueError, match="is no name"):
        panel(name="<b>")


def test_on_a_page_the_late_plot_waits_until_it_is_asked_for():
    shown = panel()
    send(shown, kind="ready")
    shown.controls["delta"].value = 3.0
    assert (drawn(shown), drawn(shown, "late")) == ([3.0, 3.0], [1.0, 1.0])
    send(shown, kind="rest")
    assert drawn(shown, "late") == [9.0, 9.0]


def test_a_control_that_has_no_effect_is_locked_with_the_reason():
    shown = panel()
    name, reason = shown.controls["name"], shown.reasons["name"]
    assert (name.disabled, reason.value) == (False, "")
    shown.controls["delta"].value = 0.1
    assert (name.disabled, reason.value) == (True, "too small for names")


def test_suggestions_are_buttons_that_set_the_state_and_on_a_page_the_stops():
    shown = panel(delta=4.0)
    label, small, other = shown.children[0].children[0].children
    assert (label.value, small.description) == ("Things to try:", "a small number")
    small.click()
    assert shown.settings == State(0.1)
    other.click()
    assert shown.settings == State(4.0, "batch")
    shown.reset()
    for figure in shown.static_figures(with_controls=True):
        (only,) = figure.layout.meta["suggestions"]
        assert (only["text"], list(only["stops"])) == ("a small number", [0])


def test_a_page_names_the_controls_that_it_lacks():
    first, second = panel().static_figures(with_controls=True)
    lacking = "In JupyterLab this panel also has these controls: name."
    assert lacking in figure_html(first.to_plotly_json(), "a")
    assert "In JupyterLab" not in figure_html(second.to_plotly_json(), "b")


def test_callbacks_in_threads_see_whole_states_and_no_gradients(monkeypatch):
    shown = panel()
    seen, inside = [], threading.Semaphore(1)

    def watched(state):
        seen.append((torch.is_grad_enabled(), inside.acquire(blocking=False)))
        result = show(state)
        inside.release()
        return result

    monkeypatch.setattr(shown, "_draw", watched)
    threads = [
        threading.Thread(target=setattr, args=(shown.controls["delta"], "value", float(n)))
        for n in range(2, 30)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not shown.footer.error
    assert set(seen) == {(False, True)}
    assert drawn(shown) == [shown.settings.delta] * 2


def test_headless_it_leaves_figures_to_play_with_and_else_a_still_beside_the_widget(
    monkeypatch,
):
    monkeypatch.setenv("LNLAB_HEADLESS", "1")
    shown = panel(delta=4.0)
    line, square = shown.mime_bundles()
    stops = ["0.1", "0.316", "1", "3.16", "4", "10", "31.6"]
    assert square[PLOTLY]["layout"]["title"]["text"] == "its square, 16"
    frames = unpacked(line[PLOTLY]).values()
    assert [f["layout"]["title"]["text"] for f in frames] == [f"delta {stop}" for stop in stops]
    assert line["text/plain"] == "layer: 4"
    monkeypatch.delenv("LNLAB_HEADLESS")
    live, still = shown.mime_bundles()
    assert live[WIDGET]["model_id"] == shown.model_id
    hint = "layer: 4 Run this cell for live controls."
    assert (live["text/plain"], still["text/plain"]) == ("layer: 4", hint)
    title = still[PLOTLY]["layout"]["title"]
    assert (title["text"], title["subtitle"]["text"]) == ("delta 4", hint)
    assert not {WIDGET} & still.keys()
    assert "frames" not in still[PLOTLY]["layout"]["meta"]


def test_an_unknown_setting_is_refused_with_those_that_there_are():
    assert make_settings(State, {"delta": 2.0}) == State(2.0)
    with pytest.raises(ValueError, match="no setting detla; it has delta, name"):
        make_settings(State, {"detla": 2.0})
