"""Every rule finds the mistake that it is for, names its place, and is silent without it."""

import math
from copy import deepcopy
from functools import partial

import pandas as pd
import pytest
import torch
from torch import nn
from torch.nn import functional as F

import lnlab.nn
from lnlab.analysis.invariances import Grade, check_invariances
from lnlab.analysis.objective import Objective
from lnlab.auditing import RULES, Call, Severity, audit, explain
from lnlab.auditing.finding import EXAMPLE, three_significant_digits
from lnlab.nn import BatchNorm, LayerNorm
from lnlab.training.random_state import default_dtype

FAULT, RISK, FACT = Severity


class OwnLayerNorm(nn.Module):
    """A layer norm by hand."""

    def __init__(self, correction=0):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(6) + 0.5)
        self.bias = nn.Parameter(torch.randn(6))
        self.eps, self.correction = 1e-5, correction

    def forward(self, x):
        var, mean = torch.var_mean(x, -1, keepdim=True, correction=self.correction)
        return self.weight * (x - mean) / (var + self.eps).sqrt() + self.bias


def module(function, name="Module"):
    """Return a module of a function, under a name."""

    class Plain(nn.Module):
        def forward(self, x):
            return function(x)

    Plain.__name__ = name
    return Plain()


class Forgetful(nn.Module):
    """A layer that is never called."""

    def __init__(self):
        super().__init__()
        self.forgotten, self.used = nn.Linear(6, 6), nn.Linear(6, 6)

    def forward(self, x):
        return self.used(x)


class Detached(Forgetful):
    """A weight that gets no gradient and yet has an effect."""

    def forward(self, x):
        return F.linear(self.used(x), self.forgotten.weight.detach())


class Branch(nn.Module):
    """A residual branch whose last layer starts at 0."""

    def __init__(self):
        super().__init__()
        self.first, self.norm, self.last = nn.Linear(6, 6), nn.LayerNorm(6), nn.Linear(6, 6)
        nn.init.zeros_(self.last.weight)
        nn.init.zeros_(self.last.bias)

    def forward(self, x):
        return x + self.last(torch.relu(self.norm(self.first(x))))


def linear(count=1, units=6):
    return nn.Sequential(*(nn.Linear(units, units) for _ in range(count)))


def behind_linear(norm):
    return nn.Sequential(nn.Linear(6, 6), norm)


def remembering(batches, factor=1.0):
    net, x = behind_linear(nn.BatchNorm1d(6)), torch.randn(64, 6)
    for _ in range(batches):
        net(x)
    return net, factor * x


def two_norms(factor):
    layers = nn.Linear(6, 6), nn.BatchNorm1d(6), nn.Linear(6, 6), nn.BatchNorm1d(6)
    layers[2].weight.data *= factor
    return nn.Sequential(*layers)


X = (16, 6)
OTHER_SEVERITY = {"eps-missing": FAULT, "outlier-channel": RISK}
"""Findings of examples whose severity is not that of their rule."""

PLACES = {
    "normalizers": "1",
    "norm-over-time": "1",
    "statistics over examples": "1",
    "independent examples": "1",
    "mu and sigma in the backward pass": "1",
    "dead units": "1: relu",
    "weight invariances": "0.weight",
    "no-norm": "",
    "norm-as-function": "the module itself",
    "eps-decides": "the module itself",
    "branch-of-zeros": "2.weight",
    "bias-without-effect": "0.bias (before 1)",
    "parameter-unused": "1.weight, 1.bias",
    "parameter-partly-unused": "0.weight (3 of 8)",
    "units-dead": "1: relu (3 of 8)",
    "effective-rate": "0.weight, 2.weight",
    "effective-rates-apart": "0.weight and 2.weight",
    "output-not-finite": "1",
    "outlier-channel": "0 (1 channel)",
    "saturated": "1: tanh",
    "gradient-not-finite": "0.weight",
    "gradient-steep": "0.weight to 7.weight",
    "signal-steep": "0 to 7",
}
"""The places of what is found in the examples of a rule, or of a check."""


def findings(made, only=None):
    """Audit what a case makes: a module, and its input and its loss if these matter."""
    net, x, loss_fn, y = (*(made if isinstance(made, tuple) else (made,)), None, None, None)[:4]
    return audit(net, torch.randn(X) if x is None else x, y, loss_fn, only=only).findings


def run_example(rule):
    """Return what the six lines of a rule define: a module, an input and perhaps a loss."""
    code = RULES[rule]["example"]
    assert len(code.splitlines()) <= 6
    scope = {}
    with default_dtype(torch.float32):
        exec(EXAMPLE + code, scope)
    return scope["net"], scope["x"], scope.get("loss_fn"), scope.get("y")


@pytest.mark.parametrize("rule", RULES)
def test_the_example_of_a_rule_raises_it(rule):
    found = findings(run_example(rule), only=rule)
    assert found
    expected = OTHER_SEVERITY.get(rule, Severity(RULES[rule]["severity"]))
    assert found[0].severity is expected
    assert found[0].where.startswith(PLACES.get(rule, PLACES.get(found[0].check, "")))
    assert f"{found[0].id} {rule}" in explain(found[0].id)


def test_ids_are_unique():
    assert len({rule["id"] for rule in RULES.values()}) == len(RULES)


class Fp32GroupNorm(nn.GroupNorm):
    """As many models have it: float32 inside, whatever it is given."""

    def forward(self, x):
        own = (self.weight.float(), self.bias.float(), self.eps)
        return F.group_norm(x.float(), self.num_groups, *own).type_as(x)


