"""Permutation-invariant MNIST: what each arm is, and what a run of it computes and measures."""

from dataclasses import replace

import pytest
import torch
from torch.nn import functional as F

from lnlab.nn import Linear
from lnlab.papers.mnist import ARMS, Experiment
from lnlab.training import Batches, fit, stack

every_arm = pytest.mark.parametrize("arm", ARMS)
BUDGETS = ("smoke", "notebook", "paper")


@pytest.fixture(scope="module")
def digits():
    return Experiment(preset="smoke").dataset()


def models(task, digits):
    """The task's models side by side, in float64."""
    return stack([task.model(seed, digits) for seed in task.seeds]).double()


def layers(net):
    """The layers of a model, from the pixels to the logits."""
    return [module for module in net.modules() if isinstance(module, Linear)]


def examples(digits, *shape):
    """Examples and their classes, (*shape, D) and (*shape,), in float64."""
    indices = torch.arange(torch.Size(shape).numel()).reshape(shape) * 7 % len(digits.train)
    return digits.train.x[indices].double(), digits.train.y[indices]


@pytest.mark.parametrize(
    ("initialisation", "spread", "bound"),
    [
        ("he", (2 / 64) ** 0.5, None),
        ("torch", 64**-0.5 / 3**0.5, 64**-0.5),
        ("authors", 0.1 / 3**0.5, 0.1),
    ],
)
def test_initialisations_are_those_they_name(initialisation, spread, bound, digits):
    task = Experiment(preset="smoke", units=(400, 8), initialisation=initialisation)
    W = layers(task.model(0, digits))[0].W.detach()
    assert W.std().item() == pytest.approx(spread, rel=4 / (2 * W.numel()) ** 0.5)  # 4 errors
    assert abs(W.mean().item()) < 4 * spread / W.numel() ** 0.5  # likewise
    if bound is not None:
        assert 0.99 * bound < W.abs().max().item() <= bound


@every_arm
def test_the_order_of_the_pixels_does_not_matter(arm, digits):
    task = Experiment(preset="smoke", norm=arm, seeds=(0,))
    order = torch.randperm(64, generator=torch.Generator().manual_seed(0))
    trained = []
    for permuted in (False, True):
        net = models(task, digits).train()
        x, y = examples(digits, 40)
        if permuted:
            layers(net)[0].W.data.copy_(layers(net)[0].W[:, order])
            x = x[:, order]
        steps = fit(net, Batches(x, y, 8, [0]), task.loss, task.optimizer(net.parameters()), 2)
        losses = torch.stack([*steps])
        assert losses[-1] < losses[0]
        trained.append((losses, net.eval()(x.unsqueeze(0))))
    # ten updates of roundings: sums over the pixels run in another order
    torch.testing.assert_close(trained[1], trained[0], rtol=1e-9, atol=1e-9)


def test_batch_4_has_fewer_epochs_and_the_unbiased_variance():
    for name in BUDGETS:
        large, small = Experiment(preset=name), Experiment(preset=name, batch_size=4)
        assert small.epochs < large.epochs
        assert (large.unbiased, small.unbiased) == (False, True)
        assert replace(small, batch_size=128, epochs=large.epochs, unbiased=False) == large
    chosen = Experiment(preset="smoke", batch_size=4, epochs=7, unbiased=False)
    assert (chosen.epochs, chosen.unbiased) == (7, False)


@pytest.mark.parametrize("arm", ["layer", "batch"])
def test_evaluation_is_of_every_seed_in_evaluation_mode(arm, digits):
    task = Experiment(preset="smoke", norm=arm)
    net = models(task, digits).train()
    net(examples(digits, 2, 64)[0])
    metrics = task.evaluate(net, digits)
    assert net.training
    for seed, model in enumerate(net.unstack()):
        for split in (digits.train, digits.test):
            output = model.eval()(split.x.double())
            name = "test_nll" if split is digits.test else "train_nll"
            assert metrics[name][seed] == pytest.approx(F.cross_entropy(output, split.y).item())
        wrong = (output.argmax(1) != split.y).double().mean().item()
        assert metrics["test_error"][seed] == pytest.approx(wrong)
