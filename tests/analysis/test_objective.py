"""A loss as a function of w is what autograd says it is, on a copy of any module."""

import copy
from functools import partial
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

import lnlab.nn
from lnlab.analysis.hessian import extreme_eigenvalues
from lnlab.analysis.module_copy import BN_STATS
from lnlab.analysis.objective import Objective
from tests.analysis.models import Checkpointed

X, Y = (20, 5), (20,)


def net(norm: Any = nn.BatchNorm1d) -> Any:
    return nn.Sequential(nn.Linear(5, 6), norm(6), nn.Tanh(), nn.Linear(6, 3))


def ours():
    linear = lnlab.nn.Linear(5, 6, lnlab.nn.BatchNorm)
    return nn.Sequential(linear, nn.Tanh(), nn.Linear(6, 3))


def objective(model, bn_stats="batch", **options):
    x, y = torch.randn(X), torch.randint(3, Y)
    return Objective(model, x, y, F.cross_entropy, bn_stats=bn_stats, **options)


@pytest.mark.parametrize("make", [net, ours, lambda: net(nn.LayerNorm)])
@pytest.mark.parametrize("bn_stats", BN_STATS)
def test_value_and_gradient_are_those_of_the_model_itself(make, bn_stats):
    model = make()
    for _ in range(3):
        model(torch.randn(X) + 1)  # running statistics of something else
    loss = objective(model, bn_stats)
    model.train(bn_stats == "batch")
    if bn_stats == "recomputed":
        lnlab.nn.recompute_statistics(model, [loss.x]).eval()
    expected = F.cross_entropy(model(loss.x), loss.y)
    expected.backward()
    value, slope = loss.gradient()
    # recomputed statistics are the biased ones of the batch, taken in another way
    assert loss.value() == value == pytest.approx(float(expected.detach()), abs=1e-13)
    of_model = torch.cat([p.grad.reshape(-1) for p in model.parameters()])
    torch.testing.assert_close(slope, of_model, rtol=0, atol=1e-13)


@pytest.mark.parametrize("bn_stats", ["batch", "running"])
def test_hessian_products_are_those_of_the_dense_hessian(bn_stats):
    loss = objective(net(), bn_stats)
    dense: Any = torch.autograd.functional.hessian(loss, loss.start)
    product, v = loss.hessian_product(), torch.randn(len(loss.start), 3)
    torch.testing.assert_close(product(v), dense @ v, rtol=0, atol=1e-12)  # other order
    torch.testing.assert_close(product(v[:, 0]), dense @ v[:, 0], rtol=0, atol=1e-12)


def tied():
    first, second = nn.Linear(5, 5), nn.Linear(5, 5)
    second.weight = first.weight
    return nn.Sequential(first, nn.Tanh(), second)


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm, self.last = nn.LSTM(5, 4, batch_first=True), nn.Linear(4, 3)

    def forward(self, x):
        return self.last(self.lstm(x.unsqueeze(1).expand(-1, 3, -1))[0][:, -1])


def reparametrized():
    linear = nn.utils.parametrizations.weight_norm(nn.Linear(5, 6))
    return nn.Sequential(linear, nn.Linear(6, 3))


class Keeps(nn.Linear):
    """Keeps what it computed last, with its history, as attention weights often are."""

    def __init__(self):
        super().__init__(5, 3)
        self.h = [super().forward(torch.randn(X))]

    def forward(self, x):
        self.h = [super().forward(x)]
        return self.h[0].tanh()


@pytest.mark.parametrize("make", [tied, Recurrent, reparametrized, Keeps])
def test_parameters_are_replaced_wherever_a_module_keeps_them(make):
    model = make()
    loss = objective(model, None)
    w = torch.randn_like(loss.start)
    with torch.no_grad():
        for name, tensor in loss.unflatten(w).items():
            model.get_parameter(name).copy_(tensor)
    expected = F.cross_entropy(model(loss.x), loss.y)
    slopes = torch.autograd.grad(expected, [model.get_parameter(n) for n in loss.names])
    value, slope = loss.gradient(w)
    assert value == pytest.approx(expected.item())
    torch.testing.assert_close(slope, loss.flatten(slopes), rtol=0, atol=1e-14)  # the same sums
    assert torch.equal(loss.parameters_of(model), w)


