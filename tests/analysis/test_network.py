"""Fisher products of networks are those of the matrix of eq. 9, an outcome at a time."""

import copy
from contextlib import suppress
from typing import Any

import pytest
import torch
from torch import nn
from torch.distributions import Categorical, kl_divergence
from torch.func import functional_call
from torch.nn import functional as F

import lnlab.nn
from lnlab.analysis.fisher import BERNOULLI, CATEGORICAL, GAUSSIAN, GLM, Divergence, metric
from lnlab.nn.table1 import Statistics

B, D, H, CLASSES = 6, 4, 5, 3
BATCH, FROZEN = Statistics.BATCH, Statistics.FROZEN


def theirs(norm: Any = nn.LayerNorm) -> Any:
    return nn.Sequential(nn.Linear(D, H), norm(H), nn.Tanh(), nn.Linear(H, CLASSES))


def ours(norm: Any = lnlab.nn.LayerNorm) -> Any:
    return nn.Sequential(
        lnlab.nn.Linear(D, H, norm), nn.ReLU(), lnlab.nn.Linear(H, CLASSES, bias_inside=True)
    )


def flat(slopes):
    return torch.cat([slope.reshape(-1) for slope in slopes])


def by_definition(module, x):
    """Eq. 9: the squared slopes of log P of every class, weighed by P."""
    total, parameters = torch.zeros(()), list(module.parameters())
    for case in range(len(x)):
        for unit in range(CLASSES):
            log_P = F.log_softmax(module(x), -1)[case, unit]  # of all cases: batch norm
            score = flat(torch.autograd.grad(log_P, parameters))
            total = total + log_P.exp().detach() * torch.outer(score, score) / len(x)
    return total


@pytest.mark.parametrize("statistics", [BATCH, FROZEN])
@pytest.mark.parametrize(
    "make",
    [
        theirs, lambda: theirs(nn.BatchNorm1d), ours, lambda: ours(lnlab.nn.BatchNorm),
        lambda: ours(lnlab.nn.WeightNorm),
    ],
)  # fmt: skip
def test_products_are_those_of_the_definition(make, statistics):
    module, x = make(), torch.randn(B, D)
    found = Divergence(module, x, statistics=statistics)
    dense = by_definition(module.train(statistics is BATCH), x)
    torch.testing.assert_close(found.dense(), dense)
    v = torch.randn(len(found.start), 2)
    torch.testing.assert_close(found.fisher_product()(v), dense @ v)


@pytest.mark.parametrize("family", [GAUSSIAN, BERNOULLI, CATEGORICAL], ids=lambda f: f.name)
@pytest.mark.parametrize("norm", [lnlab.nn.LayerNorm, lnlab.nn.BatchNorm, lnlab.nn.WeightNorm])
def test_a_layer_has_the_metric_of_its_linear_models(norm, family):
    x = torch.randn(B, D)
    layer: Any = lnlab.nn.Linear(D, H, norm)
    layer.norm.eps = 0.0
    g = torch.rand(H) + 0.5
    with torch.no_grad():
        layer.norm.g.copy_(g)
    found = Divergence(layer, x, family, statistics=BATCH).dense()
    model = GLM(layer.W.detach(), x, norm, family, g=g)
    # there parameters are ordered by unit: [w_i, b_i, g_i]; here W, g, b
    unit = torch.arange(H).unsqueeze(1)
    order = torch.cat([unit * D + torch.arange(D), H * D + H + unit, H * D + unit], 1).flatten()
    expected = metric(model).reshape(H * (D + 2), -1)
    torch.testing.assert_close(found[order][:, order], expected)


@pytest.mark.parametrize("make", [theirs, lambda: ours(lnlab.nn.BatchNorm)])
def test_a_small_step_costs_what_is_predicted(make):
    found = Divergence(make(), torch.randn(B, D), statistics=BATCH)
    assert found.value() == 0
    delta = 1e-4 * torch.randn_like(found.start)
    # the next term of the expansion is of the step's size
    assert found.happened(delta) == pytest.approx(found.predicted(delta), rel=5e-3)
    assert found.happened(delta) > 1e-12


def test_a_large_step_costs_torch_s_divergence_from_here_to_there():
    module, x = theirs(), torch.randn(B, D)
    found = Divergence(module, x, statistics=FROZEN)
    delta = torch.randn_like(found.start)
    here = Categorical(logits=module(x))
    there = Categorical(logits=functional_call(module, found.split(found.start + delta), (x,)))
    forth, back = (kl_divergence(*pair).mean() for pair in ((here, there), (there, here)))
    assert found.happened(delta) == pytest.approx(forth.item())
    assert abs(forth / back - 1) > 0.01  # it is another one on the way back


