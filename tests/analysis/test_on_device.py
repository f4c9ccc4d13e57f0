"""What is measured of a model on an accelerator is what is measured of it on the CPU."""

from functools import partial
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import lnlab.nn
from lnlab.analysis import fisher
from lnlab.analysis.feature_maps import (
    contrast,
    map_statistics,
    mean_over_units,
    unit_contributions,
)
from lnlab.analysis.hessian import extreme_eigenvalues, hessian_spectrum, hessian_trace
from lnlab.analysis.internal_covariate_shift import train_with_shifts
from lnlab.analysis.invariances import check_invariances
from lnlab.analysis.landscape import (
    linear_interpolation,
    loss_landscape,
    random_directions,
    random_lines,
    training_path,
)
from lnlab.analysis.module_copy import BN_STATS
from lnlab.analysis.norm_gradients import gradient_norms, norm_call
from lnlab.analysis.norm_identity import identify_norm
from lnlab.analysis.objective import Objective, train_and_yield
from lnlab.analysis.recorder import record
from lnlab.analysis.rnn_dynamics import disagreement, dynamics, output_scales, same_weights
from lnlab.analysis.rotation import effective_learning_rate, scale_invariant_weights
from lnlab.analysis.smoothness import gradient_smoothness, step_sizes
from lnlab.nn import PUBLISHED_LSTMS, LayerNorm, LSTMCell
from tests.pretend import waited

pytestmark = pytest.mark.gpu


def geometry(device, bn_stats):
    """All that is measured of a loss."""
    torch.manual_seed(0)
    layers = nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3)
    net, x, y = nn.Sequential(*layers), torch.randn(40, 6), torch.randint(3, (40,))
    loss = Objective(
        net.to(device), x.to(device), y.to(device), F.cross_entropy, bn_stats=bn_stats
    )
    along = gradient_smoothness(loss, eta=step_sizes(0.1))
    other = loss.start + random_directions(loss, 1, seed=5)[0]
    moved = [loss.start + k * d for k, d in enumerate(random_directions(loss, 4, seed=2))]
    path = training_path(moved)
    return {
        "smoothness": torch.tensor([*along.summary().values()]),
        "distances": along.distances,
        "landscape": loss_landscape(loss, points=3).losses,
        "lines": torch.stack([ln.losses for ln in random_lines(loss, count=2, points=3)]),
        "between": linear_interpolation(loss, other=other, points=5).losses,
        "largest": extreme_eigenvalues(loss, count=2, tolerance=1e-9).largest,
        "trace": hessian_trace(loss, draws=3).values,
        "spectrum": torch.tensor([hessian_spectrum(loss, draws=2, steps=5).mean]),
        "path": torch.cat([path.explained, path.distances]),
    }


def learning(device):
    """Metric, shift, turning and gradients of normalizers."""
    torch.manual_seed(0)
    layers = lnlab.nn.Linear(6, 8, LayerNorm), nn.ReLU(), lnlab.nn.Linear(8, 3)
    x, y = torch.randn(20, 6).to(device), torch.randint(3, (20,)).to(device)
    net = nn.Sequential(*layers).to(device)
    glm = fisher.GLM(torch.randn(4, 6).to(device), x, LayerNorm, fisher.CATEGORICAL)
    F_exact, outputs = fisher.metric(glm), fisher.fisher_information(net, x)
    loss = Objective(net, x, y, F.cross_entropy)
    steps = fisher.radial(glm).values()
    costs = [(fisher.ds2(F_exact, s), fisher.divergence(glm, s)) for s in steps]
    found = {
        "metric": F_exact,
        "eq. 13": fisher.metric_of_paper(glm),
        "gap": torch.tensor(fisher.gap(glm)),
        "chi": fisher.chi(glm),
        "along gains": torch.stack([fisher.gain_metric(glm), fisher.gain_metric_32(glm)]),
        "steps": torch.tensor(costs),
        "dense": outputs.dense(),
        "parts": torch.stack(norm_call(loss, "0.norm").parts),
        "gradients": torch.tensor([*gradient_norms(loss).values()]),
    }
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    recorder = record(net, what=["activations", "gradients"], also=["drift", "rank", "cosine"])
    with (
        recorder,
        effective_learning_rate(net, optimizer, scale_invariant_weights(net, x)) as turning,
    ):
        shifts = list(train_with_shifts(net, [(x, y)] * 3, F.cross_entropy, optimizer))
    found["shifts"] = torch.tensor([s[1:] for _, layers in shifts for s in layers])
    for name, frame in (("turning", turning.to_frame()), ("recorded", recorder.to_frame())):
        found[name] = torch.from_numpy(frame.select_dtypes("number").to_numpy(float))
    return found


class Pictures(nn.Module):
    """A convolution and logits."""

    def __init__(self):
        super().__init__()
        self.first = lnlab.nn.Conv2d(2, 3, 3, partial(LayerNorm, space=2), padding=1)
        self.logits = nn.Linear(144, 5)

    def forward(self, x):
        return self.logits(F.relu(self.first(x)).flatten(1))


