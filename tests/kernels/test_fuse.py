"""Oracle: the fused normalizers against the reference, values and every gradient."""

import copy
import warnings
from functools import partial
from itertools import product

import pytest
import torch
from torch import nn
from torch.nn.utils import prune

import lnlab.nn
from lnlab.kernels import NotFusedWarning, fuse
from lnlab.nn import (
    BatchNorm,
    GroupNorm,
    InstanceNorm,
    LayerNorm,
    Linear,
    Mode,
    RMSNorm,
    WeightNorm,
    use_statistics,
)

ULP = {torch.float32: 2.0**-24, torch.bfloat16: 2.0**-8, torch.float16: 2.0**-11}

CASES = {
    "layer": (LayerNorm, (5, 6, 8)),
    "layer without cases": (LayerNorm, (8,)),
    "layer of one unit": (lambda _: LayerNorm(1), (6, 1)),
    "layer, not affine": (partial(LayerNorm, elementwise_affine=False), (6, 8)),
    "layer over space": (partial(LayerNorm, space=2), (2, 6, 8, 3, 4)),
    "layer over space without cases": (partial(LayerNorm, space=2), (8, 3, 4)),
    "layer, per position": (partial(LayerNorm, space=2, per_position=True), (6, 8, 3, 4)),
    "layer over space, one number": (lambda _: LayerNorm(1, space=1), (1, 1, 1)),
    "group": (partial(GroupNorm, 2), (6, 8)),
    "group, eps 0": (partial(GroupNorm, 2, eps=0.0), (8,)),
    "groups of one unit": (partial(GroupNorm, 8), (6, 8)),
    "group over space": (partial(GroupNorm, 4, space=2, affine=False), (6, 8, 3, 4)),
    "instance": (InstanceNorm, (6, 8, 3, 4)),
    "instance, affine": (partial(InstanceNorm, affine=True, space=1), (2, 6, 8, 5)),
    "instance of one position": (partial(InstanceNorm, affine=True), (6, 8, 1, 1)),
    "rms": (RMSNorm, (6, 8)),
    "rms with bias": (partial(RMSNorm, bias=True, eps=0.0), (5, 6, 8)),
    "batch": (partial(BatchNorm, momentum=0.3, eps=1e-3), (6, 8)),
    "batch, not affine": (partial(BatchNorm, affine=False), (5, 6, 8)),
    "batch, eps 0": (partial(BatchNorm, eps=0.0), (6, 8)),
    "batch over space": (partial(BatchNorm, space=2), (6, 8, 3, 4)),
    "batch of one value a unit": (BatchNorm, (1, 8)),
}
every_case = pytest.mark.parametrize("case", CASES)
training = pytest.mark.parametrize("training", [True, False], ids=["train", "eval"])


@pytest.fixture
def pair(randomize):
    """The reference of a case, its fused copy with tensors of its own, and its input."""

    def made(case, training=True):
        make, shape = CASES[case]
        reference = randomize(make(8))
        if isinstance(reference, BatchNorm):
            reference.running_mean.uniform_(-1, 1)
            reference.running_var.uniform_(0.5, 2)
        reference.train(training)
        a = (1 + torch.randn(shape)).requires_grad_()
        return reference, fuse(copy.deepcopy(reference)), a

    return made


def assert_equal(fused, reference):
    # rounding of two orders of summation: the worst seen is 3e-14
    torch.testing.assert_close(fused, reference, rtol=0, atol=1e-12)


@every_case
@training
@pytest.mark.parametrize("place", ["cpu", pytest.param("device", marks=pytest.mark.gpu)])
def test_values_gradients_and_state_equal_the_reference(
    case, training, place, pair, device, outcome
):
    reference, fused, a = pair(case, training)
    assert repr(fused) == f"Fused{reference!r}"
    if place == "device":
        reference, fused = reference.to(device), fused.to(device)
        a = a.detach().to(device).requires_grad_()
    for _ in range(3):  # running statistics move, and are used again
        expected = outcome(reference(a), a=a, **dict(reference.named_parameters()))
        assert_equal(outcome(fused(a), a=a, **dict(fused.named_parameters())), expected)
        assert_equal(dict(fused.state_dict()), dict(reference.state_dict()))


@every_case
@pytest.mark.parametrize("dtype", ULP, ids=str)
def test_low_precision_is_rounded_once(case, dtype, pair):
    for training, parameters in product((True, False), (dtype, torch.float32)):
        reference, fused, a = pair(case, training)
        a = a.detach().to(dtype)
        y = fused.to(parameters)(a)
        expected = reference.to(parameters).double()(a.double())  # its parameters rounded too
        assert y.dtype == dtype
        # half a unit of the output, and in float32 a few of each a/sigma (here below 10)
        within = ULP[dtype] * expected.abs() + 64 * 10 * ULP[torch.float32]
        assert ((y.double() - expected).abs() <= within).all()


@training
@pytest.mark.parametrize("mode", [None, *Mode], ids=str)
def test_explicit_mode_of_batch_norm_is_followed(mode, training, pair):
    reference, fused, a = pair("batch", training)
    with use_statistics(nn.ModuleList([reference, fused]), mode):
        for _ in range(2):
            assert_equal(fused(a), reference(a))
    assert_equal(dict(fused.state_dict()), dict(reference.state_dict()))


def net():
    norm = BatchNorm(8)
    return nn.Sequential(
        Linear(5, 8, LayerNorm), nn.Tanh(), Linear(8, 8, lambda _: norm), nn.Tanh(), norm
    )


def test_every_tensor_is_shared_and_no_key_changes():
    model = net()
    fused = fuse(model)
    for kind in ("named_parameters", "named_buffers"):
        ours, theirs = dict(getattr(fused, kind)()), dict(getattr(model, kind)())
        assert list(ours) == list(theirs)
        assert all(ours[name] is theirs[name] for name in ours)
    assert list(fused.state_dict()) == list(model.state_dict())
    assert fused[2].norm is fused[4]  # what was one module still is
    assert "Fused" not in repr(model)
    assert repr(fused).count("Fused") == 3


def test_pruned_weights_are_refused_with_what_to_do():
    net = lnlab.nn.LSTM(4, 5)
    prune.l1_unstructured(net.cells[0], "W_h", 0.3)
    net(torch.randn(3, 2, 4))
    with pytest.raises(ValueError, match=r"first, with prune\.remove"):
        fuse(net)
    prune.remove(net.cells[0], "W_h")
    fuse(net)


@pytest.mark.parametrize(
    ("norm", "name"),
    [
        (Linear(8, 8, WeightNorm), "WeightNorm"),
        (LayerNorm(8, space=2, per_position=True, correction=1), "per_position"),
        (RMSNorm(8, space=1), r"RMSNorm\(8, space=1"),
        (BatchNorm(8, correction=1), "BatchNorm"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_torch_has_no_operator_for_stays_and_is_named_once(norm, name):
    model = nn.Sequential(Linear(5, 8, LayerNorm), norm, copy.deepcopy(norm))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fused = fuse(model)
    assert [warning.category for warning in caught] == [NotFusedWarning]
    assert str(caught[0].message).count(name.replace("\\", "")) == 1
    assert caught[0].filename == __file__
    assert type(fused[1]) is type(norm)
