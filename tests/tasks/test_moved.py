"""What a small step would do to a perceptron, next to a step that is taken."""

from copy import deepcopy

import pytest
import torch
from torch.nn import functional as F

from lnlab.norms import BatchNorm, Identity, LayerNorm
from lnlab.tasks.mnist import MLP
from lnlab.tasks.moved import STEP, moved


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
    turns = []
    for layer in (1, 2):
        mixed = deepcopy(before)
        for below in range(layer):
            mixed.layers[below] = deepcopy(after.layers[below])
        G, G_ = gradients(before, *cases, layer), gradients(mixed, *cases, layer)
        turns.append(1 - F.cosine_similarity(G, G_, dim=0).item())
    assert moved(net, *cases)["turn"] == pytest.approx(sum(turns) / 2)


def test_means_drift_in_deviations_of_their_layer(net, cases):
    x, drifts = cases[0], []
    for layer in (0, 1):
        h, h_ = (
            part.layers[layer](x if not layer else F.relu(part.layers[0](x)))
            for part in (deepcopy(net).train(), stepped(net, *cases))
        )
        drifts.append(((h_.mean(0) - h.mean(0)).abs().mean() / h.std()).item())
    assert moved(net, *cases)["drift"] == pytest.approx(sum(drifts) / 2)


def test_steepness_has_the_scale_of_neither_steps_nor_loss(net, cases):
    """Of the losses on the way from half a STEP to four of them."""
    x, y = cases
    before = deepcopy(net).train()
    G = torch.autograd.grad(F.cross_entropy(before(x), y), [*before.parameters()])
    losses = []
    for eta in torch.logspace(torch.tensor(0.5).log10(), torch.tensor(4.0).log10(), 8) * STEP:
        after = deepcopy(before)
        with torch.no_grad():
            for p, g in zip(after.parameters(), G, strict=True):
                p -= eta * g
        losses.append(F.cross_entropy(after(x), y).item())
    here = F.cross_entropy(before(x), y).item()
    expected = (max(losses) - min(losses)) / here
    assert moved(net, x, y)["steepness"] == pytest.approx(expected, rel=1e-5)


def test_the_net_stays_and_lengths_are_of_hidden_layers(net, cases):
    kept = deepcopy(net.state_dict())
    found = moved(net, *cases)
    assert all(torch.equal(kept[name], p) for name, p in net.state_dict().items())
    W_1, W_2 = (net.layers[k].W.norm().item() for k in (0, 1))
    assert found["length"] == pytest.approx((W_1 * W_2) ** 0.5)


def test_a_net_that_diverged_has_no_numbers(cases):
    net = MLP((6, 5, 4, 3), Identity, Identity)
    with torch.no_grad():
        net.layers[0].W.fill_(torch.inf)
    assert all(number != number for number in moved(net, *cases).values())
