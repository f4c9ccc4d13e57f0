"""Oracle: rules on one case against torch's operators and the papers' formulas."""

from math import prod

import pytest
import torch
from torch.nn import functional as F

from lnlab.nn import (
    GroupNorm,
    InstanceNorm,
    LayerNorm,
    RMSNorm,
    ScaleNorm,
    inside_root,
    outside_root,
)

SHAPES = {0: (6, 8), 1: (6, 8, 5), 2: (6, 8, 3, 4)}
spaces = pytest.mark.parametrize("space", SHAPES)


def inputs(*shape):
    """Summed inputs of mean 3, which a rule must remove or keep."""
    return (3 + 2 * torch.randn(shape)).requires_grad_()


def along(v, space):
    return v.reshape(-1, *(1,) * space)


def check(outcome, norm, expected, *shape):
    """Values and all gradients of ``norm`` are those of ``expected(a, g, b)``."""
    a = inputs(*shape)
    leaves = {"a": a, **dict(norm.named_parameters())}
    y = expected(a, getattr(norm, "g", None), getattr(norm, "b", None))
    # two orders of summation of numbers below 100: the worst seen is 3e-14
    torch.testing.assert_close(
        outcome(norm(a), **leaves), outcome(y, **leaves), rtol=0, atol=1e-12
    )


@pytest.mark.parametrize("shape", [(6, 8), (8,), (2, 3, 8), (6, 1)], ids=str)
@pytest.mark.parametrize("eps", [1e-5, 0.1])
@pytest.mark.parametrize("affine", [True, False])
def test_layer_norm_is_torchs(shape, eps, affine, randomize, outcome):
    units = shape[-1]
    norm = randomize(LayerNorm(units, eps=eps, elementwise_affine=affine))
    check(outcome, norm, lambda a, g, b: F.layer_norm(a, (units,), g, b, eps), *shape)


@pytest.mark.parametrize("space", [1, 2])
def test_layer_norm_per_position_is_torchs_over_channels(space, randomize, outcome):
    norm = randomize(LayerNorm(8, space=space, per_position=True))

    def expected(a, g, b):
        return F.layer_norm(a.movedim(1, -1), (8,), g, b).movedim(-1, 1)

    check(outcome, norm, expected, *SHAPES[space])


@spaces
@pytest.mark.parametrize("correction", [0, 1])
@pytest.mark.parametrize("root", [inside_root, outside_root])
def test_layer_norm_has_the_settings_of_its_copies(space, correction, root, randomize, outcome):
    norm = randomize(LayerNorm(8, eps=0.3, space=space, correction=correction, root=root))

    def expected(a, g, b):
        axes = tuple(range(1, a.dim()))
        centred = a - a.mean(axes, keepdim=True)
        var = centred.square().sum(axes, keepdim=True) / (prod(a.shape[1:]) - correction)
        sigma = (var + 0.3).sqrt() if root is inside_root else var.sqrt() + 0.3
        return along(g, space) / sigma * centred + along(b, space)

    check(outcome, norm, expected, *SHAPES[space])


@pytest.mark.parametrize("correction", [0, 1])
@pytest.mark.parametrize("shape", [(6, 1), (6, 1, 1), (1, 1)], ids=str)
def test_a_lone_value_has_variance_0_with_either_estimator(shape, correction, randomize):
    norm = randomize(LayerNorm(1, correction=correction, space=len(shape) - 2))
    torch.testing.assert_close(norm(inputs(*shape)), norm.b.reshape(shape[1:]).expand(shape))
    mu, sigma = norm.stats(inputs(*shape))
    assert (sigma == norm.eps**0.5).all()
    assert mu.shape == sigma.shape == shape


@spaces
@pytest.mark.parametrize("groups", [1, 2, 8])
@pytest.mark.parametrize("affine", [True, False])
def test_group_norm_is_torchs(space, groups, affine, randomize, outcome):
    norm = randomize(GroupNorm(groups, 8, space=space, affine=affine))
    check(outcome, norm, lambda a, g, b: F.group_norm(a, groups, g, b), *SHAPES[space])


@pytest.mark.parametrize("space", [1, 2])
@pytest.mark.parametrize("affine", [True, False])
def test_instance_norm_is_torchs(space, affine, randomize, outcome):
    norm = randomize(InstanceNorm(8, space=space, affine=affine))
    check(
        outcome,
        norm,
        lambda a, g, b: F.instance_norm(a, weight=g, bias=b),
        *SHAPES[space],
    )


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("eps", [1e-5, 0.1, 0.0])
def test_rms_norm_is_torchs(eps, bias, randomize, outcome):
    norm = randomize(RMSNorm(8, eps=eps, bias=bias))

    def expected(a, g, b):
        h = F.rms_norm(a, (8,), g, eps)
        return h if b is None else h + b

    check(outcome, norm, expected, 5, 6, 8)


@spaces
@pytest.mark.parametrize("root", [inside_root, outside_root])
def test_rms_norm_divides_by_the_root_of_the_mean_square(space, root, randomize, outcome):
    norm = randomize(RMSNorm(8, eps=0.3, space=space, root=root))

    def expected(a, g, b):
        square = a.square().mean(tuple(range(1, a.dim())), keepdim=True)
        sigma = (square + 0.3).sqrt() if root is inside_root else square.sqrt() + 0.3
        return along(g, space) * a / sigma

    check(outcome, norm, expected, *SHAPES[space])


@spaces
def test_scale_norm_is_its_equation_5(space, randomize, outcome):
    norm = randomize(ScaleNorm(8, space=space))

    def expected(a, g, b):
        return g * a / along(a.flatten(1).square().sum(1).sqrt(), space + 1)

    check(outcome, norm, expected, *SHAPES[space])


def test_scale_norm_starts_as_rms_norm_and_is_limited_by_eps():
    a = inputs(6, 8)
    torch.testing.assert_close(ScaleNorm(8)(a), RMSNorm(8, eps=0)(a))
    torch.testing.assert_close(ScaleNorm(8, eps=1e9)(a), 8**0.5 * a / 1e9)
