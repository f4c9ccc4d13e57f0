"""The Triton programs run by Triton's interpreter on the CPU, against the reference loop.

Run by tests/kernels/test_triton.py, in a process in which TRITON_INTERPRET is 1 from the start.
"""

from collections import defaultdict
from itertools import product

import pytest
import torch

from lnlab.kernels import fused_cells
from lnlab.kernels.triton_programs import unroll_triton
from lnlab.nn import LSTMCell
from lnlab.nn.recurrent import check_inputs, unroll
from tests.kernels.test_compiled import FUSED, everything, shaken

SIZES = [(1, 1, 1, 2), (3, 2, 3, 5), (2, 3, 2, 17)]
"""T, B, D, H: parts of a block of 16, and one unit more than it. Of one unit the layer norm of
x, which is torch's, has gradients of rounding times 1/sqrt(eps)."""

KERNELS = ["LSTM", "DRAW", "GRU", "GRU that keeps", "RNN"]

WAYS = [(False, False), (True, True)]
"""Ragged, reversed."""


@pytest.fixture(autouse=True)
def single():
    torch.set_default_dtype(torch.float32)


def ours(cell, x, state, lengths, reverse):
    form, lengths = fused_cells.fused_cell(cell), check_inputs(cell, x, state, lengths)
    assert form is not None
    return unroll_triton(cell, form, x, state, lengths, reverse)


def problem(make, size, ragged):
    T, B, D, H = size
    cell = shaken(make(D, H))
    # a column of a table: numbers that do not lie next to each other
    lengths = torch.randint(0, T + 1, (B, 2))[:, 0] if ragged else None
    return (
        cell,
        torch.randn(T, B, D),
        tuple(torch.randn(B, H) for _ in range(cell.states)),
        lengths,
    )


@pytest.mark.parametrize("name", KERNELS)
def test_values_and_every_gradient(name):
    """Against float64: no more than twice the error of the reference loop in float32."""
    errors = {"ours": defaultdict(list), "eager": defaultdict(list)}
    for seed, (size, (ragged, reverse)) in enumerate(product(SIZES, WAYS)):
        torch.manual_seed(seed)
        cell, x, state, lengths = problem(FUSED[name], size, ragged)
        found = {
            who: everything(loop, cell, x, state, lengths, reverse)
            for who, loop in (("ours", ours), ("eager", unroll))
        }
        wide = cell.double(), x.double(), tuple(s.double() for s in state)
        for what, exact in everything(unroll, *wide, lengths, reverse).items():
            scale = max(1.0, exact.abs().max().item())
            for who, values in found.items():
                error = (values[what] - exact).detach() / scale
                # whatever eager's is: float32, sums of some tens of numbers
                assert error.abs().max() <= 2e-5, (who, what, size)
                errors[who][what].append(error.flatten())
    for what in errors["ours"]:
        mine, theirs = (torch.cat(errors[who][what]).square().mean() for who in errors)
        # one rounding of a number of size 1 is nobody's error
        assert mine**0.5 <= 2 * theirs**0.5 + 2**-24, what


def test_a_second_derivative_is_refused():
    cell, x, state, _ = problem(LSTMCell, (2, 2, 3, 4), False)
    y, _ = ours(cell, x.requires_grad_(), state, None, False)
    with pytest.raises(RuntimeError, match=r"second derivative.*reference"):
        torch.autograd.grad(y.sum(), x, create_graph=True)


def test_outputs_are_let_go_of():
    """No cycle holds the tensors of a pass until the garbage is collected."""
    import gc
    import weakref

    gc.disable()
    try:
        cell, x, state, _ = problem(LSTMCell, (2, 2, 3, 4), False)
        y, last = ours(cell, x, state, None, False)
        gone = weakref.ref(y)
        del y, last
        assert gone() is None
    finally:
        gc.enable()


def test_infinite_padding_reaches_nothing():
    cell, x, state, _ = problem(FUSED["GRU"], (4, 3, 3, 5), False)
    lengths = torch.tensor([4, 1, 2])
    beyond = x.clone()
    beyond[2:, 1] = float("inf")
    one, other = (everything(ours, cell, v, state, lengths, False) for v in (x, beyond))
    assert all(torch.equal(one[name], other[name]) for name in one)
