"""Eq. 10 and 11 of Ba et al. (2016), over outputs that are summed one by one."""

from dataclasses import replace

import pytest
import torch

from lnlab.analysis.fisher import BERNOULLI
from lnlab.papers.claims.ba2016_geometry import (
    INDEPENDENT,
    off_moments,
    off_partition,
    possible,
)


@pytest.mark.parametrize("family", INDEPENDENT)
def test_eta_makes_probabilities_add_up_to_one(family):
    y, c = possible(family)
    for h in (-1.5, 0.0, 2.0):
        eta = family.eta(torch.tensor([h]).double())
        assert ((h * y - eta) / family.phi + c).exp().sum() == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize("family", INDEPENDENT)
def test_moments_are_those_of_the_slope_of_eta_and_of_no_tanh(family):
    assert off_moments(family.mean, family, 0) < 1e-12
    assert off_moments(torch.tanh, family, 0) > 0.1


def test_a_variance_that_is_too_large_is_found():
    shifted = replace(INDEPENDENT[0], phi=0.7)
    assert off_moments(lambda h: 1.01 * h, shifted, 0) == pytest.approx(0.01, abs=1e-6)


def test_no_partition_function_without_the_weights():
    # log(1 + e^h), of h that are normal: never 0
    assert off_partition(0) > 1
    assert torch.equal(possible(BERNOULLI)[1], torch.zeros(2).double())
