"""An audit of a module on an accelerator finds what it finds of it on the CPU."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import lnlab.nn
from lnlab.auditing import audit, swap

pytestmark = pytest.mark.gpu


@pytest.fixture
def net():
    return nn.Sequential(
        nn.Linear(5, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 8, bias=False),
        nn.LayerNorm(8), nn.Linear(8, 3),
    )  # fmt: skip


def test_an_audit_finds_what_it_finds_on_the_cpu(net, device):
    x, y = torch.randn(16, 5), torch.randint(3, (16,))
    expected, report = (
        audit(net.to(d), x.to(d), y.to(d), F.cross_entropy) for d in ("cpu", device)
    )
    assert report.not_run == expected.not_run
    one, other = (
        [(f.rule, f.severity, f.where, f.meaning) for f in each.findings]
        for each in (expected, report)
    )
    assert one == other


def test_replacements_are_on_the_device_of_the_module(net, device):
    x = torch.randn(16, 5)
    plans = [
        swap(
            net.to(d),
            {nn.BatchNorm1d: lnlab.nn.BatchNorm, nn.LayerNorm: lnlab.nn.RMSNorm},
            x.to(d),
        )
        for d in ("cpu", device)
    ]
    before, after = (plan.make() for plan in plans)
    assert {p.device.type for p in after.parameters()} == {device.type}
    # float64, other orders of summation
    torch.testing.assert_close(after(x.to(device)).cpu(), before(x), rtol=1e-9, atol=1e-12)
