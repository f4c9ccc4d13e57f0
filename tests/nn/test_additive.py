"""Attention: a distribution over what is no padding, by hand, and moved by where it was."""

import pytest
import torch

from lnlab.nn import Attention

H = 4


def heard(location=0, T=6):
    attention = Attention(8, 2 * H, 8, location=location)
    return attention, attention.annotate(torch.randn(3, T, 2 * H), torch.tensor([T, 4, 1]))


@pytest.mark.parametrize("location", [0, 3])
def test_attention_is_a_distribution_over_what_was_heard(location):
    attention, what = heard(location)
    context, alpha = attention(torch.randn(3, 8), what, torch.eye(6)[[2, 1, 0]])
    assert context.shape == (3, 2 * H)
    torch.testing.assert_close(alpha.sum(-1), torch.ones(3))
    assert not alpha[1, 4:].any()
    assert alpha[2, 0] == 1


def test_attention_by_hand():
    attention = Attention(3, 2 * H, 4)
    h, s = torch.randn(1, 5, 2 * H), torch.randn(1, 3)
    context, alpha = attention(s, attention.annotate(h, torch.tensor([5])), torch.zeros(1, 5))
    keys, query = h[0] @ attention.key.W.T, s[0] @ attention.query.W.T
    e = torch.tanh(keys + query + attention.query.b_inside) @ attention.v.W[0]
    torch.testing.assert_close(alpha[0], e.softmax(0))
    torch.testing.assert_close(context[0], e.softmax(0) @ h[0])


def test_location_looks_at_where_it_was():
    attention, what = heard(location=2)
    s = torch.randn(3, 8)
    here, there = torch.eye(6)[[0, 0, 0]], torch.eye(6)[[5, 3, 0]]
    _, one = attention(s, what, here)
    _, other = attention(s, what, there)
    assert (one[0] - other[0]).abs().max() > 1e-3
