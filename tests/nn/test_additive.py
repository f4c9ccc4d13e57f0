"""Attention by hand: a distribution over what is no padding."""

import pytest
import torch
from torch.nn import functional as F

from lnlab.nn import Attention


@pytest.mark.parametrize("location", [0, 2])
def test_attention_by_hand(location):
    B, T, D = 3, 5, 8
    attention = Attention(3, D, 4, location=location)
    h, s, before = torch.randn(B, T, D), torch.randn(B, 3), torch.rand(B, T)
    lengths = torch.tensor([5, 3, 1])
    context, alpha = attention(s, attention.annotate(h, lengths), before)
    query = s @ attention.query.W.T + attention.query.b_inside
    keys = h @ attention.key.W.T + query[:, None]
    if location:
        filtered = F.conv1d(before[:, None], attention.kernels.weight, padding=7)
        keys = keys + filtered.mT @ attention.place.W.T
    e = torch.tanh(keys) @ attention.v.W[0]
    e = e.masked_fill(torch.arange(T) >= lengths[:, None], -torch.inf)
    torch.testing.assert_close(alpha, e.softmax(-1))
    torch.testing.assert_close(context, torch.einsum("bt,btd->bd", e.softmax(-1), h))
