"""Oracle: rules over the cases against torch's batch_norm and the papers' algorithms."""

import pytest
import torch
from torch.nn import functional as F

from lnlab.nn import (
    BatchNorm,
    BatchRenorm,
    GhostBatchNorm,
    RecurrentBatchNorm,
    StatisticsMode,
    outside_root,
    use_statistics,
)

SHAPES = {"dense": (6, 8), "sequence": (5, 6, 8), "signal": (6, 8, 5), "picture": (6, 8, 3, 4)}
SPACE = {"dense": 0, "sequence": 0, "signal": 1, "picture": 2}
places = pytest.mark.parametrize("place", SHAPES)


def inputs(*shape):
    """A batch of mean 3, which is neither the running mean nor of variance 1."""
    return (3 + 2 * torch.randn(shape)).requires_grad_()


def assert_equal(ours, theirs):
    # two orders of summation of numbers below 100: the worst seen is 3e-14
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-12)


def torchs(a, norm, mean, var, training):
    """F.batch_norm with the units in the place where torch has them."""
    rows = a.reshape(-1, 8) if not norm.space else a
    y = F.batch_norm(rows, mean, var, norm.g, norm.b, training, norm.momentum, norm.eps)
    return y.reshape(a.shape)


@places
@pytest.mark.parametrize("affine", [True, False])
def test_batch_norm_is_torchs_in_training_and_after(place, affine, randomize, outcome):
    norm = BatchNorm(8, space=SPACE[place], affine=affine, momentum=0.3, eps=0.1)
    randomize(norm)
    mean, var = torch.zeros(8), torch.ones(8)
    for training in (True, True, False):
        norm.train(training)
        leaves = {"a": inputs(*SHAPES[place]), **dict(norm.named_parameters())}
        y = torchs(leaves["a"], norm, mean, var, training)
        assert_equal(outcome(norm(leaves["a"]), **leaves), outcome(y, **leaves))
        assert_equal(norm.running_mean, mean)
        assert_equal(norm.running_var, var)


@pytest.mark.parametrize("training", [True, False])
def test_explicit_mode_wins_over_training_and_only_training_remembers(training):
    norm, a = BatchNorm(8).train(training), inputs(6, 8)
    with use_statistics(norm, StatisticsMode.RUNNING):
        assert_equal(norm(a), a / (1 + norm.eps) ** 0.5)
    assert not norm.running_mean.any()
    with use_statistics(norm, StatisticsMode.BATCH):
        assert_equal(norm(a), F.batch_norm(a, None, None, training=True))
    assert norm.running_mean.any() == training
    assert norm.mode is None


@pytest.mark.parametrize("correction", [0, 1])
def test_a_single_value_gives_b_and_changes_the_running_mean_alone(correction, randomize):
    norm = randomize(BatchNorm(8, correction=correction))
    y = norm(torch.full((1, 8), 3.0))
    assert_equal(y, norm.b.expand(1, 8))
    assert_equal(norm.running_mean, torch.full((8,), 0.3))
    assert_equal(norm.running_var, torch.ones(8))


@pytest.mark.parametrize("norm", [BatchNorm, BatchRenorm])
def test_unbiased_variance_is_a_setting(norm):
    a = inputs(4, 8)
    settings = {"r_max": 1.0, "d_max": 0.0} if norm is BatchRenorm else {}
    y = norm(8, correction=1, root=outside_root, eps=0.3, **settings)(a)
    assert_equal(y, (a - a.mean(0)) / (a.std(0) + 0.3))


@places
def test_ghosts_are_batches_of_their_own(place, randomize, outcome):
    norm = randomize(GhostBatchNorm(8, 4, space=SPACE[place]))
    a = inputs(*SHAPES[place])
    cases = a.reshape(-1, *a.shape[-1 - norm.space :])
    mean, var = torch.zeros(8), torch.ones(8)
    assert len(cases) % 4 != 0  # the last ghost is smaller
    y = torch.cat([torchs(ghost, norm, mean, var, True) for ghost in cases.split(4)])
    leaves = {"a": a, **dict(norm.named_parameters())}
    assert_equal(outcome(norm(a), **leaves), outcome(y.reshape(a.shape), **leaves))
    assert_equal(norm.running_mean, mean)
    assert_equal(norm.running_var, var)
    assert_equal(norm.eval()(a), torchs(a, norm, mean, var, False))


def renormed(a, norm, mean, sigma):
    """Ioffe (2017), algorithm 1, word for word; moves mean and sigma."""
    mu_B = a.mean(0)
    sigma_B = (norm.eps + (a - mu_B).square().mean(0)).sqrt()
    r = (sigma_B / sigma).clamp(1 / norm.r_max, norm.r_max).detach()
    d = ((mu_B - mean) / sigma).clamp(-norm.d_max, norm.d_max).detach()
    y = norm.g * ((a - mu_B) / sigma_B * r + d) + norm.b
    mean += norm.momentum * (mu_B.detach() - mean)
    sigma += norm.momentum * (sigma_B.detach() - sigma)
    return y, r, d


@pytest.mark.parametrize(("r_max", "d_max"), [(3, 5), (1.2, 0.5), (float("inf"),) * 2])
def test_batch_renorm_is_algorithm_1(r_max, d_max, randomize, outcome):
    norm = randomize(BatchRenorm(8, r_max=r_max, d_max=d_max, momentum=0.2))
    mean, sigma = torch.zeros(8), torch.ones(8)
    for _ in range(3):
        leaves = {"a": inputs(6, 8), **dict(norm.named_parameters())}
        y, r, d = renormed(leaves["a"], norm, mean, sigma)
        assert (r - 1).abs().max() > 0.1
        assert d.abs().max() > 0.1
        assert_equal(outcome(norm(leaves["a"]), **leaves), outcome(y, **leaves))
        assert_equal(norm.running_mean, mean)
        assert_equal(norm.running_sigma, sigma)
    a = inputs(6, 8)
    assert_equal(norm.eval()(a), norm.g * (a - mean) / sigma + norm.b)


def test_each_time_step_has_statistics_of_its_own(randomize, outcome):
    norm = randomize(RecurrentBatchNorm(8, steps=3))
    mean, var = torch.zeros(3, 8), torch.ones(3, 8)
    for t in (0, 1, 2, 1):
        leaves = {"a": inputs(6, 8), **dict(norm.named_parameters())}
        y = torchs(leaves["a"], norm, mean[t], var[t], True)
        assert_equal(outcome(norm(leaves["a"], t=t), **leaves), outcome(y, **leaves))
        assert_equal(norm.running_mean, mean)
        assert_equal(norm.running_var, var)
    norm.eval()
    for t, step in ((0, 0), (2, 2), (3, 2), (99, 2)):  # past the last: the last one's
        a = inputs(6, 8)
        assert_equal(norm(a, t=t), torchs(a, norm, mean[step], var[step], False))
    for t, message in ((None, "t is None"), (3, "time step 3 .* 3 steps")):
        with pytest.raises(ValueError, match=message):
            norm.train()(inputs(6, 8), t=t)
