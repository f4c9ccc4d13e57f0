"""Before and after a swap of normalizers, trained side by side."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from lnlab.analysis.module_copy import check_type
from lnlab.analysis.statistics import ends, interval
from lnlab.auditing.subject import (
    Call,
    list_tensors,
    map_tensors,
    refuse_nan,
    restored_random_state,
)
from lnlab.auditing.swap import Rules, swap
from lnlab.threads import in_one_thread
from lnlab.training import Batches

if TYPE_CHECKING:
    import pandas as pd


Losses = Callable[[Any, Any], Tensor]
"""``loss(output, y)``, a scalar."""

LAST = 0.2
"""The final loss of a run is its mean over this last part of the updates: a single batch is
mostly noise."""


@dataclass(frozen=True)
class Paired:
    """Trainings before and after a swap, seed by seed from one start on the same batches.

    Attributes:
        before: the loss of the module as it was, (seeds, updates).
        after: likewise of the new one.
        seeds: one a row.
        rates: the learning rate of each: its own best of those that were tried.
        eta_seed: the seed on which these were chosen; None where there was no choice.
    """

    before: Tensor
    after: Tensor
    seeds: tuple[int, ...]
    rates: tuple[float, float]
    eta_seed: int | None

    @property
    def differences(self) -> tuple[float, ...]:
        """After minus before, of each seed's final loss: negative if the new one is better."""
        return tuple((final(self.after) - final(self.before)).tolist())

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 % interval of the mean difference; NaN where a training diverged."""
        if not all(map(math.isfinite, self.differences)):
            return math.nan, math.nan
        return interval(self.differences)

    def __str__(self) -> str:
        low, high = self.interval
        one, other = (float(final(losses).mean()) for losses in (self.before, self.after))
        said = (
            f"final loss {one:.4g} before (eta {self.rates[0]:g}), "
            f"{other:.4g} after (eta {self.rates[1]:g}); "
            f"difference {ends((low, high))} by {len(self.seeds)} seeds"
        )
        if math.isnan(low):
            return f"{said}: a training diverged, and nothing can be said."
        if low <= 0 <= high:
            return f"{said}: it may be none."
        return f"{said}: {'better' if high < 0 else 'worse'} after the exchange."

    def to_frame(self) -> pd.DataFrame:
        """Return one row a seed: final losses before and after, and their difference."""
        import pandas as pd

        columns = {"before": final(self.before), "after": final(self.after)}
        frame = pd.DataFrame(columns, index=pd.Index(self.seeds, name="seed"))
        return frame.assign(difference=frame["after"] - frame["before"])


def final(losses: Tensor) -> Tensor:
    """Return the mean loss over the last part of each row."""
    return losses[:, -max(1, round(LAST * losses.shape[1])) :].mean(1)


@in_one_thread
def paired(
    make: Callable[[], nn.Module],
    rules: Rules,
    x: Any,
    y: Tensor,
    loss: Losses,
    *,
    updates: int = 200,
    batch: int = 32,
    seeds: Sequence[int] = (0, 1, 2, 3, 4),
    rates: Sequence[float] = (1e-3,),
    optimizer: Callable[..., torch.optim.Optimizer] = torch.optim.Adam,
) -> Paired:
    """Train a module before and after a swap, from the same start on the same batches.

    With several rates each of the two is trained at all of them on a seed of its own, and
    judged at its own best.

    Args:
        make: makes the module; called after torch's seed is set, once a seed.
        rules: as in :func:`~lnlab.auditing.swap.swap`.
        x: all cases, along the first axis; what of them makes a batch is handed to the module
            as :meth:`Call.of` says.
        y: what the loss compares outputs with, one entry a case.
        loss: ``loss(output, y)``, a scalar.
        updates: how many each training makes.
        batch: cases in a batch.
        seeds: two or more.
        rates: learning rates to choose from.
        optimizer: called with the parameters and ``lr=``.

    Raises:
        TypeError: where ``make``, the loss or the optimizer cannot be called, y is no tensor,
            or seeds or rates are a single one.
        ValueError: for x that holds NaN, fewer than two seeds, no rate, no update, a batch
            larger than the cases, as :func:`swap` and ``Batches``, or where every rate of an
            arm diverges.
    """
    for what, values in (("seeds", seeds), ("rates", rates)):
        check_type(what, values, Sequence, f"several {what}, (0, 1)")
    check_type("y", y, Tensor, "what outputs are compared with, one entry a case")
    refuse_nan(x)
    if not list_tensors(x):
        raise TypeError("x holds no tensor: give all cases, arrays as torch.as_tensor(x).")
    check_type("loss", loss, Callable, "a function of outputs and y, F.cross_entropy")
    check_type("optimizer", optimizer, Callable, "a class of torch.optim")
    if isinstance(make, nn.Module) or not callable(make):
        kind = type(make).__name__
        raise TypeError(f"make is of class {kind}: give a function that makes the module.")
    if len(seeds) < 2 or not rates or updates < 1:
        raise ValueError("give two seeds or more, a rate, and at least one update.")
    if batch > len(y):
        raise ValueError(
            f"a batch is {batch} cases, y has {len(y)}: give batch={len(y)} or less."
        )

    def losses(seed: int, rate: float, swapped: bool) -> Tensor:
        with restored_random_state():
            torch.manual_seed(seed)
            model = make()
            model = swap(model, rules).make() if swapped else model
            torch.manual_seed(seed)  # the same dropout, whatever the new modules drew
            batches = Batches(x, y, batch, [seed])
            steps = optimizer(model.parameters(), lr=rate)
            values = list(islice(train(model, batches, loss, steps), updates))
            return torch.tensor(values, dtype=torch.float64)

    tuning_seed = None if len(rates) == 1 else max(seeds) + 1
    arms, best = [], []
    for swapped in (False, True):
        rate = rates[0]
        if tuning_seed is not None:
            rate = best_rate({rate: losses(tuning_seed, rate, swapped) for rate in rates})
        arms.append(torch.stack([losses(seed, rate, swapped) for seed in seeds]))
        best.append(rate)
    return Paired(arms[0], arms[1], tuple(seeds), (best[0], best[1]), tuning_seed)


def best_rate(losses: dict[float, Tensor]) -> float:
    """Return the learning rate with the least final loss, of the losses (updates,) of each.

    Raises:
        ValueError: where all of them diverge.
    """
    finals = {rate: float(final(values[None])) for rate, values in losses.items()}
    finite = {rate: loss for rate, loss in finals.items() if math.isfinite(loss)}
    if not finite:
        tried = ", ".join(f"{rate:g}" for rate in losses)
        raise ValueError(f"every rate diverges: {tried}; lower them.")
    return min(finite, key=lambda rate: finite[rate])


def train(
    model: nn.Module, batches: Batches, loss: Losses, optimizer: torch.optim.Optimizer
) -> Iterator[float]:
    """Train without end, and yield the loss of every update."""
    model.train()
    for epoch in itertools.count():
        for stack in batches.epoch(epoch):
            # batches are stacked, one a seed, and this is the only seed
            x, y = map_tensors(tuple(stack), lambda tensor: tensor[0])
            call = Call.of(x)
            optimizer.zero_grad()
            try:
                output = model(*call.args, **call.kwargs)
            except Exception as error:  # a user's module may raise anything
                name = type(model).__name__
                raise ValueError(f"{name} does not take a batch of x: {error}") from error
            value = loss(output, y)
            value.backward()
            optimizer.step()
            yield float(value.detach())
