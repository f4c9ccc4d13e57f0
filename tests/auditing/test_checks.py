"""Every check finds the mistake that it is for, names its place, and is silent without it."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from lnlab.analysis.objective import Objective
from lnlab.auditing import Severity, audit, learning
from lnlab.auditing.subject import Audited, number
from lnlab.nn import BatchNorm, LayerNorm, Stats
from lnlab.training.random_state import default_dtype


class Own(nn.Module):
    """A layer norm by hand, in which one thing can be wrong."""

    def __init__(self, units=6, *, axis=-1, correction=0, eps=1e-5, outside=False):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(units) + 0.5)
        self.bias = nn.Parameter(torch.randn(units))
        self.axis, self.correction, self.eps, self.outside = axis, correction, eps, outside

    def forward(self, x):
        mean = x.mean(self.axis, keepdim=True)
        var = x.var(self.axis, keepdim=True, correction=self.correction)
        sigma = var.sqrt() + self.eps if self.outside else (var + self.eps).sqrt()
        return self.weight * (x - mean) / sigma + self.bias


class OwnLayerNorm(Own):
    """The same, under a name that promises."""


class OwnBatchNorm(Own):
    """A layer norm that is called a batch norm."""


def only(check, module, x=None, loss=None):
    x = torch.randn(16, 5, 6) if x is None else x
    found = audit(module, x, loss, checks=[check])
    assert not found.not_run, found.not_run
    return [f for _, f in found.findings]


def worst(findings):
    return min(findings, key=lambda f: f.severity)


def test_right_layer_norm_is_right():
    findings = only("normalizers", nn.Sequential(nn.Linear(6, 6), OwnLayerNorm()))
    assert not findings


@pytest.mark.parametrize(
    ("module", "severity", "seen"),
    [
        (OwnLayerNorm(axis=1), Severity.FAULT, "statistics over axis 1 of"),
        (OwnLayerNorm(axis=0), Severity.FAULT, "by the statistics of its own batch"),
        (OwnLayerNorm(eps=0.0), Severity.FAULT, "has no eps"),
        (OwnLayerNorm(correction=1), Severity.RISK, "unbiased, not 1/N"),
        (OwnLayerNorm(eps=1e-5, outside=True), Severity.RISK, "added to sigma"),
        (OwnBatchNorm(), Severity.RISK, "OwnBatchNorm computes LayerNorm"),
        (nn.LayerNorm(6, eps=1e-8), Severity.FACT, "eps is 1e-08"),
    ],
)
def test_wrong_normalizer_is_named(module, severity, seen):
    findings = only("normalizers", nn.Sequential(nn.Linear(6, 6), module.double()))
    (found,) = [f for f in findings if seen in f.seen]
    assert found.severity is severity
    assert found.where == "1"


class OfTwoAxes(nn.Module):
    """A mean over cases and a variance over units: what one forgotten axis makes."""

    def forward(self, x):
        centred = x - x.mean(0, keepdim=True)
        return centred / (centred.square().mean(-1, keepdim=True) + 1e-5).sqrt()


class LayerNormOfTwoAxes(OfTwoAxes):
    """A name that promises cases apart."""


class BatchNormOfTwoAxes(OfTwoAxes):
    """One that does not."""


class ScaleNorm(nn.Module):
    """No statistics at all."""

    def forward(self, x):
        return 2 * x


@pytest.mark.parametrize(
    ("module", "severity", "seen", "means"),
    [
        (LayerNormOfTwoAxes(), Severity.FAULT, "statistics over axes 0", "others of its batch"),
        (BatchNormOfTwoAxes(), Severity.RISK, "statistics over axes 0", "none in the sense"),
        (ScaleNorm(), Severity.FACT, "takes no statistics", "no invariance"),
    ],
)
def test_normalizer_in_name_alone_says_what_it_computes(module, severity, seen, means):
    net = nn.Sequential(nn.Linear(6, 6), module)
    (found,) = only("normalizers", net, torch.randn(16, 6))
    assert found.severity is severity
    assert seen in found.seen
    assert means in found.means


def test_normalizer_is_found_without_its_name():
    class Rescale(nn.Module):
        def forward(self, x):
            return x / (x.square().mean(-1, keepdim=True) + 1e-5).sqrt()

    table = audit(nn.Sequential(nn.Linear(6, 6), Rescale()), torch.randn(4, 5, 6)).table
    assert list(table("normalizers")["is"]) == ["RMSNorm"]


def test_float32_inside_a_subclass_is_no_other_function():
    class Fp32GroupNorm(nn.GroupNorm):
        def forward(self, x):
            own = (self.weight.float(), self.bias.float(), self.eps)
            return F.group_norm(x.float(), self.num_groups, *own).type_as(x)

    net = nn.Sequential(nn.Conv1d(4, 8, 1), Fp32GroupNorm(8, 8))
    assert not only("normalizers", net, torch.randn(8, 4, 9))


def test_what_is_overwritten_in_place_was_seen_before():
    net = nn.Sequential(
        nn.Linear(6, 8), nn.LayerNorm(8), nn.ReLU(inplace=True), nn.Linear(8, 2)
    )
    found = audit(net, torch.randn(32, 6))
    assert "mu and sigma on the way back" in found.results
    rms = [row["rms"] for row in found.results["activations"].rows]
    assert abs(rms[1] - 1) < 0.01
    assert rms[2] < 0.9


def test_function_that_normalizes_is_found():
    class Functional(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(6, 4)

        def forward(self, x):
            return self.linear(F.layer_norm(x, (6,)))

    (found,) = only("normalizers", nn.Sequential(nn.LayerNorm(6), Functional()))
    assert found.seen == "calls F.layer_norm itself"
    assert found.where == "1"


def test_cases_below_eps_are_found():
    x = torch.randn(16, 6)
    x[:4] = 1e-4 * x[:4]
    (found,) = only("normalizers", nn.LayerNorm(6), x)
    assert "25% of the statistics have a variance below 10 eps" in found.seen
    assert not only("normalizers", nn.LayerNorm(6), torch.randn(16, 6))


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
    found = [f.seen for f in only("normalizers", make(), x) if "10 eps" in f.seen]
    assert found == ["up to 12% of the statistics have a variance below 10 eps"] * seen


def test_gains_that_are_off_are_counted():
    norm = nn.LayerNorm(6)
    norm.weight.data[:2] = 1e-5
    (found,) = only("normalizers", norm, torch.randn(16, 6))
    assert found.seen.startswith("2 of 6 gains")


def test_bias_in_front_of_batch_norm_has_no_effect():
    net = nn.Sequential(nn.Linear(6, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Linear(4, 2))
    (found,) = [
        f
        for f in only("parameters without effect", net, torch.randn(16, 6))
        if "in front of a normalizer" in f.seen
    ]
    assert found.where == "0.bias (before 1)"
    assert found.seen.startswith("4 numbers of 1")


def test_bias_in_front_of_layer_norm_has_an_effect():
    net = nn.Sequential(nn.Linear(6, 4), nn.LayerNorm(4), nn.Linear(4, 2))
    assert not only("parameters without effect", net, torch.randn(16, 6))


def test_parameter_that_nothing_uses_is_a_fault():
    class Forgetful(nn.Module):
        def __init__(self):
            super().__init__()
            self.used, self.forgotten = nn.Linear(6, 2), nn.Linear(6, 2)

        def forward(self, x):
            return self.used(x)

    (found,) = only("parameters without effect", Forgetful(), torch.randn(16, 6))
    assert found.severity is Severity.FAULT
    assert found.where == "forgotten.weight, forgotten.bias"


def test_dead_units_are_counted():
    net = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 2))
    net[0].bias.data[:3] = -100.0
    (found,) = only("dead units", net, torch.randn(32, 6))
    assert found.seen.startswith("3 of 8 units")
    assert found.severity is Severity.RISK
    net[0].bias.data[:] = -100.0
    assert only("dead units", net, torch.randn(32, 6))[0].severity is Severity.FAULT


def test_remembered_statistics_of_other_data_are_found():
    net = nn.Sequential(nn.Linear(6, 4), nn.BatchNorm1d(4))
    x = torch.randn(64, 6)
    assert "no batch has been seen" in only("statistics over cases", net, x)[0].seen
    for _ in range(200):
        net(x)
    assert not only("statistics over cases", net, x)
    found = worst(only("statistics over cases", net, 5 * x + 3))
    assert found.severity is Severity.RISK
    assert "not those of this input" in found.seen
    assert "statistics of 4 values" in worst(only("statistics over cases", net, x[:4])).seen


def test_effective_rates_are_one_over_the_square_of_the_length():
    net = nn.Sequential(
        nn.Linear(6, 8, bias=False), LayerNorm(8, eps=0), nn.ReLU(),
        nn.Linear(8, 8, bias=False), BatchNorm(8, eps=0), nn.ReLU(), nn.Linear(8, 2),
    )  # fmt: skip
    net[3].weight.data *= 20
    found = audit(net, torch.randn(16, 6))
    rows = {r["weight"]: r for r in found.results["effective learning rates"].rows}
    W, V = net[0].weight.detach(), net[3].weight.detach()
    assert set(rows) == {"0.weight", "3.weight"}
    assert rows["0.weight"]["invariant"] == "whole"
    assert rows["3.weight"]["invariant"] == "rows"
    torch.testing.assert_close(
        rows["0.weight"]["effective rate / rate"], float(1 / W.norm() ** 2)
    )
    mean_square = float(V.square().sum(1).mean())
    torch.testing.assert_close(rows["3.weight"]["effective rate / rate"], 1 / mean_square)


def test_rates_apart_are_a_risk():
    net = nn.Sequential(
        *(part for _ in range(2) for part in (nn.Linear(6, 6), nn.LayerNorm(6)))
    )
    for layer in (net[0], net[2]):
        layer.bias.data.zero_()
    net[0].weight.data *= 30
    checks = ["effective learning rates"]
    assert audit(net, torch.randn(16, 6), checks=checks).of(Severity.RISK)
    net[0].weight.data /= 30
    assert not audit(net, torch.randn(16, 6), checks=checks).of(Severity.RISK)


def test_rates_apart_name_the_two_that_are():
    net = nn.Sequential(
        *(part for _ in range(2) for part in (nn.Linear(6, 6), nn.BatchNorm1d(6))),
        nn.Linear(6, 6), nn.LayerNorm(6),
    )  # fmt: skip
    with torch.no_grad():
        net[2].weight.mul_(30)
        net[4].weight.mul_(3_000)  # as a whole invariant: of another kind
        net[4].bias.zero_()
    (found,) = audit(
        net, torch.randn(16, 6), checks=["effective learning rates"]
    ).of(Severity.RISK)  # fmt: skip
    assert found.where == "0.weight and 2.weight"
    lengths = [net[k].weight.detach().square().sum(1).mean() for k in (0, 2)]
    assert f"a factor of {number(float(lengths[1] / lengths[0]))}" in found.seen


def test_gradients_that_vanish_are_found():
    net, x = nn.Sequential(*(nn.Linear(6, 6) for _ in range(8))), torch.randn(9, 6)
    assert not [f for f in only("gradients over depth", net, x) if f.severity < 2]
    for layer in net:
        layer.weight.data *= 0.1
    result = audit(net, x).results["gradients over depth"]
    (found,) = [f for f in result.findings if f.severity < 2]
    first, *_, last = (row["gradient"] for row in result.rows)
    assert found.where == "0.weight to 7.weight"
    assert f"grows by a factor of {number(last / first)} from" in found.seen


def test_the_factor_of_gradients_is_that_of_the_two_layers_named():
    class Shortcut(nn.Module):
        """From the second layer on the gradient grows; that of the first is the largest."""

        def __init__(self):
            super().__init__()
            self.layers = nn.Sequential(*(nn.Linear(6, 6) for _ in range(8)))
            for layer in self.layers:
                layer.weight.data *= 0.1

        def forward(self, x):
            return self.layers(x) + 1000 * self.layers[0](x)

    result = audit(Shortcut(), torch.randn(9, 6)).results["gradients over depth"]
    (found,) = [f for f in result.findings if f.severity is Severity.RISK]
    first, *_, last = (row["gradient"] for row in result.rows)
    assert found.where == "layers.0.weight to layers.7.weight"
    assert f"shrinks by a factor of {number(first / last)} from" in found.seen
    assert "explode" in found.means


def test_a_part_without_a_gradient_hides_no_trend():
    class Headed(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = nn.Sequential(*(nn.Linear(6, 6) for _ in range(8)))
            self.dead = nn.Linear(6, 6)

        def forward(self, x):
            return self.body(x) + 0 * self.dead(x)

    net = Headed()
    for layer in net.body:
        layer.weight.data *= 0.1
    found = only("gradients over depth", net, torch.randn(9, 6))
    assert "grows" in next(f.seen for f in found if f.severity is Severity.RISK)


def test_numbers_of_gradients_are_those_of_autograd():
    net, x = nn.Sequential(nn.Linear(6, 4), nn.Tanh(), nn.Linear(4, 2)), torch.randn(9, 6)
    rows = audit(net, x, lambda y: y.square().mean()).results["gradients over depth"].rows
    net(x).square().mean().backward()
    for row, layer in zip(rows, (net[0], net[2]), strict=True):
        torch.testing.assert_close(row["gradient"], float(layer.weight.grad.norm()))


def test_the_profile_of_gradients_has_no_part_that_is_never_called():
    class Headed(nn.Module):
        def __init__(self):
            super().__init__()
            self.unused, self.first, self.last = (nn.Linear(6, 6) for _ in range(3))

        def forward(self, x):
            return self.last(self.first(x).tanh())

    result = audit(Headed(), torch.randn(9, 6)).results["gradients over depth"]
    assert result.profile is not None
    assert result.profile.names == ("first.weight", "last.weight")
    assert "unused.weight" in [row["layer"] for row in result.rows]


def test_outlier_channel_is_found():
    net = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 8))
    assert not only("activations", net, torch.randn(32, 6))
    net[2].weight.data[3] *= 20
    net[2].bias.data[3] *= 20
    (found,) = only("activations", net, torch.randn(32, 6))
    assert found.where == "2 (1 channel)"


def test_saturation_is_found():
    net = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 8))
    net[0].weight.data *= 40
    (found,) = only("activations", net, torch.randn(32, 6))
    assert "bounded f" in found.seen
    assert found.where.startswith("1: tanh")


def test_cases_that_cannot_be_told_apart_are_found():
    net = nn.Linear(6, 8)
    net.bias.data[:] = 50.0
    assert "point the same way" in only("activations", net, torch.randn(32, 6))[0].seen


def test_shares_of_mu_and_sigma_are_projections():
    net, x = nn.Sequential(nn.Linear(6, 8), nn.LayerNorm(8, eps=0.0)), torch.randn(5, 6)
    target = torch.randn(5, 8)

    def loss(y):
        return F.mse_loss(y, target)

    (row,) = audit(net, x, loss).results["mu and sigma on the way back"].rows
    a = net[0](x).detach()
    y = (a - a.mean(1, keepdim=True)) / a.std(1, correction=0, keepdim=True)
    sigma = a.std(1, correction=0, keepdim=True)
    direct = 2 * (y - target) / y.numel() / sigma
    ones = torch.ones(8) / 8**0.5
    of_mu = (direct @ ones).square().sum() / direct.square().sum()
    along = (direct * y).sum(1) / 8**0.5
    of_sigma = along.square().sum() / direct.square().sum()
    torch.testing.assert_close(row["taken by mu"], float(of_mu))
    torch.testing.assert_close(row["taken by sigma"], float(of_sigma))


class Median(LayerNorm):
    def stats(self, a, W=None, t=None):
        return Stats(a.new_zeros(()), self.sigma(a.square().median(-1, keepdim=True).values))


def test_what_a_median_adds_to_a_gradient_is_not_said_to_be_taken():
    net = nn.Sequential(nn.Linear(6, 16), Median(16))
    checks = ["mu and sigma on the way back"]
    found = audit(net, torch.randn(9, 6), lambda y: y.square().mean(), checks=checks)
    (row,) = found.results[checks[0]].rows
    assert row["taken by sigma"] < 0
    (fact, *_) = [f for _, f in found.findings if f.severity is Severity.FACT]
    assert f"sigma adds {-row['taken by sigma']:.1%} on the way back" in fact.seen
    assert "median" in fact.means


def test_unbiased_one_is_looked_through_as_well():
    net = nn.Sequential(nn.Linear(6, 6), OwnLayerNorm(correction=1, outside=True))
    found = audit(net, torch.randn(9, 6), lambda y: y.pow(4).mean())
    (row,) = found.results["mu and sigma on the way back"].rows
    assert abs(row["taken by mu"] + row["taken by sigma"] + row["left"] - 1) < 1e-9


def test_normalizer_by_hand_is_looked_through():
    own, torchs = OwnLayerNorm(), nn.LayerNorm(6)
    torchs.weight, torchs.bias = own.weight, own.bias
    first = nn.Linear(6, 6)
    rows = [
        audit(nn.Sequential(first, norm), torch.ones(4, 6).cumsum(0).sin(), checks=checks)
        .results[checks[0]]
        .rows[0]
        for norm in (own, torchs)
        for checks in [["mu and sigma on the way back"]]
    ]
    assert rows[0].keys() == rows[1].keys()
    for name in rows[0].keys() - {"where"}:
        torch.testing.assert_close(rows[0][name], rows[1][name])


@pytest.mark.parametrize(
    ("norm", "x"),
    [
        (nn.RMSNorm(6), torch.randn(4, 6)), (nn.GroupNorm(3, 6), torch.randn(4, 6, 5)),
        (nn.BatchNorm2d(6), torch.randn(4, 6, 3, 3)), (nn.LayerNorm(6), torch.randn(4, 6)),
    ],
    ids=lambda v: type(v).__name__,
)  # fmt: skip
def test_parts_of_torchs_normalizers_sum_to_autograd(norm, x):
    from lnlab.analysis.norm_gradients import gradient_parts

    for p in norm.parameters():
        p.data = torch.rand_like(p) + 0.5
    norm, x, slope = norm.double(), x.double().requires_grad_(), torch.randn(x.shape)
    (right,) = torch.autograd.grad(norm(x), x, slope)
    torch.testing.assert_close(gradient_parts(norm, x, slope).total, right)


def test_loss_that_a_normalizer_is_blind_to_is_a_risk():
    net = nn.Sequential(nn.Linear(6, 8), nn.LayerNorm(8, eps=0.0))
    found = audit(net, torch.randn(5, 6), lambda y: y.square().mean())
    assert any("all of the gradient" in f.seen for f in found.of(Severity.RISK))


def test_curvature_is_the_largest_eigenvalue():
    net, x, y = nn.Linear(3, 2), torch.randn(20, 3), torch.randn(20, 2)
    found = audit(net, x, lambda out: F.mse_loss(out, y)).results["curvature"].rows[0]
    objective = Objective(net, x, y, F.mse_loss, bn_stats="batch")
    H = torch.autograd.functional.hessian(objective, objective.start)
    torch.testing.assert_close(
        found["largest"], float(torch.linalg.eigvalsh(H)[-1]), rtol=1e-2, atol=0
    )  # the eigenvalues are asked for to one in a hundred


def test_a_loss_without_curvature_bounds_no_rate():
    (found,) = only("curvature", nn.Linear(4, 3), torch.randn(16, 4), lambda out: out.sum())
    assert "linear in the parameters" in found.means


def test_overflow_in_half_precision_is_found():
    class Square(nn.Module):
        def forward(self, x):
            return x.square().mean(-1, keepdim=True).sqrt()

    x = 1000 * torch.randn(8, 6)
    findings = only("precision", nn.Sequential(nn.Linear(6, 6), Square()), x)
    assert any("float16 the outputs are not finite" in f.seen for f in findings)
    assert not only("precision", nn.Linear(6, 6), torch.randn(8, 6))


def test_worst_comes_first_and_all_is_kept():
    net = nn.Sequential(nn.Linear(6, 6), OwnLayerNorm(eps=0.0), nn.Linear(6, 2))
    found = audit(net, torch.randn(16, 6), lambda y: y.square().mean())
    severities = [f.severity for _, f in found.findings]
    assert severities == sorted(severities)
    assert severities[0] is Severity.FAULT
    assert str(found).index("FAULT") < str(found).index("FACT")
    assert len(found.frame()) == len(severities)
    with pytest.raises(KeyError, match="did not run"):
        found.table("statistics over cases")


class Shut(nn.Module):
    """A residual branch whose last layer starts at 0."""

    def __init__(self):
        super().__init__()
        self.first, self.norm, self.last = nn.Linear(6, 6), nn.LayerNorm(6), nn.Linear(6, 6)
        nn.init.zeros_(self.last.weight)
        nn.init.zeros_(self.last.bias)

    def forward(self, x):
        return x + self.last(torch.relu(self.norm(self.first(x))))


def test_what_waits_behind_zeros_is_not_called_useless():
    net, x = nn.Sequential(Shut(), nn.Linear(6, 2)), torch.randn(16, 6)
    (found,) = only("parameters without effect", net, x)
    assert found.severity is Severity.FACT
    assert found.where == "0.last.weight"
    assert found.seen.startswith("all 0: 4 parameters in front of these have no effect yet")
    rows = audit(net, x, checks=["invariances"]).results["invariances"].rows
    said = {row["weight"]: row for row in rows}
    assert set(said) == {"0.first.weight", "1.weight"}  # a matrix of zeros has no length
    nn.init.normal_(net[0].last.weight)
    assert not only("parameters without effect", net, x)


def test_numbers_made_inside_take_the_precision_of_the_parameters():
    class Timed(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear, self.norm = nn.Linear(6, 4), nn.LayerNorm(4)

        def forward(self, x):
            return self.norm(self.linear(x + torch.exp(-torch.arange(6) * 0.5)))

    with default_dtype(torch.float32):
        checks = ["invariances", "precision", "normalizers"]
        assert not audit(Timed(), torch.randn(8, 6), checks=checks).not_run
        assert torch.get_default_dtype() is torch.float32


def test_a_floor_under_sigma_is_said_once_for_all_sizes():
    class RMSNorm(nn.Module):
        def __init__(self, units):
            super().__init__()
            self.g, self.units = nn.Parameter(torch.ones(units)), units

        def forward(self, x):
            return F.normalize(x, dim=-1) * self.g * self.units**0.5

    net = nn.Sequential(nn.Linear(6, 4), RMSNorm(4), nn.Linear(4, 8), RMSNorm(8))
    (found,) = [f for f in only("normalizers", net, torch.randn(16, 6)) if "at least" in f.seen]
    assert found.severity is Severity.FACT
    assert found.where == "1; 3"


def clock(monkeypatch, seconds):
    """Let the evaluations that are timed take so many seconds, one after the other."""
    ticks = iter(t for s in seconds for t in (0.0, s))
    monkeypatch.setattr(learning.time, "perf_counter", lambda: next(ticks, 0.0))


def tried(net):
    """What is said of the invariances of a net."""
    audited = Audited(net, torch.randn(16, 6), None)
    return [f.seen for f in learning.check_invariances(audited).findings]


def test_one_slow_evaluation_leaves_no_change_untried(monkeypatch):
    net = nn.Sequential(nn.Linear(6, 6), nn.LayerNorm(6))
    shifts = "invariant: 1 of 1 weight, W → W + 1γᵀ"
    clock(monkeypatch, [100.0, 0.001, 100.0])
    assert shifts in tried(net)
    clock(monkeypatch, [100.0, 100.0, 100.0])
    assert tried(net) == ["of 1 weight only scales were tried"]


class OverCases(nn.Module):
    """A layer norm on the wrong side of a transpose: it normalizes each unit over cases."""

    def __init__(self, turned=True):
        super().__init__()
        self.first, self.norm = nn.Linear(6, 16), nn.LayerNorm(16)
        self.turned = turned

    def forward(self, x):
        a = self.first(x)
        return self.norm(a.T).T if self.turned else self.norm(a)


class ByTheLargest(nn.Module):
    """A scale that is that of the whole batch, by a number of Python's."""

    def forward(self, x):
        return {"said": x / x.abs().max().item(), "loss": x.sum()}


