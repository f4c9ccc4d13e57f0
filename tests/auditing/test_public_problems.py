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

FAULT, RISK, FACT = Severity


class Function(nn.Module):
    """A module of a function."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


class Net(nn.Module):
    """A linear layer, layer norm, ReLU, and an output layer."""

    def __init__(self):
        super().__init__()
        self.a, self.norm, self.out = nn.Linear(8, 8), nn.LayerNorm(8), nn.Linear(8, 3)

    def forward(self, x, other=0):
        return self.out(self.norm(self.a(x)).relu() + other)


class Closure(Net):
    """A module whose forward calls a function that it keeps."""

    def __init__(self, keep=lambda body: body):
        super().__init__()
        self.body = keep(lambda x: self.norm(self.a(x)).relu())

    def forward(self, x):
        return self.out(self.body(x))


class Cached(Net):
    """A module that keeps what it computed in its first call."""

    cache = None

    def forward(self, x):
        if self.cache is None:
            self.cache = self.a(x).mean(0)
        return self.out(self.norm(self.a(x)) + self.cache)


def forward_of_instance():
    net = Net()
    net.forward = lambda x, other=0: net.out(net.norm(net.a(x)).relu() + other)
    return net


def messages(net, x=None, check=None, **arguments):
    """Return the rule and the message of each finding of one check."""
    x = torch.randn(16, 8) if x is None else x
    report = audit(net, x, only=check, **arguments)
    assert not report.not_run, report.not_run
    return {f.rule: f.message for f in report.findings}


# The copy is the module.


@pytest.mark.parametrize(
    ("make", "inputs"),
    [(Closure, 1), (Cached, 1), (forward_of_instance, 1), (forward_of_instance, 2)],
)
def test_copies_of_functions_and_caches_are_their_own(make, inputs):
    x = tuple(torch.randn(16, 8) for _ in range(inputs))
    checks = ["parameters without effect", "weight invariances", "precision"]
    assert not {"parameter-unused", "precision-lost"} & {*messages(make(), x, checks)}


def test_a_graph_of_several_inputs_is_audited():
    net, x = torch.fx.symbolic_trace(Net()), (torch.randn(16, 8), torch.randn(16, 8))
    assert "weight-shift-unseen" in messages(net, x, "weight invariances")


def test_a_copy_that_runs_the_original_is_refused():
    with pytest.raises(ValueError, match=r"still uses a\.weight of the original"):
        audit(Closure(keep=partial(partial)), torch.randn(16, 8))


# A checkpointed module trains.


@pytest.mark.parametrize("use_reentrant", [False, True])
@pytest.mark.filterwarnings("ignore:None of the inputs")
def test_a_checkpointed_module_has_gradients_and_curvature(use_reentrant):
    class Checkpointed(Net):
        def forward(self, x):
            part = nn.Sequential(self.norm, nn.ReLU())
            return self.out(checkpoint(part, self.a(x), use_reentrant=use_reentrant))

    data = {"y": torch.randint(3, (16,)), "loss_fn": F.cross_entropy}
    checks = ["gradients over depth", "mu and sigma in the backward pass", "curvature"]
    assert {"gradient-of-statistics", "curvature"} <= {
        *messages(Checkpointed(), None, checks, **data)
    }


# What cannot be resolved in float64.


class CastingRMSNorm(nn.Module):
    """RMSNorm as Llama, T5, Qwen and Gemma have it: float32 inside."""

    def __init__(self, units):
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(units)), 1e-6

    def forward(self, x):
        a = x.float()
        a = a * torch.rsqrt(a.square().mean(-1, keepdim=True) + self.eps)
        return self.weight * a.to(x.dtype)


def test_scales_are_unseen_by_a_module_that_casts_to_float32():
    net = nn.Sequential(nn.Linear(8, 16, bias=False), CastingRMSNorm(16), nn.Linear(16, 4))
    found = messages(net, None, ["weight invariances", "effective learning rates"])
    assert found["weight-scale-unseen"] == "invariant, up to eps: 1 of 2 weights, W → δW"
    assert "1 weight as if" in found["effective-rate"]
    assert "computed in float32" in audit(net, torch.randn(4, 8), only=[]).about
    assert "computed in" not in audit(Net(), torch.randn(4, 8), only=[]).about


@pytest.mark.parametrize(
    ("make", "dtype"),
    [
        (Net, torch.float64),
        (lambda: CastingRMSNorm(8), torch.float32),
        (lambda: Function(lambda x: x.bfloat16().sin().to(x)), torch.bfloat16),
        (lambda: Function(lambda x: (x + 1e9) - 1e9), torch.float32),
        (lambda: Function(lambda x: (1000 * x).sin()), torch.float64),
        (lambda: Function(torch.zeros_like), torch.float64),
    ],
)
def test_the_precision_of_a_module_is_that_which_it_resolves(make, dtype):
    assert ModuleCopy(make(), torch.randn(16, 8), dtype=torch.float64).precision is dtype


# Random numbers that are no dropout.


class Residual(Net):
    """A residual branch that stochastic depth drops whole in training."""

    def __init__(self):
        super().__init__()
        self.drop = Function(lambda x: x * torch.rand(1).round() if self.drop.training else x)

    def forward(self, x):
        return self.out(x + self.drop(self.norm(self.a(x))))


class VAE(nn.Module):
    """Random numbers in both modes, others in float64 than in float32."""

    def __init__(self):
        super().__init__()
        self.encode, self.decode = nn.Linear(8, 32), nn.Linear(16, 8)

    def forward(self, x):
        mu, scale = self.encode(x).chunk(2, -1)
        return self.decode(mu + torch.randn_like(mu) * scale.exp())


@pytest.mark.parametrize("seed", range(3))
def test_a_branch_that_is_dropped_by_chance_is_not_unused(seed):
    net, x = Residual(), torch.randn(16, 8)
    torch.manual_seed(seed)
    checks = ["parameters without effect", "precision"]
    assert not messages(net, x, checks)
    assert "1 parts with random numbers as in evaluation" in audit(net, x, only=[]).about


def test_noise_in_evaluation_is_no_cancellation():
    report = audit(VAE(), torch.randn(32, 8), only=["parameters without effect", "precision"])
    assert not report.findings
    assert "random numbers are drawn in evaluation" in report.not_run["precision"]
    assert "random numbers are drawn in evaluation" in report.about


# Parameters without effect.


class Attention(nn.Module):
    def __init__(self, fused):
        super().__init__()
        parts = {"qkv": 24} if fused else {"q": 8, "k": 8, "v": 8}
        self.parts = nn.ModuleDict({name: nn.Linear(8, units) for name, units in parts.items()})

    def forward(self, x):
        q, k, v = torch.cat([part(x) for part in self.parts.values()], -1).chunk(3, -1)
        return torch.softmax(q @ k.mT / 8**0.5, -1) @ v


def convolution_ahead():
    convolutions = nn.Conv2d(3, 8, 3, bias=False), nn.Conv2d(8, 8, 1, bias=False)
    norms = nn.BatchNorm2d(8), nn.BatchNorm2d(8)
    return nn.Sequential(
        convolutions[0], norms[0], convolutions[1], norms[1], nn.Conv2d(8, 4, 1)
    )


@pytest.mark.parametrize(
    ("make", "shape", "where"),
    [
        (lambda: Attention(fused=False), (4, 9, 8), "parts.k.bias"),
        (lambda: Attention(fused=True), (4, 9, 8), "parts.qkv.bias (8 of 24)"),
        (
            lambda: nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8)),
            (16, 8),
            "0.bias (before 1)",
        ),
        (convolution_ahead, (8, 3, 8, 8), "1.bias"),
    ],
)
def test_a_bias_without_effect_is_one_finding_wherever_it_is(make, shape, where):
    report = audit(make(), torch.randn(shape), only="parameters without effect")
    (found,) = report.findings
    assert (found.rule, found.severity, found.where) == ("bias-without-effect", FACT, where)


def test_the_weights_that_an_input_of_zeros_meets_are_used():
    net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3))
    found = messages(net, torch.zeros(16, 8), "parameters without effect")
    assert "on this input" in found.pop("parameter-partly-unused")
    assert not {*found} - {"bias-without-effect"}


# Subclasses of torch's norms, and what only looks like a norm.


class BatchNormAct2d(nn.BatchNorm2d):
    """Batch norm that holds the activation behind it, as timm's."""

    def __init__(self, units):
        super().__init__(units)
        self.act = nn.ReLU()

    def forward(self, x):
        return self.act(super().forward(x))