def inside(device):
    """What is measured inside of networks and cells."""
    torch.manual_seed(0)
    net, x, y = Pictures(), torch.randn(7, 2, 6, 8), torch.randint(5, (7,))
    net, x, y = net.to(device), x.to(device), y.to(device)
    summed = partial(F.cross_entropy, reduction="sum")
    (found,) = map_statistics(net, x, layers=["first"]).values()
    weights = (torch.randn(*shape).to(device) for shape in ((32, 3), (32, 8), (32,)))
    sequence, cell = torch.randn(6, 4, 3).to(device), LSTMCell(3, 5).double().to(device)
    apart = disagreement(same_weights(PUBLISHED_LSTMS, *weights), sequence)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    seen = train_and_yield(net, [(x, y)] * 3, F.cross_entropy, optimizer)
    return {
        "maps": torch.stack([*vars(found).values()]),
        "contrast": torch.tensor(contrast(found)),
        "over units": torch.stack([*mean_over_units(found).values()]),
        "contributions": unit_contributions(net, x, y, summed, layers=["first"])["first"],
        "disagreement": torch.stack([*apart.values()]),
        "dynamics": torch.stack([*vars(dynamics(cell, sequence)).values()]),
        "scales": output_scales(cell, cell.norm_h, sequence),
        "along training": torch.stack([each.gradient()[1] for _, each in seen]),
    }


MEASURED = {f"loss, {s}": partial(geometry, bn_stats=s) for s in BN_STATS}
MEASURED |= {"learning": learning, "inside": inside}


@pytest.mark.parametrize("measure", MEASURED.values(), ids=MEASURED)
def test_every_analysis_gives_the_numbers_of_the_cpu(measure: Any, device):
    found = measure(device)
    assert not waited["indices of the CPU"]
    for name, expected in measure("cpu").items():
        # float64, other orders of summation
        torch.testing.assert_close(
            found[name].cpu(), expected, rtol=1e-7, atol=1e-9, equal_nan=True, msg=name
        )


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm, self.last = nn.LSTM(6, 4, batch_first=True), nn.Linear(4, 3)

    def forward(self, x):
        return self.last(self.lstm(x.unsqueeze(1).expand(-1, 3, -1))[0][:, -1])


class Attentive(Recurrent):
    def __init__(self):
        super().__init__()
        self.lstm = nn.TransformerEncoderLayer(6, 2, 4, dropout=0.0, batch_first=True)
        self.last = nn.Linear(6, 3)

    def forward(self, x):
        return self.last(self.lstm(torch.stack([x, x.roll(1, 0)], 1)).mean(1))


@pytest.mark.parametrize("make", [Recurrent, Attentive])
@pytest.mark.parametrize("bn_stats", ["batch", "running"])
def test_what_is_fused_on_a_device_has_the_derivatives_of_the_cpu(make, bn_stats, device):
    x, y = torch.randn(20, 6), torch.randint(3, (20,))
    model, found = make(), []
    v = torch.randn(sum(p.numel() for p in model.parameters()))
    for d in ("cpu", device):
        given = model.to(d), x.to(d), y.to(d), F.cross_entropy
        loss = Objective(*given, bn_stats=bn_stats)
        found.append([loss.gradient()[1].cpu(), loss.hessian_product()(v.to(d)).cpu()])
    # float64, other orders of summation
    torch.testing.assert_close(found[1], found[0], rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("norm", [LayerNorm, lnlab.nn.BatchNorm])
def test_invariances_have_the_grades_of_the_cpu(norm, device):
    module = nn.Sequential(lnlab.nn.Linear(5, 6, norm), nn.ReLU(), nn.Linear(6, 3))
    x = torch.randn(8, 5)
    expected, found = (check_invariances(module.to(d), x.to(d)) for d in ("cpu", device))
    assert found.evaluations == expected.evaluations
    assert found.not_tried == expected.not_tried == {}
    for one, other in zip(found.invariances, expected.invariances, strict=True):
        fields = ("where", "column", "mode", "dtype", "grade", "inside")
        assert [getattr(one, name) for name in fields] == [
            getattr(other, name) for name in fields
        ]
        if one.dtype == "float64":  # other orders of summation
            assert one.defect == pytest.approx(other.defect, rel=1e-7, abs=1e-12)


@pytest.mark.parametrize(
    "norm",
    [nn.LayerNorm(6), nn.BatchNorm1d(6), lnlab.nn.RMSNorm(6, eps=1e-3), nn.GroupNorm(2, 6)],
    ids=lambda norm: type(norm).__name__,
)
def test_a_normalizer_is_identified_as_on_the_cpu(norm, device):
    x = torch.randn(8, 6)
    expected, found = (identify_norm(norm.to(d), x.to(d)) for d in ("cpu", device))
    assert found.kind == expected.kind
    rows = [[(f.what, f.wrong) for f in each.properties] for each in (found, expected)]
    assert rows[0] == rows[1]
    assert identify_norm(lnlab.nn.LayerNorm(6).to(device)).conforms  # given an input there
