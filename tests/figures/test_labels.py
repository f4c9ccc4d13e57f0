"""Whatever a label says is shown as letters, in every figure there is and in every panel."""

import html
import pkgutil
from importlib import import_module
from inspect import getmembers, isfunction
from types import SimpleNamespace
from typing import Any, get_type_hints

import numpy as np
import pandas as pd
import plotly.graph_objects as go
import pytest
import torch

from lnlab import figures, panels
from lnlab.data.utterance import Utterance
from lnlab.figures import (
    attending,
    curves,
    depth,
    dynamics,
    fusion,
    geometry,
    invariance,
    landscape,
    learning,
    matrices,
    playable,
    race,
    ribbons,
    smoothness,
    sweeps,
    table,
    terrain,
    text,
    verdicts,
)
from lnlab.panels.panel import Panel

TAG = "<img src=x onerror=alert`1`>"
AT = np.linspace(0.1, 1, 4)
SEEDS = np.stack([AT, 2 * AT])
NUMBERS = dict.fromkeys(["q05", "q25", "q50", "q75", "q95"], AT)
LAYERS = pd.DataFrame({**NUMBERS, "step": np.arange(4), "name": [TAG + "0", "1", "2", "3"]})
RATIO = (10.0, 0.7, 0.6, 0.9)
COURSE = geometry.Course(AT, AT, 0.1, 0.2)
CLAIM = {
    "source": [f"{TAG} (2016), 1"], "verdict": ["reproduced"], "quantity": [TAG],
    "interval": [(-2.0, -1.0)], "values": [(-1.0, -2.0)],
}  # fmt: skip
CLAIMS = pd.DataFrame(CLAIM, index=[TAG])
SPOKEN = attending.Spoken(TAG, np.zeros((8, 4)), 0.01, [TAG, "b"], AT[:2], AT[1:3])


def plane(*at) -> Any:
    losses = np.ones([len(each) for each in at])
    return SimpleNamespace(
        at=at, losses=losses, centre=0.5, statistics=SimpleNamespace(value=TAG)
    )


def moved():
    parts = [invariance.Moved(name, AT, AT, reach=2.0, note=TAG) for name in ("a" + TAG, TAG)]
    sweep = invariance.Sweep(TAG, AT, {TAG: AT}, 0.5, {TAG: 0.1}, AT, 0.5)
    return invariance.movement(parts, sweep)


def tabled():
    one = np.ones((2, 1))
    cells = table.Measured(["a" + TAG, TAG], [f"x → {TAG}"], one, one > 0, 1e-9)
    return table.table(cells, rows=[TAG])


def drawn() -> go.Figure:
    return go.Figure(go.Scatter(name="line", y=AT), layout={"height": 300, "margin": {"t": 9}})


