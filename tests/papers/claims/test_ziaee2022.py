"""Section 2 of Ziaee & Çano (2022): what batch norm makes of a distribution."""

import pytest
import torch

from lnlab.papers.claims.ziaee2022 import off_unit, reshaped, shape, standardized


def test_batch_norm_keeps_the_shape_and_tanh_does_not():
    a, z = standardized(0)
    assert off_unit(0) < 1e-12
    assert reshaped(0) < 1e-12
    assert (shape(a.tanh()) - shape(a)).abs().max() > 0.1
    assert z.shape == a.shape


def test_shape_of_known_distributions():
    uniform = (torch.arange(100_000, dtype=torch.float64)[:, None] + 0.5) / 100_000
    exponential = -uniform.log()
    assert shape(uniform).tolist() == pytest.approx([0, 1.8], abs=1e-3)
    assert shape(exponential).tolist() == pytest.approx([2, 9], rel=0.02)
