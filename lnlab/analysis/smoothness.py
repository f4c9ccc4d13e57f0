r"""The smoothness of the loss along its gradient, by Santurkar et al. (2018), section 3.

At one moment of training, with w the parameters, g the gradient of the loss of one batch, and
steps eta over a range, all of the same batch and none of them taken:

.. math:: L(w - \eta g), \qquad d(\eta) = \lVert g - \nabla L(w - \eta g) \rVert, \qquad
    \beta = \max_\eta \frac{d(\eta)}{\eta \lVert g \rVert}

Their bands over eta are the loss variation and the gradient predictiveness; beta is the
effective smoothness. Many public copies plot something else instead, the spread between runs
of several learning rates: :func:`envelope`.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import inf

import torch
from torch import Tensor, nn

from lnlab.analysis.arguments import refuse_no_number, refuse_other
from lnlab.analysis.magnitudes import vector_norm
from lnlab.analysis.objective import Loss, Objective, refuse_no_objective
from lnlab.nn.table1 import Statistics
from lnlab.threads import in_one_thread, one_thread

STEPS = 8
"""The number of steps along the gradient that are tried."""


@dataclass(frozen=True)
class Smoothness:
    """The losses and gradients along the gradient at one w.

    Attributes:
        eta: the steps (K,), multiples of the gradient.
        loss: at w, before any step.
        losses: L(w - eta g) (K,).
        distances: from g to the gradient there (K,).
        slope: the length of g.
        weights: the length of w.
        statistics: where BatchNorm's came from; the paper's are those of the BATCH.
    """

    eta: Tensor
    loss: float
    losses: Tensor
    distances: Tensor
    slope: float
    weights: float
    statistics: Statistics

    @property
    def beta(self) -> float:
        """The effective smoothness, max distance / (eta ||g||)."""
        # eta ||g|| is the length of the step: this is the Lipschitz constant of the gradient
        # that is seen on this line, so a lower bound of the true one.
        return float((self.distances / (self.eta * self.slope)).max())

    @property
    def variation(self) -> tuple[float, float]:
        """The least and the greatest loss of all steps."""
        return float(self.losses.min()), float(self.losses.max())

    @property
    def predictiveness(self) -> tuple[float, float]:
        """The least and the greatest distance of gradients."""
        return float(self.distances.min()), float(self.distances.max())

    def row(self) -> dict[str, float]:
        """All numbers of a data frame, with those that no scale of w or of the loss changes.

        ``relative_step`` is max eta ||g|| / ||w||, ``relative_distance`` the greatest
        distance / ||g||, ``spherical_beta`` beta ||w||^2: where the loss does not depend on the
        length of w, g is as 1/||w|| and beta as 1/||w||^2, so that a net with longer weights
        looks smoother and is not.
        """
        low, high = self.variation
        least, greatest = self.predictiveness
        return {
            "loss": self.loss,
            "loss_low": low,
            "loss_high": high,
            "distance_low": least,
            "distance_high": greatest,
            "beta": self.beta,
            "gradient": self.slope,
            "weights": self.weights,
            "relative_step": float(self.eta.max()) * self.slope / self.weights,
            "relative_distance": greatest / self.slope,
            "spherical_beta": self.beta * self.weights**2,
        }


def steps(learning_rate: float, *, low: float = 0.5, high: float = 4.0) -> Tensor:
    """Steps eta from ``low`` to ``high`` times the learning rate, evenly in logarithms.

    1/2 to 4 is the range of Santurkar et al. (2018) for VGG, 1/100 to 30 for linear nets.

    Args:
        learning_rate: of the training whose steps are meant.
        low: the smallest step, in learning rates.
        high: the largest.

    Returns:
        eta (STEPS,), rising, in float64.

    Raises:
        ValueError: unless 0 < low < high and the learning rate is positive.
    """
    for name, value in (("low", low), ("high", high), ("learning_rate", learning_rate)):
        refuse_no_number(name, value)
    if not 0 < low < high < inf or not 0 < learning_rate < inf:
        raise ValueError(
            f"low is {low}, high {high}, learning_rate {learning_rate}: give 0 < low < high "
            "and a positive learning rate."
        )
    return learning_rate * torch.logspace(
        torch.tensor(low).log10(), torch.tensor(high).log10(), STEPS, dtype=torch.float64
    )


@in_one_thread
def smoothness(objective: Objective, eta: Tensor, w: Tensor | None = None) -> Smoothness:
    """Walk along the gradient at w (the module's own parameters by default), and come back.

    Args:
        objective: the loss of one batch; the protocol's statistics are those of the BATCH.
        eta: :func:`steps`, (K,).

    Raises:
        ValueError: where a step is not positive, or the gradient is zero or not finite.
    """
    refuse_no_objective(objective)
    if (
        not isinstance(eta, Tensor)
        or eta.dim() != 1
        or not bool((eta > 0).all())
        or not len(eta)
    ):
        raise ValueError(
            f"eta is {eta}: give a tensor of positive steps, steps(learning_rate)."
        )
    w = objective.start if w is None else w
    loss, g = objective.gradient(w)
    slope = float(vector_norm(g))
    if not 0 < slope < float("inf"):
        raise ValueError(f"the gradient has length {slope}: there is no way along it.")
    # each from w itself: these are steps that could be taken, not a walk
    there = [objective.gradient(w - float(each) * g) for each in eta]
    return Smoothness(
        eta=eta.cpu(),
        loss=loss,
        losses=torch.tensor([value for value, _ in there], dtype=torch.float64),
        distances=torch.stack([vector_norm(g - other) for _, other in there]).cpu(),
        slope=slope,
        weights=float(vector_norm(w)),
        statistics=objective.statistics,
    )


def envelope(runs: Sequence[Sequence[float]]) -> tuple[Tensor, Tensor]:
    """The band that most public copies plot as "loss landscape".

    It goes from the least to the greatest loss of step t over whole trainings at several
    learning rates, and is no property of the loss at any w: the runs are at other places by
    then.

    Args:
        runs: the losses of each training, all of one length T.

    Returns:
        The least and the greatest loss at each step (T,), in float64.

    Raises:
        ValueError: where they are of several lengths, or fewer than two.
    """
    refuse_other("runs", runs, Sequence, "the losses of each training, a list of lists")
    for run in runs:
        refuse_other("a run", run, (Sequence, Tensor), "its losses, a list")
    lengths = {len(run) for run in runs}
    if len(runs) < 2 or len(lengths) != 1:
        raise ValueError(
            f"there are {len(runs)} runs of {sorted(lengths)} steps: give two or more of one "
            "length."
        )
    losses = torch.tensor([list(run) for run in runs], dtype=torch.float64)
    return losses.min(0).values, losses.max(0).values


# A training, seen at each of its moments as the loss of the batch that comes next.


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