class LayerNorm2d(nn.LayerNorm):
    """Layer norm of the channels of a picture, as torchvision's."""

    def forward(self, x):
        a = x.permute(0, 2, 3, 1)
        a = F.layer_norm(a, self.normalized_shape, self.weight, self.bias, self.eps)
        return a.permute(0, 3, 1, 2)


class LayerNormOverCases(nn.LayerNorm):
    def forward(self, x):
        return super().forward(x.T).T


class GraphNorm(nn.Module):
    """A norm over nodes, which are along the first axis, as torch_geometric's."""

    def __init__(self, units):
        super().__init__()
        self.weight, self.mean_scale = (nn.Parameter(torch.ones(units)) for _ in range(2))

    def forward(self, x):
        a = x - self.mean_scale * x.mean(0, keepdim=True)
        return self.weight * a / (a.square().mean(0, keepdim=True) + 1e-5).sqrt()


PICTURES = (8, 3, 8, 8)


@pytest.mark.parametrize(
    ("norm", "kind", "taken"),
    [(BatchNormAct2d, "BatchNorm", False), (LayerNorm2d, "LayerNorm", True)],
)
def test_a_subclass_of_a_norm_is_what_it_computes(norm, kind, taken):
    net, x = nn.Sequential(nn.Conv2d(3, 8, 3), norm(8)), torch.randn(PICTURES)
    checks = ["normalizers", "parameters without effect", "mu and sigma in the backward pass"]
    report = audit(net, x, only=checks)
    assert list(report.table("normalizers")["is"]) == [kind]
    assert {f.severity for f in report.findings} <= {FACT}
    # behind an activation the gradient is not that of the normalization
    assert ("mu and sigma in the backward pass" in report.data) is taken


