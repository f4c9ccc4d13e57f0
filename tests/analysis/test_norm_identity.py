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
    MuSigma,
)

H = 16


class Written(nn.Module):
    """A normalizer written by hand: a formula of x, the gain and the bias."""

    def __init__(self, formula, units=H, gain=1.0, bias=0.0):
        super().__init__()
        self.formula = formula
        self.gamma = nn.Parameter(torch.full((units,), gain))
        self.beta = nn.Parameter(torch.full((units,), bias))

    def forward(self, x):
        return self.formula(x, self.gamma, self.beta)


def affine(normalized, units=H, **start):
    """The normalized times the gain, and the bias behind."""
    return Written(lambda x, g, b: g * normalized(x) + b, units, **start)


def centred(x, axes=-1):
    return x - x.mean(axes, keepdim=True)


def var(x, axes=-1):
    return x.var(axes, correction=0, keepdim=True)


def ln(x):
    return F.layer_norm(x, (H,))


def found(report, name) -> str:
    return next(p.found for p in report.properties if p.name == name)


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
    assert found(report, "differs, with gains 1, by") == "nothing"


def unbiased(x):
    """The annotated transformer and its many copies."""
    return centred(x) / (x.std(-1, keepdim=True) + 1e-6)


def cancelling(x):
    """E[x²] - E[x]², exact in float64 and noise in float32."""
    cancelled = (x * x).mean(-1, keepdim=True) - x.mean(-1, keepdim=True) ** 2
    return centred(x) / (cancelled.clamp(min=0) + 1e-6).sqrt()


def to_power(power):
    return lambda x: centred(x) / (var(x) + 1e-6) ** power


def over_cases(axes):
    return lambda x: centred(x, axes) / (var(x, axes) + 1e-6).sqrt()


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
WRONG = {
    "unbiased, eps outside": (
        affine(unbiased),
        {"variance": "1/(N-1), unbiased", "eps": "1.0e-06 added to sigma", "differs": SQRT},
    ),
    "cancels": (affine(cancelling), CANCELS),
    "cancels behind a gain of 0": (affine(cancelling, gain=0.0), CANCELS),
    "cancels behind a large bias": (affine(cancelling, bias=1e6), CANCELS),
    "squared": (affine(to_power(2.0)), {"divided by": "its power 2", "differs": ""}),
    "no root": (affine(to_power(1.0)), {"divided by": "its power 1", "differs": ""}),
    "each position by itself": (
        affine(over_cases(0), 6),
        {"statistics over": "axis 0 of (8, 4, 5, 6)", **ALONE, "differs": ""},
    ),
    "nothing remembered": (affine(over_cases((0, 1, 2)), 6), ALONE),
    "mean kept": (
        affine(lambda x: x / x.std(-1, keepdim=True)),
        {"mean": "kept, but not in the variance", "variance": "unbiased", "differs": ""},
    ),
    "mean kept in the variance": (
        affine(lambda x: centred(x) / (x.square().mean(-1, keepdim=True) + 1e-6).sqrt()),
        {"mean": "removed, but not from the variance", "differs": ""},
    ),
    "gain before": (
        Written(lambda x, g, b: ln(x * g) + b), {"gamma": "acts before the statistics"}
    ),
    "bias before the gain": (
        Written(lambda x, g, b: (ln(x) + b) * g), {"beta": "added before the gain multiplies"}
    ),
    "gain less 1": (
        Written(lambda x, g, b: (1 + g) * ln(x) + b),
        {"gamma": "1 + it multiplies the normalized"},
    ),
    "AdaNorm": (
        AdaNorm(H),
        {
            "eps": "added to sigma", "sign": "y(-x) is not -y(x)", "differs": "",
            "gradient": "as if a part were detached",
        },
    ),
    "unbiased and detached": (
        affine(lambda x: centred(x) / (x.var(-1, keepdim=True) + 1e-5).sqrt().detach()),
        {"variance": "unbiased", "differs": "", "gradient": "as if a part were detached"},
    ),
    "ghost batches": (
        GhostBatchNorm(H, 4),
        {
            "statistics over": "axis 0 in 2 parts", "momentum": "nan",
            "running variance": "unknown", "differs": "",
        },
    ),
    "detached": (
        affine(lambda x: centred(x) / (var(x) + 1e-5).sqrt().detach()),
        {"gradient": "as if a statistic were detached"},
    ),
    "another momentum": (MomentumOfTheOld(H), {"momentum": "0.9 for the newest batch"}),
}  # fmt: skip


