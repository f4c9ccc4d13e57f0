"""Kinds of modules of which the audit once said something false, and their neighbours."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from lnlab.auditing import Call, Severity, audit

B, D, H, K = 16, 8, 16, 4


class TwoLayers(nn.Module):
    """Two layers and what is between them."""

    def __init__(self, between):
        super().__init__()
        self.first, self.last, self.between = nn.Linear(D, H), nn.Linear(H, K), between

    def forward(self, x):
        return self.last(self.between(self.first(x)))


def with_last_layer_of_zeros():
    net = TwoLayers(F.relu)
    nn.init.zeros_(net.last.weight)
    nn.init.zeros_(net.last.bias)
    return net


class LowRankAdapter(nn.Module):
    """LoRA, with bare parameters."""

    def __init__(self, inputs, outputs):
        super().__init__()
        self.base = nn.Linear(inputs, outputs)
        self.A = nn.Parameter(torch.randn(2, inputs))
        self.B = nn.Parameter(torch.zeros(outputs, 2))

    def forward(self, x):
        return self.base(x) + x @ self.A.T @ self.B.T


def relu_in_place(a):
    a = a.clone()
    a[a < 0] = 0
    return a


class TwoHeads(nn.Module):
    def __init__(self):
        super().__init__()
        self.mean, self.log_var = nn.Linear(D, K), nn.Linear(D, K)

    def forward(self, x):
        return self.mean(x) + self.log_var(x)


@pytest.mark.parametrize(
    "make",
    [
        with_last_layer_of_zeros,
        lambda: nn.Sequential(LowRankAdapter(D, H), nn.ReLU(), nn.Linear(H, K)),
        lambda: TwoLayers(lambda a: F.gelu(a.bfloat16()).to(a.dtype)),
        lambda: TwoLayers(lambda a: a.masked_fill(a < 0, 0.0)),
        lambda: TwoLayers(relu_in_place),
        lambda: TwoLayers(torch.ops.aten.relu),  # which no name of a function shows
        TwoHeads,
    ],
)
def test_no_fault_or_risk_is_found(make):
    for seed in range(3):
        torch.manual_seed(seed)
        net, x, y = make().float(), torch.randn(B, D).float(), torch.arange(B) % K
        report = audit(net, x, y, F.cross_entropy)
        assert not report.with_severity(Severity.FAULT)
        assert not report.with_severity(Severity.RISK)


def test_two_layers_with_nothing_but_a_norm_between_them_are_still_found():
    for between in (nn.Identity(), nn.LayerNorm(H), lambda a: 2 * a):
        report = audit(TwoLayers(between), torch.randn(B, D), only="no-activation")
        assert len(report.findings) == 1


def test_an_input_behind_a_branch_of_zeros_is_not_called_ignored():
    class Modulated(nn.Module):
        def __init__(self):
            super().__init__()
            self.net, self.scale = TwoLayers(F.relu), nn.Linear(5, K)
            nn.init.zeros_(self.scale.weight)
            nn.init.zeros_(self.scale.bias)

        def forward(self, x, c):
            return self.net(x) * (1 + self.scale(c))

    call = Call(torch.randn(B, D), torch.randn(B, 5))
    assert not audit(Modulated(), call, only="input-ignored").findings


def test_a_result_that_is_detached_is_a_fault():
    class Detached(TwoLayers):
        def forward(self, x):
            return super().forward(x).detach()

    report = audit(Detached(F.relu), torch.randn(B, D))
    assert [f.id for f in report.with_severity(Severity.FAULT)] == ["LN205"]
    assert "detached" in report.not_run["inputs"]


def test_complex_parameters_are_not_taken_for_real_ones():
    class Filter(nn.Module):
        def __init__(self):
            super().__init__()
            self.w = nn.Parameter(torch.randn(5, dtype=torch.complex64))

        def forward(self, x):
            return torch.fft.irfft(torch.fft.rfft(x) * self.w, n=D)

    report = audit(Filter(), torch.randn(B, D), loss_fn=lambda y: y.square().mean())
    assert "complex64" in report.not_run["curvature"]


def test_class_weights_of_a_loss_keep_no_check_from_running():
    loss_fn = nn.CrossEntropyLoss(weight=torch.tensor([1.0, 5.0, 10.0, 0.1]).float())
    net, x = TwoLayers(F.relu).float(), torch.randn(B, D).float()
    assert "derivative" in audit(net, x, torch.arange(B) % K, loss_fn).data


def test_a_part_that_is_called_on_two_inputs_is_measured():
    class Shared(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = TwoLayers(F.relu)

        def forward(self, a, b):
            return (self.net(a) * self.net(b)).sum(1)

    report = audit(Shared(), Call(torch.randn(B, D), torch.randn(B, D)), only="activations")
    assert {"net.first", "net.last"} <= {*report.table("activations")["where"]}


@pytest.mark.filterwarnings("ignore:Initializing zero-element")
def test_parameters_without_numbers_make_no_check_fail():
    with_empty = TwoLayers(F.relu)
    with_empty.empty = nn.Parameter(torch.empty(0, 4))
    for net in (with_empty, nn.Sequential(nn.Linear(D, 0), nn.Linear(0, K))):
        report = audit(net, torch.randn(B, D))
        assert not [why for why in report.not_run.values() if "Error" in why]


def test_a_cell_whose_first_step_alone_is_alike_is_not_called_alike():
    class Cell(nn.Module):
        def __init__(self):
            super().__init__()
            self.of_input, self.of_state = nn.Linear(D, H), nn.Linear(H, H)

        def forward(self, x):
            h = x.new_zeros(len(x), H)  # what the state adds is the bias at first
            for x_t in x.unbind(1):
                h = torch.tanh(self.of_input(x_t) + self.of_state(h))
            return h

    report = audit(Cell(), torch.randn(B, 5, D), only="examples-alike")
    assert report.table("activations")["cosine"].max() > 0.98
    assert not report.findings


class Standardized(nn.Module):
    """A norm over ``axes``, with a gain and a shift along the last axis."""

    def __init__(self, axes, least_sigma=0.0):
        super().__init__()
        self.axes, self.least_sigma = axes, least_sigma
        self.a_2, self.b_2 = nn.Parameter(torch.ones(H)), nn.Parameter(torch.zeros(H))

    def forward(self, x):
        centred = x - x.mean(self.axes, keepdim=True)
        sigma = (centred.square().mean(self.axes, keepdim=True) + 1e-6).sqrt()
        return self.a_2 * centred / sigma.clamp(min=self.least_sigma) + self.b_2


class GroupNormOfUnitsLast(Standardized):
    pass


class LayerNormOverSteps(Standardized):
    pass


@pytest.mark.parametrize("seed", range(6))
def test_no_unit_is_called_dead_for_the_name_of_a_shift(seed):
    torch.manual_seed(seed)
    layers = [nn.Linear(D, H), Standardized(-1), nn.ReLU(), nn.Linear(H, H), Standardized(-1)]
    net = nn.Sequential(*layers, nn.ReLU(), nn.Linear(H, K))
    x = torch.randn(B, 6, D)
    is_dead = any(bool((net[:i](x).amax((0, 1)) == 0).any()) for i in (3, 6))
    assert is_dead or not audit(net, x, only="parameter-partly-unused").findings


@pytest.mark.parametrize(
    ("norm", "severity"),
    [
        (Standardized, Severity.RISK),
        (GroupNormOfUnitsLast, Severity.FACT),
        (LayerNormOverSteps, Severity.FAULT),
    ],
)
def test_a_norm_over_more_axes_is_a_fault_if_its_name_says_otherwise(norm, severity):
    net = nn.Sequential(nn.Linear(D, H), norm((1, 2)), nn.ReLU(), nn.Linear(H, K))
    (finding,) = audit(net, torch.randn(B, 6, D), only="norm-wrong-axes").findings
    assert finding.severity is severity


def test_the_backward_pass_of_a_limited_sigma_is_not_that_of_layer_norm():
    net = nn.Sequential(nn.Linear(D, H), Standardized(-1, least_sigma=0.5))
    report = audit(net, torch.randn(B, D), only="gradient-of-statistics")
    assert "not supported" in report.not_run["mu and sigma in the backward pass"]
