"""Held-out examples, and the effects of one step against steps that are really taken."""

from copy import deepcopy
from dataclasses import replace

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from lnlab.analysis.objective import Objective
from lnlab.nn import BatchNorm, Identity, LayerNorm
from lnlab.papers import mnist, sequential_digits
from lnlab.papers.classification import (
    LOWER,
    STEP,
    measure_shift_and_smoothness,
    relative_gradient_change,
)
from lnlab.papers.mnist import MLP

every_experiment = pytest.mark.parametrize(
    "kind", [mnist.Experiment, sequential_digits.Experiment]
)


@every_experiment
def test_the_last_training_examples_are_held_out_of_every_batch(kind):
    task = kind(preset="smoke", valid_size=1000, batch_size=32)
    whole, less = kind(preset="smoke").dataset(), task.dataset()
    for name in ("x", "y"):
        parts = [getattr(split, name) for split in (less.train, less.valid)]
        assert torch.equal(torch.cat(parts), getattr(whole.train, name))
    assert len(less.valid) == 1000
    assert less.checksum == whole.checksum
    batches = [x for x, _ in task.training_batches(less).batches_of_epoch(0)]
    rows = {tuple(x.tolist()) for batch in batches for x in batch.flatten(0, 1)}
    assert len(rows) > 100
    assert rows <= {tuple(x.tolist()) for x in less.train.x}
    with pytest.raises(ValueError, match="valid_size is 1200: digits has 1200 training"):
        replace(task, valid_size=1200).dataset()


@pytest.fixture(params=[Identity, LayerNorm, BatchNorm])
def net(request):
    return MLP((6, 5, 4, 3), request.param, Identity).train()


@pytest.fixture
def examples():
    return torch.randn(40, 6), torch.randint(3, (40,))


def gradients(net, x, y, layer):
    parameters = [*net.layers[layer].parameters()]
    grads = torch.autograd.grad(F.cross_entropy(net(x), y), parameters)
    return torch.cat([g.ravel() for g in grads])


def test_step_effects_are_those_of_a_step_of_torchs_optimizer(net, examples):
    x, y = examples
    state = deepcopy(net.state_dict())
    effects = measure_shift_and_smoothness(net, x, y)
    assert all(torch.equal(state[name], value) for name, value in net.state_dict().items())
    before, after = deepcopy(net), deepcopy(net)
    F.cross_entropy(after(x), y).backward()
    torch.optim.SGD(after.parameters(), lr=STEP).step()
    angles, shifts = [], []
    for layer in (1, 2):  # G' is of a network whose lower layers have been replaced
        mixed = deepcopy(before)
        for below in range(layer):
            mixed.layers[below] = deepcopy(after.layers[below])
        G, G_ = gradients(before, x, y, layer), gradients(mixed, x, y, layer)
        angles.append(F.cosine_similarity(G, G_, dim=0).arccos().item())
    for layer in (0, 1):
        h, h_ = (
            model.layers[layer](x if not layer else F.relu(model.layers[0](x)))
            for model in (before, after)
        )
        shifts.append(((h_.mean(0) - h.mean(0)).abs().mean() / h.std()).item())
    lengths = [net.layers[k].W.norm().item() for k in (0, 1)]
    assert effects["gradient_angle"] == pytest.approx(sum(angles) / 2)
    assert effects["mean_shift"] == pytest.approx(sum(shifts) / 2)
    assert effects["weight_norm"] == pytest.approx((lengths[0] * lengths[1]) ** 0.5)


def test_the_gradient_changes_on_a_step_that_removes_a_fraction_of_the_loss(net, examples):
    x, y = examples
    before, after = deepcopy(net), deepcopy(net)
    grads = [gradients(before, x, y, layer) for layer in range(3)]
    g = torch.cat(grads)
    eta = LOWER * F.cross_entropy(before(x), y) / (g @ g)
    with torch.no_grad():
        for layer, grad in zip(after.layers, grads, strict=True):
            w = nn.utils.parameters_to_vector(layer.parameters())
            nn.utils.vector_to_parameters(w - eta * grad, layer.parameters())
    g_ = torch.cat([gradients(after, x, y, layer) for layer in range(3)])
    expected = ((g - g_).norm() / g.norm()).item()
    effects = measure_shift_and_smoothness(net, x, y)
    assert effects["gradient_change"] == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("scale", [1.0, 7.0])
@pytest.mark.parametrize(
    ("curvatures", "expected"),
    [
        ((1e-3, 1e-3), LOWER / 2),
        ((50.0, 50.0), LOWER / 2),
        # L ||H g|| / ||g||^3 = (101 / 2) (100^4 + 1)^(1/2) / (100^2 + 1)^(3/2), times LOWER
        ((100.0, 1.0), LOWER * 50.5 * (1e8 + 1) ** 0.5 / (1e4 + 1) ** 1.5),
        ((0.1, 0.001), LOWER * 50.5 * (1e8 + 1) ** 0.5 / (1e4 + 1) ** 1.5),
    ],
)
def test_the_gradient_change_of_a_quadratic_has_a_closed_form(curvatures, expected, scale):
    net = nn.Linear(2, 1, bias=False)
    nn.init.constant_(net.weight, scale)
    x = torch.diag(torch.tensor(curvatures).sqrt())
    loss = Objective(net, x, None, lambda out, _: out.square().sum() / 2, bn_stats="batch")
    assert relative_gradient_change(loss) == pytest.approx(expected)


def test_a_diverged_model_has_no_step_effects(examples):
    net = MLP((6, 5, 4, 3), Identity, Identity)
    with torch.no_grad():
        net.layers[0].W.fill_(torch.inf)
    assert all(
        value != value for value in measure_shift_and_smoothness(net, *examples).values()
    )