@pytest.mark.parametrize(
    ("check", "make"),
    [
        ("normalizers", lambda: behind_linear(OwnLayerNorm())),
        ("normalizers", lambda: nn.LayerNorm(6)),
        ("normalizers", lambda: (nn.Sequential(nn.Conv1d(4, 8, 1), Fp32GroupNorm(8, 8)),
                                 torch.randn(8, 4, 9))),
        ("parameters without effect", lambda: nn.Sequential(*behind_linear(nn.LayerNorm(6)),
                                                            nn.Linear(6, 2))),
        ("statistics over examples", lambda: remembering(200)),
        ("independent examples", lambda: behind_linear(nn.BatchNorm1d(6))),
        (
            "independent examples",
            lambda: (nn.GRU(6, 6, batch_first=True), torch.randn(16, 5, 6)),
        ),
        ("independent examples", lambda: (nn.Embedding(9, 6), torch.arange(8))),
        ("effective learning rates", lambda: two_norms(1)),
        ("gradients over depth", lambda: linear(8)),
        ("activations", lambda: nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 8))),
        ("activations", lambda: (nn.Sequential(nn.Tanh(), nn.Linear(6, 8)),
                                 torch.where(torch.rand(X) < 0.4, 3.0, torch.randn(X)))),
        ("precision", lambda: linear()),
    ],
)  # fmt: skip
def test_what_is_right_is_no_risk(check, make):
    assert not [f for f in findings(make(), only=check) if f.severity < FACT]


@pytest.mark.parametrize(
    ("make", "shape", "axis", "seen"),
    [
        (lambda: nn.BatchNorm1d(8), (16, 8, 5), 1, True),
        (lambda: BatchNorm(8), (16, 5, 8), 2, True),
        (lambda: LayerNorm(5, space=1, per_position=True), (16, 5, 8), 2, True),
        (lambda: LayerNorm(8, space=1), (16, 8, 5), 1, False),
        (lambda: nn.GroupNorm(4, 8), (16, 8, 5), 1, False),
    ],
)
def test_statistics_below_eps_are_those_that_are_taken(make, shape, axis, seen):
    x = torch.randn(shape)
    x.select(axis, 3).mul_(1e-4)  # one of eight
    found = [f.message for f in findings((make(), x), only="eps-decides")]
    assert found == ["up to 12% of the statistics have a variance below eps"] * seen


def test_normalizer_is_identified_whatever_its_name():
    net = behind_linear(module(lambda x: x / (x.square().mean(-1, True) + 1e-5).sqrt()))
    assert list(audit(net, torch.randn(X)).table("normalizers")["is"]) == ["RMSNorm"]


def test_outputs_are_recorded_before_they_are_overwritten():
    net = nn.Sequential(nn.Linear(6, 8), nn.LayerNorm(8), nn.ReLU(inplace=True))
    rms = audit(net, torch.randn(32, 6)).table("activations")["rms"]
    assert abs(rms[1] - 1) < 0.01
    assert rms[2] < 0.9


def test_a_weight_without_a_gradient_that_has_an_effect_is_not_unused():
    (found,) = findings(Detached(), only="parameter-unused")
    assert found.where == "forgotten.bias"


def test_the_distance_of_running_statistics_is_in_their_sigmas():
    net, x = remembering(0)
    net[1].running_var.fill_(4.0)
    (row,) = (
        audit(net, x, only=["statistics over examples"]).data["statistics over examples"].rows
    )
    a = net[0](x).detach()
    shift, factor = a.mean(0).abs() / 2, (a.var(0, correction=0) / 4).log().abs().exp()
    torch.testing.assert_close(row["mean off by (sigma)"], float(shift.median()))
    torch.testing.assert_close(row["variance off by a factor"], float(factor.median()))


def test_dropout_is_off_as_the_report_says():
    first, last, x = nn.Linear(6, 8), nn.Linear(8, 2), torch.randn(X)
    reports = [
        audit(nn.Sequential(first, between, last), x) for between in (nn.Dropout(), nn.Tanh())
    ]
    assert "as in training, dropout at 0 in 1 module" in reports[0].about
    made = last(first(x)).square().mean().sqrt()
    torch.testing.assert_close(reports[0].table("activations")["rms"].iloc[-1], made.item())
    assert "dropout" not in reports[1].about


def test_steps_taken_for_examples_are_reported():
    made = nn.TransformerEncoderLayer(8, 2, 8), torch.randn(16, 5, 8)
    (found,) = findings(made, only="examples-mix")
    assert found.where == "self_attn"
    assert "batch_first" in found.advice


def test_examples_that_depend_on_their_index_are_reported():
    net = module(lambda x: x + torch.arange(len(x))[:, None])
    report = audit(behind_linear(net), torch.randn(X), only="independent examples")
    assert "equal examples differ" in report.findings[0].message


def test_new_tensors_take_the_precision_of_the_parameters():
    times = module(lambda x: x + torch.exp(-torch.arange(6) * 0.5))
    with default_dtype(torch.float32):
        checks = ["weight invariances", "precision", "normalizers"]
        net = nn.Sequential(times, nn.Linear(6, 4), nn.LayerNorm(4))
        assert not audit(net, torch.randn(8, 6), only=checks).not_run
        assert torch.get_default_dtype() is torch.float32


def test_pre_activations_that_cannot_be_reached_are_not_called_broken():
    layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True)
    x, check = torch.randn(8, 5, 16), "weight invariances"
    report = audit(layer, x, only=check)
    (shift,) = (one for one in report.findings if one.id == "LN503")
    assert shift.where == "linear2.weight"
    assert "1 of 2 weights" in shift.message
    grades = report.table(check).set_index("weight")["aₙ → aₙ + cₙ1"]
    assert grades["self_attn.out_proj.weight"] == "not tried"
    assert grades["linear1.weight"] == "broken"
    name = "shifts of the pre-activations of self_attn.out_proj.weight"
    assert name in check_invariances(layer, x, columns=7).reasons_not_tried
    assert not check_invariances(layer, x, columns=2).reasons_not_tried


