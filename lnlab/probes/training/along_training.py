"""A training, seen at each of its moments as the loss of the batch that comes next."""

from collections.abc import Iterable, Iterator

import torch
from torch import Tensor, nn

from lnlab.nn.table1 import Statistics
from lnlab.probes.loss.objective import Loss, Objective
from lnlab.threads import one_thread


def along_training(
    module: nn.Module,
    batches: Iterable[tuple[Tensor, Tensor]],
    loss: Loss,
    optimizer: torch.optim.Optimizer,
    *,
    every: int = 1,
    statistics: Statistics | str = Statistics.BATCH,
) -> Iterator[tuple[int, Objective]]:
    """Train, and give out the loss of a batch before the update that is made with it.

    Whatever is asked of the objectives, the training goes on as it would have without; it
    ends where nobody asks for the next.

    Args:
        module: what is trained, in place; in training mode from then on.
        batches: x and y of each update.
        loss: ``loss(module(x), y)``, a scalar.
        optimizer: what moves the module's parameters.
        every: updates from one objective to the next.
        statistics: what the objectives normalize with; the training does with those of the
            batch.

    Yields:
        How many updates there were, and the objective at that w on the batch to come.

    Raises:
        ValueError: for less than 1 in ``every``, and as :class:`Objective`.
    """
    if every < 1:
        raise ValueError(f"every is {every}: give 1 or more.")
    for update, (x, y) in enumerate(batches):
        module.train()
        if update % every == 0:
            yield update, Objective(module, x, y, loss, statistics=statistics)
        with one_thread(module, x):
            optimizer.zero_grad()
            loss(module(x), y).backward()
            optimizer.step()
