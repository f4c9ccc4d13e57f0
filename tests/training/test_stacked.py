"""Models side by side are the models one by one."""

import math
from functools import partial

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.parametrize import register_parametrization
from torch.utils._pytree import tree_leaves

from lnlab.kernels import fuse
from lnlab.nn import (
    BatchNorm,
    GroupNorm,
    Identity,
    LayerNorm,
    MuSigma,
    RecurrentBatchNorm,
    RMSNorm,
)
from lnlab.nn.recurrent import LSTM
from lnlab.papers.mnist import MLP
from lnlab.training import stack


class Tied(nn.Module):
    """The same weights twice, and a buffer that is replaced instead of written to."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(6, 6)
        self.second = nn.Linear(6, 6)
        self.second.weight = self.first.weight
        self.register_buffer("mean", torch.zeros(6))
        self.frozen = nn.Parameter(torch.randn(6), requires_grad=False)

    def forward(self, x: Tensor) -> Tensor:
        if self.training:
            self.mean = 0.9 * self.mean + 0.1 * x.mean(0).detach()
        return self.second(torch.tanh(self.first(x - self.mean))) * self.frozen


class Recurrent(nn.Module):
    """An LSTM that reads the six numbers each example is its one by one, statistics a step."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = fuse(LSTM(1, 4, norm_layer=partial(RecurrentBatchNorm, steps=6)))

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x.mT.unsqueeze(-1))[0][-1]


class Turned(LayerNorm):
    """Statistics over the cases: what LayerNorm says of stacking is not true of it."""

    def stats(self, a, W=None, t=None):
        return MuSigma(a.mean(0), a.std(0))


def mlp(norm) -> nn.Module:
    return MLP((6, 8, 8, 3), norm, Identity)


NETWORKS = {
    # no bias before a norm: its gradient is the rounding of 0, which Adam would blow up
    "BatchNorm1d": lambda: nn.Sequential(
        nn.Linear(6, 8, bias=False), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3)
    ),
    "tied": Tied,
    "recurrent": Recurrent,
    "parametrized": lambda: nn.Sequential(
        register_parametrization(nn.Linear(6, 8), "weight", nn.Softmax(-1)), nn.Linear(8, 3)
    ),
    "convolution": lambda: nn.Sequential(
        nn.Unflatten(1, (1, 6)), nn.Conv1d(1, 4, 3), nn.GroupNorm(2, 4), nn.Flatten()
    ),
    "our LayerNorm": lambda: mlp(LayerNorm),
    "our LayerNorm, fused": lambda: fuse(mlp(LayerNorm)),
    "our BatchNorm, fused": lambda: fuse(mlp(BatchNorm)),
    "our RMSNorm, fused": lambda: fuse(mlp(RMSNorm)),
    "our GroupNorm, fused": lambda: fuse(mlp(partial(GroupNorm, 2))),
    "a subclass": lambda: mlp(Turned),
}

# bmm sums in another order than mm
close = partial(torch.testing.assert_close, rtol=0, atol=1e-12)


def trained(model, batches):
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for batch in batches:
        optimizer.zero_grad()
        model(batch).square().sum().backward()
        optimizer.step()
    return model


@pytest.mark.parametrize("network", NETWORKS.values(), ids=NETWORKS)
@pytest.mark.parametrize("S", [1, 3])
def test_trained_together_equals_trained_alone(network, S):
    models, x = [network() for _ in range(S)], torch.randn(20, S, 5, 6)
    together = trained(stack(models), x).eval()
    outputs = together(x[0])
    for index, (model, unstacked) in enumerate(zip(models, together.unstack(), strict=True)):
        trained(model, x[:, index])
        assert not any(part.training for part in unstacked.modules())
        close(dict(unstacked.state_dict()), dict(model.state_dict()))
        close(outputs[index], model.eval()(x[0, index]))


class Both(nn.Module):
    """Reads two inputs, a pair; gives two outputs."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(6, 4)

    def forward(self, x):
        a, b = x
        a = self.layer(a) * b
        return {"a": a, "both": (a.relu(), a.mean(-1))}


class Opaque(Both):
    opaque_to_vmap = True


@pytest.mark.parametrize("kind", [Both, Opaque])
@pytest.mark.parametrize("S", [1, 3])
def test_inputs_and_outputs_may_be_containers(kind, S):
    models = [kind() for _ in range(S)]
    x = torch.randn(S, 5, 6), torch.randn(S, 5, 1)
    together = stack(models)(x)
    for index, model in enumerate(models):
        expected = model((x[0][index], x[1][index]))
        close([leaf[index] for leaf in tree_leaves(together)], tree_leaves(expected))
    with pytest.raises(ValueError, match=rf"first axis must hold the inputs of {S} models"):
        stack(models)((x[0], torch.randn(S + 1, 5, 1)))


@pytest.mark.parametrize("count", [1, 3])
def test_a_model_that_is_not_finite_is_named_and_replaced_by_another(count):
    models = [nn.BatchNorm1d(3) for _ in range(count)]
    with torch.no_grad():
        models[-1].weight[0] = models[-1].running_mean[0] = math.nan
    together = stack(models)
    assert together.finite_models().tolist() == [True] * (count - 1) + [False]
    if count > 1:
        other, x = (
            together.replace_diverged_by_survivor([False, False, True]),
            torch.randn(1, 5, 3).expand(3, 5, 3),
        )
        y = other.eval()(x)
        assert torch.equal(y[2], y[0])
        assert torch.equal(y[:2], together.eval()(x)[:2])
        assert together.module.get_parameter("weight")[2].isnan().any()