@pytest.mark.parametrize(("module", "expected"), WRONG.values(), ids=WRONG)
def test_every_defect_of_a_wrong_normalizer_is_found_and_no_other(module, expected):
    units = next(module.parameters(), torch.empty(H)).numel()
    shape = (2, H) if units == H else (2, 4, 5, units)
    report = identify_norm(module.double(), torch.zeros(shape))
    wrong = {
        p.name.partition(",")[0]: p.found for p in report.properties if p.differs_from_torch
    }
    assert wrong.keys() == expected.keys()
    for name, words in expected.items():
        assert words in wrong[name]


class RunningBatchNorm(nn.Module):
    """BatchNorm by hand, whose running variance is what ``estimate`` makes of a batch."""

    def __init__(self, estimate):
        super().__init__()
        self.estimate = estimate
        self.mean, self.var = nn.Buffer(torch.zeros(H)), nn.Buffer(torch.ones(H))

    def forward(self, x):
        if not self.training:
            return (x - self.mean) / (self.var + 1e-5).sqrt()
        self.mean.lerp_(x.mean(0), 0.1)
        self.var.copy_(self.estimate(self.var, var(x, 0)[0], len(x)))
        return centred(x, 0) / (var(x, 0) + 1e-5).sqrt()


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
    report = identify_norm(RunningBatchNorm(estimate), torch.zeros(2, H))
    assert found(report, "running variance") == named
    assert report.conforms == (named == "unbiased variance")
    assert found(report, "momentum") == "0.1 for the newest batch"


class NormThatChangesItsInput(nn.BatchNorm1d):
    """Batch norm, or layer norm if ``axis`` is -1, that subtracts the mean in place."""

    def __init__(self, axis):
        super().__init__(H)
        self.axis = axis

    def forward(self, x):
        if self.axis == 0 and not self.training:
            return x.sub_(self.running_mean) / (self.running_var + self.eps).sqrt()
        mean = x.mean(self.axis, keepdim=True)
        if self.axis == 0:
            self.running_mean.lerp_(mean[0].detach(), 0.1)
            self.running_var.lerp_(x.detach().var(0), 0.1)
        x.sub_(mean)
        return x / (x.square().mean(self.axis, keepdim=True) + self.eps).sqrt()


@pytest.mark.parametrize(("axis", "kind"), [(0, "BatchNorm"), (-1, "LayerNorm")])
def test_a_norm_that_changes_its_input_is_known(axis, kind):
    report = identify_norm(NormThatChangesItsInput(axis), torch.zeros(2, H))
    assert report.kind == kind
    assert report.conforms


class RunningMeanSquare(nn.Module):
    """Divides by the root of the batch's mean square, in evaluation by that of a running one.

    If ``in_training``, by that of the running one in training, too.
    """

    def __init__(self, momentum, power=1.0, *, in_training=False):
        super().__init__()
        self.momentum, self.power, self.in_training = momentum, power, in_training
        self.register_buffer("kept", torch.ones(H))

    def forward(self, x):
        square = x.square().mean(0)
        if self.training:
            self.kept.lerp_(square.detach() ** self.power, self.momentum)
        if not self.training or self.in_training:
            square = self.kept ** (1 / self.power)
        return x / (square + 1e-5).sqrt()


@pytest.mark.parametrize("momentum", [0.1, 0.3, 0.0])
@pytest.mark.parametrize(("power", "named"), [(1.0, "mean square"), (0.5, "root mean square")])
def test_momentum_of_a_running_mean_square(momentum, power, named):
    report = identify_norm(RunningMeanSquare(momentum, power), torch.zeros(2, H))
    assert found(report, "momentum") == f"{momentum:g} for the newest batch"
    assert found(report, "running variance") == (named if momentum else "unknown")


@pytest.mark.parametrize("seen", [0, 200])
def test_a_norm_by_running_statistics_in_training_is_none_of_torch(seen):
    module = RunningMeanSquare(0.1, in_training=True)
    for _ in range(seen):
        module(3 * torch.randn(64, H))
    report = identify_norm(module, torch.zeros(2, H))
    assert report.kind == NOTHING
    if not seen:
        (statistics,) = report.properties
        assert statistics.found == "of this batch and earlier ones"


@pytest.mark.parametrize(
    "module",
    [DyT(H), nn.Identity(), nn.Softmax(-1), BatchLayerNorm(H), nn.Dropout(0.0), nn.ReLU()],
    ids=lambda module: type(module).__name__,
)
def test_what_is_no_normalizer_of_torch_is_named_none(module):
    report = identify_norm(module, torch.zeros(2, H))
    assert report.kind == NOTHING
    assert not report.conforms
    pointwise = not isinstance(module, nn.Softmax | BatchLayerNorm)
    assert report.properties[0].found.startswith("none: pointwise") == pointwise


class Median(LayerNorm):
    def stats(self, a, W=None, t=None):
        return MuSigma(a.new_zeros(()), self.sigma(a.square().median(-1, keepdim=True).values))


