"""Fused recurrent layers on an accelerator: the values and gradients of the CPU's reference."""

import warnings
from functools import partial

import pytest
import torch

from lnlab.kernels import fuse
from lnlab.kernels.compilation import NoKernelWarning
from lnlab.nn import BatchNorm, Identity
from lnlab.nn.recurrent import GRU, LSTM, RNN

pytestmark = pytest.mark.gpu

LAYERS = {
    "LSTM": LSTM,
    "DRAW": partial(LSTM, gate_norm_layer=Identity),
    "GRU": GRU,
    "RNN": RNN,
    "LSTM without": partial(LSTM, norm_layer=Identity),
    "GRU without": partial(GRU, norm_layer=Identity),
    "batch norm": partial(LSTM, norm_layer=BatchNorm),
}


@pytest.mark.parametrize("ragged", [False, True])
@pytest.mark.parametrize("name", LAYERS)
def test_a_fused_layer_is_that_of_the_cpu(name, ragged, device):
    # Triton's programs serve float32; of four cases, batch norm makes its rounding large
    torch.set_default_dtype(torch.float64 if "batch" in name else torch.float32)
    layer, x = LAYERS[name](3, 5, 2, bidirectional=True), torch.randn(6, 4, 3)
    lengths = torch.tensor([6, 2, 6, 6]) if ragged else None
    # what of this is computed in TF32 is not what is looked at
    torch.backends.cuda.matmul.allow_tf32 = False
    expected = outcome(layer, x.requires_grad_(), lengths)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NoKernelWarning)
        fused = fuse(layer.to(device))
        found = outcome(fused, x.detach().to(device).requires_grad_(), lengths)
    for one, other in zip(found, expected, strict=True):
        # float32, other orders of summation, sigmas of a tenth
        torch.testing.assert_close(one.cpu(), other, rtol=1e-3, atol=1e-4)


def outcome(layer, x, lengths):
    """y, and its gradients to x and to all parameters."""
    y, _ = layer(x, lengths=lengths)
    grads = torch.linspace(-1, 1, y.numel(), device=y.device).view_as(y)
    return y.detach(), *torch.autograd.grad((y * grads).sum(), [x, *layer.parameters()])
