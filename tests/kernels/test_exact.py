"""Only what is exactly known is fused; everything else stays on the reference and is named."""

import copy
import warnings
from functools import partial
from itertools import product

import pytest
import torch
from torch import nn
from torch.nn.modules import module as everywhere
from torch.nn.utils import parametrizations

from lnlab.kernels import NotFusedWarning, fuse
from lnlab.kernels.recurrent import is_fused
from lnlab.nn import (
    NORMS,
    AdaNorm,
    BiasPlacement,
    CarriedCellState,
    CellInit,
    GRUCell,
    Identity,
    LayerNorm,
    LSTMCell,
    NormScope,
    RecurrentBatchNorm,
    RNNCell,
    Stats,
    UpdateGate,
    inside_root,
    outside_root,
)
from lnlab.nn.recurrent import GRU, LSTM, RNN, unroll

T, B, D, H = 3, 4, 3, 8
LAYERS = {"RNN": RNN, "LSTM": LSTM, "GRU": GRU}
CELLS = {"RNN": RNNCell, "LSTM": LSTMCell, "GRU": GRUCell}
every_layer = pytest.mark.parametrize("layer", LAYERS)


def kind(make) -> type:
    """The class behind a factory."""
    return getattr(make, "func", make)


def doubled(make):
    """The factory of a subclass that computes something else."""
    known = kind(make)

    def forward(self, a, W=None, t=None):
        return 2 * known.forward(self, a, W, t)

    changed = type(f"My{known.__name__}", (known,), {"forward": forward})
    return partial(changed, *getattr(make, "args", ()), **getattr(make, "keywords", {}))


class AboutZero(LayerNorm):
    """Own statistics: nothing is subtracted."""

    def stats(self, a, W=None, t=None):
        mu, sigma = super().stats(a, W, t)
        return Stats(0 * mu, sigma)


# over space there is none, and each of the three steps has statistics
EVERY = {name: make for name, make in NORMS.items() if name != "instance"}
EVERY["recurrent batch"] = partial(RecurrentBatchNorm, steps=T)
SUBCLASSES = {f"my {name}": doubled(make) for name, make in EVERY.items()}
SETTINGS = {
    "ada, eps inside": partial(AdaNorm, root=inside_root),
    "layer about 0": AboutZero,
    "layer, unbiased": partial(LayerNorm, correction=1),
    "layer, eps outside": partial(LayerNorm, root=outside_root),
    "layer, large eps": partial(LayerNorm, eps=0.3),
    "layer, not affine": partial(LayerNorm, elementwise_affine=False),
}
ALL = {**EVERY, **SUBCLASSES, **SETTINGS}


def halved(layer):
    """The layer over a subclass of its cell that computes something else."""
    known = CELLS[layer]

    def forward(self, x, state, t=None):
        return tuple(s / 2 for s in known.forward(self, x, state, t))

    changed = type(f"My{known.__name__}", (known,), {"forward": forward})
    return type(f"Of{changed.__name__}", (LAYERS[layer],), {"cell": changed})


def shaken(module):
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
    """The layer fused, and what the warning said."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fused = fuse(layer)
    assert {warning.category for warning in caught} <= {NotFusedWarning}
    return fused, "".join(str(warning.message).rpartition(": ")[2] for warning in caught)


def assert_the_same(layer, x):
    """Fused, a layer is the same function, to rounding; what the warning said comes back."""
    fused, said = fused_and_named(copy.deepcopy(layer))
    # two orders of summation over three steps; the worst seen is 2e-14
    torch.testing.assert_close(everything(fused, x), everything(layer, x), rtol=0, atol=1e-11)
    return said.rstrip(".").split("; ") if said else []


LAYER = {"layer", "layer, large eps", "layer, not affine"}
FUSED = {
    "RNN": LAYER,
    "LSTM": LAYER | {"none", "batch", "recurrent batch"},
    "GRU": {"layer", "layer, large eps", "none"},  # without affine it has biases inside
}
"""The cells with these norms have one loop."""
ALONE = LAYER | {"none", "batch", "recurrent batch", "group", "rms", "dyt", "derf"}
"""These norms have an operator of torch's, or need none."""


@every_layer
@pytest.mark.parametrize("name", ALL)
def test_a_fused_layer_is_the_same_function_or_names_what_it_left(layer, name):
    model = shaken(LAYERS[layer](D, H, norm_layer=ALL[name]))
    said = assert_the_same(model, torch.randn(T, B, D))
    assert (f"{layer}Cell" not in said) == (name in FUSED[layer])
    norms = [each for each in said if not each.endswith("Cell")]
    assert (not norms) == (name in ALONE)
    assert all(each.startswith(kind(ALL[name]).__name__) for each in norms)


@every_layer
@pytest.mark.parametrize("name", ["layer", "none"])
def test_a_subclass_of_a_cell_stays_on_the_reference(layer, name):
    said = assert_the_same(
        shaken(halved(layer)(D, H, norm_layer=NORMS[name])), torch.randn(T, B, D)
    )
    assert said == [f"My{layer}Cell"]


