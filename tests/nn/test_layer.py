"""Oracle: rules on one case against torch's operators and the papers' formulas.

That the defaults are torch's is seen in test_drop_in.py.
"""

from math import prod

import pytest
import torch
from torch.nn import functional as F

from lnlab.nn import GroupNorm, LayerNorm, RMSNorm, ScaleNorm, inside_root, outside_root

SHAPES = {0: (6, 8), 1: (6, 8, 5), 2: (6, 8, 3, 4)}
spaces = pytest.mark.parametrize("space", SHAPES)
roots = pytest.mark.parametrize("root", [inside_root, outside_root])


def inputs(*shape):
    """Pre-activations of mean 3, which a rule must remove or keep."""
    return (3 + 2 * torch.randn(shape)).requires_grad_()


def check(outcome, norm, expected, *shape):
    """Values and all gradients of ``norm`` are those of ``expected(a)`` times g, and b."""
    a = inputs(*shape)
    leaves = {"a": a, **dict(norm.named_parameters())}
    g, b = (leaves.get(name, torch.zeros(())) for name in "gb")
    g, b = (v.reshape(-1, *(1,) * norm.space) if v.dim() else v for v in (g, b))
    # two orders of summation of numbers below 100: the worst seen is 3e-14
    torch.testing.assert_close(
        outcome(norm(a), **leaves), outcome(g * expected(a) + b, **leaves), rtol=0, atol=1e-12
    )


@spaces
@pytest.mark.parametrize("correction", [0, 1])
@roots
def test_layer_norm_has_the_settings_of_its_copies(space, correction, root, randomize, outcome):
    norm = randomize(LayerNorm(8, eps=0.3, space=space, correction=correction, root=root))

    def expected(a):
        axes = tuple(range(1, a.dim()))
        centred = a - a.mean(axes, keepdim=True)
        var = centred.square().sum(axes, keepdim=True) / (prod(a.shape[1:]) - correction)
        return centred / ((var + 0.3).sqrt() if root is inside_root else var.sqrt() + 0.3)

    check(outcome, norm, expected, *SHAPES[space])


@pytest.mark.parametrize("space", [1, 2])
def test_layer_norm_per_position_is_torchs_over_channels(space, randomize, outcome):
    norm = randomize(LayerNorm(8, space=space, per_position=True))
    check(
        outcome, norm, lambda a: F.layer_norm(a.movedim(1, -1), (8,)).movedim(-1, 1),
        *SHAPES[space],
    )  # fmt: skip


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
def test_group_norm_is_torchs(space, groups, randomize, outcome):
    norm = randomize(GroupNorm(groups, 8, space=space))
    check(outcome, norm, lambda a: F.group_norm(a, groups), *SHAPES[space])


@spaces
@roots
@pytest.mark.parametrize("bias", [False, True])
def test_rms_norm_divides_by_the_root_of_the_mean_square(space, root, bias, randomize, outcome):
    norm = randomize(RMSNorm(8, eps=0.3, space=space, root=root, bias=bias))

    def expected(a):
        square = a.square().mean(tuple(range(1, a.dim())), keepdim=True)
        return a / ((square + 0.3).sqrt() if root is inside_root else square.sqrt() + 0.3)

    check(outcome, norm, expected, *SHAPES[space])


@spaces
def test_scale_norm_is_its_equation_5(space, randomize, outcome):
    norm = randomize(ScaleNorm(8, space=space))
    axes = tuple(range(1, 2 + space))
    check(
        outcome, norm, lambda a: a / a.square().sum(axes, keepdim=True).sqrt(), *SHAPES[space]
    )


def test_scale_norm_starts_as_rms_norm_and_is_limited_by_eps():
    a = inputs(6, 8)
    torch.testing.assert_close(ScaleNorm(8)(a), RMSNorm(8, eps=0)(a))
    torch.testing.assert_close(ScaleNorm(8, eps=1e9)(a), 8**0.5 * a / 1e9)
