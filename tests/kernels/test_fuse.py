"""Fused models are the same functions; what is not exactly known stays and is named."""

import copy
import warnings
from functools import partial
from itertools import product

import pytest
import torch
from torch import nn
from torch.nn.modules import module as everywhere
from torch.nn.utils import parametrizations, prune

from lnlab.kernels import NotFusedWarning, fuse
from lnlab.kernels.recurrent import is_fusible
from lnlab.nn import (
    NORMS,
    AdaNorm,
    BatchNorm,
    BiasPlacement,
    CarriedCellState,
    CellInit,
    GroupNorm,
    GRUCell,
    Identity,
    InstanceNorm,
    LayerNorm,
    Linear,
    LSTMCell,
    MuSigma,
    NormOfProductsOrSum,
    RecurrentBatchNorm,
    RMSNorm,
    RNNCell,
    StatisticsMode,
    UpdateGateConvention,
    WeightNorm,
    inside_root,
    outside_root,
    use_statistics,
)
from lnlab.nn.recurrent import GRU, LSTM, RNN, unroll

# normalizers, each by an operator of torch's

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
@pytest.mark.parametrize("mode", [None, *StatisticsMode], ids=str)
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
    net = LSTM(4, 5)
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


# recurrent layers

T, B, D, H = 3, 4, 3, 8
LAYERS = {"RNN": RNN, "LSTM": LSTM, "GRU": GRU}
CELLS = {"RNN": RNNCell, "LSTM": LSTMCell, "GRU": GRUCell}
every_layer = pytest.mark.parametrize("layer", LAYERS)


def doubled(known):
    """A subclass of a normalizer that computes something else."""

    def forward(self, a, W=None, t=None):
        return 2 * known.forward(self, a, W, t)

    return type(f"My{known.__name__}", (known,), {"forward": forward})


class AboutZero(LayerNorm):
    """Own statistics: nothing is subtracted."""

    def stats(self, a, W=None, t=None):
        mu, sigma = super().stats(a, W, t)
        return MuSigma(0 * mu, sigma)


# over space there is none, and each of the three steps has statistics
ALL = {name: make for name, make in NORMS.items() if name != "instance"} | {
    "recurrent batch": partial(RecurrentBatchNorm, steps=T),
    "my none": doubled(Identity),
    "my layer": doubled(LayerNorm),
    "my recurrent batch": partial(doubled(RecurrentBatchNorm), steps=T),
    "layer about 0": AboutZero,
    "ada, eps inside": partial(AdaNorm, root=inside_root),
    "layer, unbiased": partial(LayerNorm, correction=1),
    "layer, eps outside": partial(LayerNorm, root=outside_root),
    "layer, large eps": partial(LayerNorm, eps=0.3),
    "layer, not affine": partial(LayerNorm, elementwise_affine=False),
}
LAYER = {"layer", "layer, large eps", "layer, not affine"}
FUSED = {
    "RNN": LAYER,
    "LSTM": LAYER | {"none", "batch", "recurrent batch"},
    "GRU": {"layer", "layer, large eps", "none"},  # without affine it has biases inside
}
"""The cells with these norms have one loop."""
ALONE = LAYER | {"none", "batch", "recurrent batch", "group", "rms", "dyt", "derf"}
"""These norms have an operator of torch's, or need none."""


def randomized(module):
    with torch.no_grad():
        for p in module.parameters():
            p.add_(0.3 * torch.randn_like(p))
    return module


def everything(layer, x):
    """The output, its gradients by every parameter and by x, and what is remembered."""
    x = x.clone().requires_grad_()
    y, _ = layer(x)
    weights = torch.randn(y.shape, generator=torch.Generator().manual_seed(1), dtype=y.dtype)
    leaves = {"x": x, **dict(layer.named_parameters())}
    grads = torch.autograd.grad((y * weights).sum(), list(leaves.values()), allow_unused=True)
    return {"y": y.detach(), **dict(zip(leaves, grads, strict=True)), **layer.state_dict()}


