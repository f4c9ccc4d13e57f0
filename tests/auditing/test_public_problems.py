"""What once was said falsely of architectures in use: each is told rightly."""

from functools import partial
from itertools import pairwise

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from lnlab.analysis.module_copy import ModuleCopy
from lnlab.auditing import Severity, audit
from tests.auditing.architectures import BatchNormAct2d, LayerNorm2d

FAULT, RISK, FACT = Severity
IMAGES = (8, 3, 8, 8)
IDLE, UNUSED = "parameters without effect", "parameter-unused"
COPIED = [IDLE, "weight invariances", "precision"]
PROBLEMS = []


def problem(checks, *found, never=None, no_risk=False):
    """Try the checks on what a function makes: a module, and perhaps its input.

    They are to find just this (rule, severity, place), nothing where nothing is given; or never
    some rules; or no risk.
    """

    def keep(make):
        PROBLEMS.append(pytest.param(make, checks, found, never, no_risk, id=make.__name__))
        return make

    return keep


def module(forward, name="Module", base=nn.Module, **parts):
    """Return a module of a class ``name`` that has parts and computes a function of itself."""
    made = type(name, (base,), {"forward": forward})()
    for key, part in parts.items():
        setattr(made, key, part)
    return made


def function(f, name="Module"):
    return module(lambda self, x: f(x), name)


class Net(nn.Module):
    """A linear layer, layer norm, ReLU, and an output layer."""

    def __init__(self):
        super().__init__()
        self.a, self.norm, self.out = nn.Linear(8, 8), nn.LayerNorm(8), nn.Linear(8, 3)

    def forward(self, x, other=0):
        return self.out(self.norm(self.a(x)).relu() + other)


def net(forward, **parts):
    return module(forward, base=Net, **parts)


class CastingRMSNorm(nn.Module):
    """RMSNorm as Llama, T5 and Qwen have it: float32 inside; of Gemma the gain is 1 + w."""

    def __init__(self, units, gain=lambda w: w, start=1.0):
        super().__init__()
        self.weight, self.gain = nn.Parameter(torch.full((units,), start)), gain
        self.eps = 1e-6

    def forward(self, x):
        a = x.float()
        a = a * torch.rsqrt(a.square().mean(-1, keepdim=True) + self.eps)
        return (self.gain(self.weight.float()) * a).to(x.dtype)


def images(layer):
    return nn.Sequential(nn.Conv2d(3, 8, 1), layer), torch.randn(IMAGES)


def behind(layer, *others):
    """Return layers behind a linear one."""
    return nn.Sequential(nn.Linear(8, 8), layer, *others)


def relu(shape=(16, 8), *, shut=0):
    layers = nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3)
    layers[0].bias.data[:shut] = -100
    return nn.Sequential(*layers), torch.randn(shape)


# The copy is the module.


@problem(COPIED, never="parameter-unused precision-lost")
def closure(keep=lambda body: body):
    """A module whose forward calls a function that it keeps."""
    made = net(lambda self, x: self.out(self.body(x)))
    made.body = keep(lambda x: made.norm(made.a(x)).relu())
    return made


@problem(COPIED, never="parameter-unused precision-lost")
def what_the_first_call_computed():
    def forward(self, x):
        if self.cache is None:
            self.cache = self.a(x).mean(0)
        return self.out(self.norm(self.a(x)) + self.cache)

    return net(forward, cache=None)


@problem(COPIED, never="parameter-unused precision-lost")
def forward_of_an_instance():
    made = Net()
    made.forward = lambda x, other=0: made.out(made.norm(made.a(x)).relu() + other)
    return made, (torch.randn(16, 8), torch.randn(16, 8))


# Parameters without effect.


@problem(IDLE)
def mask_token():
    """Puts a trained vector in the place of some inputs, by chance and in training alone."""

    def forward(self, x):
        if self.training:
            x = torch.where(torch.tensor(np.random.rand(len(x), 1) < 0.5), self.mask, x)  # noqa: NPY002
        return Net.forward(self, x)

    return net(forward, mask=nn.Parameter(torch.randn(8)))


