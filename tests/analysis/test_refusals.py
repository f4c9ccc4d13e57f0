"""What no probe takes is refused by its name, in words that say what to give."""

from functools import partial

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from lnlab.analysis.certify import certify
from lnlab.analysis.conformance import conformance
from lnlab.analysis.covariate_shift import covariate_shift, layers, shifting
from lnlab.analysis.effective_learning_rate import Turning, scale_invariant
from lnlab.analysis.feature_maps import contributions, maps
from lnlab.analysis.fisher import Divergence
from lnlab.analysis.hessian import density, ends, trace
from lnlab.analysis.invariance import NormalizedLayer, table
from lnlab.analysis.loss_landscape import band, between, grid, path, random_directions, surface
from lnlab.analysis.norm_gradients import gradient_norms, gradient_parts, passage
from lnlab.analysis.objective import Objective
from lnlab.analysis.recorder import record
from lnlab.analysis.rnn_dynamics import dynamics
from lnlab.analysis.smoothness import envelope, smoothness, steps
from lnlab.auditing import audit, paired, swap
from lnlab.nn import RNNCell

X, Y = torch.randn(8, 4, dtype=torch.float64), torch.arange(8) % 3
BATCH = {"statistics": "batch"}
RULES = {nn.LayerNorm: nn.RMSNorm}


def net() -> nn.Module:
    return nn.Sequential(nn.Linear(4, 6), nn.LayerNorm(6), nn.ReLU(), nn.Linear(6, 3))


def objective(**other) -> Objective:
    return Objective(
        **{"module": net(), "x": X, "y": Y, "loss": F.cross_entropy, **BATCH, **other}
    )


def sgd() -> torch.optim.Optimizer:
    return torch.optim.SGD(net().parameters(), lr=0.1)


def shifted(model, x=X, loss=F.cross_entropy, optimizer=None):
    return next(shifting(model, [(x, Y)], loss, optimizer or sgd()))


OF_MODULE = {
    "certify": lambda module, x=X: certify(module, x),
    "conformance": lambda module, x=X: conformance(module, x),
    "Objective": lambda module, x=X: objective(module=module, x=x),
    "Divergence": lambda module, x=X: Divergence(module, x, **BATCH),
    "scale_invariant": lambda module, x=X: scale_invariant(module, x),
    "audit": lambda module, x=X: audit(module, x),
    "swap": lambda module, x=X: swap(module, RULES),
    "maps": lambda module, x=X: maps(module, x, ["0"]),
    "contributions": lambda module, x=X: contributions(module, x, Y, ["0"], F.cross_entropy),
    "record": lambda module: record(module),
    "Turning": lambda module: Turning(module, sgd(), {}),
    "shifting": shifted,
    "of": lambda module: objective().of(module),
}
NO_MODULE = {"a string": "net", "nothing": None, "a class": nn.LayerNorm, "a list": [nn.ReLU()]}
NO_TENSOR = {"a string": "x", "nothing": None, "an array": X.numpy(), "a list": X.tolist()}
OF_X = {n: f for n, f in OF_MODULE.items() if n not in ("swap", "record", "Turning", "of")}


@pytest.mark.parametrize("what", NO_MODULE)
@pytest.mark.parametrize("probe", OF_MODULE)
def test_what_is_no_module_is_named(probe, what):
    with pytest.raises(
        TypeError, match=r"^(module|model) is .*: (give a torch.nn|make one of)"
    ):
        OF_MODULE[probe](NO_MODULE[what])


@pytest.mark.parametrize("what", NO_TENSOR)
@pytest.mark.parametrize("probe", OF_X)
def test_what_is_no_tensor_is_named(probe, what):
    if probe == "conformance" and what == "nothing":
        pytest.skip("it makes up an input")
    with pytest.raises(TypeError, match=r"^(x is|the input of) .*: give .*torch.as_tensor"):
        OF_X[probe](nn.LayerNorm(4) if probe == "conformance" else net(), NO_TENSOR[what])


@pytest.mark.parametrize("what", ["o", None, net(), Objective])
@pytest.mark.parametrize(
    "probe",
    [
        surface, band, partial(between, other=net()), partial(grid, directions=X, at=[]), ends,
        trace, density, partial(smoothness, eta=steps(0.1)), random_directions, gradient_norms,
        layers, partial(passage, name="1"), partial(covariate_shift, moved=X),
    ],
)  # fmt: skip
def test_what_is_no_objective_is_named(probe, what):
    count = {"count": 2} if probe is random_directions else {}
    with pytest.raises(
        TypeError, match=r"^objective is .*: (give|make one of it,) Objective\("
    ):
        probe(what, **count)


