"""The plain LSTM and GRU where there is no kernel: by torch, as the reference loop has them."""

import warnings
from functools import partial

import pytest
import torch

from lnlab.kernels import fuse, recurrent
from lnlab.kernels.fused_cells import fused_cell
from lnlab.kernels.recurrent import unroll as fused
from lnlab.nn import PUBLISHED_LSTMS, Bias, GRUCell, Identity, LSTMCell, UpdateGate
from lnlab.nn.recurrent import GRU, LSTM, unroll

from .test_compiled import everything, shaken

CELLS = {
    "plain": partial(LSTMCell, norm_layer=Identity),
    "without b": partial(LSTMCell, norm_layer=Identity, bias=Bias.NONE),
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


def test_it_is_torchs_operator_that_computes():
    layer = fuse(LSTM(3, 4, norm_layer=Identity))
    y, _ = layer(torch.randn(20, 2, 3))
    seen, todo = set(), [y.grad_fn]
    while todo:
        node = todo.pop()
        if node is not None and node not in seen:
            seen.add(node)
            todo += [following for following, _ in node.next_functions]
    loop, _ = LSTM(3, 4, norm_layer=Identity)(torch.randn(20, 2, 3))
    assert not any("Recurrence" in type(node).__name__ for node in seen)
    assert loop.shape == y.shape


@pytest.mark.parametrize("make", CELLS.values(), ids=CELLS)
def test_what_is_torchs_is_known(make):
    assert fused_cell(make(3, 4)).unnormalized


@pytest.mark.parametrize(
    "make",
    [
        LSTMCell,
        GRUCell,
        partial(LSTMCell, norm_layer=Identity, bias=Bias.TWICE),
        *PUBLISHED_LSTMS.values(),
    ],
)
def test_what_is_not_torchs_is_left_alone(make):
    found = fused_cell(make(3, 4))
    assert found is None or not found.unnormalized


def test_a_cell_with_hooks_is_left_to_the_reference():
    cell = LSTMCell(3, 4, Identity)
    cell.register_forward_hook(lambda *_: None)
    assert fused_cell(cell) is None


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