def test_padding_in_statistics_is_found_in_a_module_of_one_length():
    class WithPositions(nn.Module):
        def __init__(self):
            super().__init__()
            self.positions = nn.Parameter(torch.randn(5, 6))
            self.norm, self.readout = nn.BatchNorm1d(6), nn.Linear(6, 2)

        def forward(self, x):
            h = self.norm(x.transpose(1, 2)).transpose(1, 2)
            return self.readout(h + self.positions).mean(1)

    x = torch.randn(16, 5, 6)
    x[:8, 3:] = 0
    (found,) = (f for f in audit(WithPositions(), x).findings if f.id == "LN903")
    assert found.where == "norm"


class Reader(nn.Module):
    """A batch norm over steps that a layer made, and what the last or all steps hold.

    The units are along axis 1 of the norm's input, or the last; or all steps are in a row.
    """

    def __init__(self, first, norm, layout="units first", masks=False):
        super().__init__()
        self.first, self.norm, self.readout = first, norm, nn.Linear(6, 2)
        self.layout, self.masks = layout, masks

    def forward(self, x):
        h = torch.relu(self.first(x))
        if self.layout == "units first":
            h = self.norm(h.transpose(1, 2)).transpose(1, 2)
        elif self.layout == "rows":
            h = self.norm(h.flatten(0, 1)).view_as(h)
        else:
            h = self.norm(h)
        if not self.masks:
            return self.readout(h.mean(1))
        real = (x != 0).view(len(x), x.shape[1], -1).any(-1, keepdim=True)
        return self.readout((h * real).sum(1) / real.sum(1))


PADDED, IDS = torch.randn(16, 5, 6), torch.randint(1, 9, (16, 5))
PADDED[:8, 3:], IDS[:8, 3:] = 0, 0


@pytest.mark.parametrize(
    ("net", "x", "rules"),
    [
        # whatever the layer makes of the padding, a bias say
        (Reader(nn.Linear(6, 6), nn.BatchNorm1d(6)), PADDED, ["LN902", "LN903"]),
        (Reader(nn.Linear(6, 6), nn.BatchNorm1d(6), masks=True), PADDED, ["LN903"]),
        (Reader(nn.Linear(6, 6), nn.BatchNorm1d(6), "rows", masks=True), PADDED, ["LN903"]),
        (Reader(nn.Linear(6, 6), nn.BatchNorm1d(5), "steps first"), PADDED, ["LN903"]),
        (Reader(nn.Linear(6, 6), nn.LayerNorm(6), "units last", masks=True), PADDED, []),
        (
            Reader(nn.Embedding(9, 6, padding_idx=0), nn.BatchNorm1d(6), masks=True),
            IDS,
            ["LN903"],
        ),
        (
            Reader(nn.Embedding(9, 6, padding_idx=0), nn.LayerNorm(6), "units last"),
            IDS,
            ["LN902"],
        ),
        # without padding_idx, 0 is a word
        (Reader(nn.Embedding(9, 6), nn.BatchNorm1d(6)), IDS, []),
    ],
)
def test_padding_is_found_in_sequences_and_in_token_ids(net, x, rules):
    found = audit(net, x, only=["inputs"]).findings
    assert [f.id for f in found] == rules
    assert all("20% of the" in f.message for f in found)


def test_dead_units_are_no_padding():
    net = Reader(nn.Linear(6, 6), nn.BatchNorm1d(5), "steps first").to(PADDED.dtype)
    net.first.bias.data[:3] = -50.0
    (found,) = audit(net, PADDED, only=["statistics-of-padding"]).findings
    assert found.message.startswith("20% of the values")


class FrozenBatchNorm(nn.BatchNorm1d):
    """Its statistics are constants in both modes."""

    def train(self, mode=True):
        return nn.Module.train(self, False)


def test_constant_statistics_take_nothing_of_a_gradient():
    net, x = behind_linear(FrozenBatchNorm(6)), torch.randn(64, 6)
    check = "mu and sigma in the backward pass"
    report = audit(net, x, only=check)
    assert list(report.table(check)["left"]) == [1.0]
    assert not report.findings
    both = audit(nn.Sequential(*net, *behind_linear(nn.LayerNorm(6))), x, only=check)
    (found,) = both.findings
    assert found.where == "3"
    assert f"sigma takes {both.table(check)['taken by sigma'].iloc[1]:.1%}" in found.message


@pytest.mark.parametrize("norm", [FrozenBatchNorm, lambda n: nn.BatchNorm1d(n, momentum=0.0)])
@pytest.mark.parametrize("shift", [0.0, 5.0])
def test_statistics_that_never_change_are_told_once(norm, shift):
    net = behind_linear(norm(6)).train()
    net[1].running_mean.add_(shift)
    found = audit(net, torch.randn(64, 6), only=["LN3"]).findings
    assert [f.rule for f in found] == ["running-statistics-stuck"]


class RMSNormWithEpsInCode(nn.Module):
    """A normalizer whose eps no copy can set to 0; over the examples if ``axis`` is 0."""

    def __init__(self, axis):
        super().__init__()
        self.axis = axis
        self.register_buffer("running", torch.ones(()))

    def forward(self, x):
        square = x.square().mean(self.axis, keepdim=True)
        if self.axis == 0 and not self.training:
            square = self.running
        return x * torch.rsqrt(square + 1e-3)


