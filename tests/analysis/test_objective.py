"""A loss as a function of w is what autograd says it is, and touches nothing."""

import copy
import random
import warnings
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

import lnlab.nn
from lnlab.analysis.hessian import density, ends, trace
from lnlab.analysis.objective import Objective
from lnlab.analysis.smoothness import smoothness, steps
from lnlab.nn.table1 import Statistics

X, Y = (20, 5), (20,)


def net(norm: Any = nn.BatchNorm1d) -> Any:
    return nn.Sequential(nn.Linear(5, 6), norm(6), nn.Tanh(), nn.Linear(6, 3))


def ours():
    linear = lnlab.nn.Linear(5, 6, lnlab.nn.BatchNorm)
    return nn.Sequential(linear, nn.Tanh(), nn.Linear(6, 3))


def objective(module, statistics: Any = Statistics.BATCH, **given):
    x, y = torch.randn(X), torch.randint(3, Y)
    return Objective(module, x, y, F.cross_entropy, statistics=statistics, **given)


@pytest.mark.parametrize("make", [net, ours, lambda: net(nn.LayerNorm)])
@pytest.mark.parametrize("statistics", Statistics)
def test_value_is_the_loss_of_the_module_itself(make, statistics):
    module = make()
    for _ in range(3):
        module(torch.randn(X) + 1)  # running statistics of something else
    found = objective(module, statistics)
    module.train(statistics is not Statistics.FROZEN)
    if statistics is Statistics.RECOMPUTED:
        lnlab.nn.recompute(module, [found.x]).eval()
    expected = F.cross_entropy(module(found.x), found.y)
    # recomputed statistics are the biased ones of the batch, taken in another way
    assert found.value() == pytest.approx(float(expected.detach()), abs=1e-13)


@pytest.mark.parametrize("make", [net, ours, lambda: net(nn.LayerNorm)])
@pytest.mark.parametrize("statistics", [Statistics.BATCH, Statistics.FROZEN])
def test_gradient_is_that_of_training(make, statistics):
    module = make()
    found = objective(module, statistics)
    module.train(statistics is Statistics.BATCH)
    F.cross_entropy(module(found.x), found.y).backward()
    value, slope = found.gradient()
    expected = torch.cat([p.grad.reshape(-1) for p in module.parameters()])
    torch.testing.assert_close(slope, expected, rtol=0, atol=1e-14)  # the same sums
    assert value == pytest.approx(found.value())


@pytest.mark.parametrize("statistics", [Statistics.BATCH, Statistics.FROZEN])
def test_hessian_products_are_those_of_the_dense_hessian(statistics):
    found = objective(net(), statistics)
    dense: Any = torch.autograd.functional.hessian(found, found.start)
    product = found.hessian_product()
    v = torch.randn(len(found.start), 3)
    torch.testing.assert_close(product(v), dense @ v, rtol=0, atol=1e-12)  # other order
    torch.testing.assert_close(product(v[:, 0]), dense @ v[:, 0], rtol=0, atol=1e-12)


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(5, 5), nn.Linear(5, 5)
        self.second.weight = self.first.weight

    def forward(self, x):
        return self.second(torch.tanh(self.first(x)))


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm, self.last = nn.LSTM(1, 4), nn.Linear(4, 3)

    def forward(self, x):
        return self.last(self.lstm(x.T[:, :, None])[0][-1])


def reparametrized():
    return nn.Sequential(
        nn.utils.parametrizations.weight_norm(nn.Linear(5, 6)), nn.Linear(6, 3)
    )


class Keeps(nn.Module):
    """Remembers what it computed last, with its history, as attention weights often are."""

    def __init__(self):
        super().__init__()
        self.first, self.second, self.seen = nn.Linear(5, 6), nn.Linear(6, 3), []

    def forward(self, x):
        self.h = self.first(x)
        self.seen = [self.h.tanh()]
        return self.second(self.seen[0])


def kept():
    module = Keeps()
    module(torch.randn(X))
    return module


@pytest.mark.parametrize("make", [Tied, Recurrent, reparametrized, kept])
def test_parameters_are_put_wherever_a_module_keeps_them(make):
    module = make()
    found = objective(module, Statistics.FROZEN)
    w = torch.randn_like(found.start)
    with torch.no_grad():
        for name, tensor in found.split(w).items():
            module.get_parameter(name).copy_(tensor)
    loss = F.cross_entropy(module(found.x), found.y)
    slopes = torch.autograd.grad(loss, [module.get_parameter(name) for name in found.names])
    value, slope = found.gradient(w)
    assert value == pytest.approx(loss.item())
    torch.testing.assert_close(slope, found.flat(slopes), rtol=0, atol=1e-14)  # the same sums


class Attentive(nn.Module):
    """Torch's fused attention has no second derivative."""

    def __init__(self):
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(5, 1, 4, dropout=0.0, batch_first=True)

    def forward(self, x):
        return self.layer(x.unsqueeze(1) * torch.arange(1.0, 4).unsqueeze(-1)).mean(1)