@problem(IDLE, ("bias-without-effect", FACT, "qkv.bias (8 of 24)"))
def attention():
    """The softmax removes the bias of the keys."""

    def forward(self, x):
        q, k, v = self.qkv(x).chunk(3, -1)
        return torch.softmax(q @ k.mT / 8**0.5, -1) @ v

    return module(forward, qkv=nn.Linear(8, 24)), torch.randn(4, 9, 8)


@problem(IDLE, ("bias-without-effect", FACT, "1.bias"))
def convolution_behind_a_norm():
    convolutions = nn.Conv2d(3, 8, 3, bias=False), nn.Conv2d(8, 8, 1, bias=False)
    norms = nn.BatchNorm2d(8), nn.BatchNorm2d(8)
    layers = convolutions[0], norms[0], convolutions[1], norms[1], nn.Conv2d(8, 4, 1)
    return nn.Sequential(*layers), torch.randn(IMAGES)


@problem(
    UNUSED, (UNUSED, FAULT, "norm.weight, norm.bias"), (UNUSED, RISK, "mask, a.weight, a.bias")
)
def wasted_and_left_out():
    def forward(self, x):
        self.norm(x)
        return self.out(x) if self.mask.is_floating_point() else x

    return net(forward, mask=nn.Parameter(torch.ones(3)))


@problem("LN2", never="bias-without-effect")
def bias_that_can_shut_its_units():
    """A unit that is open in all cases, whose shift the batch norm takes away."""
    linear = nn.Linear(8, 8)
    linear.weight.data *= 5
    linear.bias.data.fill_(1.0)
    linear.weight.data[3] = torch.eye(8)[0] * 0.9
    return nn.Sequential(linear, nn.ReLU(), nn.BatchNorm1d(8)), torch.rand(16, 8) * 2 - 1


@problem("LN2", never="parameter-unused")
def small_layer_scale():
    """A branch behind a layer scale of 1e-6, twice, computed in float32."""

    def forward(self, x):
        return self.out(x + self.scale * (self.scale * self.norm(self.a(x)).float().relu()))

    return net(forward, scale=nn.Parameter(torch.full((8,), 1e-6)))


@problem(["gradient-cut", "gradient-differs"])
def padding():
    embedding = nn.Embedding(9, 8, padding_idx=0)
    embedding.weight.data[0] = 1.0
    return nn.Sequential(embedding, nn.Linear(8, 3)), torch.zeros(16, 5, dtype=torch.long)


# Normalizers: subclasses of torch's, and what only looks like one.


@problem("normalizers", no_risk=True)
def norm_with_its_activation():
    return images(BatchNormAct2d(8))


@problem("layout")
def norm_of_channels():
    return images(LayerNorm2d(8))


@problem("normalizers", no_risk=True)
def norm_with_equal_modes():
    return behind(nn.BatchNorm1d(8, track_running_stats=False))


@problem("normalizers", no_risk=True)
def graph_norm():
    """A norm along the first axis, that of nodes, as torch_geometric's."""

    def forward(self, x):
        a = x - self.mean_scale * x.mean(0, keepdim=True)
        return self.weight * a / (a.square().mean(0, keepdim=True) + 1e-5).sqrt()

    ones = {name: nn.Parameter(torch.ones(8)) for name in ("weight", "mean_scale")}
    return behind(module(forward, "GraphNorm", **ones))


@problem("normalizers", ("no-norm", FACT, ""))
def norm_of_weights():
    return nn.utils.parametrizations.spectral_norm(nn.Linear(8, 16))