def test_shares_of_a_subclass_are_those_of_the_plain_norm():
    x, check = torch.randn(PICTURES), "mu and sigma in the backward pass"
    swapped = nn.Sequential(Function(lambda x: x.movedim(1, -1)), nn.LayerNorm(8),
                            Function(lambda x: x.movedim(-1, 1)))  # fmt: skip
    conv = nn.Conv2d(3, 8, 3)
    one, other = (
        audit(nn.Sequential(conv, norm), x, only=check).table(check)["taken by sigma"][0]
        for norm in (LayerNorm2d(8), swapped)
    )
    assert one == pytest.approx(other, rel=1e-6)


@pytest.mark.parametrize(
    ("norm", "faults"),
    [
        (lambda: nn.BatchNorm1d(8, track_running_stats=False), []),
        (lambda: GraphNorm(8), []),
        (lambda: LayerNormOverCases(16), ["norm-mixes-cases"]),
    ],
)
def test_modes_that_are_equal_are_no_fault(norm, faults):
    net, x = nn.Sequential(nn.Linear(8, 8), norm()), torch.randn(16, 8)
    report = audit(net, x, only="normalizers")
    assert [f.rule for f in report.of(FAULT)] == faults
    assert bool(report.of(RISK)) == bool(faults)


def test_a_norm_of_weights_is_no_norm_of_activations():
    spectral = nn.utils.parametrizations.spectral_norm
    net = nn.Sequential(spectral(nn.Linear(8, 16)), nn.LeakyReLU(), spectral(nn.Linear(16, 1)))
    assert {*messages(net, None, "normalizers")} == {"no-norm"}