@pytest.mark.parametrize("statistics", Statistics)
def test_transformers_have_a_hessian(statistics):
    found = objective(Attentive(), statistics, names=["layer.self_attn.in_proj_weight"])
    step, w = 1e-5, found.start
    ways = step * torch.eye(len(w))
    sides = [torch.stack([found.gradient(w + sign * d)[1] for d in ways]) for sign in (1, -1)]
    differences = (sides[0] - sides[1]) / (2 * step)
    # of second order in the step, and in rounding the gradient's over the step
    torch.testing.assert_close(
        found.hessian_product()(torch.eye(len(w))), differences, rtol=0, atol=1e-9
    )
    assert torch.backends.cudnn.enabled
    assert torch.backends.cuda.flash_sdp_enabled()


class OnlyPlain(nn.Linear):
    """Has no way back while cuDNN is on, as its recurrent nets in evaluation mode."""

    def forward(self, x):
        if torch.is_grad_enabled() and torch.backends.cudnn.enabled:
            raise RuntimeError("cudnn RNN backward can only be called in training mode")
        return super().forward(x)


def test_what_has_a_gradient_by_plain_operators_alone_has_one():
    found = objective(OnlyPlain(5, 3), "frozen")
    plain = nn.Linear(5, 3)
    plain.load_state_dict(found.module.state_dict())
    expected = Objective(plain, found.x, found.y, F.cross_entropy, statistics="frozen")
    assert torch.equal(found.gradient()[1], expected.gradient()[1])
    v = torch.randn_like(found.start)
    assert torch.equal(found.hessian_product()(v), expected.hessian_product()(v))


def test_hessian_of_a_linear_loss_is_zero():
    found = Objective(
        nn.Linear(3, 1), torch.randn(4, 3), None, lambda out, y: out.mean(),
        statistics=Statistics.FROZEN,
    )  # fmt: skip
    assert not found.hessian_product()(torch.randn(4)).any()


def test_parts_of_w_are_found_by_name():
    module = net()
    found = objective(module, names=["3.weight", "0.weight"])
    assert found.names == ["0.weight", "3.weight"]
    assert objective(module, names="0.weight").names == ["0.weight"]
    for name, place in found.slices().items():
        torch.testing.assert_close(
            found.start[place], module.get_parameter(name).detach().reshape(-1)
        )
    assert found.split(found.start)["3.weight"].shape == (3, 6)


