"""Models side by side are the models one by one."""

import copy
import math
from functools import partial

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.parametrize import register_parametrization
from torch.utils._pytree import tree_leaves

from lnlab.kernels import fuse
from lnlab.nn import BatchNorm, Identity, LayerNorm, RecurrentBatchNorm, RMSNorm, Stats
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
    """An LSTM that reads the six numbers of a case one by one, statistics a step."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = fuse(LSTM(1, 4, norm_layer=partial(RecurrentBatchNorm, steps=6)))

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x.mT.unsqueeze(-1))[0][-1]


def deep(norm) -> nn.Sequential:
    # no bias before a norm: its gradient is the rounding of 0, which Adam would blow up
    return nn.Sequential(
        nn.Linear(6, 8, bias=False),
        norm(8),
        nn.ReLU(),
        nn.Linear(8, 8, bias=False),
        norm(8),
        nn.ReLU(),
        nn.Linear(8, 3),
    )


NETS = {
    "LayerNorm": lambda: deep(nn.LayerNorm),
    "BatchNorm1d": lambda: deep(nn.BatchNorm1d),
    "tied": Tied,
    "recurrent": Recurrent,
    "parametrized": lambda: nn.Sequential(
        register_parametrization(nn.Linear(6, 8), "weight", nn.Softmax(-1)), nn.Linear(8, 3)
    ),
    "convolution": lambda: nn.Sequential(
        nn.Unflatten(1, (1, 6)), nn.Conv1d(1, 4, 3), nn.GroupNorm(2, 4), nn.Flatten()
    ),
    **{
        f"our {norm.__name__}, {put.__name__}": lambda norm=norm, put=put: put(
            MLP((6, 8, 8, 3), norm, Identity)
        )
        for norm in (Identity, LayerNorm, RMSNorm, BatchNorm)
        for put in (fuse, copy.deepcopy)
    },
}


def optimizer(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.Adam(model.parameters(), lr=0.01)


@pytest.mark.parametrize("net", NETS.values(), ids=NETS)
@pytest.mark.parametrize("S", [1, 3])
def test_trained_together_equals_trained_alone(net, S):
    models = [net() for _ in range(S)]
    together = stack(models)
    x = torch.randn(20, S, 5, 6)
    update = optimizer(together)
    for batch in x:
        update.zero_grad()
        together(batch).square().mean().mul(S).backward()
        update.step()
    for index, model in enumerate(models):
        update = optimizer(model)
        for batch in x:
            update.zero_grad()
            model(batch[index]).square().mean().backward()
            update.step()
    for model, unstacked in zip(models, together.unstack(), strict=True):
        expected = model.state_dict()
        assert unstacked.state_dict().keys() == expected.keys()
        for name, tensor in unstacked.state_dict().items():
            # rounding alone: bmm sums in another order than mm
            torch.testing.assert_close(tensor, expected[name], rtol=0, atol=1e-12)
        model.eval()
        unstacked.eval()
        torch.testing.assert_close(unstacked(x[0, 0]), model(x[0, 0]), rtol=0, atol=1e-12)


@pytest.mark.parametrize("net", NETS.values(), ids=NETS)
def test_evaluation_mode_passes_through(net):
    models = [net() for _ in range(3)]
    together = stack(models)
    x = torch.randn(3, 5, 6)
    together(x)
    before = copy.deepcopy(together.state_dict())
    together.eval()
    assert not any(part.training for part in together.modules())
    output = together(x)
    for index, model in enumerate(together.unstack()):
        assert not any(part.training for part in model.modules())
        torch.testing.assert_close(output[index], model(x[index]), rtol=0, atol=1e-14)
    for name, tensor in together.state_dict().items():
        assert torch.equal(tensor, before[name])


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
    opaque = True


@pytest.mark.parametrize("kind", [Both, Opaque])
@pytest.mark.parametrize("S", [1, 3])
def test_inputs_and_outputs_may_be_containers(kind, S):
    models = [kind() for _ in range(S)]
    x = torch.randn(S, 5, 6), torch.randn(S, 5, 1)
    together = stack(models)(x)
    for index, model in enumerate(models):
        expected = model((x[0][index], x[1][index]))
        for one, other in zip(tree_leaves(together), tree_leaves(expected), strict=True):
            torch.testing.assert_close(one[index], other, rtol=0, atol=1e-12)  # bmm's order
    with pytest.raises(ValueError, match=rf"first axis must hold the inputs of {S} models"):
        stack(models)((x[0], torch.randn(S + 1, 5, 1)))


class Turned(LayerNorm):
    """Statistics over the cases: what LayerNorm says of stacking is not true of it."""

    def stats(self, a, W=None, t=None):
        return Stats(a.mean(0), a.std(0))


def test_what_a_part_inherits_is_no_promise():
    models = [MLP((6, 8, 3), Turned, Identity) for _ in range(3)]
    x = torch.randn(3, 5, 6)
    alone = torch.stack([model(each) for model, each in zip(models, x, strict=True)])
    torch.testing.assert_close(stack(models)(x), alone, rtol=0, atol=1e-12)  # bmm's order


def test_stack_of_one_is_the_model_itself_to_the_last_bit():
    model = deep(nn.LayerNorm)
    x = torch.randn(1, 5, 6)
    one = stack([model])
    assert torch.equal(one(x)[0], model(x[0]))
    assert [p.shape for p in one.parameters()] == [p.shape for p in model.parameters()]
    assert one.get_parameter("module.0.weight") is not model.get_parameter("0.weight")


def test_stack_leaves_the_models_alone():
    models = [deep(nn.BatchNorm1d) for _ in range(2)]
    before = copy.deepcopy([model.state_dict() for model in models])
    together = stack(models)
    together(torch.randn(2, 5, 6)).sum().backward()
    for model, old in zip(models, before, strict=True):
        assert all(
            torch.equal(tensor, old[name]) for name, tensor in model.state_dict().items()
        )
        assert all(parameter.grad is None for parameter in model.parameters())
    apart = together.unstack()
    with torch.no_grad():
        apart[0].get_parameter("0.weight").zero_()
    assert together.get_parameter("module.0.weight")[0].abs().min() > 0


def test_gradients_stay_with_their_model():
    together = stack([deep(nn.LayerNorm) for _ in range(3)])
    together(torch.randn(3, 5, 6))[1].sum().backward()
    for parameter in together.parameters():
        assert parameter.grad is not None
        assert not parameter.grad[[0, 2]].any()
        assert parameter.grad[1].any()


def test_state_survives_copy_save_and_dtype():
    together = stack([deep(nn.BatchNorm1d) for _ in range(2)])
    x = torch.randn(2, 5, 6)
    together(x)
    other = stack([deep(nn.BatchNorm1d) for _ in range(2)])
    other.load_state_dict(together.state_dict())
    copied = copy.deepcopy(together)
    single = copy.deepcopy(together).to(torch.float32)
    for changed in (together, other, copied):
        changed.eval()
    assert torch.equal(other(x), together(x))
    assert torch.equal(copied(x), together(x))
    single.train()
    assert single(x.float()).dtype == torch.float32
    single_mean, copied_mean, mean = (
        changed.get_buffer("module.1.running_mean") for changed in (single, copied, together)
    )
    assert not torch.equal(single_mean, copied_mean.float())
    assert torch.equal(copied_mean, mean)


def test_failed_call_leaves_the_parameters_in_place():
    together = stack([deep(nn.LayerNorm) for _ in range(2)])
    before = dict(together.named_parameters())
    with pytest.raises(RuntimeError):
        together(torch.randn(2, 5, 7))
    assert all(together.get_parameter(name) is old for name, old in before.items())


@pytest.mark.parametrize(
    ("models", "message"),
    [
        ([], "no models to stack"),
        ([nn.Linear(2, 3), nn.Linear(2, 4)], r"weight is \(3, 2\) in the first and \(4, 2\)"),
        ([nn.Linear(2, 3), nn.Linear(2, 3, bias=False)], r"bias is \(3,\).*absent in models"),
    ],
)
def test_what_cannot_be_stacked_is_named(models, message):
    with pytest.raises(ValueError, match=message):
        stack(models)


@pytest.mark.parametrize("count", [1, 3])
def test_models_are_finite_one_by_one_and_one_that_is_not_is_stood_in_for(count):
    models = [nn.BatchNorm1d(3) for _ in range(count)]
    with torch.no_grad():
        models[-1].weight[0] = models[-1].running_mean[0] = math.nan
    together = stack(models)
    assert together.finite().tolist() == [True] * (count - 1) + [False]
    if count > 1:
        other = together.without([False, False, True])
        x = torch.randn(1, 5, 3).expand(3, 5, 3)
        y = other.eval()(x)
        assert torch.equal(y[2], y[0])
        assert torch.equal(y[:2], together.eval()(x)[:2])
        assert together.module.get_parameter("weight")[2].isnan().any()
