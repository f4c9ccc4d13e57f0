"""Oracle: every published LN-LSTM against its own equations, written down a second time.

Transcribed from the code of each (the names of ``PUBLISHED_LSTMS``), without our normalizers.
The gates are in the paper's order f, i, o, g; a gain is ``g``, the bias of a norm ``beta``.
"""

from types import SimpleNamespace

import pytest
import torch

from lnlab.nn import PUBLISHED_LSTMS, BiasPlacement, CellInit, LSTMCell

B, D, H, T = 4, 3, 6, 3
PAPER, THEANO, DRAW, TF, SUPERCELL, FASTRNNS, ADDONS, HASTE, LABML = PUBLISHED_LSTMS


def ln(a, g, beta, eps):
    """Layer norm over the last axis, eps inside the root."""
    d = a - a.sum(-1, keepdim=True) / a.shape[-1]
    return g * d / ((d * d).sum(-1, keepdim=True) / a.shape[-1] + eps) ** 0.5 + beta


def each_gate(a, g, beta, eps):
    """Layer norm of each of the four gates by itself."""
    parts = zip(*(v.split(H, dim=-1) for v in (a, g, beta)), strict=True)
    return torch.cat([ln(*part, eps) for part in parts], dim=-1)


def new(a, c):
    """The output gate, and the next cell."""
    f, i, o, g = a.split(H, dim=-1)
    return torch.sigmoid(o), torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)


def paper(p, x, h, c):
    a = ln(h @ p.U, p.g_h, p.beta_h, 1e-5) + ln(x @ p.W, p.g_x, p.beta_x, 1e-5) + p.b
    o, c = new(a, c)
    return o * torch.tanh(ln(c, p.g_c, p.beta_c, 1e-5)), c


def theano(p, x, h, c):
    a = ln(x @ p.W + p.b, p.g_x, p.beta_x, 1e-5) + ln(h @ p.U, p.g_h, p.beta_h, 1e-5) + p.b
    o, c = new(a, c)
    return o * torch.tanh(ln(c, p.g_c, p.beta_c, 1e-5)), c


def draw(p, x, h, c):
    o, c = new(x @ p.W + h @ p.U + p.b, c)
    d = c - c.sum(-1, keepdim=True) / H
    normed = d / (((d * d).sum(-1, keepdim=True) / H) ** 0.5 + 1e-5)
    return o * torch.tanh(p.g_c * normed + p.beta_c), c


def contrib(p, x, h, c):
    o, c = new(each_gate(x @ p.W + h @ p.U, p.g_h, p.beta_h, 1e-12), c)
    c = ln(c, p.g_c, p.beta_c, 1e-12)
    return o * torch.tanh(c), c


def supercell(p, x, h, c):
    o, c = new(each_gate(x @ p.W + h @ p.U, p.g_h, p.beta_h, 1e-3), c)
    return o * torch.tanh(ln(c, p.g_c, p.beta_c, 1e-3)), c


def fastrnns(p, x, h, c):
    a = ln(x @ p.W, p.g_x, p.beta_x, 1e-5) + ln(h @ p.U, p.g_h, p.beta_h, 1e-5)
    o, c = new(a, c)
    c = ln(c, p.g_c, p.beta_c, 1e-5)
    return o * torch.tanh(c), c


def addons(p, x, h, c):
    a = ln(x @ p.W, p.g_x, p.beta_x, 1e-3) + ln(h @ p.U, p.g_h, p.beta_h, 1e-3) + p.b
    o, c = new(a, c)
    c = ln(c, p.g_c, p.beta_c, 1e-3)
    return o * torch.tanh(c), c


def haste(p, x, h, c):
    o, c = new(ln(x @ p.W, p.g_x, 0, 1e-5) + ln(h @ p.U, p.g_h, 0, 1e-5) + p.b, c)
    return o * torch.tanh(ln(c, p.g_c, p.beta_c, 1e-5)), c


def labml(p, x, h, c):
    o, c = new(each_gate(h @ p.U + p.b + x @ p.W, p.g_h, p.beta_h, 1e-5), c)
    return o * torch.tanh(ln(c, p.g_c, p.beta_c, 1e-5)), c


EQUATIONS = {
    PAPER: paper,
    THEANO: theano,
    DRAW: draw,
    TF: contrib,
    SUPERCELL: supercell,
    FASTRNNS: fastrnns,
    ADDONS: addons,
    HASTE: haste,
    LABML: labml,
}
LETTERS = {"g": "g", "b": "beta"}


def parameters(cell):
    """The parameters of a cell under the letters of the equations."""
    letters = {"W": cell.W_x.T, "U": cell.W_h.T, "b": cell.b}
    for name in "hxc":
        norm = getattr(cell, f"norm_{name}")
        for ours, letter in LETTERS.items():
            letters[f"{letter}_{name}"] = getattr(norm, ours, None)
    return SimpleNamespace(**letters)


@pytest.mark.parametrize("scale", [1.0, 0.02])
@pytest.mark.parametrize("name", PUBLISHED_LSTMS)
def test_the_cell_is_its_equations(name, scale, randomize):
    """At the small scale the variances are about 1e-3, and every eps is seen."""
    cell = randomize(PUBLISHED_LSTMS[name](D, H))
    state = tuple(scale * torch.randn(B, H) for _ in range(2))
    with torch.no_grad():
        for p in (cell.W_x, cell.W_h, cell.b, cell.norm_c.g):
            if p is not None:
                p.normal_(std=scale)
    expected = state
    for x in torch.randn(T, B, D):
        state = cell(x, state)
        expected = EQUATIONS[name](parameters(cell), x, *expected)
    # rounding of another order, divided by a sigma of 0.02
    torch.testing.assert_close(state, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", PUBLISHED_LSTMS)
def test_biases_start_as_in_its_code(name):
    torch.manual_seed(3)
    cell = PUBLISHED_LSTMS[name](D, H)
    assert cell.bias_after_norm is not None
    forget, others = cell.bias_after_norm[:H], [cell.bias_after_norm[H:]]
    assert (forget == (1.0 if name in (TF, SUPERCELL, ADDONS, HASTE) else 0.0)).all()
    letters = parameters(cell)
    others += [b for b in (letters.beta_x, letters.beta_c) if b is not None]
    assert not any(b.any() for b in others)
    if name == LABML:  # torch.nn.Linear's, of H inputs
        assert cell.b is not None
        assert 0.8 * H**-0.5 < cell.b.abs().max() <= H**-0.5
        assert cell.b.unique().numel() == 4 * H


def test_a_bias_can_stand_inside_the_normalizer_alone():
    cell = LSTMCell(
        D, H, bias=BiasPlacement.INSIDE, initial=CellInit(bias=torch.nn.init.normal_)
    )
    x, h = torch.randn(B, D), torch.randn(B, H)
    p = parameters(cell)
    expected = ln(h @ p.U, p.g_h, p.beta_h, 1e-5) + ln(x @ p.W + p.b, p.g_x, p.beta_x, 1e-5)
    torch.testing.assert_close(cell.pre_activations(x, h, None), expected)
    with pytest.raises(ValueError, match="no b"):
        PUBLISHED_LSTMS[HASTE](
            D, H, bias=BiasPlacement.INSIDE, initial=CellInit(forget_bias=1.0)
        )
