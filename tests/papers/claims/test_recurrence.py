"""Section 3.1 of Ba et al. (2016): growth of sums and gradients in nets with known answers."""

import pytest
import torch

from lnlab.papers.claims.ba2016_recurrence import (
    B,
    H,
    T,
    follows,
    gains_of_steps,
    growth,
    slope,
    started,
    states,
    stepped,
)


def scaled(factor):
    """A layer whose summed inputs are its h times a factor, the first of them 1."""
    return lambda t, h: (a := factor * h if t else torch.ones(B, H).double(), a)


@pytest.mark.parametrize("factor", [0.5, 1.0, 1.25])
def test_sums_and_gradients_grow_by_the_factor(factor):
    assert growth(scaled(factor)) == pytest.approx(factor, rel=0.05)  # T/2 - 1 steps of T/2
    assert slope(scaled(factor), 0) == pytest.approx(factor)


def test_gradients_that_go_the_other_way_do_not_follow(monkeypatch):
    assert follows(9) > 0.01
    monkeypatch.setattr("lnlab.papers.claims.ba2016_recurrence.slope", lambda step, seed: 0.5)
    assert follows(9) == 0.0  # sums grow at the last gain, 3


def test_layer_norm_does_not_see_a_common_scale():
    one, other = (states(stepped(0, scale)) for scale in (1.0, 3.0))
    assert one.shape == (T, B, H) == (T, *started().shape)
    torch.testing.assert_close(one, other)
    assert not torch.allclose(states(stepped(0, 3.0, False)), states(stepped(0, 1.0, False)))


def test_gains_of_all_steps_are_one_set():
    assert gains_of_steps(0) < 1e-12
