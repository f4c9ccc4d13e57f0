"""LSTMs with batch norm, compiled and on torch's operators: the reference loop, in which no
padding is."""

import copy
from functools import partial

import pytest
import torch

from lnlab.kernels import fuse, recurrent
from lnlab.kernels.compilation import library
from lnlab.nn import (
    BatchNorm,
    CellInit,
    Mode,
    RecurrentBatchNorm,
    use_statistics,
)
from lnlab.nn.recurrent import LSTM

T, B, D, H = 6, 5, 3, 4
RECURRENT = partial(RecurrentBatchNorm, steps=T)
LENGTHS = {
    "all": None,
    "some": [6, 2, 5, 2, 6],
    "one is left": [1, 6, 3, 1, 2],
    "none at all": [0, 4, 0, 4, 4],
    "shorter than the tensor": [3, 1, 2, 3, 3],
}


@pytest.fixture(params=["compiled", "torch's"], autouse=True)
def way(request, monkeypatch):
    """With the kernel, where it can be built, and without."""
    if request.param == "torch's":
        monkeypatch.setattr(recurrent, "library", lambda: None)
    elif library() is None:
        pytest.skip("no compiler")


@pytest.fixture(params=[RECURRENT, BatchNorm], ids=["each step", "pooled"])
def pair(request):
    torch.manual_seed(1)
    layer = LSTM(D, H, norm_layer=request.param, initial=CellInit(learned_state=True))
    with torch.no_grad():
        for p in layer.parameters():
            p.add_(0.3 * torch.randn_like(p))
    fused = fuse(copy.deepcopy(layer))
    assert recurrent.has_batch_norms(fused.cells[0])
    return layer, fused


def everything(layer, x, lengths, reverse, mode):
    x = x.clone().requires_grad_()
    with use_statistics(layer, mode):
        y, last = layer.unroll(layer.cells[0], x, None, lengths, reverse)
    weights = torch.randn(y.shape, generator=torch.Generator().manual_seed(1))
    ends = sum((s.sin().sum() for s in last), torch.zeros(()))
    leaves = [x, *layer.parameters()]
    grads = torch.autograd.grad((y * weights).sum() + ends, leaves)
    return [y.detach(), *last, *grads, *layer.state_dict().values()]


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("mode", [None, Mode.BATCH, Mode.RUNNING])
@pytest.mark.parametrize("lengths", LENGTHS)
def test_it_is_the_reference_with_its_gradients_and_its_memory(pair, lengths, mode, reverse):
    x = torch.randn(T, B, D)
    n = LENGTHS[lengths]
    for training in (True, False):
        found = [
            everything(layer.train(training), x, None if n is None else torch.tensor(n),
                       reverse, mode)
            for layer in pair
        ]  # fmt: skip
        for one, other in zip(*found, strict=True):
            # two cases at a step are +-1 but for eps: grads of 1/sigma^3 lose digits
            torch.testing.assert_close(one, other, rtol=1e-7, atol=1e-9)
