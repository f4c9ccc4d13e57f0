"""The cells against torch, against the equations written by hand, and against each other."""

from functools import partial

import pytest
import torch
from torch.nn import functional as F

from lnlab.nn import (
    MODERN_INIT,
    BatchNorm,
    BiasPlacement,
    CellInit,
    GroupNorm,
    GRUCell,
    Identity,
    LayerNorm,
    LSTMCell,
    NormOfProductsOrSum,
    RecurrentBatchNorm,
    RMSNorm,
    RNNCell,
    WeightNorm,
    init_like_torch_,
)

B, D, H = 4, 3, 5
CELLS = [RNNCell, LSTMCell, GRUCell]
NORMS = [
    Identity,
    LayerNorm,
    RMSNorm,
    BatchNorm,
    WeightNorm,
    partial(RecurrentBatchNorm, steps=3),
    partial(GroupNorm, 5),
]


def shaken(cell):
    """The cell with every parameter moved away from what it starts from."""
    with torch.no_grad():
        for p in cell.parameters():
            p.add_(0.3 * torch.randn_like(p))
    return cell


def some(cell):
    return torch.randn(B, D), tuple(torch.randn(B, H) for _ in range(cell.states))


def LN(a, norm):
    return F.layer_norm(a, a.shape[-1:], norm.g, norm.b, norm.eps)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("make", CELLS)
def test_every_parameter_has_a_gradient(make, norm):
    cell = shaken(make(D, H, norm))
    x, state = some(cell)
    new = cell(x, state, t=1)
    assert len(new) == cell.states
    assert all(s.shape == (B, H) for s in new)
    torch.stack(new).square().sum().backward()
    for name, p in cell.named_parameters():
        assert p.grad is not None, name
        assert p.grad.isfinite().all(), name


def test_gru_is_eq_26_to_28():
    cell = shaken(GRUCell(D, H))
    x, (h,) = some(cell)
    (W_x, W), (W_h, U) = cell.W_x.split(2 * H), cell.W_h.split(2 * H)
    z, r = (LN(h @ W_h.T, cell.norm_h) + LN(x @ W_x.T, cell.norm_x)).split(H, dim=1)
    candidate = torch.tanh(
        LN(x @ W.T, cell.norm_W) + torch.sigmoid(r) * LN(h @ U.T, cell.norm_U)
    )
    h_t = (1 - torch.sigmoid(z)) * h + torch.sigmoid(z) * candidate
    torch.testing.assert_close(cell(x, (h,)), (h_t,))


def test_rnn_is_eq_4():
    cell = shaken(RNNCell(D, H))
    x, (h,) = some(cell)
    assert cell.b is None
    expected = torch.tanh(LN(h @ cell.W_h.T + x @ cell.W_x.T, cell.norm_h))
    torch.testing.assert_close(cell(x, (h,)), (expected,))


def test_initial_values():
    cell = LSTMCell(
        H,
        H,
        initial=CellInit(recurrent_norm_gain=0.2, forget_bias=1.0, learned_initial_state=True),
    )
    for gate in (*cell.W_x.split(H), *cell.W_h.split(H)):
        torch.testing.assert_close(gate @ gate.T, torch.eye(H))
    assert (cell.norm_h.g == 0.2).all()
    assert (cell.norm_x.g == 1).all()
    assert (cell.b[:H] == 1).all()
    assert (cell.b[H:] == 0).all()
    assert {"first.0", "first.1"} <= {name for name, _ in cell.named_parameters()}
    assert (LSTMCell(D, H).W_x.abs() <= 0.1).all()
    wide = LSTMCell(400, 50, initial=MODERN_INIT)
    assert wide.W_x.std().item() == pytest.approx(400**-0.5, rel=0.02)  # 80,000 draws
    assert wide.W_h.std().item() == pytest.approx(50**-0.5, rel=0.04)  # 10,000 draws
    bound = H**-0.5
    W = GRUCell(400, H, initial=CellInit(init_like_torch_)).W_x  # 6,000 draws
    assert bound > W.max() > 0.99 * bound
    assert -bound < W.min() < -0.99 * bound


def test_the_recurrent_gain_is_that_of_every_norm_of_the_state():
    initial = CellInit(recurrent_norm_gain=0.2)
    gru = GRUCell(D, H, initial=initial)
    rnn = RNNCell(D, H, norm_scope=NormOfProductsOrSum.SEPARATE, initial=initial)
    assert all((norm.g == 0.2).all() for norm in (gru.norm_h, gru.norm_U, rnn.norm_h))
    assert all((norm.g == 1).all() for norm in (gru.norm_x, gru.norm_W, rnn.norm_x))


def test_a_bias_is_drawn_gate_by_gate_where_asked():
    gates = []
    GRUCell(D, H, Identity, initial=CellInit(bias=lambda b: gates.append(b.normal_().clone())))
    assert [b.shape for b in gates] == 4 * [(H,)]
    cell = RNNCell(D, H, bias=BiasPlacement.INSIDE, initial=CellInit(bias=init_like_torch_))
    assert 0 < cell.b.abs().max() <= H**-0.5
    assert (cell.norm_h.b == 0).all()
    x, (h,) = some(cell)
    a = h @ cell.W_h.T + x @ cell.W_x.T + cell.b
    torch.testing.assert_close(cell(x, (h,))[0], LN(a, cell.norm_h).tanh())


@pytest.mark.parametrize("make", CELLS)
def test_weight_norm_starts_as_the_cell_without_it(make):
    cells = []
    for norm in (Identity, WeightNorm):
        torch.manual_seed(1)
        cells.append(make(D, H, norm))
    x, state = some(cells[0])
    plain, weight = (cell(x, state, t=0) for cell in cells)
    torch.testing.assert_close(weight, plain)


def test_settings_that_cannot_be():
    gain = CellInit(recurrent_norm_gain=0.1)
    for make, message in (
        (partial(LSTMCell, D, H, Identity, initial=gain), "no gain"),
        (partial(RNNCell, D, H, initial=gain), "SEPARATE"),
        (
            partial(LSTMCell, D, H, norm_scope="JOINT"),
            "'JOINT' is not a valid NormOfProductsOrSum",
        ),
    ):
        with pytest.raises(ValueError, match=message):
            make()


@pytest.mark.parametrize("cell", CELLS)
def test_torch_compile_sees_one_graph(cell):
    layer_norm_cell = cell(3, 4)
    x, state = torch.randn(2, 3), tuple(torch.randn(2, 4) for _ in range(cell.states))
    compiled = torch.compile(layer_norm_cell, backend="eager", fullgraph=True)
    torch.testing.assert_close(compiled(x, state, 1), layer_norm_cell(x, state, 1))