@problem("norm-not-identified", ("norm-not-identified", FACT, "norm"))
def fused_sum_and_norm():
    """As in vLLM and Apex: the audit did not say that it knew nothing of it."""
    norm = module(lambda self, x, y: F.layer_norm(x + y, (8,)), "FusedAddLayerNorm")
    return net(lambda self, x: self.out(self.norm(self.a(x), x).relu()), norm=norm)


@problem("norm-not-identified")
def norm_that_writes_into_its_input():
    return behind(function(lambda x: F.layer_norm(x.sub_(x.mean(-1, True)), (8,)), "MyNorm"))


@problem("registration")
def weight_norm_by_a_hook():
    with pytest.warns(FutureWarning):
        layer = nn.utils.weight_norm(nn.Linear(8, 8))
    return nn.Sequential(layer, nn.ReLU(), nn.Linear(8, 3))


@problem("registration")
def spectral_norm_by_a_hook_after_a_call():
    made = nn.Sequential(nn.utils.spectral_norm(nn.Linear(8, 8)), nn.ReLU(), nn.Linear(8, 3))
    made(torch.randn(16, 8))
    return made


@problem("registration", ("parameter-unregistered", FAULT, "w"))
def weights_in_an_attribute():
    made = function(lambda x: x)
    made.w = torch.randn(8, requires_grad=True)
    return made


@problem("registration", ("parameter-unregistered", FAULT, "w"))
def parameter_whose_copy_is_kept():
    made = function(lambda x: x)
    made.w = nn.Parameter(torch.randn(8)).clone()
    return made


@problem("dropout-before-batch-norm", ("dropout-before-batch-norm", RISK, "1 (before 3)"))
def dropout_before_a_layer_of_batch_norm():
    layers = nn.Linear(8, 8), nn.Dropout(0.5), nn.Linear(8, 8), nn.BatchNorm1d(8), nn.ReLU()
    return nn.Sequential(*layers, nn.Linear(8, 3))


@problem("dropout-before-batch-norm")
def dropout_behind_batch_norm():
    layers = nn.Linear(8, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.5), nn.Linear(8, 3)
    return nn.Sequential(*layers)


@problem("backward pass", ("backward-fails", FAULT, ""))
def sum_in_place_of_what_a_gradient_needs():
    def forward(self, x):
        h = self.a(x).exp()
        h += x
        return self.out(self.norm(h))

    return net(forward)


@problem("backward pass")
def sum_in_place_of_what_no_gradient_needs():
    def forward(self, x):
        h = self.a(x)
        h += x
        return self.out(self.norm(h).relu_())

    return net(forward)


@problem("backward pass")
def weights_that_are_not_trained():
    return net(lambda self, x: self.out(self.a(x).exp_())).requires_grad_(False)


@problem("no-activation")
def exponential_between_layers():
    return net(lambda self, x: self.out(self.a(x).exp()))


@problem("no-activation", ("no-activation", RISK, ""))
def norm_of_squares_between_layers():
    return behind(CastingRMSNorm(8), nn.Linear(8, 3))


@problem("normalizers")
def norm_that_holds_a_norm():
    """As x-transformers' LayerNorm."""
    norm, gamma = nn.LayerNorm(8, elementwise_affine=False), nn.Parameter(torch.ones(8))
    scaled = lambda self, x: self.norm(x) * self.gamma  # noqa: E731
    return behind(module(scaled, "HoldsNorm", norm=norm, gamma=gamma))


@problem("normalizers", ("norm-differs", FACT, "1"))
def gain_of_1_plus_w():
    return behind(CastingRMSNorm(8, lambda w: 1 + w, 0.0))


@problem("LN1", ("norm-misnamed", FACT, "1"))
def norm_of_groups():
    def rms_norm(x):
        groups = x.unflatten(-1, (2, -1))
        return (groups * torch.rsqrt(groups.square().mean(-1, True) + 1e-6)).flatten(-2)

    return behind(function(rms_norm, "RMSNorm")), torch.randn(16, 3, 8)


