"""Landscapes against closed forms, the plain loop, and what makes them wrong."""

import warnings
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import lnlab.nn
from lnlab.analysis.arguments import normal
from lnlab.analysis.loss_landscape import band, between, grid, path, random_directions, surface
from lnlab.analysis.objective import Objective
from lnlab.nn.table1 import Statistics
from lnlab.papers.mnist import MLP

X, Y = (30, 1, 6, 6), (30,)


class Convolutional(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(1, 4, 3, padding=1, stride=2)
        self.norm = nn.BatchNorm2d(4)
        self.last = nn.Linear(36, 3)

    def forward(self, x):
        centred = x - x.mean()
        return self.last(self.norm(self.first(centred)).relu().flatten(1))


class Twice(nn.Module):
    """One layer reads the cases twice, and a second one reads them and the first."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(36, 5), nn.Linear(41, 3)

    def forward(self, x):
        x = x.flatten(1)
        h = torch.tanh(self.first(x)) + self.first(x * 2)
        return self.second(torch.cat([x, h], dim=1))


class InPlace(nn.Module):
    def __init__(self):
        super().__init__()
        self.shift, self.layer = nn.Parameter(torch.randn(36)), nn.Linear(36, 3)

    def forward(self, x):
        x = x.flatten(1).clone()
        x += self.shift
        return self.layer(x)


def flat(*layers):
    return nn.Sequential(nn.Flatten(), *layers)


class Turns(nn.Module):
    """What a layer is given depends on a weight, though not by any product."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(36, 3)

    def forward(self, x):
        x = x.flatten(1)
        return self.layer(x if self.layer.weight[0, 0] > 0 else x.flip(1) * 2)


NETS = {
    "our own": lambda: flat(MLP((36, 8, 3), lnlab.nn.LayerNorm, lnlab.nn.Identity)),
    "batch": lambda: flat(nn.Linear(36, 8), nn.BatchNorm1d(8), nn.Linear(8, 3)),
    "convolution": Convolutional,
    "twice": Twice,
    "in place": InPlace,
    "turns": Turns,
}


def objective(module, statistics=Statistics.BATCH):
    return Objective(
        module, torch.randn(X), torch.randint(3, Y), F.cross_entropy, statistics=statistics
    )


@pytest.mark.parametrize("make", NETS.values(), ids=NETS)
@pytest.mark.parametrize("statistics", Statistics)
def test_every_point_is_the_loss_there(make, statistics):
    found = objective(make(), statistics)
    directions = random_directions(found, 2, seed=3)
    drawn = surface(found, directions, extent=0.7, points=5)
    for i, a in enumerate(drawn.at[0]):
        for j, b in enumerate(drawn.at[1]):
            there = found.value(found.start + a * directions[0] + b * directions[1])
            assert drawn.losses[i, j] == pytest.approx(there, rel=1e-12)  # other order
    assert drawn.losses[2, 2] == pytest.approx(drawn.centre, rel=1e-12)
    assert drawn.statistics is statistics


def test_random_numbers_of_a_direction_are_those_of_its_seed_and_place():
    found = objective(nn.Sequential(nn.Flatten(), nn.Linear(36, 4), nn.Linear(4, 3)))
    for number, d in enumerate(random_directions(found, 2, seed=3, normalized=False)):
        parts = list(found.split(d).values())
        assert torch.equal(parts[0], normal(3, (number, 0), 4, 36))
        assert torch.equal(parts[2], normal(3, (number, 2), 3, 4))


def test_rows_of_a_direction_are_as_long_as_the_parameter():
    found = objective(Convolutional())
    for d in random_directions(found, 3):
        for name, part in found.split(d).items():
            own = found.split(found.start)[name]
            if own.dim() < 2:
                assert not part.any()
            else:
                torch.testing.assert_close(
                    part.flatten(1).norm(dim=1), own.flatten(1).norm(dim=1)
                )
    assert torch.equal(random_directions(found, 2), random_directions(found, 2))
    assert not torch.equal(*random_directions(found, 2))
    assert not torch.equal(random_directions(found, 1), random_directions(found, 1, seed=1))


def test_directions_do_not_depend_on_the_normalizer_but_for_the_lengths():
    found = [objective(nn.Sequential(nn.Flatten(), nn.Linear(36, 8))) for _ in range(2)]
    one, other = (random_directions(o, 1, normalized=False) for o in found)
    assert torch.equal(one, other)


def test_longer_weights_have_the_same_landscape():
    linear = nn.Linear(36, 8, bias=False)
    module = nn.Sequential(nn.Flatten(), linear, nn.LayerNorm(8, eps=0.0))
    found = objective(module)
    with torch.no_grad():
        linear.weight.mul_(10)
    longer = Objective(module, found.x, found.y, F.cross_entropy, statistics=Statistics.BATCH)
    torch.testing.assert_close(
        surface(found, points=5).losses, surface(longer, points=5).losses
    )


def test_statistics_make_other_landscapes():
    module = NETS["batch"]()
    for _ in range(20):
        module(torch.randn(X))
    x, y = torch.randn(X), torch.randint(3, Y)
    losses = {
        statistics: surface(
            Objective(module, x, y, F.cross_entropy, statistics=statistics), points=3
        ).losses
        for statistics in Statistics
    }
    batch, frozen, recomputed = losses.values()
    # over one batch of all cases the recomputed statistics are the batch's
    torch.testing.assert_close(batch, recomputed, rtol=1e-9, atol=0)
    assert (frozen - batch).abs().max() > 1e-2


def test_a_quadratic_between_two_points():
    class W(nn.Module):
        def __init__(self):
            super().__init__()
            self.w = nn.Parameter(torch.tensor([1.0, 0.0]))

        def forward(self, x):
            return self.w

    found = Objective(
        W(), torch.ones(2), None, lambda w, y: w.square().sum(), statistics=Statistics.FROZEN
    )
    line = between(found, torch.tensor([-1.0, 0.0]), points=9)
    torch.testing.assert_close(line.losses, (1 - 2 * line.at[0]).square())


def test_band_has_several_directions():
    lines = band(objective(Twice()), 3, points=5)
    assert len({float(line.losses[0]) for line in lines}) == 3
    assert all(line.losses[2] == pytest.approx(line.centre) for line in lines)


def test_directions_are_those_of_seed_0_where_none_is_given():
    found = objective(Twice())
    own, first = surface(found, points=3), surface(found, points=3, seed=0)
    assert torch.equal(own.losses, first.losses)
    assert own.readout()["seed of the directions"] == 0


def test_readout_answers_whether_the_plot_is_right():
    drawn = surface(objective(Twice()), points=5, extent=0.5, seed=4)
    answer = drawn.readout(training_loss=drawn.centre + 0.25)
    assert answer["centre - loss of the training"] == pytest.approx(-0.25)
    assert answer["statistics over cases"] == "of the batch"
    assert answer["greatest loss on the grid"] == drawn.losses.max()
    assert answer["seed of the directions"] == 4
    reach = 0.5 * drawn.lengths[0] / drawn.weights
    assert answer["reach of direction 1, in lengths of w"] == pytest.approx(reach)
    assert answer["cases"] == 30


def test_reach_is_that_of_the_farther_side():
    found = objective(Twice())
    drawn = grid(found, random_directions(found, 1), [torch.linspace(-3, 1, 5)])
    reach = 3 * drawn.lengths[0] / drawn.weights
    answer = drawn.readout()["reach of direction 1, in lengths of w"]
    assert answer == pytest.approx(reach)


@pytest.fixture
def interrupted():
    """Makes an objective that is interrupted once, after so many more calls."""

    class Interrupted(Twice):
        left = 10**9

        def forward(self, x):
            Interrupted.left -= 1
            if Interrupted.left == -1:
                raise KeyboardInterrupt
            return super().forward(x)

    def after(count):
        found = objective(Interrupted())
        Interrupted.left = count
        return found

    return after


def test_an_interrupt_leaves_what_is_there(interrupted):
    with pytest.warns(UserWarning, match="interrupted: 11 of 25 points"):
        drawn = surface(interrupted(11), points=5)
    assert drawn.computed == 11
    assert drawn.losses.isfinite().flatten().tolist() == [True] * 11 + [False] * 14
    assert drawn.readout()["points not computed"] == 14
    assert drawn.readout()["points not finite"] == 0


def test_an_interrupted_band_ends_there(interrupted):
    with pytest.warns(UserWarning, match="interrupted: 2 of 5 points"):
        lines = band(interrupted(8), 4, points=5)  # 5, the centre, 2
    assert [line.computed for line in lines] == [5, 2]


def test_an_interrupt_before_there_is_anything_goes_on(interrupted):
    with pytest.raises(KeyboardInterrupt):
        surface(interrupted(0), points=5)


def test_losses_that_are_not_finite_are_counted_apart():
    found = Objective(
        Twice(), torch.randn(X), torch.randint(3, Y), lambda out, y: (out[0, 0] + 1).sqrt(),
        statistics=Statistics.FROZEN,
    )  # fmt: skip
    answer: Any = surface(found, points=5, extent=20).readout()
    assert answer["points not computed"] == 0
    assert 0 < answer["points not finite"] < 25
    assert answer["least loss on the grid"] >= 0


def test_path_holds_a_plane_that_it_was_made_in():
    basis = torch.linalg.qr(torch.randn(7, 2)).Q.T
    places = torch.randn(9, 2)
    found = path([3 + place @ basis for place in places])
    assert found.distances.max() < 1e-12
    assert float(found.explained.sum()) == pytest.approx(1)
    torch.testing.assert_close(
        found.coordinates @ found.directions, (places - places[-1]) @ basis
    )
    assert not found.coordinates[-1].any()


def test_a_random_walk_lies_nearly_in_a_plane():
    found = path(list(torch.randn(200, 4000).cumsum(0)))
    # of Brownian motion about its end; 4,000 dimensions are not all that there are
    assert float(found.explained.sum()) == pytest.approx(
        8 / torch.pi**2 * (1 + 1 / 9), abs=0.02
    )


def test_path_says_how_far_it_is_from_the_plane():
    weights = [torch.zeros(3), torch.tensor([4.0, 0, 0]), torch.tensor([0, 3.0, 0])]
    found = path([*weights, torch.tensor([0, 0, 1.0]), torch.zeros(3)])
    assert float(found.distances[3]) == pytest.approx(1)
    assert float(found.explained.sum()) == pytest.approx(25 / 26)


def test_the_other_end_of_a_line_may_be_a_module():
    module, other = Twice(), Twice()
    found = objective(module)
    line = between(found, other, points=5)
    there = Objective(other, found.x, found.y, F.cross_entropy, statistics=Statistics.BATCH)
    assert line.at[0].tolist() == [-0.5, 0, 0.5, 1, 1.5]
    assert line.losses[3] == pytest.approx(there.value(), rel=1e-12)  # other order
    assert torch.equal(found.of(other), there.start)


WRONG = {
    "another module": (lambda o: between(o, nn.Linear(36, 3)), "made as the first was"),
    "shape": (lambda o: surface(o, torch.ones(2, 7)), "one row of"),
    "names": (lambda o: surface(o, dict(o.split(o.start))), "directions are a dict"),
    "zero": (lambda o: surface(o, torch.zeros(2, len(o.start))), "a direction is 0"),
    "nan": (lambda o: surface(o, torch.full((2, len(o.start)), torch.nan)), "not finite"),
    "extent": (lambda o: surface(o, extent=-1), "more than 0"),
    "points": (lambda o: surface(o, points=1), "2 or more"),
    "other": (lambda o: between(o, torch.ones(3)), "give \\("),
    "path": (lambda o: path([torch.ones(3)] * 2), "three or more"),
    "path, nan": (lambda o: path([torch.full((3,), torch.nan), *torch.eye(3)]), "diverged"),
    "line": (lambda o: path([k * torch.ones(3) for k in range(4)]), "along a line"),
}


@pytest.mark.parametrize(("call", "message"), WRONG.values(), ids=WRONG)
def test_wrong_input_says_what_to_give(call, message):
    found = objective(Twice())
    with warnings.catch_warnings(), pytest.raises(ValueError, match=message):
        call(found)


def test_biases_alone_have_no_filter_normalized_direction():
    found = Objective(
        nn.LayerNorm(36), torch.randn(3, 36), None, lambda out, y: out.square().mean(),
        statistics=Statistics.FROZEN,
    )  # fmt: skip
    with pytest.raises(ValueError, match="no parameter has rows"):
        random_directions(found, 2)