def test_a_rule_that_picks_an_input_by_its_size_has_no_regular_extent():
    (statistics,) = identify_norm(Median(H)).properties
    assert "of a set of inputs that was not recognized" in statistics.found


def test_batch_renormalization_is_known_by_its_clips():
    (statistics,) = identify_norm(BatchRenorm(64), torch.zeros(64, 64)).properties
    assert statistics.found.startswith("of the batch (axis 0), with clips")


def test_float32_inside_is_said_and_is_no_difference():
    def rms(x):
        wide = x.float()
        s = torch.rsqrt(wide.square().mean(-1, keepdim=True) + 1e-6)
        return (wide * s).to(x.dtype)

    report = identify_norm(affine(rms), torch.zeros(2, H))
    assert report.conforms
    assert report.computes_float64_in_float32
    assert not identify_norm(nn.RMSNorm(H, eps=1e-6)).computes_float64_in_float32


def test_errors_say_what_to_do():
    for module, x, message in (
        (nn.Linear(H, H), None, "Linear does not say what it normalizes: give x"),
        (nn.Linear(H, 3), torch.zeros(2, H), "makes .* keep the shape"),
        (nn.LayerNorm(H), torch.zeros(2, H + 1), "does not take x"),
        (nn.LayerNorm(H), torch.zeros(H), "examples along the first axis"),
    ):
        with pytest.raises(ValueError, match=message):
            identify_norm(module, x)


def test_it_prints_what_it_found_and_escapes_names():
    module = affine(ln)
    module.register_parameter("<script>", nn.Parameter(torch.ones(1)))
    report = identify_norm(module, torch.zeros(2, H))
    assert str(report).splitlines()[0] == "Written is LayerNorm"
    assert "1.0e-05 added to the variance" in str(report)
    assert "&lt;script&gt;" in report._repr_html_()
    assert "<script>" not in report._repr_html_()


@pytest.mark.parametrize("batch", [1, 8])
def test_an_enlarged_batch_is_said(batch):
    report = identify_norm(nn.BatchNorm2d(4), torch.zeros(batch, 4, 6, 6))
    text = found(report, "statistics over")
    assert text.startswith("axes 0, 2, 3 of (8, 4, 6, 6): 288 values")
    assert ("batch enlarged from 1 to 8" in text) == (batch == 1)


@pytest.mark.parametrize(
    ("normalized", "is_explained"),
    [
        (lambda x: (x - x.mean()) / (x.var(correction=0) + 1e-3).sqrt(), True),
        (lambda x: centred(x) / var(x).sqrt(), True),  # it has no eps
        (unbiased, False),  # whose eps is marked
        (ln, False),
    ],
)
def test_an_eps_that_does_not_count_is_explained(normalized, is_explained):
    report = identify_norm(affine(normalized), torch.zeros(8, H))
    for text in (str(report), report._repr_html_()):
        assert ("eps: its place counts" in text) == is_explained


def test_filter_response_norm_is_instance_norm_but_for_the_mean():
    def frn(x):
        return x / (x.square().mean((2, 3), keepdim=True) + 1e-6).sqrt()

    norm = Written(lambda x, g, b: g[:, None, None] * frn(x) + b[:, None, None], units=6)
    report = identify_norm(norm, torch.zeros(8, 6, 4, 5))
    assert report.kind == "InstanceNorm"
    assert found(report, "statistics over").startswith("axes 2, 3 of")
    assert [d for d in report.differences if not d.startswith("differs")] == [
        "mean: kept, not removed"
    ]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_the_eps_of_torchs_rms_norm_is_the_one_that_torch_takes(dtype):
    norm = nn.RMSNorm(4).to(dtype)
    shown = float(found(identify_norm(norm), "eps").split()[0])
    x = torch.full((1, 4), 1e-12, dtype=dtype)  # x² is nothing beside eps
    taken = float((x / norm(x).detach())[0, 0].double() ** 2)
    assert shown == pytest.approx(taken, rel=0.05)


def test_a_norm_of_two_values_is_not_called_unknown_to_torch():
    report = identify_norm(nn.LayerNorm(2), torch.zeros(32, 2))
    assert str(report).startswith("LayerNorm was not identified\n")
    assert "too few" in str(report)


def test_a_layer_norm_of_channels_is_torchs_once_they_are_moved():
    class OverChannels(nn.LayerNorm):
        def forward(self, x):
            return super().forward(x.movedim(1, -1)).movedim(-1, 1)

    report = identify_norm(OverChannels(H), torch.zeros(8, H, 5, 5))
    line, *_ = str(report).splitlines()
    assert line == "OverChannels is LayerNorm, once the axes are in torch's order"
    assert report.conforms
    assert "order" not in str(identify_norm(nn.LayerNorm((5, 5)), torch.zeros(8, H, 5, 5)))


