"""Claims about what happens inside a net while it learns: watched in short trainings.

The net is that of notebook 04, permutation-invariant digits at batch 128, for some epochs of
the embedded digits. Seeds are paired: the same initial W, the same batches.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from lnlab.ledger.verdict import Evidence, Test, judge
from lnlab.norms import Linear, Mode, statistics_from
from lnlab.probes.along_training import along_training
from lnlab.probes.covariate_shift import shifting
from lnlab.probes.learning_rate import Turning, scale_invariant
from lnlab.probes.record import record
from lnlab.probes.smoothness import smoothness, steps
from lnlab.runs import Run
from lnlab.runs.environment import device_name
from lnlab.tasks import PermutationInvariantMNIST as Task
from lnlab.training import Batches, evaluating
from lnlab.training.course import models
from lnlab.training.machine import one_thread

SEEDS = range(5)
EPOCHS = 6
WHOLE = 30
"""The epochs of notebook 04."""
EVERY = 5
"""Updates from one measurement to the next."""
RATE = 0.1
"""The learning rate of plain gradient descent, which needs more epochs than Adam."""
DESCENT = 20

Number = Callable[[int], float]
"""A seed to a number, which the claim says is negative."""

EFFECTIVE = "log of eta/||W||^2 at the end over that at the start, mean of the hidden layers"
VARIATION = "log10 of the range of the loss along its gradient (eta 1/2 to 4 times 0.1)"
SHIFTS = {
    "drift": "drift of distributions (of the mean of a unit, over the standard deviation)",
    "gradients": "turn of gradients by steps of the layers below (1 - cos(G, G'))",
}
SHIFT = "log of the ratio, mean over a whole training and the layers above the first"


def watched(number: Number, quantity: str) -> Test:
    """The test of "this number is negative" of nets that learn as the test is made."""

    def test(runs: Sequence[Run]) -> Evidence:
        with one_thread():  # how many there are shows in the last bits
            values = tuple(number(seed) for seed in SEEDS)
        verdict, ends = judge(values, own=False)
        digits = Task.budget("notebook").dataset()
        made_on = f"{digits.kind}: {digits.name}, 128-128 hidden units, {len(values)} seeds"
        hardware = device_name(torch.device("cpu"))
        return Evidence(verdict, quantity, ends, values if ends else (), made_on, hardware)

    return test


def learning(
    arm: str, seed: int, epochs: int = EPOCHS
) -> tuple[nn.Module, Iterator[tuple[Tensor, Tensor]], Task]:
    """The net of one arm and one seed, and the batches that it sees."""
    task = Task.budget("notebook", norm=arm, seeds=(seed,), fused=False)
    digits = task.dataset()
    batches = Batches(digits.train.x, digits.train.y, task.batch_size, seeds=[seed])
    cases = ((x[0], y[0]) for epoch in range(epochs) for x, y in batches.epoch(epoch))
    return models(task, digits)[0], cases, task


class Shifted(NamedTuple):
    """Mean logarithms of how much the layers above the first are disturbed.

    Attributes:
        gradients: of 1 - cos(G, G') of single updates.
        drift: of how far the mean of a unit's summed inputs moves in 20 updates, over the
            standard deviation of all of them; of 500 cases that stay the same.
    """

    gradients: float
    drift: float


@cache
def shifted(arm: str, seed: int) -> Shifted:
    """How much a whole training as in notebook 04 disturbs what its layers are given.

    Batch norm has the statistics of the cases at hand, as in training.
    """
    net, cases, task = learning(arm, seed, WHOLE)
    x = task.dataset().train.x[:500]
    layers = [name for name, part in net.named_modules() if isinstance(part, Linear)][1:-1]
    ear = record(net, layers, evaluation=True, also=["drift"])
    gradients, optimizer = [], task.optimizer(net.parameters())
    for _, shifts in shifting(net, cases, F.cross_entropy, optimizer, every=4 * EVERY):
        gradients += [1 - shift.cosine for shift in shifts[1:]]
        with ear, evaluating(net), statistics_from(net, Mode.BATCH):
            net(x)
    seen = ear.frame().dropna()
    relative = seen["drift_mean"] / seen["std"]
    return Shifted(*(float(np.log(np.asarray(v)).mean()) for v in (gradients, relative)))


def less_shift(arm: str, other: str, of: str) -> Number:
    """The log of how many times the shift of ``arm`` is that of ``other``."""
    return lambda seed: getattr(shifted(arm, seed), of) - getattr(shifted(other, seed), of)


@cache
def variation(arm: str, seed: int) -> float:
    """How far the loss moves along its gradient, in powers of 10, in training by SGD."""
    net, cases, _ = learning(arm, seed, DESCENT)
    optimizer = torch.optim.SGD(net.parameters(), lr=RATE)
    seen = along_training(net, cases, F.cross_entropy, optimizer, every=4 * EVERY)
    ends = (smoothness(objective, steps(RATE)).variation for _, objective in seen)
    return float(np.mean([np.log10(high - low) for low, high in ends]))


def less_variation(arm: str, other: str) -> Number:
    """How much more the loss of ``arm`` moves than that of ``other``."""
    return lambda seed: variation(arm, seed) - variation(other, seed)


def effective_rate_falls(seed: int) -> float:
    """How far the effective learning rate of layer norm's weights moves by plain descent."""
    net, cases, _ = learning("layer", seed)
    optimizer = torch.optim.SGD(net.parameters(), lr=RATE)
    first = next(cases)
    invariant = scale_invariant(net, first[0])
    with Turning(net, optimizer, invariant, names=invariant) as seen:
        for x, y in (first, *cases):
            optimizer.zero_grad()
            F.cross_entropy(net(x), y).backward()
            optimizer.step()
    rates = seen.frame().pivot(index="step", columns="name", values="effective")
    return float(np.log(rates.iloc[-1] / rates.iloc[0]).mean())
