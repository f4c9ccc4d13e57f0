"""The wrong normalizers here have been published: the report must name each defect."""

import math
from functools import partial

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from lnlab.analysis.norm_identity import NOTHING, identify_norm
from lnlab.nn import (
    AdaNorm,
    BatchLayerNorm,
    BatchNorm,
    DyT,
    GhostBatchNorm,
    GroupNorm,
    InstanceNorm,
    LayerNorm,
    RMSNorm,
    Stats,
)

H = 16


class Written(nn.Module):
    """A normalizer written by hand: gain, bias and a formula."""

    def __init__(self, formula, units=H, eps=1e-6, affine=True):
        super().__init__()
        self.formula, self.eps = formula, eps
        if affine:
            self.gamma = nn.Parameter(torch.ones(units))
            self.beta = nn.Parameter(torch.zeros(units))

    def forward(self, x):
        n = self.formula(x, self.eps)
        return self.gamma * n + self.beta if hasattr(self, "gamma") else n


def centred(x, axes=-1):
    return x - x.mean(axes, keepdim=True)


def wrong(report) -> dict[str, str]:
    return {f.what: f.found for f in report.properties if f.wrong}


def found(report, what) -> str:
    return next(f.found for f in report.properties if f.what == what)


@pytest.mark.parametrize(
    ("module", "kind", "shape"),
    [
        (nn.LayerNorm(H), "LayerNorm", None),
        (nn.LayerNorm(6, bias=False), "LayerNorm", (4, 5, 6)),
        (nn.LayerNorm(H, elementwise_affine=False), "LayerNorm", None),
        (nn.RMSNorm(H), "RMSNorm", None),
        (nn.BatchNorm1d(H), "BatchNorm", None),
        (nn.BatchNorm1d(6), "BatchNorm", (2, 6, 5)),
        (nn.BatchNorm2d(6), "BatchNorm", (8, 6, 1, 3)),
        (nn.GroupNorm(3, 12), "GroupNorm(3)", None),
        (nn.GroupNorm(1, 6), "GroupNorm(1)", (2, 6, 4, 4)),
        (nn.InstanceNorm1d(6, affine=True), "InstanceNorm", None),
        (nn.InstanceNorm1d(6), "LayerNorm or InstanceNorm", None),
        (LayerNorm(H), "LayerNorm", None),
        (LayerNorm(6, space=2), "GroupNorm(1)", None),
        (LayerNorm(6, space=2, per_position=True), "LayerNorm", None),
        (BatchNorm(H), "BatchNorm", None),
        (RMSNorm(H), "RMSNorm", None),
        (GroupNorm(4, 12), "GroupNorm(4)", None),
        (InstanceNorm(6), "InstanceNorm", None),
    ],
    ids=lambda value: str(value)[:40],
)
def test_torchs_and_ours_conform(module, kind, shape):
    report = identify_norm(module, None if shape is None else torch.zeros(shape))
    assert report.kind == kind
    assert report.conforms, str(report)
    assert found(report, f"differs from {kind} by") == "nothing"


def test_unbiased_deviation_with_eps_outside():
    """The annotated transformer and its many copies."""

    def formula(x, eps):
        return centred(x) / (x.std(-1, keepdim=True) + eps)

    report = identify_norm(Written(formula), torch.zeros(2, H))
    assert report.kind == "LayerNorm"
    assert set(wrong(report)) == {"variance", "eps", "differs from LayerNorm by"}
    assert wrong(report)["variance"] == "1/(N-1), unbiased"
    assert wrong(report)["eps"] == "1.0e-06 added to sigma"
    # Outputs are sqrt((H-1)/H) times as large; the largest is some 2.6.
    size = float(wrong(report)["differs from LayerNorm by"].split()[2].rstrip(","))
    assert 0.02 < size < (1 - math.sqrt((H - 1) / H)) * math.sqrt(H - 1)


@pytest.mark.parametrize(("gain", "bias"), [(1.0, 0.0), (0.0, 0.0), (1.0, 1e6)])
def test_a_variance_that_cancels(gain, bias):
    """E[x²] - E[x]², exact in float64 and noise in float32, whatever gain and bias hide."""

    def formula(x, eps):
        mean = x.mean(-1, keepdim=True)
        cancelled = (x * x).mean(-1, keepdim=True) - mean**2
        return (x - mean) / (cancelled.clamp(min=0) + eps).sqrt()

    norm = Written(formula, eps=1e-5)
    nn.init.constant_(norm.gamma, gain)
    nn.init.constant_(norm.beta, bias)
    report = identify_norm(norm, torch.zeros(2, H))
    assert set(wrong(report)) == {"float32 at mean 1e4"}
    assert "the variance cancels" in wrong(report)["float32 at mean 1e4"]