def test_a_statistic_of_some_features_is_not_called_pointwise():
    class Partial(nn.Module):
        def forward(self, x):
            return x / (x[..., :8].square().mean(-1, keepdim=True) + 1e-6).sqrt()

    (statistics,) = identify_norm(Partial(), torch.zeros(8, 32)).properties
    assert statistics.found.endswith("of outputs, 0 to 7: 32; 8 to 31: its own alone")


def test_instance_norm_with_running_statistics_is_said_to_use_them():
    report = identify_norm(nn.InstanceNorm2d(4, track_running_stats=True))
    assert report.differences == [
        "evaluation: by running statistics, not as training (the default)"
    ]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_a_norm_that_computes_in_16_bits_is_not_said_to_be_none(dtype):
    class RMSNorm(nn.RMSNorm):
        def forward(self, x):
            return F.rms_norm(x.to(dtype), (16,)).to(x.dtype) * self.weight

    report = identify_norm(RMSNorm(16), torch.zeros(8, 16))
    name = str(dtype).removeprefix("torch.")
    assert str(report).startswith("RMSNorm was not identified")
    assert f"computes in {name}, whatever its input is" in str(report)


def test_a_divisor_that_is_no_root_of_a_mean_square_is_said():
    class MeanAbsolute(nn.Module):
        def forward(self, x):
            return x / x.abs().mean(-1, keepdim=True)

    report = identify_norm(MeanAbsolute(), torch.zeros(8, 16))
    assert report.properties[-1].found == "no x or x - mean over a root of a mean square"


def test_complex_numbers_are_refused():
    with pytest.raises(ValueError, match=r"x holds torch\.complex64, which is not supported"):
        identify_norm(nn.RMSNorm(16), torch.zeros(8, 16, dtype=torch.complex64))


@pytest.mark.parametrize("norm", [nn.GroupNorm(32, 32), nn.LayerNorm(1)])
def test_a_norm_over_one_value_is_said_to_be_constant(norm):
    x = torch.zeros(16, 32) if isinstance(norm, nn.GroupNorm) else torch.zeros(16, 32, 1)
    report = str(identify_norm(norm, x))
    assert "was not identified" in report
    assert "none: the outputs do not depend on x, as where a statistic is over one" in report


@pytest.mark.parametrize("is_interleaved", [False, True])
def test_the_members_of_groups_are_said(is_interleaved):
    def of_groups(x):  # 4 groups of the 16 units
        if not is_interleaved:
            return F.group_norm(x, 4)
        order = torch.arange(H).view(-1, 4).T.flatten()
        return F.group_norm(x[:, order], 4)[:, order.argsort()]

    x = torch.randn(8, H, 5)
    report = identify_norm(Written(lambda x, g, b: of_groups(x), units=1), x)
    assert report.kind == "GroupNorm(4)"
    wrong = [p for p in report.properties if p.differs_from_torch]
    assert [p.name for p in wrong][:1] == ["a group is"] * is_interleaved
    assert not is_interleaved or wrong[0].found == "indices 4 apart along axis 1"


@pytest.mark.parametrize("cut", [(4, -1), (-1, 4)])
def test_a_norm_of_heads_is_compared_with_that_of_all_units(cut):
    def of_heads(x):
        heads = x.unflatten(-1, cut)
        axis = -1 if cut[0] == 4 else -2
        return (heads / (heads.square().mean(axis, keepdim=True) + 1e-6).sqrt()).flatten(-2)

    report = identify_norm(affine(of_heads), torch.randn(8, 6, H))
    assert report.kind == "RMSNorm"
    assert ("interleaved" in found(report, "statistics over")) == (cut[0] == -1)
    assert found(report, "differs, with gains 1, by").startswith("up to ")


@pytest.mark.parametrize(
    ("gain", "role"),
    [
        (lambda g: g, "multiplies"),
        (lambda g: 1 + g, "1 + it"),
        (lambda g: g**2, "a function of it"),
        (torch.abs, "a function of it"),
        (lambda g: 2**g, "a function of it"),
        (torch.exp, "a function of it"),
    ],
)
def test_a_gain_is_only_called_one_if_it_multiplies(gain, role):
    report = identify_norm(Written(lambda x, g, b: ln(x) * gain(g) + b), torch.randn(8, H))
    assert found(report, "gamma").startswith(role)
    assert found(report, "eps") == "1.0e-05 added to the variance"
    assert report.conforms == (role == "multiplies")


@pytest.mark.parametrize("factor", [0.01, 10.0])
def test_the_eps_of_a_norm_that_is_multiplied_is_its_own(factor):
    report = identify_norm(affine(lambda x: factor * ln(x)), torch.randn(8, H))
    assert found(report, "variance").endswith(f"outputs {factor:g} times as large")
    assert found(report, "eps") == "1.0e-05 added to the variance"
