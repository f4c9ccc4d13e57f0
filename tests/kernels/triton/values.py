"""The Triton programs run by Triton's interpreter on the CPU, against the reference loop.

Run by tests/kernels/test_triton.py, in a process in which TRITON_INTERPRET is 1 from the start.
"""

from collections import defaultdict
from itertools import product

import pytest
import torch

from lnlab.kernels import fused_cells, gpu
from lnlab.kernels import gpu as fused
from lnlab.kernels.triton_programs import steps
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
    return gpu.unroll_with_steps(cell, form, x, state, lengths, reverse, steps)


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


@pytest.fixture
def playing(monkeypatch):
    """What CUDA would record is run again instead: all of a recorded pass but its recording."""
    monkeypatch.setattr(fused, "MIN_REPEATS", 1)
    monkeypatch.setattr(fused, "can_record", lambda device: True)
    monkeypatch.setattr(fused, "stream", lambda device: 0)
    monkeypatch.setattr(fused, "record_graph", lambda run: run)
    for known in (fused.pass_counts, fused.recorded_counts, fused.free_passes):
        known.clear()


def passed(*given):
    """All numbers of one pass, which is over."""
    return {name: value.detach() for name, value in everything(ours, *given).items()}


@pytest.mark.parametrize("name", ["LSTM", "GRU", "RNN"])
def test_a_recorded_pass_has_the_bytes_of_one_that_is_launched(name, playing, monkeypatch):
    cell, x, state, _ = problem(FUSED[name], (3, 2, 3, 5), False)
    for lengths in (None, torch.tensor([3, 1])):
        given = [(k * x, state, lengths, False) for k in (1, 2)]
        found = [passed(cell, *each) for each in given]
        with monkeypatch.context() as plain:
            plain.setattr(fused, "can_record", lambda device: False)
            expected = [passed(cell, *each) for each in given]
        for one, other in zip(found, expected, strict=True):
            assert all(torch.equal(one[n], other[n]) for n in other)
    assert fused.recorded_counts.total() == 2
    assert [len(passes) for passes in fused.free_passes.values()] == [1, 1]


def test_a_recorded_pass_is_lent_to_one_call_at_a_time(playing):
    cell, x, state, _ = problem(LSTMCell, (2, 2, 3, 4), False)
    inputs = [(k * x).requires_grad_() for k in (1, 2, 3)]
    outputs = [ours(cell, x, state, None, False)[0] for x in inputs]
    assert fused.recorded_counts.total() == 2  # the first call came before MIN_REPEATS
    assert not any(fused.free_passes.values())
    for x, y in zip(inputs, outputs, strict=True):
        (found,) = torch.autograd.grad(y.sum(), x)
        (expected,) = torch.autograd.grad(unroll(cell, x, state)[0].sum(), x)
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)  # float32
    del outputs, y
    assert [len(passes) for passes in fused.free_passes.values()] == [2]


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
