"""The compiled recurrence against the reference loop: values and every gradient by name."""

import copy
import gc
import sys
import warnings
from collections import Counter
from functools import partial

import pytest
import torch

from lnlab.kernels import fuse, recurrent
from lnlab.kernels.compilation import library
from lnlab.nn import (
    PUBLISHED_LSTMS,
    BatchNorm,
    BiasPlacement,
    GRUCell,
    Identity,
    LayerNorm,
    LSTMCell,
    NormOfProductsOrSum,
    RecurrentBatchNorm,
    RNNCell,
    StatisticsMode,
    UpdateGateConvention,
)
from lnlab.nn.recurrent import LSTM, unroll

STEPS = 40
BATCH_NORMS = {
    "batch norm": partial(RecurrentBatchNorm, steps=STEPS),
    "pooled": BatchNorm,
    "without affine": partial(BatchNorm, affine=False),
    "another momentum": partial(RecurrentBatchNorm, steps=STEPS, momentum=0.7, eps=0.1),
}
PLAIN = {
    "plain": partial(LSTMCell, norm_layer=Identity),
    "plain without b": partial(LSTMCell, norm_layer=Identity, bias=BiasPlacement.NONE),
    "plain, b inside": partial(LSTMCell, norm_layer=Identity, bias=BiasPlacement.INSIDE),
    "plain, one sum": partial(
        LSTMCell, norm_layer=Identity, norm_scope=NormOfProductsOrSum.JOINT
    ),
    "plain GRU": partial(GRUCell, norm_layer=Identity),
    "plain GRU that keeps": partial(
        GRUCell, norm_layer=Identity, update_gate=UpdateGateConvention.KEEPS
    ),
    "plain GRU without b": partial(GRUCell, norm_layer=Identity, bias=False),
}
FUSED = {
    "LSTM": LSTMCell,
    "LSTM without b": partial(LSTMCell, bias=BiasPlacement.NONE),
    "DRAW": partial(LSTMCell, gate_norm_layer=Identity),
    "haste": PUBLISHED_LSTMS["lmnt-com/haste"],
    "GRU": GRUCell,
    "GRU that keeps": partial(GRUCell, update_gate=UpdateGateConvention.KEEPS),
    "GRU without affine": partial(
        GRUCell, norm_layer=partial(LayerNorm, elementwise_affine=False), bias=False
    ),
    "RNN": RNNCell,
    **PLAIN,
    **{name: partial(LSTMCell, norm_layer=norm) for name, norm in BATCH_NORMS.items()},
}
# T, B, D, H: all 1; few and many inputs; one more and one less than a vector; one example and
# one step; B that is one slice, two unequal ones, three; more rows than a chunk holds
SIZES = [
    (1, 1, 1, 1),
    (5, 4, 3, 5),
    (4, 3, 50, 16),
    (4, 1, 3, 5),
    (6, 7, 2, 17),
    (3, 20, 10, 33),
    (3, 70, 2, 7),
    (40, 7, 20, 9),
    (40, 12, 20, 9),
]


