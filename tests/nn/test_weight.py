"""Oracle: rules on the weights against torch's parametrizations and the papers' formulas."""

from functools import partial

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils import parametrizations

from lnlab.nn import (
    GroupNorm,
    MeanOnlyBatchNorm,
    SpectralNorm,
    WeightNorm,
    WeightStandardization,
    inside_root,
    outside_root,
)

KERNELS = {"dense": (8, 5), "convolution": (8, 3, 2, 2)}
kernels = pytest.mark.parametrize("kernel", KERNELS)


@pytest.fixture
def given(randomize, outcome):
    """Inputs and weights of a kind, and what a normalizer makes of them."""

    def make(norm, kernel):
        W = torch.randn(KERNELS[kernel], requires_grad=True)
        x = torch.randn((6, 5) if kernel == "dense" else (6, 3, 5, 4), requires_grad=True)
        product = F.linear if kernel == "dense" else F.conv2d
        randomize(norm)
        leaves = {"x": x, "W": W, **dict(norm.named_parameters())}

        def ours():
            return outcome(norm(product(x, norm.effective_weight(W)), W), **leaves)

        return x, W, product, dict(leaves), ours

    return make


def assert_equal(ours, theirs, atol=1e-12):
    # orders of operation that differ, on numbers below 100: the worst seen is 5e-14
    torch.testing.assert_close(ours, theirs, rtol=0, atol=atol)


def along(v, W):
    """One number a unit, against the summed inputs."""
    return v.reshape(-1, *(1,) * (W.dim() - 2))


def as_rows(v, W):
    """One number a unit, against the weights."""
    return v.reshape(-1, *(1,) * (W.dim() - 1))


@kernels
def test_weight_norm_is_torchs(kernel, given, outcome):
    norm = WeightNorm(8, space=len(KERNELS[kernel]) - 2)
    x, W, product, leaves, ours = given(norm, kernel)
    w = as_rows(leaves["g"], W) * W / as_rows(W.flatten(1).norm(dim=1), W)
    assert_equal(ours(), outcome(product(x, w) + along(leaves["b"], W), **leaves))


@kernels
def test_mean_only_batch_norm_is_section_4(kernel, given, outcome):
    space = len(KERNELS[kernel]) - 2
    norm = MeanOnlyBatchNorm(8, space=space, momentum=0.2)
    x, W, product, leaves, ours = given(norm, kernel)
    cases = [0, 2, 3][: 1 + space]
    pre = product(x, as_rows(leaves["g"] / W.flatten(1).norm(dim=1), W) * W)
    y = pre - pre.mean(cases, keepdim=True) + along(leaves["b"], W)
    assert_equal(ours(), outcome(y, **leaves))
    mean = product(x, W).mean(cases).detach()
    assert_equal(norm.running_mean, 0.2 * mean)
    norm.eval()
    pre = product(x, W) - along(0.2 * mean, W)
    y = along(leaves["g"] / W.flatten(1).norm(dim=1), W) * pre + along(leaves["b"], W)
    assert_equal(ours(), outcome(y, **leaves))


@kernels
@pytest.mark.parametrize("root", [inside_root, outside_root])
@pytest.mark.parametrize("correction", [0, 1])
def test_weight_standardization_standardizes_rows(kernel, root, correction, given, outcome):
    norm = WeightStandardization(8, eps=0.3, root=root, correction=correction)
    norm.space = len(KERNELS[kernel]) - 2
    x, W, product, leaves, ours = given(norm, kernel)
    axes = tuple(range(1, W.dim()))
    centred = W - W.mean(axes, keepdim=True)
    var = centred.square().sum(axes, keepdim=True) / (W[0].numel() - correction)
    sigma = (var + 0.3).sqrt() if root is inside_root else var.sqrt() + 0.3
    assert_equal(ours(), outcome(product(x, centred / sigma), **leaves))


@kernels
def test_converged_spectral_norm_is_torchs(kernel, given, outcome):
    norm = SpectralNorm(8, space=len(KERNELS[kernel]) - 2)
    x, W, _, leaves, ours = given(norm, kernel)
    theirs = (
        nn.Linear(5, 8, bias=False) if kernel == "dense" else nn.Conv2d(3, 8, 2, bias=False)
    )
    with torch.no_grad():
        theirs.weight.copy_(W)
    parametrizations.spectral_norm(theirs, n_power_iterations=1000)
    theirs(x)
    norm.run_power_iteration(W.detach().flatten(1), 1000)
    norm.eval()
    theirs.eval()
    leaves["W"] = theirs.parametrizations.weight.original  # type: ignore[union-attr]
    y = along(leaves["g"], W) * theirs(x) + along(leaves["b"], W)
    # power iteration has converged on both sides: 1e-10 is asked for, 1e-14 seen
    assert_equal(ours(), outcome(y, **leaves), atol=1e-10)


def test_power_iteration_moves_in_training_only_and_starts_warm():
    W = torch.randn(8, 5)
    norm = SpectralNorm(8)
    cold = norm.u.clone()
    norm.initialize_from_weights(W)
    warm = norm.u.clone()
    norm.eval()(W.T, W)
    assert torch.equal(norm.u, warm)
    norm.train()(W.T, W)
    leading = torch.linalg.svd(W)[0][:, 0]
    misses = [1 - (leading @ u).abs() for u in (cold, warm, norm.u)]
    assert misses[0] > misses[1] > misses[2]
    assert_equal(norm.u.norm(), torch.ones(()))


def test_group_norm_behind_standardized_weights_normalizes_what_they_give(given, outcome):
    """Qiao et al. (2019), section 3, by the formulas of both, gradients too."""
    norm = WeightStandardization(8, space=2, behind=partial(GroupNorm, 4))
    x, W, product, leaves, ours = given(norm, "convolution")

    def theirs():
        w = W.flatten(1)
        mean, var = w.mean(1, keepdim=True), w.var(1, correction=0, keepdim=True)
        a = product(x, ((w - mean) / (var + 1e-5).sqrt()).view_as(W))
        return F.group_norm(a, 4, norm.behind.g, norm.behind.b)

    assert_equal(ours(), outcome(theirs(), **leaves), atol=1e-10)  # sums of some hundreds