class Attentive(nn.Module):
    """Torch's fused attention has no second derivative."""

    def __init__(self):
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(5, 1, 4, dropout=0.0, batch_first=True)

    def forward(self, x):
        return self.layer(
            x.unsqueeze(1) * torch.arange(1.0, 4, device=x.device).unsqueeze(-1)
        ).mean(1)


@pytest.mark.parametrize("bn_stats", ["batch", "running"])
def test_transformers_have_a_hessian(bn_stats):
    loss = objective(Attentive(), bn_stats, params=["layer.self_attn.in_proj_weight"])
    step, w = 1e-5, loss.start
    eye = step * torch.eye(len(w))
    up, down = (torch.stack([loss.gradient(w + s * d)[1] for d in eye]) for s in (1, -1))
    # of second order in the step, and in rounding the gradient's over the step
    product = loss.hessian_product()(torch.eye(len(w)))
    torch.testing.assert_close(product, (up - down) / (2 * step), rtol=0, atol=1e-9)
    assert torch.backends.cuda.flash_sdp_enabled()


@pytest.mark.gpu
@pytest.mark.parametrize("make", [Recurrent, Attentive])
@pytest.mark.parametrize("bn_stats", ["batch", "running"])
def test_what_is_fused_on_a_device_has_the_derivatives_of_the_cpu(make, bn_stats, device):
    model, x, y, found = make(), torch.randn(X), torch.randint(3, Y), []
    v = torch.randn(sum(p.numel() for p in model.parameters()))
    for d in ("cpu", device):
        loss = Objective(model.to(d), x.to(d), y.to(d), F.cross_entropy, bn_stats=bn_stats)
        found.append([loss.gradient()[1].cpu(), loss.hessian_product()(v.to(d)).cpu()])
    # float64, other orders of summation
    torch.testing.assert_close(found[1], found[0], rtol=1e-7, atol=1e-9)


def test_a_model_in_half_precision_has_the_curvature_of_its_numbers():
    half = nn.Sequential(nn.Linear(8, 16), nn.LayerNorm(16), nn.Linear(16, 4)).bfloat16()
    x, y = torch.randn(16, 8, dtype=torch.bfloat16), torch.arange(16) % 4
    exact, own = (
        extreme_eigenvalues(model, cases, y, F.cross_entropy).largest
        for model, cases in ((copy.deepcopy(half).double(), x.double()), (half, x))
    )
    assert own == pytest.approx(exact, rel=1e-3)
    assert half[0].weight.dtype is torch.bfloat16


WRONG = {
    "no scalar": (net, {"loss_fn": lambda out, y: out}, "\\(20, 3\\): let it return a scalar"),
    "dropout": (lambda: nn.Sequential(net(), nn.Dropout()), {}, "another loss the second time"),
    "shape": (net, {"x": torch.ones(20, 4)}, "does not take x of shape"),
    "no running statistics": (
        lambda: net(partial(nn.BatchNorm1d, track_running_stats=False)),
        {"bn_stats": "running"},
        "1 has no running statistics and takes those of the batch",
    ),
    "names": (net, {"params": ["weights"]}, "no parameter is called \\['weights'\\]"),
    "a loss by name": (net, {"loss_fn": "ce"}, "loss_fn is of class str: give a function"),
    "no source of statistics": (net, {"bn_stats": None}, r'choose whose.* bn_stats="batch"'),
}


@pytest.mark.parametrize(("make", "options", "message"), WRONG.values(), ids=WRONG)
def test_what_cannot_be_analyzed_says_why(make, options, message):
    usual = {"x": torch.randn(X), "y": torch.randint(3, Y), "loss_fn": F.cross_entropy}
    with pytest.raises((TypeError, ValueError), match=message):
        Objective(make(), **{**usual, "bn_stats": "batch", **options})