def test_an_input_of_one_axis_is_one_case():
    net = nn.Sequential(nn.Linear(8, 8), nn.LayerNorm(8), nn.Linear(8, 3))
    checks = ["normalizers", "weight invariances", "gradients over depth", "curvature"]
    found = messages(net, torch.randn(8), checks, y=torch.tensor(1), loss_fn=F.cross_entropy)
    assert "no-norm" not in found
    assert {"weight-shift-unseen", "curvature"} <= {*found}


@pytest.mark.filterwarnings("ignore::FutureWarning")  # of torch.export, when it is copied
def test_a_layer_norm_of_an_exported_graph_is_seen():
    net = torch.export.export(Net(), (torch.randn(16, 8),)).module()
    assert {*messages(net, None, "normalizers")} == {"norm-as-function"}


def test_equal_findings_are_one_whatever_the_sizes():
    sizes = (4, 6, 8, 10, 12)
    layers = [
        m for a, b in pairwise(sizes) for m in (nn.Linear(a, b), nn.LayerNorm(b, eps=10.0))
    ]
    report = audit(nn.Sequential(*layers), torch.randn(16, 4), only="normalizers")
    (found,) = report.of(RISK)
    assert found.rule == "eps-decides"
    assert found.where == "1, 3, 5, 7"


# What the numbers do not carry is not said.


class Rotated(nn.Module):
    """Attention with rotary positions, whose table of frequencies is no activation."""

    def __init__(self):
        super().__init__()
        frequencies = 10_000.0 ** -torch.linspace(0, 1, 4)
        self.angles = Function(
            lambda x: torch.arange(x.shape[-2]).to(x)[:, None] * frequencies.to(x)
        )
        self.attention = Attention(fused=True)

    def forward(self, x):
        a = self.angles(x).repeat(1, 2)
        return self.attention(x * a.cos() + x.roll(4, -1) * a.sin())


class Segments(nn.Module):
    """An embedding of words, and one of a segment that is the same for all."""

    def __init__(self):
        super().__init__()
        self.words, self.segment = nn.Embedding(9, 8), nn.Embedding(2, 8)

    def forward(self, words):
        return self.words(words) + self.segment(torch.zeros_like(words))


def test_tables_are_no_activations():
    assert not messages(Rotated(), torch.randn(4, 20, 8), "activations")
    report = audit(Segments(), torch.randint(9, (4, 7)), only="activations")
    assert not report.findings
    assert set(report.table("activations")["where"]) == {"words"}


def test_cases_that_come_in_alike_are_not_found_alike():
    net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3))
    found = audit(net, torch.zeros(16, 8), only=["activations", "dead units"]).findings
    assert {f.severity for f in found} <= {FACT}


def test_a_gradient_of_rounding_is_no_end_of_a_profile():
    """The bias of the first layer is taken away again, and a layer of its own here."""

    class Shifted(nn.Module):
        def __init__(self):
            super().__init__()
            self.shift = nn.Parameter(torch.randn(8, 8))
            self.layers = nn.Sequential(*(nn.Linear(8, 8, bias=False) for _ in range(5)))

        def forward(self, x):
            x = x + self.shift.sum(0)
            return self.layers(x - x.mean(0))

    check = "gradients over depth"
    report = audit(Shifted(), torch.randn(16, 8), only=check)
    assert "shift" not in report.plot(check).data[0].customdata
    assert not report.of(RISK)


def test_outputs_that_underflow_do_not_cancel():
    found = messages(Function(lambda x: 1e-10 * x), None, "precision")
    assert found == {"overflow": "in float16 the outputs underflow"}


def test_a_zero_of_the_curvature_does_not_bend_down():
    smallest = []
    for seed in range(6):  # four cases of eight inputs leave directions without a curvature
        torch.manual_seed(seed)
        net, x = nn.Linear(8, 3), torch.randn(4, 8)
        report = audit(net, x, loss_fn=lambda y: y.square().mean(), only="curvature")
        smallest += [row["smallest"] for row in report.data["curvature"].rows]
        assert "bends down" not in report.findings[0].meaning
    assert min(smallest) < 0