@problem("normalizers", never="norm-of-another-form")
def norm_of_two_values():
    norm = function(lambda x: x * torch.rsqrt(x.square().mean(-1, True) + 1e-6), "RMSNorm")
    return nn.Sequential(nn.Linear(8, 2), norm)


@problem("normalizers", never="norm-wrong-axes")
def group_norm_of_one_group_on_one_column():
    class GroupNorm1(nn.GroupNorm):
        def forward(self, x):
            return F.group_norm(x, 1, self.weight, self.bias, self.eps)

    return GroupNorm1(1, 16), torch.randn(8, 16, 4, 1)


@problem("LN1", never="variance-unbiased")
def outputs_half_as_large():
    return behind(function(lambda x: 0.5 * F.layer_norm(x, (8,))))


@problem("normalizers", never="eps-decides")
def variance_above_eps():
    return nn.LayerNorm(8), torch.randn(16, 8) * (5e-5) ** 0.5  # five times eps


@problem("normalizers", ("eps-decides", RISK, "1, 3, 5, 7"))
def norms_of_several_sizes():
    sizes = pairwise((4, 6, 8, 10, 12))
    pairs = [(nn.Linear(a, b), nn.LayerNorm(b, eps=10.0)) for a, b in sizes]
    return nn.Sequential(*(layer for pair in pairs for layer in pair)), torch.randn(16, 4)


# What the numbers do not carry.


@problem("weight invariances", never="weight-scale-unseen")
def small_effect():
    """A weight whose effect is below the rounding of float32, but for large scales."""
    parts = {"norm": CastingRMSNorm(8), "weak": nn.Linear(8, 8, bias=False), "eps": 1e-6}
    return module(lambda self, x: self.norm(x + 1e-5 * self.weak(x)), **parts)


@problem("precision", ("overflow", RISK, ""))
def outputs_that_underflow():
    return function(lambda x: 1e-10 * x)


@problem("activations")
def rotary_positions():
    """Attention whose table of frequencies is no activation."""
    frequencies = 10_000.0 ** -torch.linspace(0, 1, 4)
    table = function(lambda x: torch.arange(x.shape[-2]).to(x)[:, None] * frequencies.to(x))

    def forward(self, x):
        a = self.angles(x).repeat(1, 2)
        return self.attention(x * a.cos() + x.roll(4, -1) * a.sin())

    model, _ = attention()
    return module(forward, angles=table, attention=model), torch.randn(4, 20, 8)


@problem("activations", no_risk=True)
def gate():
    """A gate whose inputs are nearly one number in all cases, as squeeze and excitation."""
    linear = nn.Linear(8, 8)
    linear.weight.data *= 0.01
    linear.bias.data += 1
    gated = lambda self, x: self.out(self.norm(self.a(x)) * self.gate(x).sigmoid())  # noqa: E731
    return net(gated, gate=linear)


@problem(["activations", "dead units", "layout"], no_risk=True)
def cases_that_come_in_alike():
    return relu()[0], torch.zeros(16, 8)


@problem("layout", never="channels-of-zeros")
def channels_of_one_case():
    return relu((1, 8))


@problem("layout", never="channels-of-zeros")
def dead_units():
    return relu(shut=8)


@problem("dead units", never="layer-dead")
def sigmoid_at_0():
    return nn.Sequential(function(lambda x: 0 * x), nn.Sigmoid())


@problem("independent examples")
def cases_of_several_inputs():
    return Net(), (torch.randn(16, 8), torch.randn(16, 8))


@problem("state-unsaved")
def weight_that_a_checkpoint_implies():
    return behind(nn.ReLU(), nn.utils.spectral_norm(nn.Linear(8, 8)))


@problem("registration", never="weights-equal")
def equal_tables_of_sines():
    angles = torch.arange(1.0, 9.0)[:, None] / 10 ** torch.linspace(0, 3, 8)
    layers = {name: nn.Linear(16, 8) for name in ("one", "other")}
    for layer in layers.values():
        layer.weight.data.copy_(torch.cat([angles.sin(), angles.cos()], 1))
    summed = lambda self, x: self.one(x).relu() + self.other(x)  # noqa: E731
    return module(summed, **layers), torch.randn(16, 16)


