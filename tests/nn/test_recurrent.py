"""The reference loop and its layers against torch.nn, and what padding must not do."""

from functools import partial

import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from lnlab.nn import (
    BatchNorm,
    CellInit,
    GRUCell,
    Identity,
    LayerNorm,
    LSTMCell,
    RecurrentBatchNorm,
    RNNCell,
    UpdateGateConvention,
    torch_state_dict,
)
from lnlab.nn.recurrent import GRU, LSTM, RNN, unroll

T, B, D, H = 6, 4, 3, 5
randn = partial(torch.randn, dtype=torch.float64)
PAIRS = [
    (partial(RNN, nonlinearity="relu"), partial(nn.RNN, nonlinearity="relu")),
    (LSTM, nn.LSTM),
    (GRU, nn.GRU),
    (partial(GRU, update_gate=UpdateGateConvention.KEEPS), nn.GRU),
]
SETTINGS = [
    {"num_layers": 2, "bidirectional": True, "batch_first": True},
    {"num_layers": 2, "bias": False},
]


def loaded(ours, theirs, **settings):
    """Our layer and torch's, with the same weights, which go back and forth."""
    plain = theirs(D, H, **settings)
    layer = ours(D, H, norm_layer=Identity, **settings)
    layer.load_state_dict(plain.state_dict())
    plain.load_state_dict(torch_state_dict(layer))
    return layer, plain


@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize(("ours", "theirs"), PAIRS)
def test_identity_is_torchs_layer(ours, theirs, settings):
    layer, plain = loaded(ours, theirs, **settings)
    h = torch.randn(len(layer.cells), B, H)
    state = (h, h + 1) if theirs is nn.LSTM else h
    x = torch.randn(B, T, D) if layer.batch_first else torch.randn(T, B, D)
    x.requires_grad_()
    exact = {"rtol": 0, "atol": 1e-12}  # sums in another order
    for first in (None, state):
        (y, last), (y_plain, last_plain) = layer(x, first), plain(x, first)
        torch.testing.assert_close((y, last), (y_plain, last_plain), **exact)
    weight = torch.randn_like(y)
    grads = [torch.autograd.grad((o * weight).sum(), x)[0] for o in (y, y_plain)]
    torch.testing.assert_close(*grads, **exact)
    one = tuple(s[:, 0] for s in state) if isinstance(state, tuple) else state[:, 0]
    alone = x[0] if layer.batch_first else x[:, 0]
    torch.testing.assert_close(layer(alone, one), plain(alone, one), **exact)


@pytest.mark.parametrize("in_order", [True, False])
@pytest.mark.parametrize(("ours", "theirs"), PAIRS)
def test_packed_sequences_are_torchs(ours, theirs, in_order):
    layer, plain = loaded(ours, theirs, bidirectional=True)
    lengths = [6, 4, 4, 1] if in_order else [4, 1, 6, 4]
    x = pack_padded_sequence(torch.randn(T, B, D), lengths, enforce_sorted=in_order)
    h = torch.randn(2, B, H)
    state = (h, h + 1) if theirs is nn.LSTM else h
    (y, last), (y_plain, last_plain) = layer(x, state), plain(x, state)
    torch.testing.assert_close(y.data, y_plain.data)
    torch.testing.assert_close(last, last_plain)
    for a, b in zip(pad_packed_sequence(y), pad_packed_sequence(y_plain), strict=True):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("make", [RNNCell, LSTMCell, GRUCell])
