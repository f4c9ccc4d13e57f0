"""Compiled LSTMs with batch norm, against the reference loop."""

import copy
from collections import Counter
from functools import partial

import pytest
import torch

from lnlab.kernels import recurrent
from lnlab.nn import BatchNorm, LSTMCell, Mode, RecurrentBatchNorm
from lnlab.nn.recurrent import unroll
from tests.kernels.test_compiled import assert_alike, everything, kernel, shaken

__all__ = ["kernel"]  # a machine that cannot build it leaves these tests out, too

STEPS = 9
NORMS = {
    "each step": partial(RecurrentBatchNorm, steps=STEPS),
    "pooled": BatchNorm,
    "without affine": partial(BatchNorm, affine=False),
    "another momentum": partial(RecurrentBatchNorm, steps=STEPS, momentum=0.7, eps=0.1),
}
# T, B, D, H: all 1; one case alone; one step; few and many inputs; one more and one less than a
# vector; more rows than a chunk holds
SIZES = [
    (1, 1, 1, 1),
    (4, 1, 3, 5),
    (1, 6, 4, 9),
    (5, 4, 30, 7),
    (6, 9, 2, 17),
    (4, 3, 5, 16),
    (3, 40, 10, 33),
    (9, 70, 3, 5),
]
# grads of 1/sigma^3 lose digits where two cases are at a step: they are +-1 but for eps
TOLERANCE = 1e-7


def made(norm="each step", D=3, H=5):
    cell = shaken(LSTMCell(D, H, NORMS[norm]))
    with torch.no_grad():  # of steps that were trained on
        for name, buffer in cell.named_buffers():
            if "running" in name:
                buffer.add_(0.3 * torch.rand_like(buffer))
    assert recurrent.has_batch_norms(cell)
    return cell


def given(T, B, D, H):
    return torch.randn(T, B, D), (torch.randn(B, H), torch.randn(B, H))


def check(cell, x, state, lengths=None, reverse=False):
    """The kernel computes and remembers what the reference does; ``cell`` stays as it was."""
    found = []
    for loop in (unroll, recurrent.unroll):
        own = copy.deepcopy(cell)
        passed = everything(loop, own, x, state, lengths, reverse)
        found.append({**passed, **dict(own.named_buffers())})
    assert_alike(found[1], found[0], TOLERANCE)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("norm", NORMS)
def test_values_every_gradient_and_what_is_remembered(norm, size):
    T, B, D, H = size
    cell, (x, state) = made(norm, D, H), given(*size)
    some = torch.randint(0, T + 1, (B,))
    for lengths, reverse in ((None, False), (None, True), (some, False), (some, True)):
        check(cell, x, state, lengths, reverse)


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("norm", NORMS)
def test_each_place_has_its_own_source(norm, training):
    cell, (x, state) = made(norm).train(training), given(6, 5, 3, 5)
    modes = (None, Mode.BATCH, Mode.RUNNING)
    for shift in range(3):  # of W_h h, of W_x x, of c
        for place, norm_ in enumerate((cell.norm_h, cell.norm_x, cell.norm_c)):
            norm_.mode = modes[(place + shift) % 3]
        for lengths in ([6, 1, 4, 0, 6], [3, 1, 2, 3, 3]):
            check(cell, x, state, torch.tensor(lengths))


@pytest.mark.parametrize("norm", NORMS)
def test_running_statistics_after_training_and_what_they_evaluate_to(norm):
    cells = [made(norm)]
    cells.append(copy.deepcopy(cells[0]))
    random = torch.Generator().manual_seed(3)
    ns = ([6, 6, 6, 6], [1, 3, 2, 3], [6, 0, 6, 2], None)
    for n in ns:
        x = torch.randn(6, 4, 3, generator=random)
        for cell, loop in zip(cells, (recurrent.unroll, unroll), strict=True):
            y, _ = loop(cell, x, lengths=n)
            cell.zero_grad()
            y.square().sum().backward()
            with torch.no_grad():
                for p in cell.parameters():
                    p.sub_(0.01 * p.grad)
    for (name, ours), reference in zip(
        cells[0].named_buffers(), cells[1].buffers(), strict=True
    ):
        torch.testing.assert_close(ours, reference, rtol=1e-7, atol=1e-9, msg=name)
    x = torch.randn(STEPS + 3, 2, 3)
    ours, reference = (cell.eval() for cell in cells)
    y, expected = recurrent.unroll(ours, x)[0], unroll(reference, x)[0]
    torch.testing.assert_close(y, expected, rtol=1e-7, atol=1e-9)


def test_training_past_the_last_step_is_refused_before_anything_is_remembered():
    cell, (x, state) = made(), given(STEPS + 1, 3, 3, 5)
    before = copy.deepcopy(cell.state_dict())
    with pytest.raises(ValueError, match=f"time step {STEPS} of a norm"):
        recurrent.unroll(cell, x, state)
    assert all(torch.equal(v, before[name]) for name, v in cell.state_dict().items())
    recurrent.unroll(cell, x, state, [2, STEPS, 5])  # of the tensor, not of a sequence


@pytest.mark.parametrize("H", [64, 128])
def test_float32_is_as_exact_as_torchs_operators(H):
    squares = {"ours": Counter(), "torch's": Counter()}
    for seed in range(3):
        torch.manual_seed(seed)
        torch.set_default_dtype(torch.float32)
        cell, (x, state) = made(D=40, H=H), given(8, 12, 40, H)
        lengths = torch.tensor([8] * 6 + [3, 4, 5, 6, 7, 8])
        single = {
            "ours": everything(recurrent.unroll, cell, x, state, lengths, False),
            "torch's": everything(unroll, cell, x, state, lengths, False),
        }
        wide = copy.deepcopy(cell).double(), x.double(), tuple(s.double() for s in state)
        for name, exact in everything(unroll, *wide, lengths, False).items():
            for loop, values in single.items():
                squares[loop][name] += (values[name] - exact).square().sum().item()
    for name, square in squares["ours"].items():
        assert square <= 2**2 * squares["torch's"][name], name  # what was promised


@pytest.mark.parametrize("B", [1, 8, 33])
def test_the_number_of_threads_changes_no_byte(B):
    cell, (x, state) = made(D=5, H=200), given(9, B, 5, 200)
    passes = []
    for threads in (1, 2, 3):
        torch.set_num_threads(threads)
        own = copy.deepcopy(cell)
        found = everything(recurrent.unroll, own, x, state, torch.arange(B) % 10, False)
        passes.append({**found, **dict(own.named_buffers())})
    for name, value in passes[0].items():
        assert all(torch.equal(value, other[name]) for other in passes[1:]), name


def test_one_norm_in_two_places_stays_on_the_reference():
    cell = made("pooled")
    cell.norm_x = cell.norm_h
    assert not recurrent.is_fused(cell)
