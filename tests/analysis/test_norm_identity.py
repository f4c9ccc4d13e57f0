"""The wrong normalizers here have been published: the report must name each defect."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from lnlab.analysis.norm_identity import NOTHING, identify_norm
from lnlab.nn import (
    AdaNorm,
    BatchLayerNorm,
    BatchNorm,
    BatchRenorm,
    DyT,
    GhostBatchNorm,
    GroupNorm,
    InstanceNorm,
    LayerNorm,
    Stats,
)

H = 16


class Written(nn.Module):
    """A normalizer written by hand: gain, bias and a formula."""

    def __init__(self, formula, units=H, eps=1e-6, gain=1.0, bias=0.0):
        super().__init__()
        self.formula, self.eps = formula, eps
        self.gamma = nn.Parameter(torch.full((units,), gain))
        self.beta = nn.Parameter(torch.full((units,), bias))

    def forward(self, x):
        return self.gamma * self.formula(x, self.eps) + self.beta


def centred(x, axes=-1):
    return x - x.mean(axes, keepdim=True)


def found(report, what) -> str:
    return next(f.found for f in report.properties if f.name == what)


CONFORMING = [
    (nn.LayerNorm(H), "LayerNorm", None),
    (nn.LayerNorm(6, bias=False), "LayerNorm", (4, 5, 6)),
    (nn.LayerNorm(H, elementwise_affine=False), "LayerNorm", None),
    (nn.RMSNorm(H), "RMSNorm", None),
    (nn.BatchNorm1d(H).eval(), "BatchNorm", None),  # it is asked in both modes
    (nn.BatchNorm1d(H, momentum=0.3), "BatchNorm", None),
    (nn.BatchNorm1d(6), "BatchNorm", (2, 6, 5)),
    (nn.BatchNorm2d(6), "BatchNorm", (8, 6, 1, 3)),
    (nn.GroupNorm(3, 12), "GroupNorm(3)", None),
    (nn.GroupNorm(1, 6), "GroupNorm(1)", (2, 6, 4, 4)),
    (nn.InstanceNorm1d(6, affine=True), "InstanceNorm", None),
    (nn.InstanceNorm1d(6), "LayerNorm or InstanceNorm", None),
    (LayerNorm(6, space=2), "GroupNorm(1)", None),
    (LayerNorm(6, space=2, per_position=True), "LayerNorm", None),
    (BatchNorm(H), "BatchNorm", None),
    (GroupNorm(4, 12), "GroupNorm(4)", None),
    (InstanceNorm(6), "InstanceNorm", None),
]


@pytest.mark.parametrize(("module", "kind", "shape"), CONFORMING, ids=lambda v: str(v)[:40])
def test_torchs_and_ours_conform(module, kind, shape):
    report = identify_norm(module, None if shape is None else torch.zeros(shape))
    assert report.kind == kind
    assert report.conforms, str(report)
    assert found(report, f"differs from {kind} by") == "nothing"


def unbiased(x, eps):
    """The annotated transformer and its many copies."""
    return centred(x) / (x.std(-1, keepdim=True) + eps)


def cancelling(x, eps):
    """E[x²] - E[x]², exact in float64 and noise in float32."""
    mean = x.mean(-1, keepdim=True)
    cancelled = (x * x).mean(-1, keepdim=True) - mean**2
    return (x - mean) / (cancelled.clamp(min=0) + eps).sqrt()


def to_power(power):
    return lambda x, eps: centred(x) / (x.var(-1, correction=0, keepdim=True) + eps) ** power


def half_centred(x, eps):
    return centred(x) / (x.square().mean(-1, keepdim=True) + eps).sqrt()


def over_cases(axes):
    def formula(x, eps):
        var, mean = torch.var_mean(x, axes, correction=0, keepdim=True)
        return (x - mean) / (var + eps).sqrt()

    return formula


class Before(nn.LayerNorm):
    def forward(self, input):
        return F.layer_norm(input * self.weight, (H,)) + self.bias


class BiasFirst(nn.LayerNorm):
    def forward(self, input):
        return (F.layer_norm(input, (H,)) + self.bias) * self.weight


class OnePlus(nn.RMSNorm):
    def forward(self, x):
        return (1 + self.weight) * F.rms_norm(x, (H,), eps=1e-6)


class Detached(nn.LayerNorm):
    def forward(self, x):
        var, mu = torch.var_mean(x, -1, keepdim=True, correction=0)
        return (x - mu) / torch.sqrt(var + self.eps).detach() * self.weight + self.bias


class MomentumOfTheOld(nn.BatchNorm1d):
    """Batch norm whose momentum is the weight of the old statistics, as Keras has it."""

    def forward(self, x):
        declared, self.momentum = self.momentum, 1 - self.momentum
        y = super().forward(x)
        self.momentum = declared
        return y


SQRT = "up to 0.084"  # (1 - sqrt(15 / 16)) times the largest output, some 2.6
CANCELS = {"float32 at mean 1e4": "the variance cancels"}
ALONE = {"evaluation": "by the statistics of its own batch"}
NHWC = (2, 4, 5, 6)
WRONG = {
    "unbiased, eps outside": (
        Written(unbiased),
        {"variance": "1/(N-1), unbiased", "eps": "1.0e-06 added to sigma", "differs": SQRT},
    ),
    "cancels": (Written(cancelling), CANCELS),
    "cancels behind a gain of 0": (Written(cancelling, gain=0.0), CANCELS),
    "cancels behind a large bias": (Written(cancelling, bias=1e6), CANCELS),
    "squared": (Written(to_power(2.0)), {"divided by": "its power 2", "differs": ""}),
    "no root": (Written(to_power(1.0)), {"divided by": "its power 1", "differs": ""}),
    "each position by itself": (
        Written(over_cases(0), 6),
        {"statistics over": "axis 0 of (8, 4, 5, 6)", **ALONE, "differs": ""},
    ),
    "nothing remembered": (Written(over_cases((0, 1, 2)), 6), ALONE),
    "mean kept": (
        Written(lambda x, eps: x / x.std(-1, keepdim=True)),
        {"mean": "kept, but not in the variance", "variance": "unbiased", "differs": ""},
    ),
    "mean kept in the variance": (
        Written(half_centred),
        {"mean": "removed, but not from the variance", "differs": ""},
    ),
    "gain before": (Before(H), {"weight": "acts before the statistics"}),
    "bias before the gain": (BiasFirst(H), {"bias": "added before the gain multiplies"}),
    "gain less 1": (OnePlus(H), {"weight": "1 + it multiplies the normalized"}),
    "AdaNorm": (
        AdaNorm(H),
        {"eps": "added to sigma", "sign": "y(-x) is not -y(x)", "differs": ""},
    ),
    "ghost batches": (
        GhostBatchNorm(H, 4),
        {
            "statistics over": "axis 0 in 2 parts", "momentum": "nan",
            "running variance": "unknown", "differs": "",
        },
    ),
    "detached": (Detached(H), {"gradient": "as if a statistic were detached"}),
    "another momentum": (MomentumOfTheOld(H), {"momentum": "0.9 for the newest batch"}),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_normalizer_is_told_what_is_wrong_and_nothing_else(name):
    module, expected = WRONG[name]
    if isinstance(module, OnePlus):
        nn.init.zeros_(module.weight)
    shape = NHWC if "formula" in vars(module) and len(module.gamma) == 6 else (2, H)
    report = identify_norm(module.double(), torch.zeros(shape))
    wrong = {f.name.partition(" from")[0]: f.found for f in report.properties if f.wrong}
    assert wrong.keys() == expected.keys()
    for what, words in expected.items():
        assert words in wrong[what]


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


@pytest.mark.parametrize(
    "module",
    [DyT(H), nn.Identity(), nn.Softmax(-1), BatchLayerNorm(H), nn.Dropout(0.0), nn.ReLU()],
    ids=lambda module: type(module).__name__,
)
def test_what_is_no_normalizer_of_torch_is_none(module):
    report = identify_norm(module, torch.zeros(2, H))
    assert report.kind == NOTHING
    assert not report.conforms
    pointwise = not isinstance(module, nn.Softmax | BatchLayerNorm)
    assert report.properties[0].found.startswith("none: pointwise") == pointwise


class Median(LayerNorm):
    def stats(self, a, W=None, t=None):
        return Stats(a.new_zeros(()), self.sigma(a.square().median(-1, keepdim=True).values))


def test_a_rule_that_picks_an_input_by_its_size_is_not_told_place_by_place():
    (statistics,) = identify_norm(Median(H)).properties
    assert "of no regular set of inputs, as if values chose them" in statistics.found


def test_batch_renormalization_is_known_by_its_clips():
    (statistics,) = identify_norm(BatchRenorm(64), torch.zeros(64, 64)).properties
    assert statistics.found.startswith("of the batch (axis 0), with clips")


class CastsToFloat32(nn.RMSNorm):
    def forward(self, x):
        s = torch.rsqrt(x.float().square().mean(-1, keepdim=True) + self.eps)
        return self.weight * (x.float() * s).to(x.dtype)


def test_float32_inside_is_said_and_is_no_difference():
    report = identify_norm(CastsToFloat32(H, eps=1e-6))
    assert report.conforms
    assert report.float32
    assert not identify_norm(nn.RMSNorm(H, eps=1e-6)).float32


def test_errors_say_what_to_do():
    for module, x, message in (
        (nn.Linear(H, H), None, "Linear does not say what it normalizes: give x"),
        (nn.Linear(H, 3), torch.zeros(2, H), "makes .* keep the shape"),
        (nn.LayerNorm(H), torch.zeros(2, H + 1), "does not take x"),
        (nn.LayerNorm(H), torch.zeros(H), "cases along the first axis"),
    ):
        with pytest.raises(ValueError, match=message):
            identify_norm(module, x)


def test_it_prints_what_it_found_and_escapes_names():
    module = Written(lambda x, eps: F.layer_norm(x, (H,), eps=eps))
    module.register_parameter("<script>", nn.Parameter(torch.ones(1)))
    report = identify_norm(module, torch.zeros(2, H))
    assert str(report).splitlines()[0] == "Written is LayerNorm"
    assert "1.0e-06 added to the variance" in str(report)
    assert "&lt;script&gt;" in report._repr_html_()
    assert "<script>" not in report._repr_html_()