@pytest.mark.parametrize("norm", [LayerNorm, partial(BatchNorm, affine=False)])
def test_padding_enters_nothing(make, norm, reverse):
    cell, lengths = make(D, H, norm), torch.tensor([3, 6, 2, 3])
    with torch.no_grad():
        cell.W_x.mul_(5)
    x = torch.randn(T, B, D)
    x[torch.arange(T)[:, None] >= lengths] = float("nan")
    x.requires_grad_()
    y, last = unroll(cell, x, lengths=lengths, reverse=reverse)
    (y.square().sum() + sum(s.sum() for s in last)).backward()
    padding = torch.arange(T)[:, None] >= lengths
    assert (y[padding] == 0).all()
    assert (x.grad[padding] == 0).all()
    assert all(p.grad.isfinite().all() for p in cell.parameters())
    if norm is LayerNorm:
        for b, n in enumerate(lengths.tolist()):
            alone, end = unroll(cell, x[:n, b : b + 1], reverse=reverse)
            torch.testing.assert_close(y[:n, b : b + 1], alone)
            torch.testing.assert_close(tuple(s[b : b + 1] for s in last), end)


def test_a_sequence_of_no_steps_keeps_its_state():
    cell = LSTMCell(D, H)
    state = (torch.randn(B, H), torch.randn(B, H))
    y, last = unroll(cell, torch.randn(T, B, D), state, [0, 6, 0, 1])
    for s, first in zip(last, state, strict=True):
        torch.testing.assert_close(s[[0, 2]], first[[0, 2]])
    assert (y[:, [0, 2]] == 0).all()
    y, last = unroll(cell, torch.randn(0, B, D), state)
    assert y.shape == (0, B, H)
    assert last == state


def test_reverse_counts_steps_from_where_it_starts():
    cell = RNNCell(D, H, partial(RecurrentBatchNorm, steps=T))
    x = torch.randn(T, B, D)
    unroll(cell, x, lengths=[1, 2, 1, 2], reverse=True)
    seen = (cell.norm_h.running_mean != 0).any(1)
    assert seen.tolist() == [True, True, False, False, False, False]


def test_a_learned_first_state_is_used_and_trained():
    layer = LSTM(D, H, initial=CellInit(learned_initial_state=True))
    with torch.no_grad():
        layer.cells[0].first[0].fill_(0.5)
    x = torch.randn(T, B, D)
    h, c = torch.full((1, B, H), 0.5), torch.zeros(1, B, H)
    torch.testing.assert_close(layer(x)[0], layer(x, (h, c))[0])
    layer(x)[0].sum().backward()
    assert all((s.grad != 0).all() for s in layer.cells[0].first)


def test_dropout_stands_neither_before_the_first_layer_nor_behind_the_last():
    layer = GRU(D, H, num_layers=2, dropout=1.0)
    nn.init.ones_(layer.cells[1].norm_W.b)  # all that it has to say, its inputs being dropped
    x = torch.randn(T, B, D)
    y, last = layer(x)
    torch.testing.assert_close(last[0], unroll(layer.cells[0], x)[1][0])
    torch.testing.assert_close(last[1], y[-1])
    assert y.abs().max() > 1e-3


def test_bad_input_is_named():
    for change, message in (
        ({"x": randn(T, B, D + 1)}, r"D = 3"),
        ({"x": randn(T, B, D).float()}, "float32"),
        ({"lengths": [1, 2, 3]}, "each of the 4"),
        ({"lengths": [1, 2, 3, 7]}, "from 0 to 6"),
        ({"lengths": [1.0, 2.0, 3.0, 4.0]}, "whole numbers"),
        ({"state": (randn(B, H), randn(1, H))}, "first c"),
    ):
        with pytest.raises(ValueError, match=message):
            unroll(LSTMCell(D, H), **{"x": torch.randn(T, B, D), **change})
    for layer in (RNN, LSTM, GRU):
        with pytest.raises(TypeError, match=r"lnlab.nn.LayerNorm, got torch\..*LayerNorm"):
            layer(D, H, norm_layer=torch.nn.LayerNorm)
    packed = pack_padded_sequence(torch.randn(T, B, D), torch.full((B,), T))
    with pytest.raises(ValueError, match="leave lengths out"):
        LSTM(D, H)(packed, lengths=[1] * B)
    with pytest.raises(ValueError, match="first state"):
        GRU(D, H)(torch.randn(T, B, D), torch.randn(2, B, H))