FIGURES = {
    attending.attending: lambda: attending.attending(
        SPOKEN, {TAG: attending.Attention(np.eye(2, 8), 0.04, TAG)}
    ),
    curves.curves: lambda: curves.curves(
        {TAG: {TAG: (AT, AT)}}, x=TAG, y=TAG, dots=[TAG], mark=(0.5, TAG)
    ),
    depth.depth: lambda: depth.depth({TAG: LAYERS}, reach=1.0, y=TAG),
    dynamics.dynamics: lambda: dynamics.dynamics({TAG: [AT] * 3}),
    fusion.kept: lambda: fusion.kept({TAG: 3.0}, unit=TAG),
    geometry.geometry: lambda: geometry.geometry({TAG: (COURSE, COURSE, COURSE)}),
    invariance.movement: moved,
    landscape.bands: lambda: landscape.bands({TAG: {TAG: [plane(AT)]}}, x=TAG, made_on=TAG),
    landscape.surfaces: lambda: landscape.surfaces({TAG: plane(AT, AT)}, made_on=TAG),
    landscape.trodden: lambda: landscape.trodden(
        plane(AT, AT), SEEDS.T, explained=[0.5, 0.4], distances=AT, made_on=TAG
    ),
    learning.learning_curves: lambda: learning.learning_curves(
        {TAG: {TAG: (AT, SEEDS)}}, x=TAG, y=TAG, made_on=TAG
    ),
    learning.paired_differences: lambda: learning.paired_differences(
        {TAG: ([1.0], (0.0, 2.0))}, x=TAG, made_on=TAG
    ),
    learning.signed: lambda: learning.signed(drawn(), TAG),
    matrices.matrices: lambda: matrices.matrices({TAG: SEEDS}, rows=TAG, columns=TAG),
    playable.playable: lambda: playable.playable(drawn(), {TAG: {"line": {"y": AT}}}, TAG, 0),
    race.race: lambda: race.race({TAG: {"LN-GRU, fused": [RATIO]}}, made_on=TAG),
    ribbons.ribbons: lambda: ribbons.ribbons({TAG: LAYERS}, x=TAG, y=TAG),
    smoothness.smoothness_ribbons: lambda: smoothness.smoothness_ribbons(
        {TAG: {TAG: (AT, SEEDS, SEEDS)}}, made_on=TAG, x=TAG
    ),
    smoothness.level: lambda: smoothness.level(drawn(), 0.5, TAG),
    sweeps.sweeps: lambda: sweeps.sweeps(AT, {TAG: AT}, x=TAG, y=TAG),
    table.table: tabled,
    terrain.cuts: lambda: terrain.cuts([plane(AT)]),
    terrain.plane: lambda: terrain.plane(plane(AT, AT)),
    text.titled: lambda: text.titled(drawn(), TAG),
    verdicts.verdicts: lambda: verdicts.verdicts(CLAIMS),
    verdicts.intervals: lambda: verdicts.intervals(CLAIMS),
}
"""Every figure, with a tag wherever it takes text."""

WITHOUT_TEXT = {fusion.timeline, fusion.step}


def attended() -> Panel:
    utterance = Utterance(
        name=TAG, speaker=TAG, features=torch.zeros(8, 123), units=(TAG, TAG),
        begins=AT[:2], ends=AT[1:3],
    )  # fmt: skip
    looks = {"attention": [[np.eye(2, 8).tolist()]], "heard": [[[TAG]]], "test_error": [0.5]}
    rows = pd.DataFrame({"seed": [0], "epoch": [1.0], **looks})
    run = SimpleNamespace(metrics=lambda: rows, config={"layers": 1})
    return panels.attention({TAG: run}, [utterance])  # pyright: ignore[reportArgumentType]


def distributed() -> Panel:
    return panels.distributions({TAG: {TAG: LAYERS.assign(what="activations")}})


PANELS = {"attention": attended, "distributions": distributed}
"""The panels that are given data; the others are asked for settings out of lists."""


def functions_that_draw():
    for module in pkgutil.iter_modules(figures.__path__, "lnlab.figures."):
        for name, function in getmembers(import_module(module.name), isfunction):
            own = function.__module__ == module.name and not name.startswith("_")
            if own and get_type_hints(function).get("return") is go.Figure:
                yield function


def assert_literal(found: list[str]) -> None:
    assert not [said for said in found if TAG in said]
    assert [said for said in found if html.escape(TAG) in said]


def test_no_figure_is_forgotten():
    assert {*functions_that_draw()} == {*FIGURES} | WITHOUT_TEXT


@pytest.mark.parametrize("draw", FIGURES, ids=lambda draw: draw.__name__)
def test_figure_shows_tags_as_letters(draw, strings):
    assert_literal(strings(FIGURES[draw]()))


@pytest.mark.parametrize("name", PANELS)
def test_panel_shows_tags_as_letters(name, strings):
    panel = PANELS[name]()
    assert panel.bar.error == ""
    for still in panel._still(panel.state, True):
        assert_literal(strings(still))
    for plot in panel.plots.values():
        assert_literal(strings(SimpleNamespace(to_plotly_json=lambda p=plot: p._layout)))


@pytest.mark.parametrize("name", sorted({*panels.__all__} - {*PANELS, "LivePlot"}))
def test_other_panels_take_no_text_of_anybody(name):
    for field, value in vars(getattr(panels, name)().state).items():
        if isinstance(value, str | tuple):
            wrong = TAG if isinstance(value, str) else (TAG,)
            with pytest.raises(ValueError, match=r"img src"):
                getattr(panels, name)(**{field: wrong})