def test_outputs_of_nan_do_not_move_by_nan():
    report = audit(Function(torch.log), torch.randn(16, 8), only="cases apart")
    assert report.not_run == {"cases apart": "the outputs are not finite."}


# Found false in public models.


class Masked(Net):
    """Puts a trained vector in the place of some inputs, by chance and in training alone."""

    def __init__(self):
        super().__init__()
        self.mask = nn.Parameter(torch.randn(8))

    def forward(self, x):
        if self.training:
            x = torch.where(torch.tensor(np.random.rand(len(x), 1) < 0.5), self.mask, x)  # noqa: NPY002
        return super().forward(x)


def test_a_parameter_of_noise_is_used():
    assert not messages(Masked(), None, "parameters without effect")


class HoldsNorm(nn.Module):
    """A normalizer that holds torch's, as x-transformers' LayerNorm."""

    def __init__(self, units):
        super().__init__()
        self.norm, self.gamma = (
            nn.LayerNorm(units, elementwise_affine=False),
            nn.Parameter(torch.ones(units)),
        )

    def forward(self, x):
        return self.norm(x) * self.gamma


def test_a_norm_that_holds_a_norm_takes_statistics():
    net = nn.Sequential(nn.Linear(8, 8), HoldsNorm(8))
    assert not messages(net, None, "normalizers")


class Weak(nn.Module):
    """A weight whose effect is below the rounding of float32, but for large scales."""

    def __init__(self):
        super().__init__()
        self.norm, self.weak, self.eps = CastingRMSNorm(8), nn.Linear(8, 8, bias=False), 1e-6

    def forward(self, x):
        return self.norm(x + 1e-5 * self.weak(x))


def test_a_small_effect_is_no_invariance():
    assert "weight-scale-unseen" not in messages(Weak(), None, "weight invariances")


class OnePlusRMSNorm(CastingRMSNorm):
    """RMSNorm whose gain is 1 + weight, as Gemma's."""

    def __init__(self, units):
        super().__init__(units)
        nn.init.zeros_(self.weight)

    def forward(self, x):
        return (x.float() * torch.rsqrt(x.float().square().mean(-1, True) + 1e-6)
                * (1 + self.weight.float())).to(x.dtype)  # fmt: skip


def test_a_gain_of_one_plus_the_weight_is_no_risk():
    net = nn.Sequential(nn.Linear(8, 8), OnePlusRMSNorm(8))
    (found,) = audit(net, torch.randn(16, 8), only="normalizers").findings
    assert (found.rule, found.severity) == ("norm-differs", FACT)


class Gated(Net):
    """A gate whose inputs are nearly one number in all cases, as squeeze and excitation."""

    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(8, 8)
        self.gate.weight.data *= 0.01
        self.gate.bias.data += 1

    def forward(self, x):
        return self.out(self.norm(self.a(x)) * torch.sigmoid(self.gate(x)))


def test_a_gate_that_is_alike_in_all_cases_is_no_risk():
    assert not audit(Gated(), torch.randn(16, 8), only="activations").of(RISK)


def test_a_norm_of_channels_does_not_normalize_rows_of_pixels():
    net = nn.Sequential(nn.Conv2d(3, 8, 1), LayerNorm2d(8))
    assert not messages(net, torch.randn(PICTURES), "layout")
    net = nn.Sequential(nn.Conv2d(3, 8, 1), nn.LayerNorm(8))
    assert "norm-over-width" in messages(net, torch.randn(PICTURES), "layout")


class LayerScaled(nn.Module):
    """Pictures to which a branch is added that starts at a millionth, as in ConvNeXt."""

    def __init__(self):
        super().__init__()
        self.conv, self.gamma = nn.Conv2d(3, 3, 1), nn.Parameter(torch.full((3,), 1e-6))

    def forward(self, x):
        return x + self.conv(x) * self.gamma.reshape(1, -1, 1, 1)


def test_a_branch_that_starts_small_on_purpose_is_no_risk():
    report = audit(LayerScaled(), torch.randn(PICTURES), only="branches-apart")
    assert not report.of(RISK)


