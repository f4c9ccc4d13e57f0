"""Units by their position: against sums written out, and the cost of leaving out a unit."""

from functools import partial

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from lnlab.analysis.feature_maps import (
    PositionStatistics,
    border_contrast,
    map_statistics,
    mean_abs_unit_contributions,
)
from lnlab.nn import BatchNorm, Conv2d, Identity, LayerNorm, Linear


class Two(nn.Module):
    """Two convolutions and logits."""

    def __init__(self, norm=LayerNorm, padding=1):
        super().__init__()
        norm = partial(norm, space=2)
        self.first = Conv2d(2, 3, 3, norm, padding=padding)
        self.second = Conv2d(3, 4, 3, norm, padding=padding, stride=2)
        self.logits = nn.LazyLinear(5)

    def forward(self, x):
        return self.logits(F.relu(self.second(F.relu(self.first(x)))).flatten(1))


@pytest.fixture
def net():
    def made(*args, **settings):
        model = Two(*args, **settings)
        model(torch.randn(2, 2, 6, 8))
        return model

    return made


@pytest.mark.parametrize("norm", [Identity, LayerNorm, BatchNorm])
@pytest.mark.parametrize("cases", [1, 260])
def test_maps_are_what_sums_over_the_cases_give(norm, cases, net, randomize):
    model, x = randomize(net(norm)), 3 + torch.randn(cases, 2, 6, 8)
    found = map_statistics(model, x, layers=["first", "second"])
    model.eval()
    a = {"first": F.conv2d(x, model.first.W, padding=1)}
    h = model.first.norm(a["first"])
    a["second"] = F.conv2d(F.relu(h), model.second.W, padding=1, stride=2)
    for name, norms in (("first", model.first.norm), ("second", model.second.norm)):
        on = (norms(a[name]) > 0).double().mean(0)
        expected = on, a[name].mean(0), a[name].std(0, correction=0)
        torch.testing.assert_close((*vars(found[name]).values(),), expected)
    assert found["second"].active_fraction.shape == (4, 3, 4)


def test_a_deviation_far_from_0_is_not_lost(net):
    model = net(Identity)
    x = 1e8 + torch.randn(50, 2, 6, 8)
    a = F.conv2d(x, model.first.W, padding=1)
    # float64 leaves 1e-8 of 1e8
    found = map_statistics(model, x, layers=["first"])["first"].pre_activation_std
    torch.testing.assert_close(found, a.std(0, correction=0), rtol=1e-6, atol=0)
    with pytest.raises(ValueError, match=r"no layer of lnlab.nn is called \['logits'\]"):
        map_statistics(model, x, layers=["logits"])


def test_border_and_middle_are_told_apart():
    """On a map of 12 x 12 the middle is 6 x 6; what is between counts for neither."""
    on, mean, deviation = torch.full((3, 2, 12, 12), 77.0)
    ring = torch.ones(12, 12, dtype=torch.bool)
    ring[1:11, 1:11] = False
    middle = torch.zeros(12, 12, dtype=torch.bool)
    middle[3:9, 3:9] = True
    for part, m, d in ((ring, 1.0, 2.0), (middle, 4.0, 1.0)):
        on[:, part], mean[:, part], deviation[:, part] = torch.rand(2, int(part.sum())), m, d
    found = border_contrast(PositionStatistics(on, mean, deviation))
    fractions = float(on[:, ring].mean()), float(on[:, middle].mean())
    assert found == pytest.approx((*fractions, 3 / ((4 + 1) / 2) ** 0.5))
    with pytest.raises(ValueError, match="a map of 3 x 8 has no middle"):
        border_contrast(PositionStatistics(*torch.ones(3, 2, 3, 8)))


def test_shares_are_what_leaving_out_a_unit_costs_where_the_loss_is_linear():
    torch.manual_seed(0)
    model = nn.Sequential(Linear(4, 6, LayerNorm), nn.ReLU(), nn.Linear(6, 1))
    x = torch.randn(9, 4)
    shares = mean_abs_unit_contributions(
        model, x, torch.zeros(9), lambda output, _: output.sum(), layers=["0"]
    )
    h = F.relu(model[0](x))
    for unit in range(6):
        without = h.clone()
        without[:, unit] = 0
        cost = (model[2](h) - model[2](without)).abs().mean()
        torch.testing.assert_close(shares["0"][unit], cost.detach())