class Fails(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inside = net()
        self.calls = 0

    def forward(self, x):
        h = self.inside(x)
        self.calls += 1
        if self.calls > 4:
            raise KeyError("enough")
        return h


@pytest.mark.parametrize("statistics", Statistics)
@pytest.mark.parametrize("make", [net, ours, Fails])
def test_nothing_is_left_behind(make, statistics):
    module = make()
    module.train()
    module[1].eval() if make is not Fails else None
    calls = []
    module.register_forward_hook(lambda *call: calls.append(call))
    before = copy.deepcopy(module.state_dict())
    modes = [part.training for part in module.modules()]
    state = torch.get_rng_state()
    try:
        found = objective(module, statistics)
        found.value()
        found.gradient()
        found.hessian_product()(torch.randn_like(found.start))
        assert make is not Fails
    except KeyError:
        assert make is Fails
    after = module.state_dict()
    assert all(torch.equal(after[name], tensor) for name, tensor in before.items())
    assert [part.training for part in module.modules()] == modes
    assert all(p.grad is None for p in module.parameters())
    assert len(module._forward_hooks) == 1
    assert not calls
    torch.set_rng_state(state)


def test_random_state_is_not_moved():
    found = objective(net())
    state = torch.get_rng_state()
    found.value()
    found.gradient()
    assert torch.equal(torch.get_rng_state(), state)


def test_the_same_w_gives_the_same_bits():
    found = objective(net())
    assert found.value() == found.value()
    assert torch.equal(found.gradient()[1], found.gradient()[1])


@pytest.mark.parametrize("draw", [random.random, np.random.rand, lambda: torch.rand(())])
def test_what_is_random_is_refused_and_leaves_no_trace(draw):
    class Random(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(5, 3)

        def forward(self, x):
            return self.layer(x) * draw()

    def states():
        numpy: Any = np.random.get_state()  # noqa: NPY002
        return random.getstate(), numpy[1].tolist(), torch.get_rng_state().tolist()

    given = Random(), torch.randn(X), torch.randint(3, Y), F.cross_entropy
    before = states()
    with pytest.raises(ValueError, match="another loss the second time"):
        Objective(*given, statistics=Statistics.BATCH)
    assert states() == before


def jitted():
    with warnings.catch_warnings():  # deprecated, and still met with
        warnings.simplefilter("ignore")
        return torch.jit.trace(nn.Linear(5, 3), torch.randn(X))


class Several(nn.Linear):
    def __init__(self):
        super().__init__(5, 3)

    def forward(self, x):
        return super().forward(x), x


class Random(nn.Linear):
    """Draws in evaluation as well."""

    def __init__(self):
        super().__init__(5, 3)

    def forward(self, x):
        return F.dropout(super().forward(x))


def on_meta():
    return nn.Linear(5, 3, device="meta")


WRONG = {
    "x on meta": (net, {"x": torch.ones(X, device="meta")}, "x is on the meta device"),
    "sparse x": (net, {"x": torch.eye(*X).to_sparse()}, "give x.to_dense"),
    "parameters on meta": (on_meta, {}, "weight is on the meta device, without numbers"),
    "buffers on meta": (
        lambda: nn.Sequential(net(), nn.BatchNorm1d(3, affine=False, device="meta")),
        {},
        "1.running_mean is on the meta device",
    ),
    "no scalar": (net, {"loss": lambda out, y: out}, "\\(20, 3\\): let it return a scalar"),
    "not finite": (net, {"x": torch.full(X, torch.inf).double()}, "the loss is nan"),
    "no parameters": (nn.Tanh, {"loss": lambda out, y: out.mean()}, "no parameters"),
    "a single case": (net, {"x": torch.ones(1, 5).double()}, "a single case"),
    "dropout": (lambda: nn.Sequential(net(), nn.Dropout()), {}, "another loss the second time"),
    "shape": (net, {"x": torch.ones(20, 4)}, "does not take x of shape"),
    "output": (Several, {}, "not tuple. The loss is called with all that the module returns"),
    "forgetful": (
        lambda: net(partial(nn.BatchNorm1d, track_running_stats=False)),
        {"statistics": Statistics.FROZEN},
        "1 remembers no statistics and has those of the batch in evaluation",
    ),
    "random in evaluation": (
        Random, {"statistics": Statistics.FROZEN}, "let it draw nothing",
    ),
    "compiled": (jitted, {}, "compiled by torch.jit"),
    "names": (net, {"names": ["weights"]}, "no parameter is called \\['weights'\\]"),
}  # fmt: skip


@pytest.mark.parametrize(("make", "given", "message"), WRONG.values(), ids=WRONG)
def test_what_cannot_be_probed_says_why(make, given, message):
    usual = {"x": torch.randn(X), "y": torch.randint(3, Y), "loss": F.cross_entropy}
    arguments = {**usual, "statistics": Statistics.BATCH, **given}
    with pytest.raises(ValueError, match=message):
        Objective(make(), **arguments)


@pytest.mark.parametrize("x", [[[1.0] * 5], np.ones(X), torch.ones(())])
def test_what_is_no_tensor_of_cases_is_refused(x):
    with pytest.raises((TypeError, ValueError), match=r"^x .*: give (the tensor that|cases)"):
        Objective(net(), x, None, F.cross_entropy, statistics=Statistics.BATCH)


@pytest.mark.parametrize(
    "loss",
    [
        lambda out, y: (out.argmax(1) != y).double().mean(),
        lambda out, y: F.cross_entropy(out.detach(), y),
    ],
)
def test_a_loss_without_gradient_says_so(loss):
    found = Objective(
        net(), torch.randn(X), torch.randint(3, Y), loss, statistics=Statistics.BATCH
    )
    assert found.value() > 0
    for call in (found.gradient, found.hessian_product):
        with pytest.raises(ValueError, match="no gradient by the parameters: give one"):
            call()


def test_statistics_go_by_their_names_too_and_results_say_which_they_had():
    found = objective(net(), "frozen")
    assert found.statistics is Statistics.FROZEN
    results = ends(found), trace(found, 1), density(found, 1), smoothness(found, steps(0.1))
    assert {result.statistics for result in results} == {Statistics.FROZEN}
    with pytest.raises(ValueError, match="choose from batch, frozen, recomputed"):
        objective(net(), "eval")


def test_vector_of_another_length_is_refused():
    with pytest.raises(ValueError, match=r"give \(69,\)"):
        objective(net(nn.LayerNorm)).value(torch.zeros(7))


def test_dropout_is_no_trouble_where_it_is_off():
    module = nn.Sequential(net(nn.LayerNorm), nn.Dropout())
    assert objective(module, Statistics.FROZEN).value() > 0


def test_a_module_in_half_precision_has_the_curvature_of_its_numbers():
    torch.manual_seed(0)
    half = nn.Sequential(nn.Linear(8, 16), nn.LayerNorm(16), nn.Linear(16, 4)).bfloat16()
    x, y = torch.randn(16, 8, dtype=torch.bfloat16), torch.arange(16) % 4
    exact, own = (
        ends(Objective(module, cases, y, F.cross_entropy, statistics="batch")).largest
        for module, cases in ((copy.deepcopy(half).double(), x.double()), (half, x))
    )
    assert own == pytest.approx(exact, rel=1e-3)
    assert half[0].weight.dtype is torch.bfloat16
    asked = Objective(half, x, y, F.cross_entropy, statistics="batch", dtype=torch.bfloat16)
    assert asked.start.dtype is torch.bfloat16
