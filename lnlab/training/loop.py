"""The loop over updates, and measurements that leave no trace in the model."""

import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils._pytree import tree_map

from lnlab.threads import in_one_thread, one_thread
from lnlab.training.machine import placed
from lnlab.training.stacked import Stacked

if TYPE_CHECKING:
    from lnlab.training.task import Epochs

Loss = Callable[[Any, Any], Tensor]
"""A loss: from outputs and targets of S models to their losses (S,), means over the cases."""


class Step(NamedTuple):
    """One update.

    Attributes:
        update: how many there were, this one included.
        epoch: how many passes over the data they make; whole at the end of one.
        loss: the loss of each model (S,) on the batch, before the update; on the device.
        seconds: how long training took so far; what is done between two steps is not counted.
        cpu_seconds: the processor time of the same.
    """

    update: int
    epoch: float
    loss: Tensor
    seconds: float
    cpu_seconds: float


def fit(
    model: nn.Module,
    batches: "Epochs",
    loss: Loss,
    optimizer: torch.optim.Optimizer,
    epochs: int,
    *,
    start: int = 0,
    mixed: bool = False,
) -> Generator[Step, None, None]:
    """Train, one update each time that the next :class:`Step` is asked for.

    Between two steps the model is at rest: it may be measured, saved, or left where it is.
    The losses of the models are added, so each has the gradient that it would have alone.
    They are not read here, which on an accelerator would mean to wait for them: whoever
    reads them sees whether they are finite.

    Args:
        model: from x to outputs; put in training mode at the start.
        batches: the data.
        loss: from outputs and targets to the loss of each model.
        optimizer: what moves the parameters of the model.
        epochs: how many in all, those before ``start`` included.
        start: how many updates there were already.
        mixed: whether the model's products of matrices are made in bfloat16 (autocast);
            statistics, the loss and the weights stay in float32.
    """
    model.train()
    seconds = cpu_seconds = 0.0
    update = start
    for epoch in range(start // len(batches), epochs):
        cases = batches.epoch(epoch, update - epoch * len(batches))
        while True:
            began, cpu_began = time.perf_counter(), time.process_time()
            batch = next(cases, None)
            if batch is None:
                break
            x, y = batch
            with one_thread(model):
                optimizer.zero_grad()
                losses = loss(_mixed(model, x) if mixed else model(x), y)
                # the sum, as for a gradient given torch would import a second of sympy
                losses.sum().backward()
                optimizer.step()
            update += 1
            seconds += time.perf_counter() - began
            cpu_seconds += time.process_time() - cpu_began
            yield Step(update, update / len(batches), losses.detach(), seconds, cpu_seconds)


def _mixed(model: nn.Module, x: Any) -> Any:
    """The outputs of a model whose products are made in bfloat16, in the weights' precision."""
    weight = next(model.parameters())
    with torch.autocast(weight.device.type, torch.bfloat16):
        output = model(x)

    def whole(leaf: Any) -> Any:
        low = isinstance(leaf, Tensor) and leaf.dtype is torch.bfloat16
        return leaf.to(weight.dtype) if low else leaf

    return tree_map(whole, output)


def cross_entropy(output: Tensor, y: Tensor) -> Tensor:
    """Negative log likelihood in nats: scores (S, B, classes) and classes (S, B) to (S,)."""
    if len(output) == 1:  # less to do for the gradient, least of all in a view
        return F.cross_entropy(output.squeeze(0), y.squeeze(0)).unsqueeze(0)
    losses = F.cross_entropy(output.flatten(0, 1), y.flatten(), reduction="none")
    return losses.view(y.shape).mean(1)


@contextmanager
def evaluating(model: nn.Module) -> Iterator[nn.Module]:
    """The model in evaluation mode, without gradients; afterwards each part as it was."""
    modes = [(part, part.training) for part in model.modules()]
    model.eval()
    try:
        with torch.no_grad():
            yield model
    finally:
        for part, mode in modes:
            part.training = mode


@in_one_thread
def evaluate(
    model: nn.Module, x: Tensor, y: Tensor, loss: Loss, *, size: int = 1000
) -> dict[str, list[float]]:
    """``nll`` and ``error`` of each model: mean loss, and the fraction of wrong classes.

    Args:
        model: from x to a score for each class; a :class:`Stacked` one shows all of its
            models the same cases.
        x: cases (N, ...).
        y: their classes (N,), or several of each case (N, T).
        loss: as in :func:`fit`.
        size: how many cases are in memory at a time.

    Raises:
        ValueError: if there are no cases.
    """
    if len(x) == 0:
        raise ValueError("there are no cases to evaluate on.")
    weight = next(model.parameters())
    nll = wrong = torch.zeros((), dtype=torch.float64)
    with evaluating(model):
        for some_x, some_y in zip(x.split(size), y.split(size), strict=True):
            cases = len(some_x)
            some_x, some_y = placed((some_x, some_y), weight.device, weight.dtype)
            if isinstance(model, Stacked):
                some_x = some_x.expand(model.count, *some_x.shape)
                some_y = some_y.expand(model.count, *some_y.shape)
            output = model(some_x)
            nll = nll + loss(output, some_y).double().cpu() * cases
            missed = output.argmax(-1) != some_y
            wrong = wrong + missed.reshape(*nll.shape, -1).sum(-1).cpu()
    return {
        "nll": (nll / len(x)).reshape(-1).tolist(),
        "error": (wrong.double() / y.numel()).reshape(-1).tolist(),
    }
