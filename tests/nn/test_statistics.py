"""Oracle: statistics computed again are those of all cases at once."""

import copy

import pytest
import torch
from torch import nn

from lnlab.nn import (
    BatchNorm,
    BatchNormalizer,
    BatchRenorm,
    GhostBatchNorm,
    LayerNorm,
    Linear,
    MeanOnlyBatchNorm,
    RecurrentBatchNorm,
    StatisticsMode,
    recompute_statistics,
)


def assert_equal(ours, theirs):
    # two orders of summation of numbers below 100: the worst seen is 3e-14
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    "make",
    [
        BatchRenorm,
        MeanOnlyBatchNorm,
        lambda units: GhostBatchNorm(units, 3),
        lambda units: BatchNorm(units, correction=1),
        lambda units: nn.BatchNorm1d(units, momentum=None),
    ],
    ids=["renorm", "mean-only", "ghost", "unbiased", "torch"],
)
def test_several_batches_are_one_population(make):
    norm = make(8)
    model = Linear(5, 8, lambda _: norm) if isinstance(norm, BatchNormalizer) else norm
    x = 3 + torch.randn(20, 5 if isinstance(model, Linear) else 8)
    a = x @ model.W.detach().T if isinstance(model, Linear) else x
    norm.running_mean.fill_(7.0)  # forgotten
    assert recompute_statistics(model, x.split([7, 2, 11])) is model
    assert_equal(norm.running_mean, a.mean(0))
    if isinstance(norm, BatchRenorm):
        assert_equal(norm.running_sigma, (a.var(0, correction=0) + norm.eps).sqrt())
    else:
        assert_equal(norm.running_var, a.var(0, correction=0))


def test_layers_behind_see_what_batch_statistics_make():
    first, second = BatchNorm(8), nn.BatchNorm1d(8)
    first.running_mean.fill_(100.0)
    x = torch.randn(12, 8)
    recompute_statistics(nn.Sequential(first, second), [x])
    seen = (x - x.mean(0)) / (x.var(0, correction=0) + first.eps).sqrt()
    assert_equal(second.running_mean, seen.mean(0))
    assert_equal(second.running_var, seen.var(0, correction=0))


class Unrolled(nn.Module):
    """One normalizer at several time steps."""

    def __init__(self, norm):
        super().__init__()
        self.norm = norm

    def forward(self, x):
        for t, a in enumerate(x.unbind(1)):
            self.norm(a, t=t)


def test_time_steps_are_populations_of_their_own_where_the_rule_has_time():
    norm, pooled = RecurrentBatchNorm(8, steps=3), BatchNorm(8)
    # longer than what was trained on
    x = torch.randn(10, 5, 8) * torch.arange(1, 6.0)[:, None]
    recompute_statistics(Unrolled(norm), x.split(4))
    assert_equal(norm.running_mean, x.mean(0)[:3])
    assert_equal(norm.running_var, x.var(0, correction=0)[:3])
    recompute_statistics(Unrolled(pooled), [x])
    assert_equal(pooled.running_mean, x.mean((0, 1)))
    assert_equal(pooled.running_var, x.var((0, 1), correction=0))


def test_nothing_else_is_changed():
    ours, theirs = BatchNorm(8), nn.BatchNorm1d(8).eval()
    ours.mode = StatisticsMode.RUNNING
    model = nn.Sequential(nn.Dropout(0.9), ours, theirs, LayerNorm(8))
    parameters = copy.deepcopy(list(model.parameters()))
    training = [module.training for module in model.modules()]
    x = torch.randn(12, 8)
    recompute_statistics(model, [x])
    assert [module.training for module in model.modules()] == training
    assert ours.mode is StatisticsMode.RUNNING
    assert theirs.num_batches_tracked == 0
    assert all(map(torch.equal, parameters, model.parameters()))
    assert not any(module._forward_hooks for module in model.modules())
    assert_equal(ours.running_mean, x.mean(0))  # nothing was dropped


@pytest.mark.parametrize(
    ("sizes", "message"), [([], "population has at least one example"), ([8, 7], "8 units")]
)
def test_failure_leaves_everything_as_it_was(sizes, message):
    model = nn.Sequential(BatchNorm(8), nn.BatchNorm1d(8))
    model(torch.randn(12, 8))
    before = copy.deepcopy(model.state_dict())
    with pytest.raises(ValueError, match=message):
        recompute_statistics(model, [torch.randn(12, size) for size in sizes])
    torch.testing.assert_close(dict(model.state_dict()), dict(before))
    assert all(module.training for module in model.modules())
    assert not any(module._forward_hooks for module in model.modules())
