"""The gallery of faults is what it says: its hosts are healthy, its faults are planted."""

import pytest
import torch

from tests.auditing import gallery
from tests.auditing import gallery_of_later_faults as later  # noqa: F401
from tests.auditing import gallery_of_published_faults as published

pytestmark = pytest.mark.slow  # the gallery seldom changes


@pytest.mark.parametrize("name", gallery.HOSTS)
def test_healthy_hosts_learn(name):
    problem = next(p for p in gallery.healthy() if p.name == name)
    optimizer = torch.optim.Adam(problem.model.parameters(), 3e-3)
    losses = []
    for _ in range(60):
        loss = problem.loss_fn(problem.model(problem.x), problem.y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.8 * losses[0]


@pytest.mark.parametrize(
    ("name", "host"),
    [(name, host) for name, plants in gallery.FAULTS.items() for host in plants],
)
def test_a_fault_changes_its_host_and_still_runs(name, host):
    problem = gallery.plant(name, host)
    whole = next(p for p in gallery.healthy() if p.name == host)
    assert str(problem.model) != str(whole.model) or any(
        not torch.equal(gradient, of_whole)
        for gradient, of_whole in zip(signature(problem), signature(whole), strict=False)
    )
    assert torch.isfinite(problem.loss_fn(problem.model(problem.x), problem.y))


def test_published_faults_are_planted_in_every_host():
    ours = {
        host
        for plants in gallery.FAULTS.values()
        for host, plant in plants.items()
        if plant.__module__ == published.__name__
    }
    assert ours == set(gallery.HOSTS)


def test_the_parts_that_faults_rewrite_are_healthy():
    for host, of_whole in zip(gallery.healthy(), gallery.healthy(), strict=True):
        for module in host.model.modules():
            if isinstance(module, gallery.SelfAttention):
                module.__class__ = published.OpenAttention
            elif isinstance(module, gallery.TransformerBlock):
                module.__class__ = published.BranchedTransformerBlock
            elif isinstance(module, gallery.ResidualBlock):
                module.__class__ = published.BranchedBlock
        for tensor, expected in zip(signature(host), signature(of_whole), strict=True):
            torch.testing.assert_close(tensor, expected)


def signature(problem):
    """What a fault changes: outputs in both modes, gradients, buffers, momentum."""
    model, tensors = problem.model, []
    for mode in (True, False):
        outputs = model.train(mode)(problem.x)
        tensors += [outputs.detach(), *(b.double() for b in model.buffers())]
    loss = problem.loss_fn(model.train()(problem.x), problem.y)
    if loss.requires_grad:
        loss.backward()
    tensors += [torch.zeros(1) if p.grad is None else p.grad for p in model.parameters()]
    return tensors