@problem("branches-apart", no_risk=True)
def layer_scale():
    """Images to which a branch is added that starts at a millionth, as in ConvNeXt."""
    conv, gamma = nn.Conv2d(3, 3, 1), nn.Parameter(torch.full((3,), 1e-6))
    scaled = lambda self, x: x + self.conv(x) * self.gamma.reshape(1, -1, 1, 1)  # noqa: E731
    return module(scaled, conv=conv, gamma=gamma), torch.randn(IMAGES)


@problem("derivative", never="gradient-differs")
def zeros_before_a_relu():
    """As in RegNet: a branch starts at 0, in front of a ReLU that half of the sums shut."""
    made = net(lambda self, x: self.out((x.relu() + self.norm(self.a(x.relu()))).relu()))
    nn.init.zeros_(made.norm.weight)
    return made


@problem("derivative", never="gradient-differs")
def centred_on_the_median():
    """Of every example one unit is 0 in front of a ReLU, which has no derivative there."""

    def centred(self, x):
        a = self.a(x)
        return self.out((self.b + a - a.median(-1, keepdim=True).values).relu())

    b = nn.Parameter(torch.zeros(17))
    layers = {"a": nn.Linear(16, 17), "out": nn.Linear(17, 3)}
    return module(centred, b=b, **layers), torch.randn(16, 16)


@problem("gradients over depth", never="gradient-steep")
def queries_and_outputs():
    """Gradients of queries are smaller than those of outputs, in each of two blocks."""

    def block():
        layers = {"query": nn.Linear(8, 8), "out": nn.Linear(8, 8)}
        return module(lambda self, x: x + self.out(x + 1e-4 * self.query(x)), **layers)

    return nn.Sequential(block(), block())


@pytest.mark.parametrize(("make", "checks", "found", "never", "no_risk"), PROBLEMS)
def test_public_problems_stay_fixed(make, checks, found, never, no_risk):
    made = make()
    model, x = made if isinstance(made, tuple) else (made, torch.randn(16, 8))
    report = audit(model, x, only=checks)
    assert not report.not_run
    if no_risk:
        assert {f.severity for f in report.findings} <= {FACT}
    elif never:
        assert not {f.rule for f in report.findings} & set(never.split())
    else:
        assert [(f.rule, f.severity, f.where) for f in report.findings] == [*found]


def rules(model, x, check, **data):
    report = audit(model, x, only=check, **data)
    assert not report.not_run, report.not_run
    return {f.rule for f in report.findings}


def test_a_graph_of_several_inputs_is_audited():
    traced, x = torch.fx.symbolic_trace(Net()), (torch.randn(16, 8), torch.randn(16, 8))
    assert "weight-shift-unseen" in rules(traced, x, "weight invariances")


@pytest.mark.filterwarnings("ignore::FutureWarning")  # of torch.export, when it is copied
def test_a_layer_norm_of_an_exported_graph_is_seen():
    exported = torch.export.export(Net(), (torch.randn(16, 8),)).module()
    assert rules(exported, torch.randn(16, 8), "normalizers") == {"norm-as-function"}


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (lambda: closure(keep=partial(partial)), r"still uses a\.weight of the original"),
        (
            lambda: nn.Sequential(nn.LazyLinear(8), nn.LayerNorm(8)),
            r"0\.weight has no shape yet: call the module once",
        ),
    ],
)
def test_what_cannot_be_copied_is_refused(model, words):
    with pytest.raises(ValueError, match=words):
        audit(model(), torch.randn(16, 8))


