"""Nine cells of one name, side by side."""

from functools import partial

import pytest
import torch

from lnlab.analysis.rnn_dynamics import disagreement, place_of_bias, reading, same_weights
from lnlab.nn import PUBLISHED, LayerNorm, LSTMCell

T, B, D, H = 6, 4, 3, 8
PAPER, THEANO, DRAW, TF, SUPERCELL, FASTRNNS, ADDONS, HASTE, LABML = PUBLISHED


@pytest.fixture
def drawn_with():
    W_x, W_h = torch.randn(4 * H, D), torch.randn(4 * H, H)
    return lambda b: same_weights(PUBLISHED, W_x, W_h, b)


x = torch.randn(T, B, D, generator=torch.Generator().manual_seed(5), dtype=torch.float64)


def test_all_have_the_same_weights_and_their_own_forget_bias(drawn_with):
    b = torch.randn(4 * H)
    cells = drawn_with(b)
    for name, cell in cells.items():
        assert torch.equal(cell.W_h, cells[PAPER].W_h)
        added = place_of_bias(cell).detach() - b
        forget = 1.0 if name in (TF, SUPERCELL, ADDONS, HASTE) else 0.0
        torch.testing.assert_close(added[:H], torch.full((H,), forget))
        assert added[H:].abs().max() < 1e-12


def test_without_a_bias_two_of_them_are_one_function(drawn_with):
    apart = disagreement(drawn_with(torch.zeros(4 * H)), x)
    for name, far in apart.items():
        if name in (PAPER, THEANO):
            assert far.max() < 1e-12
        else:
            assert far[-1] > 0.05


def test_a_bias_used_twice_is_another_function(drawn_with):
    apart = disagreement(drawn_with(torch.randn(4 * H)), x)
    assert apart[THEANO].min() > 0.01
    assert apart[HASTE][1:].min() > 0.01  # once there is something to forget


def test_with_the_same_start_one_of_them_is_the_papers():
    closed = partial(PUBLISHED[HASTE], initial=PUBLISHED[PAPER](1, 1).initial)
    W_x, W_h, b = torch.randn(4 * H, D), torch.randn(4 * H, H), torch.randn(4 * H)
    cells = same_weights({PAPER: PUBLISHED[PAPER], HASTE: closed}, W_x, W_h, b)
    assert disagreement(cells, x)[HASTE].max() < 1e-12


def test_handing_on_the_normalized_cell_is_seen_from_the_second_step(drawn_with):
    apart = disagreement(drawn_with(torch.randn(4 * H)), x)[FASTRNNS]
    assert apart[0] < 1e-12
    assert apart[1:].min() > 0.01


def test_the_distance_is_relative_to_the_first():
    cells = {"one": LSTMCell(D, H), "two": LSTMCell(D, H)}
    far = disagreement(cells, x)
    h = [cell(x[0], cell.start(x))[0] for cell in cells.values()]
    torch.testing.assert_close(far["two"][0], ((h[1] - h[0]).norm() / h[0].norm()).detach())
    assert torch.equal(far["one"], torch.zeros(T))


def test_what_is_read_off_is_what_was_set(drawn_with):
    cells = drawn_with(torch.zeros(4 * H))
    readings = {name: reading(cell) for name, cell in cells.items()}
    assert readings[DRAW]["LN runs over"] == "no gate"
    assert readings[LABML]["LN runs over"] == "each gate by itself"
    assert readings[PAPER]["of"] == "W_h h and W_x x"
    assert readings[TF] | {"eps": ""} == {
        "LN runs over": "each gate by itself", "of": "W_h h + W_x x", "hands on": "LN(c)",
        "b": "that of LN", "forget bias": "1", "eps": "",
    }  # fmt: skip
    assert readings[THEANO]["b"] == "twice"
    assert readings[LABML]["b"] == "inside LN"
    assert readings[ADDONS] == {
        "LN runs over": "all gates at once", "of": "W_h h and W_x x", "hands on": "LN(c)",
        "b": "once", "forget bias": "1", "eps": "0.001, inside the root",
    }  # fmt: skip
    assert readings[DRAW]["eps"] == "1e-05, outside the root"
    named = reading(LSTMCell(D, H, partial(LayerNorm, eps=0.5)))
    assert named["eps"] == "0.5, inside the root"