@pytest.mark.parametrize("axis", [-1, 0])
def test_a_weight_before_an_eps_in_the_code_of_a_normalizer_is_invariant(axis):
    first, last = nn.Linear(6, 6, bias=False), nn.Linear(6, 2)
    net = nn.Sequential(first, RMSNormWithEpsInCode(axis), last)
    checks = ["weight invariances", "effective learning rates"]
    report = audit(net, torch.randn(16, 6), only=checks)
    table = report.table("weight invariances").set_index("weight")
    assert list(table["W → δW"]) == ["exact without eps", "broken"]
    assert list(report.table("effective learning rates")["weight"]) == ["0.weight"]
    if axis == 0:  # by running statistics it is not
        net[1].train = lambda mode=True: nn.Module.train(net[1], False)
        table = audit(net.eval(), torch.randn(16, 6), only=checks[0]).table(checks[0])
        assert list(table["W → δW"]) == ["broken", "broken"]


class BatchNormWithBuffersOfItsOwn(nn.BatchNorm1d):
    """It leaves running_mean and running_var as they are, and follows the data elsewhere."""

    def __init__(self, units):
        super().__init__(units)
        self.register_buffer("mean", torch.zeros(units))
        self.register_buffer("var", torch.ones(units))

    def forward(self, x):
        if self.training:
            self.mean.lerp_(x.mean(0).detach(), 0.1)
            self.var.lerp_(x.var(0).detach(), 0.1)
            return (x - x.mean(0)) / (x.var(0, correction=0) + self.eps).sqrt()
        return (x - self.mean) / (self.var + self.eps).sqrt()


def test_statistics_that_are_kept_elsewhere_are_not_called_stuck():
    report = audit(behind_linear(BatchNormWithBuffersOfItsOwn(6)), torch.randn(64, 6))
    assert not [f for f in report.findings if f.id.startswith("LN3")]
    assert "have seen no batch" not in str(report)


def test_constant_statistics_are_not_those_of_few():
    few = torch.randn(4, 6)
    assert not findings((behind_linear(FrozenBatchNorm(6)), few), only="statistics-of-few")
    assert findings((behind_linear(nn.BatchNorm1d(6)), few), only="statistics-of-few")


class FrozenBatchNorm2d(nn.BatchNorm2d):
    """The same of pictures."""

    train = FrozenBatchNorm.train  # pyright: ignore[reportAssignmentType]


@pytest.mark.parametrize(
    ("norm", "images", "train", "is_found"),
    [
        (nn.BatchNorm2d, 1, True, True),
        (partial(BatchNorm, space=2), 1, True, True),
        (nn.BatchNorm2d, 2, True, False),
        (nn.BatchNorm2d, 1, False, False),
        (FrozenBatchNorm2d, 1, True, False),
        (lambda n: nn.BatchNorm2d(n).eval(), 1, None, False),
        (partial(nn.GroupNorm, 1), 1, True, False),
    ],
)
def test_batch_norm_of_one_example_is_a_risk(norm, images, train, is_found):
    net = nn.Sequential(nn.Conv2d(3, 8, 3), norm(8), nn.ReLU(), nn.Conv2d(8, 4, 3))
    net = net if train is None else net.train(train)
    found = findings((net, torch.randn(images, 3, 8, 8)), only="statistics-of-few")
    few = ("1", "statistics of 36 values, all of one example")
    assert [(f.where, f.message) for f in found] == [few] * is_found


class CausalNet(nn.Sequential):
    """A causal convolution over steps, and a norm behind it."""

    axis = 1

    def forward(self, x):
        y = super().forward(F.pad(x.transpose(self.axis, 2), (2, 0)))
        return y.transpose(self.axis, 2)


@pytest.mark.parametrize("steps_last", [False, True])
@pytest.mark.parametrize(
    ("norm", "ahead", "is_found"),
    [
        (partial(nn.GroupNorm, 2), 1, True),
        (nn.BatchNorm1d, 1, False),
        (partial(nn.GroupNorm, 2), 0, False),  # an autoencoder
    ],
)
def test_an_answer_that_leaks_in_regression_is_found(norm, ahead, is_found, steps_last):
    net = CausalNet(nn.Conv1d(4, 8, 3), norm(8), nn.Conv1d(8, 4, 1))
    x = torch.randn(16, 9, 4)
    x, y = x[:, : 9 - ahead], x[:, ahead:]
    if steps_last:
        net.axis, x, y = 2, x.transpose(1, 2), y.transpose(1, 2)
    found = findings((net, x, F.mse_loss, y), only="answer-leaks")
    assert [f.message.partition(" by ")[0] for f in found] == (
        ["outputs of earlier steps change"] * is_found
    )


def test_the_shape_of_the_input_of_a_norm_is_shown():
    class LayerNormOverSteps(nn.LayerNorm):
        def forward(self, x):
            var, mean = torch.var_mean(x, 1, keepdim=True, correction=0)
            return self.weight * (x - mean) / (var + 1e-5).sqrt() + self.bias

    net = nn.Sequential(nn.Linear(16, 16), LayerNormOverSteps(16))
    (found,) = findings((net, torch.randn(4, 7, 16)), only="norm-wrong-axes")
    shown = "axis 1 of (8, 6, 16): 6 values (tried in place of (4, 7, 16)); in torch's "
    assert found.message.endswith(f"{shown}LayerNorm: axis 2")
    (found,) = findings((net, torch.randn(8, 6, 16)), only="norm-wrong-axes")
    assert found.message.endswith(
        "axis 1 of (8, 6, 16): 6 values; in torch's LayerNorm: axis 2"
    )


@pytest.mark.parametrize(("bias", "severity"), [(10.0, FACT), (50.0, RISK)])
def test_sound_networks_are_advised_nothing_on_examples_that_are_alike(bias, severity):
    net = linear()
    nn.init.constant_(net[0].bias, bias)
    (found,) = findings(net, only="examples-alike")
    assert found.severity is severity
    assert found.advice.startswith("nothing, unless") == (severity is FACT)