@pytest.mark.parametrize("use_reentrant", [False, True])
@pytest.mark.filterwarnings("ignore:None of the inputs")
def test_a_checkpointed_module_has_gradients_and_curvature(use_reentrant):
    def forward(self, x):
        part = nn.Sequential(self.norm, nn.ReLU())
        return self.out(checkpoint(part, self.a(x), use_reentrant=use_reentrant))

    data = {"y": torch.randint(3, (16,)), "loss_fn": F.cross_entropy}
    checks = ["gradients over depth", "mu and sigma in the backward pass", "curvature"]
    found = rules(net(forward), torch.randn(16, 8), checks, **data)
    assert {"gradient-of-statistics", "curvature"} <= found


def test_scales_are_unseen_by_a_module_that_casts_to_float32():
    layers = nn.Linear(8, 16, bias=False), CastingRMSNorm(16), nn.Linear(16, 4)
    checks = ["weight invariances", "effective learning rates"]
    report = audit(nn.Sequential(*layers), torch.randn(16, 8), only=checks)
    found = {f.rule: f.message for f in report.findings}
    assert found["weight-scale-unseen"] == "invariant, up to eps: 1 of 2 weights, W → δW"
    assert "a step in 1 weight is" in found["effective-rate"]
    assert "computed in float32" in report.about
    assert "computed in" not in audit(Net(), torch.randn(4, 8), only=[]).about


@pytest.mark.parametrize(
    ("make", "dtype"),
    [
        (Net, torch.float64),
        (lambda: CastingRMSNorm(8), torch.float32),
        (lambda: function(lambda x: x.bfloat16().sin().to(x)), torch.bfloat16),
        (lambda: function(lambda x: (x + 1e9) - 1e9), torch.float32),
        (lambda: function(lambda x: (1000 * x).sin()), torch.float64),
        (lambda: function(torch.zeros_like), torch.float64),
    ],
)
def test_the_precision_of_a_module_is_that_which_it_resolves(make, dtype):
    assert (
        ModuleCopy(make(), torch.randn(16, 8), dtype=torch.float64).effective_output_dtype
        is dtype
    )


@pytest.mark.parametrize("seed", range(3))
def test_a_branch_that_is_dropped_by_chance_is_not_unused(seed):
    drop = module(lambda self, x: x * torch.rand(1).round() if self.training else x)
    residual = net(lambda self, x: self.out(x + self.drop(self.norm(self.a(x)))), drop=drop)
    torch.manual_seed(seed)
    report = audit(residual, torch.randn(16, 8), only=[IDLE, "precision"])
    assert not report.findings
    assert "1 module with random numbers as in evaluation" in report.about


def test_noise_in_evaluation_is_no_cancellation():
    """As of a variational autoencoder: others in float64 than in float32."""

    def forward(self, x):
        mu, scale = self.encode(x).chunk(2, -1)
        return self.decode(mu + torch.randn_like(mu) * scale.exp())

    vae = module(forward, encode=nn.Linear(8, 32), decode=nn.Linear(16, 8))
    report = audit(vae, torch.randn(32, 8), only=[IDLE, "precision"])
    assert not report.findings
    assert "random numbers are drawn in evaluation" in report.not_run["precision"]
    assert "random numbers are drawn in evaluation" in report.about


def test_the_weights_that_an_input_of_zeros_meets_are_used():
    found = audit(relu()[0], torch.zeros(16, 8), only=IDLE).findings
    assert "on this input" in {f.rule: f.message for f in found}["parameter-partly-unused"]
    assert {f.rule for f in found} <= {"parameter-partly-unused", "bias-without-effect"}


def test_shares_of_a_subclass_are_those_of_the_plain_norm():
    x, check = torch.randn(IMAGES), "mu and sigma in the backward pass"
    last, first = (function(lambda x, d=d: x.movedim(*d)) for d in ((1, -1), (-1, 1)))
    conv = nn.Conv2d(3, 8, 3)
    one, other, with_activation = (
        audit(nn.Sequential(conv, norm), x, only=check)
        for norm in (
            LayerNorm2d(8),
            nn.Sequential(last, nn.LayerNorm(8), first),
            BatchNormAct2d(8),
        )
    )
    shares = [report.table(check)["taken by sigma"][0] for report in (one, other)]
    assert shares[0] == pytest.approx(shares[1], rel=1e-6)
    # behind an activation the gradient is not that of the normalization
    assert check in with_activation.not_run


