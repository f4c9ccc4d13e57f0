"""Seeds draw the same numbers for everyone, and what has no numbers is refused."""

import pytest
import torch

from lnlab.probes.givens import normal


def test_more_numbers_begin_with_the_fewer():
    assert torch.equal(normal(3, 1, 4, 5).flatten()[:7], normal(3, 1, 7))
    assert normal(3, 1, 7).dtype == torch.float64


def test_seeds_and_streams_differ_from_one_another():
    drawn = [normal(*which, 3) for which in ((0, 1), (1, 0), (1, 1), (0, (1, 1)), (0, (1, 2)))]
    assert len({tuple(numbers.tolist()) for numbers in drawn}) == len(drawn)
    assert torch.equal(normal(2, (1,), 3), normal(2, 1, 3))


def test_the_random_state_of_the_program_has_no_part_in_it():
    torch.manual_seed(1)
    before = torch.get_rng_state()
    first = normal(0, 0, 3)
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(2)
    assert torch.equal(normal(0, 0, 3), first)


@pytest.mark.parametrize("which", [(-1, 0), (0, -1), (0, (1, -2))])
def test_negative_seeds_are_refused(which):
    with pytest.raises(ValueError, match="non-negative"):
        normal(*which, 3)
