"""The plain LSTM and GRU where there is no kernel: by torch, as the reference loop has them."""

import warnings
from functools import partial

import pytest
import torch

from lnlab.kernels import fuse, recurrent
from lnlab.kernels.recurrent import unroll as fused
from lnlab.nn import BiasPlacement, GRUCell, Identity, LSTMCell, UpdateGate
from lnlab.nn.recurrent import GRU, LSTM, unroll

from .test_compiled import everything, shaken

CELLS = {
    "plain": partial(LSTMCell, norm_layer=Identity),
    "without b": partial(LSTMCell, norm_layer=Identity, bias=BiasPlacement.NONE),
    "GRU": partial(GRUCell, norm_layer=Identity),
    "GRU that keeps": partial(GRUCell, norm_layer=Identity, update_gate=UpdateGate.KEEPS),
    "GRU without b": partial(GRUCell, norm_layer=Identity, bias=False),
}


@pytest.fixture(autouse=True)
def no_compiler(monkeypatch):
    monkeypatch.setattr(recurrent, "library", lambda: None)


@pytest.mark.parametrize("make", CELLS.values(), ids=CELLS)
@pytest.mark.parametrize("size", [(1, 1, 1, 1), (5, 4, 3, 5), (9, 6, 2, 7)])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("ragged", [False, True])
def test_values_and_every_gradient(make, size, reverse, ragged):
    T, B, D, H = size
    cell = shaken(make(D, H))
    x, state = torch.randn(T, B, D), tuple(torch.randn(B, H) for _ in range(cell.states))
    lengths = torch.randint(0, T + 1, (B,)) if ragged else None
    ours = everything(fused, cell, x, state, lengths, reverse)
    theirs = everything(unroll, cell, x, state, lengths, reverse)
    assert ours.keys() == theirs.keys()
    for name, expected in theirs.items():
        torch.testing.assert_close(ours[name], expected, rtol=0, atol=1e-12, msg=name)  # order


@pytest.mark.parametrize("kind", [LSTM, GRU])
def test_fuse_says_nothing_of_a_plain_layer(kind):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        layer = fuse(kind(3, 4, 2, bidirectional=True, norm_layer=Identity))
    x = torch.randn(7, 5, 3)
    lengths = torch.tensor([7, 0, 3, 1, 6])
    reference = kind(3, 4, 2, bidirectional=True, norm_layer=Identity)
    reference.load_state_dict(layer.state_dict())
    for ours, theirs in zip(
        torch.utils._pytree.tree_leaves(layer(x, lengths=lengths)),
        torch.utils._pytree.tree_leaves(reference(x, lengths=lengths)),
        strict=True,
    ):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-12)  # other order
