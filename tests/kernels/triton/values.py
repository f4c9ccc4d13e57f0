"""The Triton programs run by Triton's interpreter on the CPU, against the reference loop.

Run by tests/kernels/test_triton.py, in a process in which TRITON_INTERPRET is 1 from the start.
"""

import gc
import weakref
from collections import defaultdict
from itertools import product

import pytest
import torch

from lnlab.kernels import fused_cells
from lnlab.kernels.triton_programs import unroll_triton
from lnlab.nn.recurrent import check_inputs, unroll
from tests.kernels.test_compiled import FUSED, everything, problem

SIZES = [(1, 1, 1, 2), (3, 2, 3, 5), (2, 3, 2, 17)]
"""T, B, D, H: parts of a block of 16, and one unit more than it. Of one unit the layer norm of
x, which is torch's, has gradients of rounding times 1/sqrt(eps)."""


@pytest.fixture(autouse=True)
def single():
    torch.set_default_dtype(torch.float32)


def ours(cell, x, state, lengths=None, reverse=False):
    form, lengths = (
        fused_cells.cell_kernel_arguments_or_none(cell),
        check_inputs(cell, x, state, lengths),
    )
    assert form is not None
    return unroll_triton(cell, form, x, state, lengths, reverse)


@pytest.mark.parametrize("name", ["LSTM", "GRU", "GRU that keeps", "RNN"])
def test_values_and_every_gradient(name):
    """Against float64: no more than twice the error of the reference loop in float32."""
    errors = {ours: defaultdict(list), unroll: defaultdict(list)}
    for seed, (size, ragged) in enumerate(product(SIZES, (False, True))):
        torch.manual_seed(seed)
        cell, x, state = problem(FUSED[name], size)
        T, B, _, _ = size
        # a column of a table: numbers that do not lie next to each other
        given = (torch.randint(0, T + 1, (B, 2))[:, 0], True) if ragged else (None, False)
        found = {loop: everything(loop, cell, x, state, *given) for loop in errors}
        wide = cell.double(), x.double(), tuple(s.double() for s in state)
        for what, exact in everything(unroll, *wide, *given).items():
            scale = max(1.0, exact.abs().max().item())
            for loop, values in found.items():
                error = (values[what] - exact).detach() / scale
                # whatever the loop's is: float32, sums of some tens of numbers
                assert error.abs().max() <= 2e-5, (loop, what, size)
                errors[loop][what].append(error.flatten())
    for what in errors[ours]:
        mine, theirs = (torch.cat(errors[loop][what]).square().mean() for loop in errors)
        # one rounding of a number of size 1 is nobody's error
        assert mine**0.5 <= 2 * theirs**0.5 + 2**-24, what


def test_no_second_derivative_and_no_cycle_that_holds_the_outputs():
    cell, x, state = problem(FUSED["LSTM"], (2, 2, 3, 4))
    y, last = ours(cell, x.requires_grad_(), state)
    with pytest.raises(RuntimeError, match=r"second derivative.*reference"):
        torch.autograd.grad(y.sum(), x, create_graph=True)
    gc.disable()
    try:
        gone = weakref.ref(y)
        del y, last
        assert gone() is None
    finally:
        gc.enable()


def test_infinite_padding_reaches_nothing():
    cell, x, state = problem(FUSED["GRU"], (4, 3, 3, 5))
    beyond = x.clone()
    beyond[2:, 1] = float("inf")
    lengths = torch.tensor([4, 1, 2])
    one, other = (everything(ours, cell, v, state, lengths) for v in (x, beyond))
    assert all(torch.equal(one[name], other[name]) for name in one)
