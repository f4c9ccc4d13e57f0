"""What is measured of a module on an accelerator is what is measured of it on the CPU."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from lnlab.analysis.hessian import density, ends, trace
from lnlab.analysis.loss_landscape import band, between, path, random_directions, surface
from lnlab.analysis.objective import Objective
from lnlab.analysis.rnn_dynamics import dynamics, scales
from lnlab.analysis.smoothness import smoothness, steps
from lnlab.nn import LSTMCell
from lnlab.nn.table1 import Statistics
from tests.pretend import waited

pytestmark = pytest.mark.gpu


def objective(statistics, device):
    torch.manual_seed(0)
    layers = nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3)
    x, y = torch.randn(40, 6), torch.randint(3, (40,))
    net = nn.Sequential(*layers).to(device)
    return Objective(net, x.to(device), y.to(device), F.cross_entropy, statistics=statistics)


def numbers(here):
    """Everything that a probe returns for a reader, on the CPU."""
    along = smoothness(here, steps(0.1))
    other = here.start + random_directions(here, 1, seed=5)[0]
    moved = [here.start + k * d for k, d in enumerate(random_directions(here, 4, seed=2))]
    trodden = path(moved)
    return {
        "smoothness": torch.tensor([*along.row().values()]),
        "distances": along.distances,
        "surface": surface(here, points=3).losses,
        "band": torch.stack([line.losses for line in band(here, 2, points=3)]),
        "between": between(here, other, points=5).losses,
        "largest": ends(here, 2, tolerance=1e-9).largest,
        "trace": trace(here, 3).values,
        "density": torch.tensor([density(here, 2, steps=5).mean]),
        "path": torch.cat([trodden.explained, trodden.distances]),
    }


def test_random_numbers_of_a_device_are_not_moved_by_what_is_elsewhere(device):
    if device.type == "pretend":
        pytest.skip("the pretended device draws from the generator of the CPU")
    torch.cuda.manual_seed(7)
    before = torch.cuda.get_rng_state(device)
    objective(Statistics.BATCH, "cpu").gradient()
    assert torch.equal(torch.cuda.get_rng_state(device), before)


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
@pytest.mark.parametrize("statistics", ["batch", "frozen"])
def test_curvature_of_what_is_fused_on_a_device_is_that_of_the_cpu(make, statistics, device):
    x, y = torch.randn(20, 6), torch.randint(3, (20,))
    module, products = make(), []
    v = torch.randn(sum(p.numel() for p in module.parameters()))
    for d in ("cpu", device):
        given = module.to(d), x.to(d), y.to(d), F.cross_entropy
        found = Objective(*given, statistics=statistics)
        products.append(found.hessian_product()(v.to(d)).cpu())
    # float64, other orders of summation
    torch.testing.assert_close(products[1], products[0], rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("statistics", Statistics)
def test_every_probe_gives_the_numbers_of_the_cpu(statistics, device):
    found, expected = (numbers(objective(statistics, d)) for d in (device, "cpu"))
    assert not waited["indices of the CPU"]
    for name, value in expected.items():
        assert found[name].device.type == "cpu", name
        # float64, other orders of summation
        torch.testing.assert_close(found[name], value, rtol=1e-7, atol=1e-9, msg=name)


def test_what_a_cell_does_in_time_is_what_it_does_on_the_cpu(device):
    torch.manual_seed(1)
    cell, x = LSTMCell(3, 5).double(), torch.randn(6, 4, 3, dtype=torch.float64)
    expected = [*dynamics(cell, x), scales(cell, cell.norm_h, x)]
    cell.to(device)
    found = [*dynamics(cell, x.to(device)), scales(cell, cell.norm_h, x.to(device))]
    for one, other in zip(found, expected, strict=True):
        assert one.device.type == device.type
        torch.testing.assert_close(one.cpu(), other, rtol=1e-7, atol=1e-9)
