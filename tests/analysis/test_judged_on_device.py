"""What is told of a module on an accelerator is what is told of it on the CPU."""

from functools import partial

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import lnlab.nn
from lnlab.analysis.certify import certify
from lnlab.analysis.conformance import conformance
from lnlab.analysis.feature_maps import contrast, contributions, maps, over_units
from lnlab.analysis.rnn_dynamics import disagreement, same_weights
from lnlab.analysis.smoothness import along_training
from lnlab.nn import PUBLISHED
from tests.pretend import waited

pytestmark = pytest.mark.gpu


def layer(norm, units=6):
    return nn.Sequential(lnlab.nn.Linear(5, units, norm), nn.ReLU(), nn.Linear(units, 3))


@pytest.mark.parametrize("norm", [lnlab.nn.LayerNorm, lnlab.nn.BatchNorm])
def test_a_certificate_has_the_grades_of_the_cpu(norm, device):
    module, x = layer(norm), torch.randn(8, 5)
    expected, found = (certify(module.to(d), x.to(d)) for d in ("cpu", device))
    assert found.evaluations == expected.evaluations
    assert found.not_tried == expected.not_tried == {}
    for one, other in zip(found.invariances, expected.invariances, strict=True):
        told = ("where", "column", "mode", "dtype", "grade", "inside")
        assert [getattr(one, name) for name in told] == [getattr(other, name) for name in told]
        if one.dtype == "float64":  # other orders of summation
            assert one.defect == pytest.approx(other.defect, rel=1e-7, abs=1e-12)


@pytest.mark.parametrize(
    "norm",
    [
        nn.LayerNorm(6),
        nn.BatchNorm1d(6),
        nn.GroupNorm(2, 6),
        lnlab.nn.RMSNorm(6, eps=1e-3),
        nn.LayerNorm(6, elementwise_affine=False),
        nn.Sequential(nn.Linear(6, 6), nn.LayerNorm(6)),
    ],
    ids=lambda norm: type(norm).__name__,
)
def test_a_normalizer_is_told_as_on_the_cpu(norm, device):
    x = torch.randn(8, 6)
    expected, found = (conformance(norm.to(d), x.to(d)) for d in ("cpu", device))
    told = [
        [(aspect.what, aspect.wrong) for aspect in report.findings]
        for report in (found, expected)
    ]
    assert told[0] == told[1]
    assert found.kind == expected.kind


def test_a_normalizer_is_given_an_input_where_it_is(device):
    for norm in (nn.LayerNorm(6), nn.BatchNorm2d(6), lnlab.nn.BatchNorm(6)):
        assert conformance(norm.to(device)).conforms, norm


class Pictures(nn.Module):
    """A convolution and logits."""

    def __init__(self):
        super().__init__()
        self.first = lnlab.nn.Conv2d(2, 3, 3, partial(lnlab.nn.LayerNorm, space=2), padding=1)
        self.logits = nn.Linear(144, 5)

    def forward(self, x):
        return self.logits(F.relu(self.first(x)).flatten(1))


def numbers(device):
    """What else is told of modules and of cells, on the CPU."""
    torch.manual_seed(0)
    net, x, y = Pictures(), torch.randn(7, 2, 6, 8), torch.randint(5, (7,))
    net, x, y = net.to(device), x.to(device), y.to(device)
    summed = partial(F.cross_entropy, reduction="sum")
    (found,) = maps(net, x, ["first"]).values()
    weights = (torch.randn(*shape).to(device) for shape in ((32, 3), (32, 8), (32,)))
    apart = disagreement(same_weights(PUBLISHED, *weights), torch.randn(6, 4, 3).to(device))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    seen = along_training(net, [(x, y)] * 3, F.cross_entropy, optimizer)
    return {
        "maps": torch.stack(found),
        "contrast": torch.tensor(contrast(found)),
        "over units": torch.stack([*over_units(found).values()]),
        "contributions": contributions(net, x, y, ["first"], summed)["first"],
        "disagreement": torch.stack([*apart.values()]),
        "along training": torch.stack([each.gradient()[1] for _, each in seen]),
    }


def test_everything_else_has_the_numbers_of_the_cpu(device):
    found = numbers(device)
    assert not waited["indices of the CPU"]
    for name, expected in numbers("cpu").items():
        # float64, other orders of summation
        torch.testing.assert_close(found[name].cpu(), expected, rtol=1e-7, atol=1e-9, msg=name)