@pytest.mark.parametrize("power", [2.0, 1.0])
def test_variance_plus_eps_to_another_power(power):
    def formula(x, eps):
        return centred(x) / (x.var(-1, correction=0, keepdim=True) + eps) ** power

    report = identify_norm(Written(formula), torch.zeros(2, H))
    assert wrong(report)["divided by"] == f"its power {power:.0f}"
    assert "variance" not in wrong(report)


def over_cases(axes):
    def formula(x, eps):
        var, mean = torch.var_mean(x, axes, correction=0, keepdim=True)
        return (x - mean) / (var + eps).sqrt()

    return formula


def test_batch_statistics_of_each_position_by_itself():
    """Axis 0 alone of (B, height, width, C), as in the code of batch layer normalization."""
    nhwc = torch.zeros(2, 4, 5, 6)
    report = identify_norm(Written(over_cases(0), 6), nhwc)
    assert report.kind == "BatchNorm"
    assert wrong(report)["statistics over"].startswith("axis 0 ")
    assert wrong(report)["evaluation"] == "by the statistics of its own batch"
    right = identify_norm(Written(over_cases((0, 1, 2)), 6), nhwc)
    assert set(wrong(right)) == {"evaluation"}


class Remembering(nn.Module):
    """BatchNorm by hand, remembering what ``estimate`` makes of a batch."""

    def __init__(self, units, estimate):
        super().__init__()
        self.estimate = estimate
        self.mean, self.var = nn.Buffer(torch.zeros(units)), nn.Buffer(torch.ones(units))

    def forward(self, x):
        var, mean = torch.var_mean(x, 0, correction=0)
        if self.training:
            self.mean.lerp_(mean, 0.1)
            self.var.copy_(self.estimate(self.var, var, len(x)))
        else:
            mean, var = self.mean, self.var
        return (x - mean) / (var + 1e-5).sqrt()


@pytest.mark.parametrize(
    ("estimate", "named"),
    [
        (lambda old, var, m: 0.9 * old + 0.1 * var, "biased variance"),
        (lambda old, var, m: 0.9 * old + 0.1 * var * m / (m - 1), "unbiased variance"),
        (lambda old, var, m: (0.9 * old.sqrt() + 0.1 * var.sqrt()) ** 2, "biased sigma"),
        (lambda old, var, m: old + 1, "unknown"),
    ],
)
def test_running_variance(estimate, named):
    report = identify_norm(Remembering(H, estimate), torch.zeros(2, H))
    assert found(report, "running variance") == named
    assert report.conforms == (named == "unbiased variance")
    assert found(report, "momentum") == "0.1 for the newest batch"


def test_what_gains_and_biases_do():
    class Before(nn.LayerNorm):
        def forward(self, input):
            return F.layer_norm(input * self.weight, (H,)) + self.bias

    class BiasFirst(nn.LayerNorm):
        def forward(self, input):
            return (F.layer_norm(input, (H,)) + self.bias) * self.weight

    class OnePlus(nn.RMSNorm):
        def forward(self, x):
            return (1 + self.weight) * F.rms_norm(x, (H,), eps=1e-6)

    assert "before the statistics" in wrong(identify_norm(Before(H)))["weight"]
    assert "before the gain" in wrong(identify_norm(BiasFirst(H)))["bias"]
    one_plus = OnePlus(H)
    nn.init.zeros_(one_plus.weight)
    assert "1 + it multiplies" in wrong(identify_norm(one_plus))["weight"]


def test_half_centred():
    no_mean = identify_norm(
        Written(lambda x, eps: x / x.std(-1, keepdim=True)), torch.zeros(2, H)
    )
    assert wrong(no_mean)["mean"] == "kept, but not in the variance"

    def formula(x, eps):
        return centred(x) / (x.square().mean(-1, keepdim=True) + eps).sqrt()

    rms = identify_norm(Written(formula), torch.zeros(2, H))
    assert wrong(rms)["mean"] == "removed, but not from the variance"


