"""What a small step would do to a perceptron, next to a step that is taken."""

from copy import deepcopy

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from lnlab.analysis.objective import Objective
from lnlab.nn import BatchNorm, Identity, LayerNorm
from lnlab.papers.classification import LOWER, STEP, bend, moved, promised
from lnlab.papers.mnist import MLP


@pytest.fixture(params=[Identity, LayerNorm, BatchNorm])
def net(request):
    return MLP((6, 5, 4, 3), request.param, Identity)


@pytest.fixture
def cases():
    return torch.randn(40, 6), torch.randint(3, (40,))


def stepped(net, x, y):
    """The net after one step of torch's own gradient descent on these cases."""
    after = deepcopy(net).train()
    optimizer = torch.optim.SGD(after.parameters(), lr=STEP)
    F.cross_entropy(after(x), y).backward()
    optimizer.step()
    return after


def gradients(net, x, y, layer):
    own = [*net.layers[layer].parameters()]
    return torch.cat([g.ravel() for g in torch.autograd.grad(F.cross_entropy(net(x), y), own)])


def test_gradients_turn_as_the_layers_below_are_exchanged(net, cases):
    before, after = deepcopy(net).train(), stepped(net, *cases)
    angles = []
    for layer in (1, 2):
        mixed = deepcopy(before)
        for below in range(layer):
            mixed.layers[below] = deepcopy(after.layers[below])
        G, G_ = gradients(before, *cases, layer), gradients(mixed, *cases, layer)
        angles.append(F.cosine_similarity(G, G_, dim=0).arccos().item())
    assert moved(net, *cases)["gradient_angle"] == pytest.approx(sum(angles) / 2)


def test_a_step_is_as_long_as_the_gradient_promises(net, cases):
    loss = Objective(net, *cases, F.cross_entropy, bn_stats="batch", dtype=torch.float64)
    value, g = loss.gradient()
    step = promised(loss)[1] - loss.start
    assert float(g @ step) == pytest.approx(-LOWER * float(value))
    assert F.cosine_similarity(step, -g, dim=0).item() == pytest.approx(1)


def test_means_drift_in_deviations_of_their_layer(net, cases):
    x, drifts = cases[0], []
    for layer in (0, 1):
        h, h_ = (
            part.layers[layer](x if not layer else F.relu(part.layers[0](x)))
            for part in (deepcopy(net).train(), stepped(net, *cases))
        )
        drifts.append(((h_.mean(0) - h.mean(0)).abs().mean() / h.std()).item())
    assert moved(net, *cases)["mean_shift"] == pytest.approx(sum(drifts) / 2)


def test_a_gradient_bends_on_the_step_that_promises_a_part_of_the_loss(net, cases):
    before, after = deepcopy(net).train(), deepcopy(net).train()
    own = [gradients(before, *cases, layer) for layer in range(3)]
    g = torch.cat(own)
    eta = LOWER * F.cross_entropy(before(cases[0]), cases[1]) / (g @ g)
    with torch.no_grad():
        for layer, part in zip(after.layers, own, strict=True):
            w = nn.utils.parameters_to_vector(layer.parameters())
            nn.utils.vector_to_parameters(w - eta * part, layer.parameters())
    g_ = torch.cat([gradients(after, *cases, layer) for layer in range(3)])
    expected = ((g - g_).norm() / g.norm()).item()
    assert moved(net, *cases)["gradient_change"] == pytest.approx(expected, rel=1e-6)


def bowl(*curvatures, scale=1.0):
    """The loss 1/2 sum lambda w^2 at w = scale (1, ..., 1)."""
    net = nn.Linear(len(curvatures), 1, bias=False)
    nn.init.constant_(net.weight, scale)
    x = torch.diag(torch.tensor(curvatures).sqrt())
    return Objective(net, x, None, lambda out, _: out.square().sum() / 2, bn_stats="batch")


@pytest.mark.parametrize("steep", [1e-3, 1.0, 50.0])
def test_round_bowls_bend_alike_however_fast_they_are_learned(steep):
    assert bend(bowl(steep, steep)) == pytest.approx(LOWER / 2)


def test_a_valley_bends_more_than_a_bowl_by_no_scale():
    """L ||H g|| / ||g||^3 = (101 / 2) (100^4 + 1)^(1/2) / (100^2 + 1)^(3/2), times LOWER."""
    expected = LOWER * 50.5 * (1e8 + 1) ** 0.5 / (1e4 + 1) ** 1.5
    assert bend(bowl(100.0, 1.0)) == pytest.approx(expected)
    assert bend(bowl(100.0, 1.0, scale=7.0)) == pytest.approx(expected)
    assert bend(bowl(0.1, 0.001)) == pytest.approx(expected)


def test_the_net_stays_and_lengths_are_of_hidden_layers(net, cases):
    kept = deepcopy(net.state_dict())
    found = moved(net, *cases)
    assert all(torch.equal(kept[name], p) for name, p in net.state_dict().items())
    W_1, W_2 = (net.layers[k].W.norm().item() for k in (0, 1))
    assert found["weight_norm"] == pytest.approx((W_1 * W_2) ** 0.5)


def test_a_net_that_diverged_has_no_numbers(cases):
    net = MLP((6, 5, 4, 3), Identity, Identity)
    with torch.no_grad():
        net.layers[0].W.fill_(torch.inf)
    assert all(number != number for number in moved(net, *cases).values())