def test_weights_that_all_grow_cost_nothing_under_layer_norm():
    module = ours()
    module[0].norm.eps = 0.0
    found = Divergence(module, torch.randn(B, D), statistics=FROZEN, names=["0.W"])
    assert abs(found.predicted(found.start)) < 1e-14
    assert abs(found.happened(found.start)) < 1e-14


def test_divergences_of_time_steps_add_up():
    class Last(nn.Module):
        def __init__(self):
            super().__init__()
            self.rnn = nn.RNN(D, H, batch_first=True)

        def forward(self, x):
            return self.rnn(x)

    x = torch.randn(B, 7, D)
    found = Divergence(Last(), x, GAUSSIAN, statistics=FROZEN)
    moved = found.start + 0.1
    with torch.no_grad():
        h = found.module(x)[0]
        expected = (h - functional_call(found.module, found.split(moved), (x,))[0]).square()
    assert found.value(moved) == pytest.approx(float(expected.sum() / 2 / B))


@pytest.mark.parametrize("statistics", [BATCH, FROZEN])
def test_the_module_is_left_as_it_was(statistics):
    module = theirs(nn.BatchNorm1d)
    module[1].eval()
    hook = module.register_forward_hook(lambda *call: pytest.fail("a hook was called"))
    before, state = copy.deepcopy(module.state_dict()), torch.get_rng_state()
    modes = [part.training for part in module.modules()]
    found = Divergence(
        module, torch.randn(B, D, generator=torch.Generator()), statistics=statistics
    )
    found.predicted(found.start)
    found.happened(found.start)
    for name, tensor in module.state_dict().items():
        assert torch.equal(tensor, before[name])
    assert [part.training for part in module.modules()] == modes
    assert all(p.grad is None and p.requires_grad for p in module.parameters())
    assert torch.equal(torch.get_rng_state(), state)
    assert list(module._forward_hooks) == [hook.id]


class Fails(nn.Module):
    """A net that gives up at one of its calls."""

    def __init__(self, call: int) -> None:
        super().__init__()
        self.net, self.left = theirs(nn.BatchNorm1d), call

    def forward(self, x):
        h = self.net(x)
        self.left -= 1
        if not self.left:
            raise KeyError("enough")
        return h


@pytest.mark.parametrize("call", range(1, 9))
@pytest.mark.parametrize("statistics", [BATCH, FROZEN])
def test_it_is_left_so_whenever_it_fails(call, statistics):
    module, x = Fails(call), torch.randn(B, D)
    before, state = copy.deepcopy(module.state_dict()), torch.get_rng_state()
    with suppress(KeyError, ValueError):
        found = Divergence(module, x, statistics=statistics)
        found.predicted(found.start)
    assert all(torch.equal(v, before[name]) for name, v in module.state_dict().items())
    assert (module.training, module.left) == (True, call)
    assert all(p.grad is None and p.requires_grad for p in module.parameters())
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize(
    ("module", "x", "says"),
    [
        (nn.Tanh(), torch.ones(B, D), "no parameters that are trained"),
        (theirs().double(), torch.full((B, D), torch.nan).double(), "the loss is nan"),
        (theirs().double(), torch.ones(B, D + 1).double(), "does not take x"),
        (
            theirs(nn.BatchNorm1d).double(),
            torch.ones(1, D).double(),
            "does not take x|single case",
        ),
        (nn.Sequential(theirs(), nn.Dropout()).double(), torch.ones(B, D).double(), "dropout"),
    ],
)
def test_what_has_no_metric_is_refused(module, x, says):
    with pytest.raises(ValueError, match=says):
        Divergence(module, x, statistics=BATCH)


def test_statistics_without_a_derivative_are_refused():
    with pytest.raises(ValueError, match="BATCH, which are those of x too"):
        Divergence(theirs(), torch.ones(B, D), statistics=Statistics.RECOMPUTED)


def test_steps_of_another_length_are_refused():
    found = Divergence(theirs(), torch.ones(B, D), statistics=FROZEN)
    for cost in (found.predicted, found.happened):
        with pytest.raises(ValueError, match=r"delta has shape \(3,\).* give \(53,\)"):
            cost(torch.ones(3))


def test_half_precision_predicts_as_its_numbers_do():
    half, x = theirs().bfloat16(), torch.randn(B, D, dtype=torch.bfloat16)
    exact = Divergence(copy.deepcopy(half).double(), x.double(), statistics=FROZEN)
    own = Divergence(half, x, statistics=FROZEN)
    delta = torch.linspace(-1, 1, len(exact.start))
    assert own.happened(delta.to(own.start)) == pytest.approx(
        exact.happened(delta.to(exact.start)), rel=1e-3
    )
