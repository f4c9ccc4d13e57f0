"""Oracle: every published LN-LSTM against its own equations, written down a second time.

Transcribed from the code of each (the names of ``PUBLISHED_LSTMS``), without our normalizers.
The gates are in the paper's order f, i, o, g; a gain is ``g``, the bias of a norm ``beta``.
"""

from types import SimpleNamespace

import pytest
import torch

from lnlab.nn import PUBLISHED_LSTMS

B, D, H, T = 4, 3, 6, 3
PAPER, THEANO, DRAW, TF, SUPERCELL, FASTRNNS, ADDONS, HASTE, LABML = PUBLISHED_LSTMS


def ln(a, g, beta, eps=1e-5):
    """Layer norm over the last axis, eps inside the root."""
    d = a - a.sum(-1, keepdim=True) / a.shape[-1]
    return g * d / ((d * d).sum(-1, keepdim=True) / a.shape[-1] + eps) ** 0.5 + beta


def ln_draw(a, g, beta, eps=1e-5):
    """Layer norm with eps outside the root."""
    d = a - a.sum(-1, keepdim=True) / a.shape[-1]
    return g * d / (((d * d).sum(-1, keepdim=True) / a.shape[-1]) ** 0.5 + eps) + beta


def of_each(p, x, h, b=0.0):
    """The sum of the normalized products."""
    return ln(h @ p.U, p.g_h, p.beta_h) + ln(x @ p.W + b, p.g_x, p.beta_x)


def of_gates(p, a, eps):
    """Layer norm of each of the four gates by itself."""
    parts = zip(*(v.split(H, dim=-1) for v in (a, p.g_h, p.beta_h)), strict=True)
    return torch.cat([ln(*part, eps) for part in parts], dim=-1)


def addons(p, x, h):
    parts = ln(x @ p.W, p.g_x, p.beta_x, 1e-3), ln(h @ p.U, p.g_h, p.beta_h, 1e-3)
    return sum(parts) + p.b


def haste(p, x, h):
    return ln(x @ p.W, p.g_x, 0) + ln(h @ p.U, p.g_h, 0) + p.b


# what the gates are of, eps of the cell's norm, and whether the normalized cell is carried on
EQUATIONS = {
    PAPER: (lambda p, x, h: of_each(p, x, h) + p.b, 1e-5, False),
    THEANO: (lambda p, x, h: of_each(p, x, h, p.b) + p.b, 1e-5, False),
    DRAW: (lambda p, x, h: x @ p.W + h @ p.U + p.b, 1e-5, False),
    TF: (lambda p, x, h: of_gates(p, x @ p.W + h @ p.U, 1e-12), 1e-12, True),
    SUPERCELL: (lambda p, x, h: of_gates(p, x @ p.W + h @ p.U, 1e-3), 1e-3, False),
    FASTRNNS: (of_each, 1e-5, True),
    ADDONS: (addons, 1e-3, True),
    HASTE: (haste, 1e-5, False),
    LABML: (lambda p, x, h: of_gates(p, h @ p.U + p.b + x @ p.W, 1e-5), 1e-5, False),
}


def step(name, p, x, h, c):
    """The next state of a cell by the equations of its code."""
    gates, eps, carried = EQUATIONS[name]
    f, i, o, g = gates(p, x, h).split(H, dim=-1)
    c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
    normed = (ln_draw if name == DRAW else ln)(c, p.g_c, p.beta_c, eps)
    return torch.sigmoid(o) * torch.tanh(normed), normed if carried else c


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
        expected = step(name, parameters(cell), x, *expected)
    # rounding of another order, divided by a sigma of 0.02
    torch.testing.assert_close(state, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", PUBLISHED_LSTMS)
def test_biases_start_as_in_its_code(name):
    torch.manual_seed(3)
    cell = PUBLISHED_LSTMS[name](D, H)
    assert cell.own_or_norm_bias is not None
    forget, others = cell.own_or_norm_bias[:H], [cell.own_or_norm_bias[H:]]
    assert (forget == (1.0 if name in (TF, SUPERCELL, ADDONS, HASTE) else 0.0)).all()
    letters = parameters(cell)
    others += [b for b in (letters.beta_x, letters.beta_c) if b is not None]
    assert not any(b.any() for b in others)
    if name == LABML:  # torch.nn.Linear's, of H inputs
        assert cell.b is not None
        assert 0.8 * H**-0.5 < cell.b.abs().max() <= H**-0.5
        assert cell.b.unique().numel() == 4 * H