def test_without_batch_norm_nothing_is_asked_and_dropout_is_off():
    dropout = nn.Sequential(net(nn.LayerNorm), nn.Dropout())
    assert objective(dropout, None).value() > 0


def test_a_loss_without_gradient_says_so():
    def count(out, y):
        return (out.argmax(1) != y).double().mean()

    loss = Objective(net(), torch.randn(X), torch.randint(3, Y), count, bn_stats="batch")
    assert loss.value() > 0
    for call in (loss.gradient, loss.hessian_product):
        with pytest.raises(ValueError, match="no gradient by the parameters: give one"):
            call()


@pytest.mark.parametrize("use_reentrant", [False, True])
def test_a_checkpointed_module_has_the_derivatives_of_the_plain_one(use_reentrant):
    net, x, objectives = Checkpointed(), torch.randn(7, 4), []
    for run in (net.run, partial(checkpoint, use_reentrant=use_reentrant)):
        net.run = run
        objectives.append(Objective(net, x, None, lambda y, _: y.square().mean()))
    v = torch.ones_like(objectives[0].start)
    for derivative in (Objective.gradient, lambda o: (o.value(), o.hessian_product()(v))):
        (_, expected), (_, found) = map(derivative, objectives)
        torch.testing.assert_close(found, expected)


class OwnBatchNorm(nn.Module):
    """Batch norm with running statistics under other names than torch's."""

    def __init__(self, units):
        super().__init__()
        self.register_buffer("average", torch.zeros(units))

    def forward(self, a):
        if not self.training:
            return a - self.average
        self.average.lerp_(a.detach().mean(0), 0.1)
        return a - a.mean(0)


def test_batch_norm_of_ones_own_needs_the_source_of_its_statistics():
    module = nn.Sequential(nn.Linear(3, 4), OwnBatchNorm(4), nn.Linear(4, 2)).eval()
    x, y = torch.randn(8, 3), torch.zeros(8, dtype=torch.long)
    with pytest.raises(ValueError, match=r'changes 1.average.*bn_stats="batch"'):
        Objective(module, x, y, F.cross_entropy)
    assert not module[1].average.any()
    for bn_stats in ("batch", "running"):
        module.train(bn_stats == "batch")
        value = Objective(module, x, y, F.cross_entropy, bn_stats=bn_stats).value()
        expected = F.cross_entropy(copy.deepcopy(module)(x), y).item()
        assert value == pytest.approx(expected)


def test_the_vectors_of_spectral_norm_are_no_running_statistics():
    module = nn.Sequential(nn.utils.parametrizations.spectral_norm(nn.Linear(3, 2)))
    x, y = torch.randn(8, 3), torch.zeros(8, dtype=torch.long)
    assert Objective(module, x, y, F.cross_entropy).value() > 0


def test_a_batch_norm_with_a_forward_of_its_own_is_not_recomputed():
    class Own(nn.BatchNorm1d):
        def forward(self, a):
            return super().forward(a)

    x, y = torch.randn(*X), torch.zeros(*Y, dtype=torch.long)
    with pytest.raises(ValueError, match=r"Own.* has a forward of its own"):
        Objective(net(Own), x, y, F.cross_entropy, bn_stats="recomputed")


def test_statistics_of_a_module_of_ones_own_are_not_recomputed():
    x, y = torch.randn(*X), torch.zeros(*Y, dtype=torch.long)
    with pytest.raises(ValueError, match=r"changes .*average, as batch normalization"):
        Objective(net(OwnBatchNorm), x, y, F.cross_entropy, bn_stats="recomputed")
    for stats in ("batch", "running"):
        assert Objective(net(OwnBatchNorm), x, y, F.cross_entropy, bn_stats=stats).value() > 0
    torch_s = Objective(net(nn.BatchNorm1d), x, y, F.cross_entropy, bn_stats="recomputed")
    assert torch_s.value() > 0
