"""Metric, shift, turning and the way back on an accelerator: the numbers of the CPU."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import lnlab.nn
from lnlab.analysis.covariate_shift import shifting
from lnlab.analysis.effective_learning_rate import Turning, scale_invariant
from lnlab.analysis.fisher import (
    CATEGORICAL,
    GLM,
    Divergence,
    chi,
    divergence,
    ds2,
    gain_metric,
    gain_metric_32,
    gap,
    metric,
    metric_of_paper,
    radial,
)
from lnlab.analysis.norm_gradients import gradient_norms, microscope
from lnlab.analysis.objective import Objective
from lnlab.analysis.recorder import record
from lnlab.nn.table1 import Statistics
from tests.pretend import waited

pytestmark = pytest.mark.gpu


def numbers(device):
    """Everything that these probes return for a reader, on the CPU."""
    torch.manual_seed(0)
    layers = lnlab.nn.Linear(6, 8, lnlab.nn.LayerNorm), nn.ReLU(), lnlab.nn.Linear(8, 3)
    x, y = torch.randn(20, 6).to(device), torch.randint(3, (20,)).to(device)
    net = nn.Sequential(*layers).to(device)
    glm = GLM(torch.randn(4, 6).to(device), x, lnlab.nn.LayerNorm, CATEGORICAL)
    outputs = Divergence(net, x, statistics=Statistics.FROZEN)
    objective = Objective(net, x, y, F.cross_entropy, statistics=Statistics.BATCH)
    found = {
        "metric": metric(glm).cpu(),
        "eq. 13": metric_of_paper(glm).cpu(),
        "gap": torch.tensor(gap(glm)),
        "chi": chi(glm).cpu(),
        "along gains": torch.stack([gain_metric(glm), gain_metric_32(glm)]).cpu(),
        "steps": torch.tensor(
            [(ds2(metric(glm), step), divergence(glm, step)) for step in radial(glm).values()]
        ),
        "dense": outputs.dense().cpu(),
        "product": outputs.fisher_product()(outputs.start).cpu(),
        "parts": torch.stack(microscope(objective, "0.norm")).cpu(),
        "gradients": torch.tensor([*gradient_norms(objective).values()]),
    }
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    ear = record(net, what=["activations", "gradients"], also=["drift", "rank", "cosine"])
    with ear, Turning(net, optimizer, scale_invariant(net, x)) as turning:
        shifts = list(shifting(net, [(x, y)] * 3, F.cross_entropy, optimizer))
    found["shifts"] = torch.tensor([s[1:] for _, layers in shifts for s in layers])
    for name, frame in (("turning", turning.frame()), ("heard", ear.frame())):
        found[name] = torch.from_numpy(frame.select_dtypes("number").to_numpy(float))
    return found


def test_every_probe_gives_the_numbers_of_the_cpu(device):
    found = numbers(device)
    assert not waited["indices of the CPU"]
    for name, expected in numbers("cpu").items():
        # float64, other orders of summation
        torch.testing.assert_close(
            found[name], expected, rtol=1e-7, atol=1e-9, equal_nan=True, msg=name
        )
