"""Alignments: how much of an attention lies where it should, in which order, how spread out."""

import pytest
import torch

from lnlab.nn import attention_entropy, attention_in_segments, attention_monotonicity


def test_mass_is_what_lies_inside():
    alpha = torch.tensor([[0.5, 0.5, 0, 0], [0, 0, 0.25, 0.75]])
    found = attention_in_segments(alpha, 0.1, [0.04, 0.24], [0.1, 0.36])
    # 0.00 to 0.14 holds a whole step and 0.4 of the next; 0.20 to 0.40 the last two
    torch.testing.assert_close(found, torch.tensor([0.5 + 0.4 * 0.5, 1.0]))
    with pytest.raises(ValueError, match="2 rows, 1 begins"):
        attention_in_segments(alpha, 0.1, [0.0], [0.1])


def test_monotonicity_and_entropy():
    forward, back = torch.eye(4), torch.eye(4).flip(0)
    assert attention_monotonicity(forward) == 1
    assert attention_monotonicity(back) == 0
    assert not attention_entropy(forward).any()
    torch.testing.assert_close(
        attention_entropy(torch.full((2, 4), 0.25)), torch.full((2,), 4.0).log()
    )


def test_who_stays_where_he_was_does_not_go_back():
    assert attention_monotonicity(torch.eye(3)[[0, 1, 1, 2]]) == 1
    assert attention_monotonicity(torch.eye(3)[[1, 1, 0]]) == 0.5
