"""Signals and gradients over time, against closed forms and against autograd."""

import pytest
import torch

from lnlab.analysis.magnitudes import root_mean_square
from lnlab.analysis.random import normal
from lnlab.analysis.rnn_dynamics import (
    make_cells_with_weights,
    measure_rms_per_time_step,
    states_from_initial_on,
)
from lnlab.nn import MODERN_INIT, PUBLISHED_LSTMS, GRUCell, Identity, LSTMCell, RNNCell
from lnlab.nn.recurrent import unroll

T, B, D, H = 12, 4, 3, 5


def linear(x):
    return x


def test_a_linear_net_multiplies_its_gradient_by_the_recurrent_weights():
    cell = RNNCell(D, H, Identity, nonlinearity=linear)
    x = torch.randn(T, B, D)
    Q = torch.linalg.qr(torch.randn(H, H)).Q
    with torch.no_grad():
        cell.W_h.copy_(1.5 * Q)
    seen = measure_rms_per_time_step(cell, x)
    expected = 1.5 ** torch.arange(T - 1, -1, -1.0)
    torch.testing.assert_close(seen.relative_gradient_rms, expected)
    assert seen.gradient_factor_per_step == pytest.approx(1.5)


def test_summed_inputs_and_states_are_those_of_the_equation():
    cell = RNNCell(D, H, Identity, nonlinearity=torch.relu)
    x = torch.randn(T, B, D)
    seen = measure_rms_per_time_step(cell, x)
    h = x.new_zeros(B, H)
    for t in range(T):
        a = h @ cell.W_h.T + x[t] @ cell.W_x.T
        h = a.relu()
        torch.testing.assert_close(seen.pre_activation_rms[t], a.square().mean().sqrt())
        torch.testing.assert_close(seen.hidden_rms[t], h.square().mean().sqrt())


@pytest.mark.parametrize("make", [LSTMCell, GRUCell, RNNCell])
def test_the_gradient_is_that_of_the_whole_state(make):
    """The state is set free at one step: what it does to the last h is the gradient there."""
    cell = make(D, H, initial=MODERN_INIT)
    x = torch.randn(T, B, D)
    seen = measure_rms_per_time_step(cell, x, seed=3)

    def at(t):
        state = tuple(
            s.detach().requires_grad_() for s in states_from_initial_on(cell, x[:t])[-1]
        )
        now = state
        for x_t in x[t:]:
            now = cell(x_t, now)
        return torch.stack(torch.autograd.grad((r * now[0]).sum(), state))

    r = normal(3, 4, B, H)
    first, later = (root_mean_square(at(t)) for t in (1, T - 1))
    gradient = seen.relative_gradient_rms
    torch.testing.assert_close(gradient[0] / gradient[T - 2], first / later)


# Nine cells of one name, side by side.


PAPER, THEANO, _, TF, SUPERCELL, _, ADDONS, HASTE, _ = PUBLISHED_LSTMS


@pytest.fixture
def cells_with_bias():
    W_x, W_h = torch.randn(4 * H, D), torch.randn(4 * H, H)
    return lambda b: make_cells_with_weights(PUBLISHED_LSTMS, W_x, W_h, b)


def test_without_a_bias_two_of_them_are_one_function(cells_with_bias):
    x = torch.randn(T, B, D)
    h = {n: unroll(cell, x)[0] for n, cell in cells_with_bias(torch.zeros(4 * H)).items()}
    for name, each in h.items():
        far = (each - h[PAPER]).flatten(1).norm(dim=1) / h[PAPER].flatten(1).norm(dim=1)
        if name in (PAPER, THEANO):
            assert far.max() < 1e-12
        else:
            assert far[-1] > 0.05
