"""Sizes of tensors, at both ends of the range of their precision."""

import math

import pytest
import torch

from lnlab.analysis.magnitudes import root_mean_square, vector_norm


@pytest.mark.parametrize("exponent", range(-38, 39))
def test_float32_has_the_sizes_that_float64_has(exponent):
    a = (10.0**exponent * (torch.rand(5, 4, 3) * 4 - 1)).float()  # up to 3e38
    for dim in ((), 0, 1, (0, 2)):
        over = dim if dim != () else None
        norm, square = a.double().norm(dim=over), a.double().square().mean(over)
        torch.testing.assert_close(vector_norm(a, dim), norm, rtol=1e-12, atol=0)
        torch.testing.assert_close(root_mean_square(a, dim), square.sqrt(), rtol=1e-12, atol=0)


def test_what_float64_cannot_square_has_a_size_all_the_same():
    a = torch.tensor([[3e200, 4e200], [0.0, 0.0], [3e-200, 4e-200]])
    expected = torch.tensor([5e200, 0.0, 5e-200])
    torch.testing.assert_close(vector_norm(a, 1), expected, rtol=1e-12, atol=0)
    torch.testing.assert_close(vector_norm(a, 1, keepdim=True)[:, 0], vector_norm(a, 1))
    torch.testing.assert_close(root_mean_square(a, 1), expected / 2**0.5, rtol=1e-12, atol=0)


def test_what_is_no_number_has_no_size_and_nothing_has_the_size_0():
    assert vector_norm(torch.tensor([1.0, math.inf])) == math.inf
    assert vector_norm(torch.tensor([math.nan, math.inf])).isnan()
    assert vector_norm(torch.tensor(-2.0)) == 2
    assert vector_norm(torch.zeros(0)) == 0
    assert vector_norm(torch.zeros(3, 0), 1).tolist() == [0, 0, 0]
    assert root_mean_square(torch.zeros(0)).isnan()