class Encoded(nn.Module):
    """Returns what goes into the loss, and an encoding that has been dropped, as T5."""

    def __init__(self):
        super().__init__()
        self.encode, self.drop, self.decode = nn.Linear(8, 8), nn.Dropout(), nn.Linear(8, 3)

    def forward(self, x):
        encoding = self.drop(self.encode(x))
        return self.decode(encoding), encoding


def test_what_is_returned_beside_the_outputs_may_be_dropped():
    data = {"y": torch.randint(3, (16,)), "loss_fn": lambda y, t: F.cross_entropy(y[0], t)}
    report = audit(Encoded(), torch.randn(16, 8), only="dropout-at-end", **data)
    assert not report.findings


def test_cases_of_several_inputs_do_not_mix():
    x = torch.randn(16, 8), torch.randn(16, 8)
    assert not messages(Net(), x, "cases apart")


def test_channels_of_one_case_are_not_those_of_all():
    net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3))
    for x in (torch.randn(1, 8), torch.zeros(16, 8)):
        assert "channels-of-zeros" not in messages(net, x, "layout")


def test_a_weight_that_a_checkpoint_implies_is_saved():
    net = nn.Sequential(nn.utils.spectral_norm(nn.Linear(8, 8)), nn.ReLU(), nn.Linear(8, 3))
    assert not audit(net, torch.randn(16, 8), only="state-unsaved").findings


def test_a_module_without_shapes_is_refused_with_what_to_do():
    lazy = nn.Sequential(nn.LazyLinear(8), nn.LayerNorm(8))
    with pytest.raises(ValueError, match=r"0\.weight has no shape yet: call the module once"):
        audit(lazy, torch.randn(16, 8))


def test_equal_tables_of_sines_are_no_copies_of_random_numbers():
    angles = torch.arange(1.0, 9.0)[:, None] / 10 ** torch.linspace(0, 3, 8)
    table = torch.cat([angles.sin(), angles.cos()], 1)
    net = nn.Sequential(nn.Linear(16, 8), nn.ReLU(), nn.Linear(16, 8))
    net.forward = lambda x: net[2](x).relu() + net[0](x)
    for layer in (net[0], net[2]):
        layer.weight.data.copy_(table)
    assert "weights-equal" not in messages(net, torch.randn(16, 16), "registration")


def test_a_norm_of_two_values_is_not_said_to_be_none():
    class RMSNorm(nn.Module):
        def forward(self, x):
            return x * torch.rsqrt(x.square().mean(-1, True) + 1e-6)

    net = nn.Sequential(nn.Linear(8, 2), RMSNorm(), nn.Linear(2, 3))
    assert "norm-of-another-form" not in messages(net, torch.randn(16, 8), "normalizers")


@pytest.mark.parametrize("shape", [(16, 8), (16, 3, 8)])
def test_a_norm_over_groups_of_the_right_axis_is_a_fact(shape):
    class RMSNorm(nn.Module):
        def forward(self, x):
            groups = x.unflatten(-1, (2, -1))
            return (groups * torch.rsqrt(groups.square().mean(-1, True) + 1e-6)).flatten(-2)

    found = audit(nn.Sequential(nn.Linear(8, 16), RMSNorm()), torch.randn(shape), only="LN1")
    assert [(f.rule, f.severity) for f in found.findings] == [("norm-misnamed", FACT)]


@pytest.mark.parametrize(("large", "is_said"), [(2, True), (12, False)])
def test_outlier_channels_are_few(large, is_said):
    gains = torch.ones(32)
    gains[:large] = 1000.0
    net = Function(lambda x: F.linear(x, torch.eye(32)) * gains)
    assert ("outlier-channel" in messages(net, torch.randn(64, 32), "activations")) == is_said


def test_eps_decides_nothing_below_a_larger_variance():
    x = torch.randn(16, 8) * (5e-5) ** 0.5  # five times eps
    assert "eps-decides" not in messages(nn.LayerNorm(8), x, "normalizers")


