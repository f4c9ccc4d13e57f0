"""The panel of notebook 19, driven from Python as the page would drive it."""

import numpy as np
import pytest
import torch

from lnlab.figures.style import NAMED
from lnlab.nn import NORMS
from lnlab.papers.transformer import evaluate
from lnlab.papers.transformer.model import Placed, Transformer
from lnlab.papers.transformer.panel import (
    CONTEXT,
    HEADS,
    STEPS,
    WIDTH,
    first_steps,
    labelled,
    profile,
    profile_figure,
    start,
    steps_figure,
)
from lnlab.training.random_state import generator


def alone(place, kind, depth, draw):
    """One of the draws, by itself."""
    here = start(place, kind, depth)
    V = here.w["module.readout.W"].shape[1]
    net = Transformer(V, CONTEXT, depth, WIDTH, HEADS, Placed(place, NORMS[kind]), fused=False)
    net.draw(lambda name: generator(f"{name} of draw {draw}"))
    return net.double(), here.x[draw], here.y[draw]


@pytest.mark.parametrize("kind", ["layer", "dyt"])
def test_draws_side_by_side_have_the_gradients_that_they_have_alone(kind):
    for draw in (0, 2):
        net, x, y = alone("pre", kind, 2, draw)
        expected = evaluate.profile(evaluate.objective(net, x, y))
        np.testing.assert_allclose(profile("pre", kind, 2)[draw], expected)


def test_a_first_step_is_that_of_adam():
    net, x, y = alone("post", "layer", 1, 0)
    optimizer = torch.optim.Adam(net.parameters(), lr=STEPS[4], eps=0.0)
    evaluate.nll(net(x), y).backward()
    optimizer.step()
    with torch.no_grad():
        loss = evaluate.nll(net(x), y)
    # parameters without any gradient would be 0/0: there are none
    assert first_steps("post", "layer", 1)[0, 4] == pytest.approx(loss.item())


def test_the_sizes_of_theorem_1_can_be_seen():
    shallow, deep = (profile("pre", "layer", depth)[:, -1].mean() for depth in (1, 12))
    assert deep < 0.6 * shallow
    shallow, deep = (profile("post", "layer", depth)[:, -1].mean() for depth in (1, 12))
    assert deep > 0.8 * shallow


def test_without_a_normalizer_places_are_the_same_and_a_step_can_explode():
    np.testing.assert_array_equal(
        first_steps("pre", "none", 12), first_steps("post", "none", 12)
    )
    assert first_steps("pre", "none", 12).max() > 100 > first_steps("pre", "layer", 12).max()


def test_lines_are_means_and_bands_hold_every_draw():
    figure = profile_figure({"pre": np.array([[1.0, 2.0], [3.0, 8.0]])})
    traces = {trace["name"]: trace for trace in figure["data"]}
    np.testing.assert_allclose(traces["mean 0"]["y"], [2, 5])
    np.testing.assert_allclose(traces["band 0"]["y"], [3, 8, 2, 1])
    assert traces["mean 0"]["line"]["color"] == NAMED["pre"]
    assert traces["mean 1"]["visible"] is False


def test_axes_hold_every_value_and_what_is_infinite_is_drawn_at_the_edge():
    layout = profile_figure({"pre": np.array([[1e-7, 1e5, 1.0]])})["layout"]
    low, high = layout["yaxis"]["range"]
    assert low <= -7 < 5 <= high
    band, mean, *_ = steps_figure({"pre": np.full((1, len(STEPS)), np.inf)})["data"]
    assert np.isfinite([*mean["y"], *band["y"]]).all()


@pytest.mark.parametrize(("low", "high"), [(-1.0, 0.5), (-12.0, 3.0)])
def test_powers_are_labelled_by_themselves_alone(low, high):
    axis = labelled(low, high)
    for value, text in zip(axis["tickvals"], axis["ticktext"], strict=True):
        plain = text.replace("10<sup>", "1e").replace("·1e", "e").replace("</sup>", "")
        assert float(plain) == pytest.approx(value), "a 5 must not stand for 0.5"