def test_relatives_are_told_apart():
    ada = identify_norm(AdaNorm(H))
    assert {"sign", "eps"} <= set(wrong(ada))
    ghost = identify_norm(GhostBatchNorm(H, 4))
    assert "axis 0 in 2 parts" in wrong(ghost)["statistics over"]
    for module in (DyT(H), nn.Identity(), nn.Softmax(-1), BatchLayerNorm(H), nn.Dropout(0.0)):
        report = identify_norm(module, torch.zeros(2, H))
        assert report.kind == NOTHING, report
        assert not report.conforms
    frozen = nn.BatchNorm1d(H).eval()
    assert identify_norm(frozen).kind == "BatchNorm"  # it is asked in both modes


class CastsToFloat32(nn.RMSNorm):
    def forward(self, x):
        s = torch.rsqrt(x.float().square().mean(-1, keepdim=True) + self.eps)
        return self.weight * (x.float() * s).to(x.dtype)


def test_float32_inside_is_said_and_is_no_difference():
    report = identify_norm(CastsToFloat32(H, eps=1e-6))
    assert report.conforms
    assert report.float32
    assert not identify_norm(nn.RMSNorm(H, eps=1e-6)).float32


def test_a_detached_statistic_is_not_layer_norm():
    class Detached(nn.LayerNorm):
        def forward(self, x):
            var, mu = torch.var_mean(x, -1, keepdim=True, correction=0)
            sigma = torch.sqrt(var + self.eps).detach()
            return (x - mu) / sigma * self.weight + self.bias

    report = identify_norm(Detached(H))
    assert report.kind == "LayerNorm"
    assert wrong(report) == {"gradient": "another one, as if a statistic were detached"}


# What it leaves, what it refuses, and how it is read.


@pytest.mark.parametrize(
    ("module", "x", "match"),
    [
        (nn.Linear(H, H), None, "Linear does not say what it normalizes: give x"),
        (nn.Linear(H, 3), torch.zeros(2, H), "makes .* keep the shape"),
        (nn.LayerNorm(H), torch.zeros(2, H + 1), "does not take x"),
        (nn.LayerNorm(H), torch.zeros(H), "cases along the first axis"),
    ],
)
def test_errors_say_what_to_do(module, x, match):
    with pytest.raises(ValueError, match=match):
        identify_norm(module, x)


def test_it_prints_and_frames_and_escapes():
    module = Written(partial(lambda x, eps: F.layer_norm(x, (H,), eps=eps)), affine=False)
    module.register_parameter("<script>", nn.Parameter(torch.ones(1)))
    report = identify_norm(module, torch.zeros(2, H))
    text = str(report)
    assert text.splitlines()[0] == "Written is LayerNorm"
    assert "1.0e-06 added to the variance" in text
    assert "<script>" not in report._repr_html_()
    assert "&lt;script&gt;" in report._repr_html_()
    frame = report.to_frame()
    assert list(frame.columns) == ["what", "found", "torch", "wrong"]
    assert frame.what[0] == "statistics over"


class Median(LayerNorm):
    def stats(self, a, W=None, t=None):
        return Stats(a.new_zeros(()), self.sigma(a.square().median(-1, keepdim=True).values))


def test_a_rule_that_picks_an_input_by_its_size_is_not_told_place_by_place():
    report = identify_norm(Median(16))
    assert str(report).startswith("Median is no normalizer that torch.nn has")
    (statistics,) = report.properties
    expected = "along axis 1, of no regular set of inputs, as if values chose them"
    assert statistics.found == f"{expected} (a median, a maximum)"


class Derf(nn.Module):
    def __init__(self, alpha):
        super().__init__()
        self.alpha = nn.Parameter(torch.full((8,), alpha))

    def forward(self, x):
        return torch.erf(self.alpha * x)


@pytest.mark.parametrize("module", [lambda: Derf(0.5), lambda: Derf(30.0), nn.ReLU, nn.Tanh])
def test_what_takes_no_statistics_is_pointwise(module):
    report = identify_norm(module(), torch.zeros(8, 8))
    assert report.kind == NOTHING
    assert report.properties[0].found.startswith("none: pointwise")


class MomentumOfTheOld(nn.BatchNorm1d):
    """Batch norm whose momentum is the weight of the old statistics, as Keras has it."""

    def forward(self, x):
        declared, self.momentum = self.momentum, 1 - self.momentum
        y = super().forward(x)
        self.momentum = declared
        return y


def test_a_momentum_that_is_not_the_declared_one_is_named():
    (defect,) = identify_norm(MomentumOfTheOld(8, momentum=0.1)).defects
    assert defect == "momentum: 0.9 for the newest batch, not 0.1, as declared"
    assert not identify_norm(nn.BatchNorm1d(8, momentum=0.3)).defects
