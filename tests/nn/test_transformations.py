"""Summed inputs of dense layers and of convolutions, bias inside a included."""

import torch
from torch.nn import functional as F

from lnlab.nn import Identity
from lnlab.nn.table1 import LayerInputs


def test_c_is_added_to_the_summed_inputs():
    W, x, c = torch.randn(5, 3), torch.randn(7, 3), torch.randn(5)
    torch.testing.assert_close(LayerInputs(W, x, c).pre_activations(Identity(5)), x @ W.T + c)
    W, x, c = torch.randn(5, 3, 2, 2), torch.randn(7, 3, 6, 6), torch.randn(5, 1, 1)
    for padding, size in ((0, 5), (1, 7)):
        a = LayerInputs(W, x, c, padding).pre_activations(Identity(5))
        assert a.shape == (7, 5, size, size)
        torch.testing.assert_close(a, F.conv2d(x, W, c.flatten(), padding=padding))