@pytest.mark.parametrize("what", ["w", X.numpy(), [1.0], net(), X[0], Y])
@pytest.mark.parametrize(
    "probe",
    [
        lambda w: ends(objective(), w=w),
        lambda w: smoothness(objective(), steps(0.1), w),
        lambda w: objective().value(w),
        lambda w: objective().gradient(w),
        lambda w: covariate_shift(objective(), w),
        lambda w: Divergence(net(), X, **BATCH).predicted(w),
    ],
)
def test_what_are_no_parameters_is_named(probe, what):
    with pytest.raises((TypeError, ValueError), match=r"^(w|moved|delta) (is|has) .*\(63,\)"):
        probe(what)


@pytest.mark.parametrize(
    ("probe", "words"),
    [
        (lambda: objective(loss="ce"), "loss is of class str: give a function"),
        (lambda: objective(loss=nn.MSELoss), "loss is the class MSELoss: make one"),
        (lambda: objective(dtype="float64"), "dtype is .* str: give a precision"),
        (lambda: objective(names=3), "names is of class int: give names"),
        (lambda: objective(x=X[:0]), r"x has shape \(0, 4\): give cases"),
        (lambda: objective(y=Y[:3]), "Sequential or its loss does not take x"),
        (lambda: certify(net(), X, dtypes="float64"), "dtypes is .* str: give precisions"),
        (lambda: certify(net(), X, read="logits"), "read is of class str: give a function"),
        (lambda: certify(net(), X, feature_axis=7), "feature_axis is 7: x has the axes"),
        (lambda: audit(net(), X, "ce"), "loss is of class str: give a function"),
        (lambda: audit(net(), X * float("nan")), "an input of .* holds NaN: give"),
        (lambda: audit(net(), X[:0]), "an input of .* has no numbers: give"),
        (lambda: swap(net(), [nn.LayerNorm]), "rules is .* list: give {nn.BatchNorm2d"),
        (lambda: swap(net(), {nn.LayerNorm: "rms"}), "1: 'rms' is no rule .*: give a class"),
        (lambda: swap(net(), {nn.LayerNorm: nn.RMSNorm(6)}), "1: RMSNorm.* is no rule"),
        (lambda: paired(net(), RULES, X, Y, F.cross_entropy), "make is .*: give a function"),
        (lambda: paired(net, RULES, None, Y, F.cross_entropy), "x holds no tensor: give all"),
        (lambda: paired(net, RULES, X, None, F.cross_entropy), "y is None: give what"),
        (lambda: paired(net, RULES, X, Y, None), "loss is None: give a function"),
        (lambda: paired(net, RULES, X, Y, F.mse_loss, seeds=2), "seeds is of class int: give"),
        (
            lambda: paired(net, RULES, X[:, :3], Y, F.cross_entropy, batch=4),
            "Sequential does not take a batch of x: ",
        ),
        (lambda: surface(objective(), extent="1"), "extent is of class str: give a number"),
        (lambda: surface(objective(), points=5.0), "points is .* float: give a whole number"),
        (lambda: ends(objective(), "1"), "count is of class str: give a whole number"),
        (lambda: steps("a"), "learning_rate is of class str: give a number"),
        (lambda: steps(float("inf")), "low is .*learning_rate inf: give"),
        (lambda: envelope([1.0]), "a run is of class float: give its losses"),
        (lambda: path([[1.0]] * 3), "one of weights is of class list: give a tensor"),
        (lambda: passage(objective(), "1", call=-1), "1 is called 1 times: choose call"),
        (lambda: passage(objective(), "0").parts, "Linear is no rule for .*: give one of"),
        (lambda: gradient_parts(nn.LayerNorm(4), Y, None), "slope is None: give a tensor"),
        (lambda: gradient_parts(nn.LayerNorm(3), X, X), r"a has shape \(8, 4\): .* 3 units"),
        (lambda: maps(net(), X, ["c"]), r"no layer .* is called \['c'\]: there are none"),
        (lambda: record(net(), every="a"), "every is of class str: give a whole number"),
        (lambda: Turning(net(), "adam", {}), "optimizer is of class str: give one of torch"),
        (lambda: shifted(net(), loss=None), "loss is None: give a function"),
        (lambda: Divergence(net(), X, "normal", **BATCH), "family is .* str: give CATEGORICAL"),
        (lambda: dynamics(RNNCell, X[None]), "cell is the class RNNCell: make one of it"),
        (lambda: table("layer"), "rows is of class str: give rows by name"),
        (lambda: NormalizedLayer(None, None), "row is None: give one of ROWS"),
    ],
)  # fmt: skip
def test_what_else_is_wrong_is_named(probe, words):
    with pytest.raises((TypeError, ValueError), match=f"^{words}"):
        probe()


def test_a_lone_name_is_taken_for_a_list_of_one():
    own = net()
    several = {"columns": [1], "dtypes": [torch.float64], "modes": ["evaluation"]}
    alone = {name: value for name, (value,) in several.items()}
    one, other = (
        certify(own, X, weights="0.weight", **alone),
        certify(own, X, weights=["0.weight"], **several),
    )
    assert one.invariances == other.invariances
    assert audit(own, X, checks="dead units").results.keys() == {"dead units"}
    assert objective(names="0.bias").names == objective(names=["0.bias"]).names