@pytest.fixture(autouse=True)
def kernel():
    """These tests are about the kernel: a machine that cannot build it leaves them out."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if library() is None:
            pytest.skip("no compiler")


def problem(make, size):
    """A cell with other parameters and running statistics than at the start, x and a state."""
    T, B, D, H = size
    cell = make(D, H)
    with torch.no_grad():
        for p in cell.parameters():
            p.add_(0.3 * torch.randn_like(p))
        for buffer in cell.buffers():
            buffer.add_(0.3 * torch.rand_like(buffer))
    return cell, torch.randn(T, B, D), tuple(torch.randn(B, H) for _ in range(cell.states))


def everything(loop, cell, x, state, lengths=None, reverse=False, **given):
    """Outputs, last states, gradients and buffers after a pass, by name; ``cell`` stays."""
    cell = copy.deepcopy(cell)
    x, state = x.clone().requires_grad_(), tuple(s.clone().requires_grad_() for s in state)
    y, last = loop(cell, x, state, lengths, reverse, **given)
    weights = torch.Generator().manual_seed(1)
    # of numbers that float32 and float64 both have
    slopes = [torch.randn(v.shape, generator=weights, dtype=torch.float32) for v in (y, *last)]
    loss = sum((v * slope).sum() for v, slope in zip((y, *last), slopes, strict=True))
    states = {f"state {i}": s for i, s in enumerate(state)}
    inputs = {"x": x, **states, **dict(cell.named_parameters())}
    grads = torch.autograd.grad(loss, list(inputs.values()), materialize_grads=True)
    named = {
        "y": y,
        **{f"last {i}": s for i, s in enumerate(last)},
        **dict(cell.named_buffers()),
    }
    return {**named, **{f"d {name}": g for name, g in zip(inputs, grads, strict=True)}}


def assert_alike(got, expected, tolerance=1e-10):
    assert got.keys() == expected.keys()
    for name, value in expected.items():
        scale = max(1.0, value.abs().max().item())
        assert (got[name] - value).abs().max() <= tolerance * scale, name


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", FUSED)
def test_values_and_every_gradient(name, size):
    T, B, _, _ = size
    cell, x, state = problem(FUSED[name], size)
    some = torch.randint(0, T + 1, (B,))
    loops = [recurrent.unroll]
    if name in PLAIN and size in SIZES[:3]:
        loops.append(recurrent.run_torch_lstm_or_gru)
    for given in ((None, False), (None, True), (some, False), (some, True)):
        expected = everything(unroll, cell, x, state, *given)
        for loop in loops:
            # 40 steps of units whose sigma is small make much of a last bit; of two examples
            # batch norm gives +-1 but for eps, and gradients of 1/sigma^3 lose digits
            tolerance = 1e-6 if name in BATCH_NORMS else 1e-10
            assert_alike(everything(loop, cell, x, state, *given), expected, tolerance)


@pytest.mark.parametrize("name", ["LSTM", "plain", "RNN"])
@pytest.mark.parametrize("B", [1, 40])
def test_units_of_h_that_are_dropped_at_every_step(name, B):
    cell, x, state = problem(FUSED[name], (9, B, 5, 21))
    mask = torch.nn.functional.dropout(torch.ones(B, 21), 0.4)
    for given in ((None, False), (torch.randint(0, 10, (B,)), True)):
        ours, reference = (
            everything(loop, cell, x, state, *given, dropout_mask=mask)
            for loop in (recurrent.unroll, unroll)
        )
        assert_alike(ours, reference)
    masked, free = (recurrent.unroll(cell, x, state, dropout_mask=m)[0] for m in (mask, None))
    assert not torch.allclose(masked, free)


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("name", BATCH_NORMS)
def test_each_norm_of_a_cell_has_its_own_statistics(name, training):
    cell, x, state = problem(FUSED[name], (6, 5, 3, 5))
    cell.train(training)
    modes = (None, StatisticsMode.BATCH, StatisticsMode.RUNNING)
    for shift in range(3):
        for place, norm in enumerate((cell.norm_h, cell.norm_x, cell.norm_c)):
            norm.mode = modes[(place + shift) % 3]
        for lengths in ([6, 1, 4, 0, 6], [3, 1, 2, 3, 3]):
            given = cell, x, state, torch.tensor(lengths)
            assert_alike(everything(recurrent.unroll, *given), everything(unroll, *given), 1e-7)


def test_training_past_the_last_step_is_refused_before_anything_is_remembered():
    cell, x, state = problem(FUSED["batch norm"], (STEPS + 1, 3, 3, 5))
    before = copy.deepcopy(cell.state_dict())
    with pytest.raises(ValueError, match=f"time step {STEPS} of a norm"):
        recurrent.unroll(cell, x, state)
    assert all(torch.equal(v, before[name]) for name, v in cell.state_dict().items())
    recurrent.unroll(cell, x, state, [2, STEPS, 5])  # of the tensor, not of a sequence
    cell.norm_x = cell.norm_h  # one norm in two places stays on the reference
    assert not recurrent.is_fusible(cell)


@pytest.mark.parametrize("name", ["LSTM", "GRU", "RNN"])
@pytest.mark.parametrize("used", [0, 1, -1])
def test_one_output_that_is_used_alone(name, used):
    cell, x, state = problem(FUSED[name], (5, 3, 4, 17))
    grads = []
    for loop in (recurrent.unroll, unroll):
        y, last = loop(cell, x, state, torch.tensor([5, 2, 0]))
        loss = (y, *last)[used].square().sum()
        grads.append(torch.autograd.grad(loss, list(cell.parameters()), materialize_grads=True))
    torch.testing.assert_close(*grads)


@pytest.mark.parametrize("name", ["LSTM", "GRU", "RNN", "plain", "plain GRU", "batch norm"])
# nothing stays in the cache, some of the layers here, all of them
@pytest.mark.parametrize("cache", [1, 2**20, 2**40])
def test_the_number_of_threads_changes_no_byte(name, cache, monkeypatch):
    monkeypatch.setattr(recurrent, "l2_bytes_per_thread", lambda: cache)
    for B in (1, 8, 33):
        given = *problem(FUSED[name], (7, B, 5, 200)), torch.arange(B) % 8
        passes = []
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            passes.append(everything(recurrent.unroll, *given))
        for key, value in passes[0].items():
            assert all(torch.equal(value, other[key]) for other in passes[1:]), (B, key)
        assert_alike(passes[0], everything(unroll, *given), 1e-7)


@pytest.mark.parametrize("name", ["LSTM", "GRU", "batch norm"])
@pytest.mark.parametrize("H", [64, 400])
def test_float32_is_as_exact_as_the_reference_loop(name, H):
    torch.set_default_dtype(torch.float32)
    squares = {recurrent.unroll: Counter(), unroll: Counter()}
    lengths = torch.tensor([12] * 6 + [3, 4, 5, 6, 7, 8])
    for _ in range(3):
        cell, x, state = problem(FUSED[name], (12, 12, 40, H))
        single = {loop: everything(loop, cell, x, state, lengths) for loop in squares}
        wide = cell.double(), x.double(), tuple(s.double() for s in state), lengths
        for key, exact in everything(unroll, *wide).items():
            for loop, values in single.items():
                squares[loop][key] += (values[key] - exact).square().sum().item()
    for key, square in squares[recurrent.unroll].items():
        assert square <= 2**2 * squares[unroll][key], key  # what docs/speed.md says


def test_nan_infinity_and_extreme_gates_are_torchs():
    cell = GRUCell(3, 5)
    with torch.no_grad():
        cell.norm_x.b.fill_(1e4)
        cell.norm_W.b.copy_(torch.tensor([1e4, -1e4, 1e-12, 50.0, 0.0]))
    x = torch.randn(4, 3, 3)
    x[1, 0, 0], x[2, 1, 2] = float("nan"), float("inf")
    ours, reference = recurrent.unroll(cell, x)[0], unroll(cell, x)[0]
    torch.testing.assert_close(ours, reference, equal_nan=True)
    assert ours[:, 2].isfinite().all()


def test_a_graph_can_be_kept_and_has_no_second_derivative():
    cell, x = LSTMCell(4, 30), torch.randn(50, 20, 4, requires_grad=True)
    y, _ = recurrent.unroll(cell, x)
    with pytest.raises(RuntimeError, match=r"second derivative.*reference"):
        torch.autograd.grad(y.sum(), x, create_graph=True)
    first = torch.autograd.grad(y.sum(), list(cell.parameters()), retain_graph=True)
    again = torch.autograd.grad(y.sum(), list(cell.parameters()))
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))


def test_what_a_call_returned_is_not_written_again():
    layer = fuse(LSTM(40, 64).float())
    # large enough for the pool of memory
    x = torch.randn(50, 16, 40, dtype=torch.float32, requires_grad=True)
    y = layer(x)[0]
    y.backward(torch.ones_like(y))
    results = [y, x.grad, *(p.grad for p in layer.parameters())]
    before = [r.clone() for r in results]
    x.grad = None
    layer.zero_grad()
    for _ in range(3):
        layer(2 * x)[0].sum().backward()
    assert all(torch.equal(a, b) for a, b in zip(results, before, strict=True))
    assert torch.equal(copy.deepcopy(y.detach()), before[0])


def test_inputs_may_be_strided_and_change_after_the_call():
    cell = LSTMCell(4, 6)
    x = torch.randn(4, 3, 5).permute(2, 1, 0)
    state = (torch.randn(6, 3).T, torch.randn(3, 12)[:, ::2])
    for lengths in (torch.tensor([[5, 1], [2, 1], [3, 1]])[:, 0], torch.tensor(3).expand(3)):
        given = cell, x, state, lengths
        assert_alike(everything(recurrent.unroll, *given), everything(unroll, *given), 1e-12)
    grads = []
    for changed in (False, True):
        y, _ = recurrent.unroll(cell, x, state, lengths := torch.tensor([5, 2, 3]))
        if changed:
            lengths.fill_(5)  # as a loader does that fills one buffer again and again
        grads.append(torch.autograd.grad(y.square().sum(), [*cell.parameters()]))
    assert all(torch.equal(a, b) for a, b in zip(*grads, strict=True))


def test_autocast_computes_in_the_dtype_of_the_parameters():
    torch.set_default_dtype(torch.float32)
    layer, x = fuse(LSTM(4, 6)), torch.randn(5, 3, 4)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y, _ = layer(x.bfloat16())
    assert y.dtype == torch.float32
    torch.testing.assert_close(y, layer(x.bfloat16().float())[0])


@pytest.mark.slow
def test_torch_compile_of_a_fused_layer_is_right_and_quiet(monkeypatch):
    ignored = []  # what Python prints as "Exception ignored in"
    monkeypatch.setattr(sys, "unraisablehook", ignored.append)
    net, x = fuse(LSTM(3, 5)), torch.randn(6, 4, 3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Dynamo cannot trace the call of a C library
        y, _ = torch.compile(net, backend="eager")(x)
    grads = torch.autograd.grad(y.sum(), [*net.parameters()])
    expected, _ = net(x)
    torch.testing.assert_close(y, expected)
    torch.testing.assert_close(grads, torch.autograd.grad(expected.sum(), [*net.parameters()]))
    gc.collect()
    assert not ignored


def test_no_steps_and_no_sequences():
    cell = LSTMCell(3, 5)
    for shape in ((0, 4, 3), (4, 0, 3)):
        y, last = recurrent.unroll(cell, torch.randn(shape))
        assert y.shape == (*shape[:2], 5)
        assert last[0].shape == (shape[1], 5)
    y, last = recurrent.unroll(cell, torch.randn(6, 2, 3), lengths=[0, 0])
    assert not y.any()
    assert not last[1].any()