def test_an_input_of_one_axis_is_one_case():
    checks = ["normalizers", "weight invariances", "gradients over depth", "curvature"]
    data = {"y": torch.tensor(1), "loss_fn": F.cross_entropy}
    found = rules(behind(nn.LayerNorm(8), nn.Linear(8, 3)), torch.randn(8), checks, **data)
    assert "no-norm" not in found
    assert {"weight-shift-unseen", "curvature"} <= found


def test_a_table_of_one_segment_is_no_activation():
    segments = module(
        lambda self, words: self.words(words) + self.segment(torch.zeros_like(words)),
        words=nn.Embedding(9, 8),
        segment=nn.Embedding(2, 8),
    )
    report = audit(segments, torch.randint(9, (4, 7)), only="activations")
    assert not report.findings
    assert set(report.table("activations")["where"]) == {"words"}


def test_a_gradient_of_rounding_is_no_end_of_a_profile():
    """The bias of the first layer is taken away again, and a layer of its own here."""

    def forward(self, x):
        x = x + self.shift.sum(0)
        return self.layers(x - x.mean(0))

    layers = nn.Sequential(*(nn.Linear(8, 8, bias=False) for _ in range(5)))
    shifted = module(forward, shift=nn.Parameter(torch.randn(8, 8)), layers=layers)
    check = "gradients over depth"
    report = audit(shifted, torch.randn(16, 8), only=check)
    assert "shift" not in report.plot(check).data[0].customdata
    assert not report.with_severity(RISK)


def test_rounding_of_a_curvature_of_0_is_not_negative():
    smallest = []
    for seed in range(6):  # four cases of eight inputs leave directions without a curvature
        torch.manual_seed(seed)
        x = torch.randn(4, 8)
        report = audit(
            nn.Linear(8, 3), x, loss_fn=lambda y: y.square().mean(), only="curvature"
        )
        smallest += [row["smallest"] for row in report.data["curvature"].rows]
        assert "bends down" not in report.findings[0].meaning
    assert min(smallest) < 0


@pytest.mark.parametrize(
    ("make", "check", "why"),
    [
        (lambda: function(torch.log), "independent examples", "the outputs are not finite."),
        (
            lambda: behind(nn.BatchNorm1d(8)),
            "precision",
            "running statistics have seen no batch",
        ),
    ],
)
def test_unknown_results_are_not_reported(make, check, why):
    report = audit(make(), torch.randn(16, 8), only=check)
    assert not report.findings
    assert report.not_run[check].startswith(why)


def test_what_is_returned_beside_the_outputs_may_be_dropped():
    """As of T5: what goes into the loss, and an encoding that has been dropped."""

    def forward(self, x):
        encoding = self.drop(self.encode(x))
        return self.decode(encoding), encoding

    parts = {"encode": nn.Linear(8, 8), "drop": nn.Dropout(), "decode": nn.Linear(8, 3)}
    data = {"y": torch.randint(3, (16,)), "loss_fn": lambda y, t: F.cross_entropy(y[0], t)}
    assert not rules(module(forward, **parts), torch.randn(16, 8), "dropout-at-end", **data)


@pytest.mark.parametrize(("large", "is_reported"), [(2, True), (12, False)])
def test_outlier_channels_are_few(large, is_reported):
    gains = torch.ones(32)
    gains[:large] = 1000.0
    scaled = function(lambda x: F.linear(x, torch.eye(32)) * gains)
    found = rules(scaled, torch.randn(64, 32), "activations")
    assert ("outlier-channel" in found) == is_reported
