"""Landscapes against closed forms, the plain loop, and what makes them wrong."""

from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from lnlab.analysis.landscape import (
    evaluate_grid,
    linear_interpolation,
    loss_landscape,
    random_filter_normalized_directions,
)
from lnlab.analysis.module_copy import BN_STATS
from lnlab.analysis.objective import Objective
from lnlab.analysis.random import normal

X, Y = (30, 36), (30,)


def plain():
    return nn.Sequential(nn.Linear(36, 5), nn.Tanh(), nn.Linear(5, 3))


def convolutional():
    last = nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(36, 3)
    return nn.Sequential(
        nn.Unflatten(1, (1, 6, 6)), nn.Conv2d(1, 4, 3, padding=1, stride=2), *last
    )


def objective(model, bn_stats: Any = "batch"):
    return Objective(
        model, torch.randn(X), torch.randint(3, Y), F.cross_entropy, bn_stats=bn_stats
    )


@pytest.mark.parametrize("make", [plain, convolutional])
@pytest.mark.parametrize("bn_stats", BN_STATS)
def test_every_point_is_the_loss_there(make, bn_stats):
    loss = objective(make(), bn_stats)
    directions = random_filter_normalized_directions(loss, 2, seed=3)
    drawn = loss_landscape(loss, directions=directions, extent=0.7, points=5)
    for i, a in enumerate(drawn.coordinates[0]):
        for j, b in enumerate(drawn.coordinates[1]):
            there = loss.value(loss.start + a * directions[0] + b * directions[1])
            assert drawn.losses[i, j] == pytest.approx(there, rel=1e-12)  # other order
    assert drawn.losses[2, 2] == pytest.approx(drawn.centre_loss, rel=1e-12)
    assert drawn.bn_stats == bn_stats
    frame = drawn.to_frame()
    assert frame["loss"].tolist() == drawn.losses.flatten().tolist()
    assert frame.loc[1, "direction 2"] == drawn.coordinates[1][1]


def test_rows_of_a_direction_are_as_long_as_the_parameter():
    loss = objective(convolutional())
    for number, d in enumerate(random_filter_normalized_directions(loss, 3)):
        for index, (name, piece) in enumerate(loss.unflatten(d).items()):
            own = loss.unflatten(loss.start)[name]
            if own.dim() < 2:
                assert not piece.any()
                continue
            rows, drawn = piece.flatten(1), normal(0, (number, index), *own.shape).flatten(1)
            torch.testing.assert_close(rows.norm(dim=1), own.flatten(1).norm(dim=1))
            torch.testing.assert_close(F.normalize(rows), F.normalize(drawn))
    assert not torch.equal(
        random_filter_normalized_directions(loss, 1),
        random_filter_normalized_directions(loss, 1, seed=1),
    )


def test_a_line_goes_from_one_solution_to_the_other():
    model, other = plain(), plain()
    loss = objective(model, None)
    line = linear_interpolation(loss, other=other, points=5)
    there = Objective(other, loss.x, loss.y, F.cross_entropy)
    assert line.coordinates[0].tolist() == [-0.5, 0, 0.5, 1, 1.5]
    assert line.losses[3] == pytest.approx(there.value(), rel=1e-12)  # other order
    with pytest.raises(ValueError, match=r"other has shape \(3,\)"):
        linear_interpolation(loss, other=torch.zeros(3))


@pytest.mark.parametrize("points", [3, 15, 25])
def test_the_middle_of_a_grid_is_the_model_itself(points):
    net, x = nn.Linear(3, 2), torch.randn(4, 3)
    drawn = loss_landscape(net, x, torch.tensor([0, 1, 1, 0]), F.cross_entropy, points=points)
    assert all(at[points // 2] == 0 for at in drawn.coordinates)
    assert all(-at[0] == at[-1] == 1 for at in drawn.coordinates)


def test_readout_answers_whether_the_plot_is_right():
    loss = objective(plain())
    drawn = loss_landscape(loss, points=5, extent=0.5, seed=4)
    answer = drawn.summary(training_loss=drawn.centre_loss + 0.25)
    assert answer["loss at the centre - reported loss"] == pytest.approx(-0.25)
    assert answer["statistics over examples"] == "batch"
    assert answer["largest loss on the grid"] == drawn.losses.max()
    assert (answer["seed of the directions"], answer["examples"]) == (4, 30)
    drawn = evaluate_grid(
        loss, random_filter_normalized_directions(loss, 1), [torch.linspace(-3, 1, 5)]
    )
    reach = drawn.summary()["reach of direction 1, in norms of w"]
    assert reach == pytest.approx(3 * drawn.direction_norms[0] / drawn.weight_norm)
