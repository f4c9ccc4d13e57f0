"""Population deviations of Ziaee & Çano (2022): eq. 5 is right, eq. 19 and 21 are not."""

import pytest
import torch

from lnlab.papers.claims.ziaee2022_inference import (
    H,
    mean_deviation,
    off_batch_deviation,
    off_feature_deviation,
)


@pytest.mark.parametrize("m", [2, 5, 25])
def test_the_mean_of_deviations_is_that_of_many_draws(m):
    drawn = torch.randn(200_000, m, generator=torch.Generator().manual_seed(m))
    deviations = drawn.std(1, correction=0)
    assert float(deviations.mean()) == pytest.approx(mean_deviation(m), rel=5e-3)  # 1/sqrt(N)
    assert m / (m - 1) * float(deviations.square().mean()) == pytest.approx(1, rel=1e-2)


def test_the_factor_of_the_variance_is_too_large_for_a_deviation():
    assert off_batch_deviation(0) == pytest.approx(2 * 0.5641896 - 1, abs=1e-6)  # 1/sqrt(pi)
    assert off_batch_deviation(0) > 25 / 24 * mean_deviation(25) - 1 > 0.01
    assert off_feature_deviation(0) == pytest.approx(2 * mean_deviation(H) - 1)
