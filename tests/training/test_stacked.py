"""Models side by side are the models one by one."""

import copy
from functools import partial

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.parametrize import register_parametrization

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


class Pair(nn.Module):
    """Two outputs."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(6, 4)

    def forward(self, x: Tensor) -> dict[str, Tensor | tuple[Tensor, Tensor]]:
        a = self.layer(x)
        return {"a": a, "both": (a.relu(), a.mean(-1))}


class Recurrent(nn.Module):
    """An LSTM that reads the six numbers of a case one by one, statistics a step."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = fuse(LSTM(1, 4, norm=partial(RecurrentBatchNorm, steps=6)))

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
    """Reads two inputs, a pair."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(6, 4)

    def forward(self, x):
        a, b = x
        return self.layer(a) * b


class Opaque(Both):
    opaque = True


@pytest.mark.parametrize("kind", [Both, Opaque])
@pytest.mark.parametrize("S", [1, 3])
def test_inputs_may_be_containers(kind, S):
    models = [kind() for _ in range(S)]
    x = torch.randn(S, 5, 6), torch.randn(S, 5, 1)
    together = stack(models)(x)
    for index, model in enumerate(models):
        expected = model((x[0][index], x[1][index]))
        torch.testing.assert_close(together[index], expected, rtol=0, atol=1e-12)  # bmm
    with pytest.raises(ValueError, match="first axis must hold the inputs"):
        stack(models)((x[0], torch.randn(S + 1, 5, 1)))


def test_models_in_turn_put_their_gradients_together_once():
    """The gradient of an index would be S whole stacks of zeros, each but for one slice."""
    output = stack([Opaque() for _ in range(3)])((torch.randn(3, 5, 6), torch.randn(3, 5, 1)))
    before, ahead = set(), [output.grad_fn]
    while ahead:
        node = ahead.pop()
        before.add(node.name())
        ahead += [earlier for earlier, _ in node.next_functions if earlier]
    assert "UnbindBackward0" in before
    assert "SelectBackward0" not in before


class Turned(LayerNorm):
    """Statistics over the cases: what LayerNorm says of stacking is not true of it."""

    def stats(self, a, W=None, t=None):
        return Stats(a.mean(0), a.std(0))


def test_what_a_part_inherits_is_no_promise():
    models = [MLP((6, 8, 3), Turned, Identity) for _ in range(3)]
    x = torch.randn(3, 5, 6)
    alone = torch.stack([model(each) for model, each in zip(models, x, strict=True)])
    torch.testing.assert_close(stack(models)(x), alone, rtol=0, atol=1e-12)  # bmm's order


def test_parts_that_stack_are_called_once_for_all_models():
    calls = []
    together = stack([MLP((6, 8, 3), LayerNorm, Identity) for _ in range(3)])
    together.module.register_forward_hook(lambda *call: calls.append(call[-1].shape))
    together(torch.randn(3, 5, 6))
    assert calls == [(3, 5, 3)]


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


@pytest.mark.parametrize("S", [1, 3])
def test_outputs_may_be_containers(S):
    models = [Pair() for _ in range(S)]
    x = torch.randn(S, 5, 6)
    output = stack(models)(x)
    for index, model in enumerate(models):
        alone = model(x[index])
        torch.testing.assert_close(output["a"][index], alone["a"])
        torch.testing.assert_close(output["both"][1][index], alone["both"][1])


def test_dropout_differs_between_models():
    together = stack([nn.Dropout(0.5) for _ in range(2)])
    output = together(torch.ones(2, 100))
    assert not torch.equal(output[0], output[1])


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


def test_one_model_can_be_hooked():
    one = stack([deep(nn.LayerNorm)])
    seen = []
    one.get_submodule("module.1").register_forward_hook(
        lambda module, inputs, output: seen.append(output)
    )
    one(torch.randn(1, 5, 6))
    assert seen[0].shape == (5, 8)


@pytest.mark.parametrize(
    ("models", "message"),
    [
        ([], "no models to stack"),
        ([nn.Linear(2, 3), nn.Linear(2, 4)], r"weight is \(3, 2\) in the first and \(4, 2\)"),
        (
            [nn.Linear(2, 3), nn.Linear(2, 3, bias=False)],
            r"bias is \(3,\).*absent in models\[1",
        ),
        ([nn.Sequential(), nn.Linear(2, 3)], "weight is absent in the first"),
    ],
)
def test_what_cannot_be_stacked_is_named(models, message):
    with pytest.raises(ValueError, match=message):
        stack(models)


@pytest.mark.parametrize("S", [1, 2])
def test_wrong_number_of_inputs_is_named(S):
    together = stack([nn.Linear(6, 2) for _ in range(S)])
    with pytest.raises(ValueError, match=rf"\(4, 5, 6\).*inputs of {S} models"):
        together(torch.randn(4, 5, 6))


def test_what_torch_cannot_batch_is_said_by_torch():
    together = stack([nn.BatchNorm1d(6, momentum=None) for _ in range(2)])
    with pytest.raises(RuntimeError, match="item"):  # it computes a momentum in Python
        together(torch.randn(2, 5, 6))