def fused_and_named(layer):
    """The layer fused, and the names in the warning."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fused = fuse(layer)
    assert {warning.category for warning in caught} <= {NotFusedWarning}
    text = "".join(str(warning.message).rpartition(": ")[2] for warning in caught)
    return fused, text.rstrip(".").split("; ") if text else []


def assert_the_same(layer, x):
    """Fused, a layer is the same function, to rounding; return the names in the warning."""
    fused, names = fused_and_named(copy.deepcopy(layer))
    # two orders of summation over three steps; the worst seen is 2e-14
    torch.testing.assert_close(everything(fused, x), everything(layer, x), rtol=0, atol=1e-11)
    return names


@every_layer
@pytest.mark.parametrize("name", ALL)
def test_a_fused_layer_is_the_same_function_or_names_what_it_left(layer, name):
    model = randomized(LAYERS[layer](D, H, norm_layer=ALL[name]))
    names = assert_the_same(model, torch.randn(T, B, D))
    assert (f"{layer}Cell" not in names) == (name in FUSED[layer])
    norms = [each for each in names if not each.endswith("Cell")]
    assert (not norms) == (name in ALONE)
    assert all(each.startswith(type(model.cells[0].norm_h).__name__) for each in norms)


@every_layer
def test_a_subclass_of_a_cell_stays_on_the_reference(layer):
    def forward(self, x, state, t=None):
        return tuple(s / 2 for s in CELLS[layer].forward(self, x, state, t))

    changed = type(f"My{layer}Cell", (CELLS[layer],), {"forward": forward})
    mine = type("Mine", (LAYERS[layer],), {"cell": changed})
    model = randomized(mine(D, H))
    assert assert_the_same(model, torch.randn(T, B, D)) == [f"My{layer}Cell"]


@every_layer
@pytest.mark.parametrize("name", ["layer", "none"])
def test_a_replaced_method_and_a_parametrized_gain_are_not_fused(layer, name):
    model = randomized(LAYERS[layer](D, H, norm_layer=NORMS[name]))
    norm, x = model.cells[0].norm_h, torch.randn(T, B, D)
    norm.forward = lambda a, W=None, t=None: type(norm).forward(norm, a, W, t).sin()
    fused, names = fused_and_named(model)
    torch.testing.assert_close(fused(x)[0], model(x)[0])
    assert f"{layer}Cell" in names
    del norm.forward
    if name == "layer":
        parametrizations.weight_norm(norm, "g")
        fused, names = fused_and_named(model)
        torch.testing.assert_close(fused(x), model(x))
        assert any("ParametrizedLayerNorm" in each for each in names)


@every_layer
def test_every_normalizer_of_a_cell_keeps_its_own_eps(layer):
    model = randomized(LAYERS[layer](D, H))
    norms = [m for m in model.cells[0].modules() if isinstance(m, LayerNorm)]
    for i, norm in enumerate(norms):
        norm.eps = 0.1 * 2**i
    assert assert_the_same(model, torch.randn(T, B, D)) == []


def combined(layer, fixed, **settings):
    """The layer with each combination of the settings."""
    return [
        (layer, {**dict(zip(settings, values, strict=True)), **fixed})
        for values in product(*settings.values())
    ]


PLAIN = {"norm_layer": Identity}
OF_CELLS = [
    *combined(RNN, {}, bias=BiasPlacement, norm_scope=NormOfProductsOrSum),
    *combined(LSTM, {}, bias=BiasPlacement, cell_state=CarriedCellState),
    *combined(LSTM, {"gate_norm_layer": Identity}, bias=BiasPlacement),
    *combined(LSTM, PLAIN, bias=BiasPlacement, norm_scope=NormOfProductsOrSum),
    *combined(GRU, {}, bias=(False, True), update_gate=UpdateGateConvention),
    (RNN, {"nonlinearity": torch.relu}),
]


@pytest.mark.parametrize(("layer", "settings"), OF_CELLS)
def test_every_setting_of_a_cell_is_kept(layer, settings):
    draw_b = CellInit(bias=nn.init.normal_)
    names = assert_the_same(layer(D, H, initial=draw_b, **settings), torch.randn(T, B, D))
    assert names in ([], [f"{layer.__name__}Cell"])


REGISTER = {
    "forward": everywhere.register_module_forward_hook,
    "forward_pre": everywhere.register_module_forward_pre_hook,
    "full_backward": everywhere.register_module_full_backward_hook,
    "full_backward_pre": everywhere.register_module_full_backward_pre_hook,
}


@pytest.mark.parametrize("hook", REGISTER)
@pytest.mark.parametrize("where", ["norm_h", "", "everywhere"])
def test_a_hook_fires_as_on_the_reference(hook, where):
    model = LSTM(D, H)
    fused, _ = fused_and_named(model)
    counts = []
    for layer in (model, fused):
        seen: list = []
        if where == "everywhere":
            handle = REGISTER[hook](
                lambda m, *_, seen=seen: seen.append(m) if isinstance(m, LayerNorm) else None
            )
        else:
            part = layer.cells[0].get_submodule(where)
            handle = getattr(part, f"register_{hook}_hook")(
                lambda *_, seen=seen: seen.append(1)
            )
            assert not is_fusible(layer.cells[0])
            if layer is fused:
                assert fused_and_named(layer)[1] == ["LSTMCell with hooks"]
        for _ in range(2):  # the second time after it was removed
            layer(torch.ones(T, B, D, requires_grad=True))[0].sum().backward()
            handle.remove()
        counts.append(len(seen))
    assert counts == 2 * [T * 3 if where == "everywhere" else T]
    assert is_fusible(fused.cells[0])


def test_a_loop_of_ones_own_stays_and_a_model_without_layers_of_lnlab_is_told_so():
    model = LSTM(D, H)
    model.unroll = own = lambda *args: unroll(*args)
    fused, names = fused_and_named(model)
    assert fused.unroll is own
    assert names == ["LSTM with a loop of its own"]
    model = nn.Sequential(nn.Linear(D, H), nn.LayerNorm(H), nn.LSTM(H, H))
    with pytest.warns(NotFusedWarning, match="no layer or norm of lnlab.nn"):
        fused = fuse(model)
    assert repr(fused) == repr(model)
    assert fused[0].weight is model[0].weight