@pytest.mark.parametrize(
    ("module", "where"),
    [
        (OverCases(), "norm"),
        (nn.Sequential(nn.Linear(6, 6), nn.Softmax(dim=0)), "1"),
        (nn.Sequential(nn.Linear(6, 6), ByTheLargest()), "1"),
        (nn.BatchNorm1d(6, track_running_stats=False), "the module itself"),
    ],
)
def test_cases_that_see_each_other_are_told(module, where):
    (found,) = only("cases apart", module.double(), torch.randn(16, 6))
    assert (found.severity, found.where) == (Severity.RISK, where)


def test_steps_for_cases_are_told():
    layer = nn.TransformerEncoderLayer(8, 2, 8)
    (found,) = only("cases apart", layer, torch.randn(16, 5, 8))
    assert found.where == "self_attn"
    assert "batch_first" in found.do


@pytest.mark.parametrize(
    ("module", "x"),
    [
        (OverCases(turned=False), torch.randn(16, 6)),
        (nn.Sequential(nn.Linear(6, 6), nn.BatchNorm1d(6)), torch.randn(16, 6)),
        (nn.TransformerEncoderLayer(8, 2, 8, batch_first=True), torch.randn(16, 5, 8)),
        (nn.GRU(6, 6, batch_first=True), torch.randn(16, 5, 6)),
        (nn.Embedding(9, 6), torch.arange(8)),
    ],
)
def test_cases_apart_are_not_told(module, x):
    assert not only("cases apart", module, x)


def test_cases_are_not_asked_for_where_there_are_none():
    checks = ["cases apart"]
    assert (
        "one case"
        in audit(nn.Linear(6, 6), torch.randn(1, 6), checks=checks).not_run[checks[0]]
    )
    mean = nn.Sequential(nn.Linear(6, 6), nn.Flatten(0))
    assert "entry a case" in audit(mean, torch.randn(4, 6), checks=checks).not_run[checks[0]]