@every_layer
@pytest.mark.parametrize("name", ["layer", "none"])
def test_what_was_replaced_on_one_module_is_not_fused(layer, name):
    model = shaken(LAYERS[layer](D, H, norm_layer=NORMS[name]))
    norm, x = model.cells[0].norm_h, torch.randn(T, B, D)
    norm.forward = lambda a, W=None, t=None: type(norm).forward(norm, a, W, t).sin()
    expected = model(x)[0]
    fused, said = fused_and_named(model)
    torch.testing.assert_close(fused(x)[0], expected)
    assert f"{layer}Cell" in said
    assert type(norm).__name__ in said


@every_layer
def test_a_parametrized_gain_is_not_fused(layer):
    model = LAYERS[layer](D, H)
    parametrizations.weight_norm(model.cells[0].norm_h, "g")
    x = torch.randn(T, B, D)
    fused, said = fused_and_named(model)
    torch.testing.assert_close(fused(x), model(x))
    assert "ParametrizedLayerNorm" in said


@every_layer
def test_every_normalizer_of_a_cell_keeps_its_own_eps(layer):
    model = shaken(LAYERS[layer](D, H))
    norms = [m for m in model.cells[0].modules() if isinstance(m, LayerNorm)]
    for i, norm in enumerate(norms):
        norm.eps = 0.1 * 2**i
    assert assert_the_same(model, torch.randn(T, B, D)) == []


def combined(layer, fixed, **settings):
    """The layer with each combination of the settings."""
    names = list(settings)
    return [
        (layer, {**dict(zip(names, values, strict=True)), **fixed})
        for values in product(*settings.values())
    ]


PLAIN = {"norm_layer": Identity}
OF_CELLS = [
    *combined(RNN, {}, bias=BiasPlacement, norm_scope=NormScope),
    *combined(LSTM, {}, bias=BiasPlacement, cell_state=CarriedCellState),
    *combined(LSTM, {"gate_norm_layer": Identity}, bias=BiasPlacement),
    *combined(LSTM, PLAIN, bias=BiasPlacement, norm_scope=NormScope),
    *combined(GRU, {}, bias=(False, True), update_gate=UpdateGate),
    (RNN, {"nonlinearity": torch.relu}),
]


@pytest.mark.parametrize(("layer", "settings"), OF_CELLS)
def test_every_setting_of_a_cell_is_kept(layer, settings):
    draw_b = CellInit(bias=nn.init.normal_)
    said = assert_the_same(layer(D, H, initial=draw_b, **settings), torch.randn(T, B, D))
    assert said in ([], [f"{layer.__name__}Cell"])


def test_a_loop_of_ones_own_stays():
    model = LSTM(D, H)
    model.unroll = lambda *args: unroll(*args)
    own = model.unroll
    fused, said = fused_and_named(model)
    assert fused.unroll is own
    assert said == "LSTM with a loop of its own."


REGISTER = {
    "forward": everywhere.register_module_forward_hook,
    "forward_pre": everywhere.register_module_forward_pre_hook,
    "full_backward": everywhere.register_module_full_backward_hook,
    "full_backward_pre": everywhere.register_module_full_backward_pre_hook,
}


@pytest.mark.parametrize("hook", REGISTER)
@pytest.mark.parametrize("where", ["norm_h", "", "everywhere"])
@every_layer
def test_a_hook_fires_as_on_the_reference(hook, where, layer):
    model = LAYERS[layer](D, H)
    fused, _ = fused_and_named(model)
    counts = []
    for each in (model, fused):
        seen: list = []
        if where == "everywhere":
            handle = REGISTER[hook](
                lambda m, *_, seen=seen: seen.append(m) if isinstance(m, LayerNorm) else None
            )
        else:
            part = each.cells[0].get_submodule(where)
            register = getattr(part, f"register_{hook}_hook")
            handle = register(lambda *_, seen=seen: seen.append(1))
            assert not is_fused(each.cells[0])
        run(each)
        handle.remove()
        counts.append(len(seen))
        run(each)
        assert len(seen) == counts[-1]
    norms = sum(isinstance(m, LayerNorm) for m in model.modules())
    assert counts == 2 * [T * norms if where == "everywhere" else T]
    assert is_fused(fused.cells[0])


def run(layer):
    layer(torch.ones(T, B, D, requires_grad=True))[0].sum().backward()


def test_hooks_that_were_there_before_are_named():
    hooked = GRU(H, H)
    hooked.cells[0].norm_U.register_full_backward_hook(lambda *_: None)
    _, said = fused_and_named(nn.Sequential(LSTM(D, H), hooked))
    assert said == "GRUCell with hooks."


def test_a_model_without_layers_of_lnlab_is_left_and_told_so():
    model = nn.Sequential(nn.Linear(D, H), nn.LayerNorm(H), nn.LSTM(H, H))
    with pytest.warns(NotFusedWarning, match="no layer or norm of lnlab.nn"):
        fused = fuse(model)
    assert repr(fused) == repr(model)
    assert fused[0].weight is model[0].weight