def test_a_norm_over_two_axes_is_said_not_to_be_supported():
    net, check = nn.Sequential(nn.Linear(6, 6), nn.LayerNorm((5, 6))), "gradient-of-statistics"
    (why,) = audit(net, torch.randn(16, 5, 6), only=check).not_run.values()
    assert why.startswith("LayerNorm over 2 axes is not supported here")


@pytest.mark.parametrize(("factor", "advice"), [(1, "nothing: "), (1e4, "look at the curve")])
def test_the_advice_on_a_spread_of_gradients_fits_the_spread(factor, advice):
    net = linear(4)
    net[3].weight.data *= factor
    (found,) = findings(net, only="gradient-spread")
    assert found.advice.startswith(advice)
    assert found.advice.count(";") == 0


class Masked(nn.Module):
    """A module of a mask and lengths, of which it may read one."""

    def __init__(self, reads):
        super().__init__()
        self.layer, self.reads = nn.Linear(6, 6), reads

    def forward(self, x, mask, *, lengths=None):
        if self.reads == "mask":
            x = x * mask[..., None]
        elif self.reads == "lengths":
            x = x / lengths[:, None, None]
        return self.layer(x)


@pytest.mark.parametrize("reads", ["mask", "lengths", ""])
def test_an_input_that_nothing_reads_is_named(reads):
    mask = torch.arange(5) < torch.arange(16)[:, None] % 5 + 1
    call = Call(torch.randn(16, 5, 6), mask, lengths=mask.sum(1))
    found = audit(Masked(reads), call, only="input-ignored").findings
    names = [name for name in ("mask", "lengths") if name != reads]
    assert [f.where for f in found] == [", ".join(names)]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_eps_of_torchs_rms_norm_is_that_of_its_precision(dtype):
    net, x = behind_linear(nn.RMSNorm(6)).to(dtype), torch.randn(16, 6, dtype=dtype)
    (found,) = findings((net, x), only="eps-small")
    name = str(dtype).removeprefix("torch.")
    assert found.message == f"eps is {torch.finfo(dtype).eps:.1e}, torch's default in {name}"
    assert "mean square are 0" in found.meaning
    assert "float16" not in found.meaning  # torch computes in float32 then
    mine = module(lambda x: x / (x.square().mean(-1, keepdim=True) + 1e-8).sqrt())
    (found,) = findings(behind_linear(mine), only="eps-small")
    assert "in float16 this eps is 0" in found.meaning


def test_an_rms_norm_without_eps_is_nan_at_zeros_alone():
    net = behind_linear(module(lambda x: x / x.square().mean(-1, keepdim=True).sqrt()))
    (found,) = findings(net, only="eps-missing")
    assert found.severity is FAULT
    assert "mean square are 0, they are divided by 0: the output is NaN" in found.meaning


class FilterResponseNorm(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(1, channels, 1, 1))

    def forward(self, x):
        return self.gain * x / (x.square().mean((2, 3), keepdim=True) + 1e-6).sqrt()


def test_a_norm_whose_gain_has_axes_of_size_1_is_found():
    net = nn.Sequential(nn.Conv2d(3, 8, 3), FilterResponseNorm(8))
    report = audit(net, torch.randn(16, 3, 8, 8), only=["normalizers"])
    assert list(report.table("normalizers")["is"]) == ["InstanceNorm"]
    assert [f.message for f in report.findings] == [
        "FilterResponseNorm: mean: kept; in torch's InstanceNorm: removed"
    ]


