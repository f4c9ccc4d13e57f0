"""The fused recurrence against the reference loop: values and every gradient by name."""

import copy
import gc
import sys
import warnings
from collections import Counter
from functools import partial

import pytest
import torch

from lnlab.kernels import fuse, fused_cells, recurrent
from lnlab.kernels.compilation import library
from lnlab.nn import (
    PUBLISHED_LSTMS,
    BiasPlacement,
    GRUCell,
    Identity,
    LayerNorm,
    LSTMCell,
    NormScope,
    RNNCell,
    UpdateGate,
)
from lnlab.nn.recurrent import GRU, LSTM, check_inputs, unroll

FUSED = {
    "LSTM": LSTMCell,
    "LSTM without b": partial(LSTMCell, bias=BiasPlacement.NONE),
    "DRAW": partial(LSTMCell, gate_norm_layer=Identity),
    "haste": PUBLISHED_LSTMS["lmnt-com/haste"],
    "GRU": GRUCell,
    "GRU that keeps": partial(GRUCell, update_gate=UpdateGate.KEEPS),
    "GRU without affine": partial(
        GRUCell, norm_layer=partial(LayerNorm, elementwise_affine=False), bias=False
    ),
    "RNN": RNNCell,
    "plain": partial(LSTMCell, norm_layer=Identity),
    "plain without b": partial(LSTMCell, norm_layer=Identity, bias=BiasPlacement.NONE),
    "plain, b inside": partial(LSTMCell, norm_layer=Identity, bias=BiasPlacement.INSIDE),
    "plain, one sum": partial(LSTMCell, norm_layer=Identity, norm_scope=NormScope.JOINT),
    "plain GRU": partial(GRUCell, norm_layer=Identity),
    "plain GRU that keeps": partial(GRUCell, norm_layer=Identity, update_gate=UpdateGate.KEEPS),
    "plain GRU without b": partial(GRUCell, norm_layer=Identity, bias=False),
}
# T, B, D, H: all 1; few and many inputs; one more and one less than a vector; B that is one
# slice, two unequal ones, three; more rows than a chunk of either way holds
SIZES = [
    (1, 1, 1, 1),
    (5, 4, 3, 5),
    (4, 3, 50, 16),
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


def on_torch(cell, x, state, lengths, reverse):
    """torch's own layer."""
    lengths = check_inputs(cell, x, state, lengths)
    return recurrent.unroll_torch_layer(cell, x, state, lengths, reverse)


def shaken(cell):
    with torch.no_grad():
        for p in cell.parameters():
            p.add_(0.3 * torch.randn_like(p))
    return cell


def everything(loop, cell, x, state, lengths, reverse):
    """Outputs, last states and all gradients of one pass of ``loop``, by name."""
    x, state = x.clone().requires_grad_(), tuple(s.clone().requires_grad_() for s in state)
    y, last = loop(cell, x, state, lengths, reverse)
    weights = torch.Generator().manual_seed(1)
    # of numbers that float32 and float64 both have
    grads = [torch.randn(v.shape, generator=weights, dtype=torch.float32) for v in (y, *last)]
    loss = sum((v * slope).sum() for v, slope in zip((y, *last), grads, strict=True))
    inputs = {
        "x": x,
        **{f"state {i}": s for i, s in enumerate(state)},
        **dict(cell.named_parameters()),
    }
    grads = torch.autograd.grad(loss, list(inputs.values()), materialize_grads=True)
    named = {"y": y, **{f"last {i}": s for i, s in enumerate(last)}}
    return {**named, **{f"d {name}": g for name, g in zip(inputs, grads, strict=True)}}


def assert_alike(got, expected, tolerance):
    assert got.keys() == expected.keys()
    for name, value in expected.items():
        scale = max(1.0, value.abs().max().item())
        assert (got[name] - value).abs().max() <= tolerance * scale, name


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("make", FUSED.values(), ids=FUSED)
def test_values_and_every_gradient(make, size):
    T, B, D, H = size
    cell = shaken(make(D, H))
    x, state = torch.randn(T, B, D), tuple(torch.randn(B, H) for _ in range(cell.states))
    some = torch.randint(0, T + 1, (B,))
    form = fused_cells.fused_cell(cell)
    assert form is not None
    # vectors, slices and chunks are the kernel's alone
    both = form.unnormalized and size in SIZES[:3]
    loops = (recurrent.unroll, on_torch) if both else (recurrent.unroll,)
    for lengths, reverse in ((None, False), (None, True), (some, False), (some, True)):
        given = x, state, lengths, reverse
        expected = everything(unroll, cell, *given)
        for loop in loops:
            # 40 steps of units whose sigma is small make much of a last bit
            assert_alike(everything(loop, cell, *given), expected, 1e-10)


@pytest.mark.parametrize("make", [LSTMCell, FUSED["plain"], RNNCell])
@pytest.mark.parametrize("B", [1, 7, 40])
def test_units_of_h_that_are_dropped_at_every_step(make, B):
    T, D, H = 9, 5, 21
    cell = shaken(make(D, H))
    x, state = torch.randn(T, B, D), tuple(torch.randn(B, H) for _ in range(cell.states))
    mask = torch.nn.functional.dropout(torch.ones(B, H), 0.4)
    some = torch.randint(0, T + 1, (B,))
    for given in ((None, False), (some, False), (some, True)):
        loops = (partial(loop, mask=mask) for loop in (unroll, recurrent.unroll))
        expected, got = (everything(loop, cell, x, state, *given) for loop in loops)
        assert_alike(got, expected, 1e-10)
    masked, free = (recurrent.unroll(cell, x, state, mask=m)[0] for m in (mask, None))
    assert not torch.allclose(masked, free)


@pytest.mark.parametrize("make", [LSTMCell, GRUCell, RNNCell])
@pytest.mark.parametrize("used", [0, 1, -1])
def test_one_output_that_is_used_alone(make, used):
    cell = shaken(make(4, 17))
    x, lengths = torch.randn(5, 3, 4), torch.tensor([5, 2, 0])
    state = tuple(torch.randn(3, 17) for _ in range(cell.states))
    found = []
    for loop in (recurrent.unroll, unroll):
        y, last = loop(cell, x, state, lengths)
        loss = (y, *last)[used].square().sum()
        found.append(torch.autograd.grad(loss, list(cell.parameters()), materialize_grads=True))
    for got, expected in zip(*found, strict=True):
        torch.testing.assert_close(got, expected)


@pytest.fixture(params=[1, 2**20, 2**40])
def l2_cache_bytes(request, monkeypatch):
    """A cache in which nothing stays, some of the nets here, all of them."""
    monkeypatch.setattr(recurrent, "l2_cache_bytes", lambda: request.param)
    return request.param


@pytest.mark.parametrize(
    "make", [LSTMCell, GRUCell, RNNCell, FUSED["plain"], FUSED["plain GRU"]]
)
def test_the_number_of_threads_changes_no_byte(make, l2_cache_bytes):
    cell = make(5, 200)
    for B in (1, 7, 8, 12, 33, 70):
        x, lengths = torch.randn(7, B, 5), torch.arange(B) % 8
        state = tuple(torch.randn(B, 200) for _ in range(cell.states))
        passes = []
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            passes.append(everything(recurrent.unroll, cell, x, state, lengths, False))
        for name, value in passes[0].items():
            assert all(torch.equal(value, other[name]) for other in passes[1:]), (B, name)
        assert_alike(passes[0], everything(unroll, cell, x, state, lengths, False), 1e-10)


@pytest.mark.parametrize("make", [LSTM, GRU])
@pytest.mark.parametrize("H", [64, 400])
def test_float32_is_as_exact_as_torchs_operators(make, H):
    squares = {"ours": Counter(), "eager": Counter()}
    for seed in range(4):
        torch.manual_seed(seed)
        torch.set_default_dtype(torch.float32)
        layer = make(40, H)
        given = (
            torch.randn(12, 6, 40),
            layer.cells[0].initial_state(torch.zeros(1, 6, 40)),
            None,
            False,
        )
        single = {
            name: everything(loop, layer.cells[0], *given)
            for name, loop in (("ours", recurrent.unroll), ("eager", unroll))
        }
        wide = given[0].double(), tuple(s.double() for s in given[1]), None, False
        for name, exact in everything(unroll, layer.double().cells[0], *wide).items():
            for loop, values in single.items():
                squares[loop][name] += (values[name] - exact).square().sum().item()
    for name, square in squares["ours"].items():
        # what was promised; the initial state's first gradient may be 0 in both
        assert square <= 2**2 * squares["eager"][name], name


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
    with pytest.raises(RuntimeError, match="second time"):
        y.sum().backward()


def test_what_a_call_returned_is_not_written_again():
    layer = fuse(LSTM(40, 64).float())
    x = torch.randn(50, 16, 40, dtype=torch.float32, requires_grad=True)  # beyond FRESH_PAGES
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


def test_inputs_that_are_not_contiguous():
    cell = LSTMCell(4, 6)
    x = torch.randn(4, 3, 5).permute(2, 1, 0)
    state = (torch.randn(6, 3).T, torch.randn(3, 12)[:, ::2])
    for lengths in (torch.tensor([[5, 1], [2, 1], [3, 1]])[:, 0], torch.tensor(3).expand(3)):
        given = x, state, lengths, False
        ours, expected = (everything(f, cell, *given) for f in (recurrent.unroll, unroll))
        assert_alike(ours, expected, 1e-12)


def test_the_way_back_has_the_lengths_of_the_way_forth():
    layer, x, lengths = fuse(LSTM(4, 6)), torch.randn(5, 3, 4), torch.tensor([5, 2, 3])
    grads = []
    for changed in (False, True):
        y, _ = layer(x, lengths=lengths)
        if changed:
            lengths.fill_(5)  # as a loader does that fills one buffer again and again
        grads.append(torch.autograd.grad(y.square().sum(), [*layer.parameters()]))
    assert all(torch.equal(a, b) for a, b in zip(*grads, strict=True))


def test_autocast_computes_in_the_dtype_of_the_parameters():
    torch.set_default_dtype(torch.float32)
    layer = fuse(LSTM(4, 6))
    x = torch.randn(5, 3, 4)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y, _ = layer(x.bfloat16())
    assert y.dtype == torch.float32
    torch.testing.assert_close(y, layer(x.bfloat16().float())[0])
    y.sum().backward()


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