def test_dead_units_are_no_channels_of_zeros():
    net = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 3))
    net[0].bias.data[:4] = -100
    assert "channels-of-zeros" not in messages(net, torch.randn(16, 8), "layout")


def test_a_sigmoid_at_0_is_not_shut():
    net = nn.Sequential(nn.Linear(8, 8, bias=False), nn.Sigmoid(), nn.Linear(8, 3))
    nn.init.zeros_(net[0].weight)
    assert "layer-dead" not in messages(net, torch.randn(16, 8), "dead units")


def test_half_as_large_outputs_are_no_unbiased_variance():
    half = Function(lambda x: 0.5 * F.layer_norm(x, (16,)))
    found = audit(nn.Sequential(nn.Linear(8, 16), half), torch.randn(16, 8), only="LN1")
    assert [f.rule for f in found.of("risk")] == []


def test_a_bias_that_can_shut_its_units_has_an_effect():
    net = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.BatchNorm1d(8))
    net[0].weight.data *= 5
    net[0].bias.data.fill_(1.0)
    net[0].weight.data[3] = torch.eye(8)[0] * 0.9  # open, and the batch norm takes a shift away
    x = torch.rand(16, 8) * 2 - 1
    assert "bias-without-effect" not in messages(net, x, "LN2")


def test_a_branch_behind_a_small_layer_scale_has_an_effect():
    class Block(Net):
        def __init__(self):
            super().__init__()
            self.scale = nn.Parameter(torch.full((8,), 1e-6))

        def forward(self, x):
            return self.out(x + self.scale * (self.scale * self.norm(self.a(x)).float().relu()))

    net = Block()
    assert "parameter-unused" not in messages(net, torch.randn(16, 8), "LN2")


def test_a_group_norm_of_one_group_is_one_on_a_single_column():
    class GroupNorm1(nn.GroupNorm):
        def forward(self, x):
            return F.group_norm(x, 1, self.weight, self.bias, self.eps)

    x = torch.randn(8, 16, 4, 1)
    assert "norm-wrong-axes" not in messages(GroupNorm1(1, 16), x, "normalizers")


def test_a_branch_of_zeros_before_a_relu_has_a_right_derivative():
    class Block(Net):
        def forward(self, x):
            x = x.relu()
            return self.out((x + self.norm(self.a(x))).relu())

    net = Block()
    nn.init.zeros_(net.norm.weight)  # RegNet
    assert "gradient-differs" not in messages(net, torch.randn(16, 8), "derivative")


def test_padding_gets_no_gradient_and_none_is_cut():
    net = nn.Sequential(nn.Embedding(9, 8, padding_idx=0), nn.Linear(8, 3))
    net[0].weight.data[0] = 1.0
    x = torch.zeros(16, 5, dtype=torch.long)
    assert not messages(net, x, ["gradient-cut", "gradient-differs"])


def test_evaluation_with_statistics_of_no_batch_has_no_precision_yet():
    net = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.Linear(8, 3))
    net[0].weight.data *= 1e-9
    report = audit(net, torch.randn(16, 8), only="precision")
    assert not report.findings
    assert "no batch" in report.not_run["precision"]


def test_gradients_of_queries_are_not_compared_with_those_of_outputs():
    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.query, self.out = nn.Linear(8, 8), nn.Linear(8, 8)

        def forward(self, x):
            return x + self.out(x + 1e-4 * self.query(x))

    net = nn.Sequential(Block(), Block())
    assert "gradient-steep" not in messages(net, torch.randn(16, 8), "gradients over depth")


def test_what_this_call_leaves_out_is_a_risk_and_what_it_wastes_a_fault():
    class Wasteful(Net):
        def __init__(self):
            super().__init__()
            self.mask = nn.Parameter(torch.ones(3))

        def forward(self, x):
            self.norm(x)
            return self.out(x) if self.mask.is_floating_point() else x

    found = audit(Wasteful(), torch.randn(16, 8), only="parameter-unused").findings
    assert [(f.severity, f.where) for f in found] == [
        (FAULT, "norm.weight, norm.bias"),
        (RISK, "mask, a.weight, a.bias"),
    ]