class TwoBranches(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.other = nn.Linear(6, 6), nn.Linear(6, 6)
        nn.init.constant_(self.other.bias, -100.0)

    def forward(self, x):
        return torch.relu(self.one(x)) + torch.relu(self.other(x))


class Cell(nn.Module):
    """Units that are dead in one time step each, and one that is in all."""

    def forward(self, x, t):
        shut = torch.zeros(6)
        shut[[t, 5]] = -100.0
        return torch.relu(x + shut)


class Steps(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = Cell()

    def forward(self, x):
        for t in range(4):
            x = self.cell(x, t) + 1
        return x


def test_calls_of_a_nonlinearity_are_told_apart_and_time_steps_are_not():
    (found,) = findings(TwoBranches(), only="dead units")
    assert (found.rule, found.where) == ("layer-dead", "relu, call 2")
    (found,) = findings(Steps(), only="dead units")
    assert (found.rule, found.where) == ("units-dead", "cell: relu (1 of 6)")


def test_a_loss_in_the_place_of_targets_is_refused():
    with pytest.raises(TypeError, match="the loss as loss_fn="):
        audit(nn.Linear(6, 2), torch.randn(8, 6), lambda output: output.sum())


def test_a_weight_of_zeros_has_no_invariance():
    net, checks = nn.Sequential(Branch(), nn.Linear(6, 2)), ["weight invariances"]
    rows = audit(net, torch.randn(X), only=checks).table("weight invariances")
    assert set(rows["weight"]) == {"0.first.weight", "1.weight"}


# The numbers behind the findings.


def test_effective_rates_are_one_over_the_square_of_the_length():
    net = nn.Sequential(
        nn.Linear(6, 8, bias=False), LayerNorm(8, eps=0), nn.ReLU(),
        nn.Linear(8, 10, bias=False), BatchNorm(10, eps=0), nn.ReLU(), nn.Linear(10, 2),
    )  # fmt: skip
    table = audit(net, torch.randn(X)).table("effective learning rates").set_index("weight")
    W, V = net[0].weight.detach(), net[3].weight.detach()
    assert table["invariant"].to_dict() == {"0.weight": "whole", "3.weight": "rows"}
    rates = torch.tensor(table["effective rate / rate"].to_numpy())
    expected = torch.stack([1 / W.norm() ** 2, 1 / V.square().sum(1).mean()])
    torch.testing.assert_close(rates, expected)


def test_rates_apart_are_compared_within_a_kind():
    net = nn.Sequential(*two_norms(30), nn.Linear(6, 6, bias=False), nn.LayerNorm(6))
    net[4].weight.data *= 3_000  # as a whole invariant: of another kind
    (found,) = findings(net, only="effective-rates-apart")
    lengths = [net[k].weight.detach().square().sum(1).mean() for k in (0, 2)]
    assert (
        f"a factor of {three_significant_digits(float(lengths[1] / lengths[0]))}"
        in found.message
    )


def test_the_factor_of_gradients_is_that_of_the_ends():
    net = linear(8)
    for layer in net:
        layer.weight.data *= 0.1
    report = audit(net, torch.randn(9, 6))
    (found,) = [f for f in report.findings if f.rule == "gradient-steep"]
    norms = report.table("gradients over depth")["gradient"].to_list()
    factor = math.sqrt(norms[6] * norms[7] / norms[0] / norms[1])
    assert found.where == "0.weight to 7.weight"
    assert (
        f"grows by a factor of {three_significant_digits(factor)} from first to last"
        in found.message
    )
    assert "change less" in found.meaning


def test_gradients_are_those_of_autograd():
    net, x = nn.Sequential(nn.Linear(6, 4), nn.Tanh(), nn.Linear(4, 2)), torch.randn(9, 6)
    y = torch.randn(9, 2)
    table = audit(net, x, y, F.mse_loss).table("gradients over depth")
    F.mse_loss(net(x), y).backward()
    norms = [float(layer.weight.grad.norm()) for layer in (net[0], net[2])]
    torch.testing.assert_close(table["gradient"].to_list(), norms)


def test_the_profile_of_gradients_has_no_part_that_is_never_called():
    report = audit(Forgetful(), torch.randn(9, 6))
    assert list(report.plot("gradients over depth").data[0].customdata) == ["used.weight"]
    assert "forgotten.weight" in [*report.table("gradients over depth")["layer"]]


def test_shares_of_mu_and_sigma_are_projections():
    net, x = nn.Sequential(nn.Linear(6, 8), nn.LayerNorm(8, eps=0.0)), torch.randn(5, 6)
    target = torch.randn(5, 8)
    report = audit(net, x, target, F.mse_loss)
    (row,) = report.data["mu and sigma in the backward pass"].rows
    a = net[0](x).detach()
    sigma = a.std(1, correction=0, keepdim=True)
    y = (a - a.mean(1, keepdim=True)) / sigma
    direct = 2 * (y - target) / y.numel() / sigma
    along_ones, along_y = direct @ torch.ones(8) / 8**0.5, (direct * y).sum(1) / 8**0.5
    whole = direct.square().sum()
    torch.testing.assert_close(row["taken by mu"], float(along_ones.square().sum() / whole))
    torch.testing.assert_close(row["taken by sigma"], float(along_y.square().sum() / whole))


@pytest.mark.parametrize("correction", [0, 1])
def test_normalizer_by_hand_is_looked_through(correction):
    own, ours = OwnLayerNorm(correction), LayerNorm(6, correction=correction)
    ours.g, ours.b = own.weight, own.bias
    first, check = nn.Linear(6, 6), "mu and sigma in the backward pass"
    one, other = (
        audit(nn.Sequential(first, norm), torch.ones(4, 6).cumsum(0).sin()).table(check)
        for norm in (own, ours)
    )
    pd.testing.assert_frame_equal(one, other)


def test_curvature_is_the_largest_eigenvalue():
    net, x, y = nn.Linear(3, 2), torch.randn(20, 3), torch.randn(20, 2)
    (row,) = audit(net, x, y, F.mse_loss).data["curvature"].rows
    objective = Objective(net, x, y, F.mse_loss, bn_stats="batch")
    H = torch.autograd.functional.hessian(objective, objective.start)
    largest = float(torch.linalg.eigvalsh(H)[-1])
    # the eigenvalues are asked for to one in a hundred
    torch.testing.assert_close(row["largest"], largest, rtol=1e-2, atol=0)


class Attended(nn.Module):
    """Post-norm attention: a branch, added to its input and normalized."""

    def __init__(self):
        super().__init__()
        self.inner, self.norm = nn.Linear(6, 6), nn.LayerNorm(6)

    def forward(self, x):
        return self.norm(x + self.inner(x).tanh() + F.linear(x, self.inner.weight))


@pytest.mark.parametrize(
    "make",
    [
        lambda: nn.Sequential(nn.Linear(6, 8), nn.LayerNorm(8), nn.ReLU(), nn.Linear(8, 8),
                              nn.BatchNorm1d(8), nn.Tanh(), nn.Linear(8, 3)),
        lambda: nn.Sequential(lnlab.nn.Linear(6, 8, LayerNorm), nn.ReLU(), nn.Linear(8, 2)),
        lambda: lnlab.nn.GRU(6, 6, norm_layer=LayerNorm),
        lambda: nn.Sequential(nn.utils.parametrizations.weight_norm(nn.Linear(6, 8)),
                              nn.ReLU(), nn.Linear(8, 3)),
        Attended,
    ],
)  # fmt: skip
def test_derivatives_tell_the_invariances_that_trying_each_finds(make):
    net, x = make(), torch.randn(16, 5, 6)
    x = x if type(net) is lnlab.nn.GRU else x[:, 0]
    found = (
        audit(net, x, only="weight invariances").table("weight invariances").set_index("weight")
    )
    expected = check_invariances(net, x, columns=(1, 2, 3, 7, 8))
    mode = expected.invariances[0].mode
    for v in expected.invariances:
        if v.mode == mode:
            holds = v.grade is Grade.EXACT or v.exact_without == "eps"
            assert (found.loc[v.where, v.formula] != "broken") is holds, (v.where, v.formula)


def test_parameters_with_an_effect_are_not_called_unused():
    class Off(nn.Sequential):
        """A layer of which a quarter of the biases has no gradient, but an effect."""

        def forward(self, x):
            first, *rest = self
            return sum(layer(x) for layer in rest) + 0 * first(x) + rest[0].bias.detach().sin()

    net = Off(*(nn.Linear(6, 6) for _ in range(4)))
    (found,) = findings(net, only="parameter-unused")
    assert found.where == "0.weight, 0.bias"


EVALUATIONS = 0


class Counted(nn.Sequential):
    """Counts its evaluations, those of its copies too."""

    def forward(self, x):
        global EVALUATIONS
        EVALUATIONS += 1
        return super().forward(x)


@pytest.mark.parametrize(
    "make",
    [  # made in the test, which has a seed: a network with dead units is evaluated more often
        lambda: ([nn.Linear(6, 16), nn.LayerNorm(16), nn.ReLU(), nn.Linear(16, 3)],
                 torch.randn(16, 6)),
        lambda: ([nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(),
                  nn.Linear(288, 3)], torch.randn(16, 3, 8, 8)),
        lambda: ([nn.Embedding(20, 16), nn.TransformerEncoderLayer(16, 2, 32, batch_first=True),
                  nn.Flatten(), nn.Linear(128, 3)], torch.randint(20, (16, 8))),
    ],
)  # fmt: skip
def test_an_audit_evaluates_a_module_a_few_dozen_times(make):
    global EVALUATIONS
    EVALUATIONS = 0
    layers, x = make()
    x = x.double() if x.is_floating_point() else x
    audit(Counted(*layers).double(), x, torch.arange(16) % 3, F.cross_entropy)
    assert EVALUATIONS <= 33


class DetachedBatchNorm(nn.BatchNorm1d):
    """Batch norm whose gradient does not go through its statistics."""

    def forward(self, a):
        mu, var = a.mean(0).detach(), a.var(0, correction=0).detach()
        return (a - mu) / (var + self.eps).sqrt() * self.weight + self.bias


@pytest.mark.parametrize("seed", range(6))
def test_no_curvature_is_told_of_a_gradient_that_is_not_that_of_the_loss(seed):
    torch.manual_seed(seed)
    net = nn.Sequential(nn.Linear(6, 16), DetachedBatchNorm(16), nn.ReLU(), nn.Linear(16, 3))
    report = audit(net, torch.randn(32, 6), torch.arange(32) % 3, F.cross_entropy)
    assert "gradient-differs" in {finding.rule for finding in report.findings}
    assert "is no Hessian" in dict(report.not_run)["curvature"]
    assert "curvature" not in {finding.rule for finding in report.findings}


@pytest.mark.parametrize("momentum", [0.0, None])
@pytest.mark.parametrize("batches", [0, 9])
def test_torch_s_batch_norm_is_torch_s_at_every_momentum(momentum, batches):
    net = nn.Sequential(nn.Linear(6, 16), nn.BatchNorm1d(16, momentum=momentum), nn.ReLU())
    for _ in range(batches):
        net(torch.randn(32, 6))
    report = audit(net, torch.randn(32, 6), only="normalizers")
    assert "norm-differs" not in {finding.rule for finding in report.findings}


def test_every_number_of_a_bias_in_front_of_batch_norm_is_counted():
    torch.manual_seed(10)  # the gradient of one bias is 1e-15 of the largest, by rounding
    with default_dtype(torch.float32):
        net = nn.Sequential(nn.Linear(64, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 10))
    digits = lnlab.data.load("digits").train
    report = audit(net, digits.x[:64], digits.y[:64], F.cross_entropy, only="LN202")
    assert "32 numbers of 1 bias" in str(report)


def test_batch_norm_that_was_set_to_evaluation_is_named():
    net = nn.Sequential(nn.Linear(6, 16), nn.BatchNorm1d(16), nn.Linear(16, 3)).train()
    net[1].eval()
    assert (
        "also 1 batch norm that you had set to evaluation"
        in audit(net, torch.randn(32, 6)).about
    )


@pytest.mark.filterwarnings("ignore:.*weight_norm:FutureWarning")
def test_hooks_that_are_not_called_are_counted():
    layer = nn.utils.weight_norm(nn.Linear(4, 4))
    net = nn.Sequential(layer, nn.ReLU(), nn.Linear(4, 3))
    x = torch.randn(16, 4)
    assert "hook" not in audit(net, x, only="parameter-frozen").about
    layer.register_forward_hook(lambda *_: None)
    assert "without your 1 hook." in audit(net, x, only="parameter-frozen").about


def test_an_eps_that_is_declared_and_not_used_decides_nothing():
    class NoEps(nn.Module):
        def __init__(self):
            super().__init__()
            self.eps = 1e-5

        def forward(self, a):
            d = a - a.mean(-1, keepdim=True)
            return d / d.square().mean(-1, keepdim=True).sqrt()

    net, x = nn.Sequential(nn.Linear(6, 16), NoEps(), nn.Linear(16, 3)), torch.randn(32, 6)
    x[:8] *= 1e-6
    nn.init.zeros_(net[0].bias)
    rules = {finding.rule for finding in audit(net, x).findings}
    assert "eps-missing" in rules
    assert "eps-decides" not in rules


def test_a_biased_running_variance_of_many_numbers_is_a_fact():
    net, x = run_example("running-variance-biased")[:2]
    few, many = (findings((net, x.repeat(n, 1)), only="LN124")[0] for n in (1, 64))
    assert (few.severity, many.severity) == (Severity.RISK, Severity.FACT)
    assert "N = 16 numbers" in few.meaning
    assert "here 1.0005: a statistic is over N = 1,024 numbers" in many.meaning
    # the factor itself, of running statistics that are those of one batch
    norm = deepcopy(net[1])
    norm.running_mean, norm.running_var = x.mean(0), x.var(0, correction=0)
    larger = norm.eval()(x) / F.batch_norm(x, x.mean(0), x.var(0), eps=norm.eps)
    assert larger.mean().item() == pytest.approx((16 / 15) ** 0.5, rel=1e-4)


def test_nothing_is_concluded_from_outputs_that_are_nan():
    net, x, loss_fn, y = run_example("answer-leaks")
    for nan, rules in ((False, {"LN707"}), (True, {"LN404"})):
        if nan:
            next(net.parameters()).data.fill_(math.nan)
        found = {finding.id for finding in audit(net, x, y, loss_fn).findings}
        assert found & {"LN404", "LN707", "LN801", "LN116"} == rules


def test_a_norm_over_one_value_is_said_to_be_constant():
    by_group = nn.GroupNorm(32, 32)  # constant but for rounding
    by_layer = nn.Sequential(nn.Unflatten(1, (32, 1)), nn.LayerNorm(1), nn.Flatten())
    of_two = nn.GroupNorm(16, 32)
    for norm, is_constant in ((by_group, True), (by_layer, True), (of_two, False)):
        net = nn.Sequential(nn.Linear(16, 32), norm, nn.ReLU(), nn.Linear(32, 4))
        assert is_constant == bool(findings((net, torch.randn(64, 16)), only="LN126"))


def test_weights_are_said_to_fit_where_only_the_gradient_differs():
    (finding,) = findings(run_example("norm-gradient")[:2], only=["LN111", "LN125"])
    assert finding.id == "LN125"
    assert "do not fit" not in finding.advice


def test_complex_numbers_are_named_or_refused():
    net = nn.Sequential(nn.Linear(6, 6), nn.LayerNorm(6))
    with pytest.raises(ValueError, match=r"the input holds torch\.complex64"):
        audit(net, torch.zeros(8, 6, dtype=torch.complex64))
    net.phases = nn.Parameter(torch.ones(2, dtype=torch.complex64))
    assert "in float64 and complex64" in audit(net, torch.randn(8, 6), only="LN1").about


@pytest.mark.parametrize("shape", [(12, 6), (12, 5, 6), (12, 6, 5, 6)])
def test_a_layer_norm_over_the_whole_batch_is_compared_with_layer_norm(shape):
    class OverAll(nn.LayerNorm):
        def forward(self, x):
            var, mean = torch.var_mean(x, correction=0)
            return self.weight * (x - mean) / (var + 1e-5).sqrt() + self.bias

    net = nn.Sequential(nn.Linear(6, 6), OverAll(6))
    found = [f for f in findings((net, torch.randn(shape))) if f.check == "normalizers"]
    assert [f.rule for f in found] == ["norm-mixes-examples"]
    assert found[0].message.endswith(f"in torch's LayerNorm: axis {len(shape) - 1}")


@pytest.mark.parametrize(("momentum", "is_found"), [(0.1, False), (0.9, True), (0.99, True)])
def test_the_momentum_of_another_library_is_found(momentum, is_found):
    net = nn.Sequential(nn.Linear(6, 6), nn.BatchNorm1d(6, momentum=momentum))
    assert bool(findings((net, torch.randn(16, 6)), only="momentum-large")) == is_found


def test_a_layer_norm_over_the_examples_is_not_called_a_batch_norm():
    class OverExamples(nn.LayerNorm):
        def forward(self, x):
            var, mean = torch.var_mean(x, 0, correction=0)
            return self.weight * (x - mean) / (var + 1e-5).sqrt() + self.bias

    net = nn.Sequential(nn.Linear(6, 6), OverExamples(6))
    found = {f.rule: f.message for f in findings((net, torch.randn(12, 5, 6)))}
    assert "statistics over: axis 0" in found["norm-mixes-examples"]
    assert found["norm-misnamed"] == "OverExamples comes nearest to BatchNorm"
    assert "norm-wrong-axes" not in found


class LayerNormInFloat32(nn.Module):
    """As many language models have it; sigma is detached on request."""

    def __init__(self, units, is_detached):
        super().__init__()
        self.g, self.is_detached = nn.Parameter(torch.ones(units)), is_detached

    def forward(self, x):
        var, mean = torch.var_mean(x.float(), -1, keepdim=True, correction=0)
        sigma = (var + 1e-5).sqrt()
        sigma = sigma.detach() if self.is_detached else sigma
        return self.g * ((x - mean) / sigma).to(x.dtype)


@pytest.mark.parametrize("is_detached", [True, False])
def test_a_derivative_is_checked_in_float32_too(is_detached):
    norm = LayerNormInFloat32(16, is_detached)
    net = nn.Sequential(nn.Linear(8, 16), norm, nn.ReLU(), nn.Linear(16, 4))
    x, y = torch.randn(64, 8), torch.arange(64) % 4
    report = audit(net, x, y, nn.functional.cross_entropy, only=["LN608", "LN701"])
    rule = "gradient-differs" if is_detached else "curvature"
    assert [f.rule for f in report.findings] == [rule]
    assert ("curvature" in report.not_run) == is_detached


def test_a_curvature_whose_gradient_was_not_checked_says_so():
    class InHalf(nn.Linear):
        def forward(self, x):
            return super().forward(x).bfloat16().to(x.dtype)

    x, y = torch.randn(16, 8), torch.arange(16) % 4
    net = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), InHalf(16, 4))
    report = audit(net, x, y, nn.functional.cross_entropy, only=["LN608", "LN701"])
    assert "16 bits" in report.not_run["derivative"]
    assert "was not checked" in report.findings[0].meaning


def test_outputs_that_are_zero_do_not_underflow():
    net = nn.Sequential(nn.Linear(4, 1), nn.LayerNorm(1))
    assert not findings((net, torch.randn(16, 4)), only="LN8")
