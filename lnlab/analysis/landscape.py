"""The loss on lines and planes through the parameters of a model, by Li et al. (2018).

A picture of a landscape can be judged only if one knows its directions, how far it goes, and
where BatchNorm's statistics come from at each point: all of this is part of the result.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from lnlab.analysis.magnitudes import vector_norm
from lnlab.analysis.objective import Loss, Objective, as_objective
from lnlab.analysis.random import normal
from lnlab.analysis.result import AnalysisResult, DataFrame, Figure, make_frame
from lnlab.progress import progress as bar
from lnlab.threads import in_one_thread_if_small

TINY = 1e-10
"""Added to the length of a random row by Li et al.'s code."""


@dataclass(frozen=True)
class LossLandscape(AnalysisResult):
    """Losses on a grid through w: L(w + alpha d_1 + beta d_2 + ...)."""

    coordinates: tuple[Tensor, ...]  # along each direction, one tensor (K,) for each
    losses: Tensor  # (K_1, K_2, ...)
    centre_loss: float  # the loss at w itself, where all coordinates are 0
    bn_stats: str | None  # where statistics over examples came from at every point
    direction_norms: tuple[float, ...]  # of each direction
    weight_norm: float  # the length of w
    example_count: int  # how many the loss is a mean of
    seed: int | None = None  # of random directions; None for others

    def summary(self, training_loss: float | None = None) -> dict[str, float | str]:
        """Return numbers that show whether the picture can be trusted.

        ``training_loss`` is what the training reported for the same examples: if the centre is
        another loss, statistics or examples are not what one thinks.
        """
        finite = self.losses[self.losses.isfinite()]
        numbers: dict[str, float | str] = {
            "statistics over examples": self.bn_stats or "none",
            "loss at the centre": self.centre_loss,
            "smallest loss on the grid": float(finite.min()) if len(finite) else float("nan"),
            "largest loss on the grid": float(finite.max()) if len(finite) else float("nan"),
            "points not finite": self.losses.numel() - len(finite),
            "examples": self.example_count,
        }
        directions = zip(self.coordinates, self.direction_norms, strict=True)
        for axis, (at, length) in enumerate(directions, start=1):
            # If the scale of w does not matter, a short w looks sharp and a long one flat in
            # steps of the same length (Li et al., section 4): so in lengths of w.
            reach = float(at.abs().max()) * length / self.weight_norm
            numbers[f"reach of direction {axis}, in norms of w"] = reach
        if self.seed is not None:
            numbers["seed of the directions"] = self.seed
        if training_loss is not None:
            # to the digits of a loss: a difference by rounding is none, and has no sign
            difference = round(self.centre_loss - training_loss, 6)
            numbers["loss at the centre - reported loss"] = difference or 0.0
        return numbers

    def to_frame(self) -> DataFrame:
        """Return one row per point: its coordinates and its loss."""
        axes = torch.meshgrid(*self.coordinates, indexing="ij")
        columns = {f"direction {i}": axis.flatten() for i, axis in enumerate(axes, start=1)}
        return make_frame({**columns, "loss": self.losses.flatten()}).astype(float)

    def plot(self) -> Figure:
        """Return the plane as a surface, or the line as a curve."""
        from lnlab.figures import landscape

        if len(self.coordinates) > 2:
            raise ValueError(
                f"{len(self.coordinates)} directions cannot be drawn: choose one or two."
            )
        made_on = f"{self.example_count} examples"
        if len(self.coordinates) == 2:
            return landscape.loss_surfaces({"": self}, made_on=made_on)
        return landscape.loss_lines_and_range_bands(
            {"": {"loss": [self]}}, x="along the line", made_on=made_on
        )


def loss_landscape(
    model: nn.Module | Objective,
    x: Tensor | None = None,
    y: Any = None,
    loss_fn: Loss | None = None,
    *,
    directions: Tensor | None = None,
    extent: float = 1.0,
    points: int = 25,
    seed: int = 0,
    bn_stats: str | None = None,
    progress: bool = False,
) -> LossLandscape:
    """Return the loss on a plane, or on a line, through the parameters of ``model``.

    Args:
        model, x, y, loss_fn: as for :class:`Objective`; or an Objective as ``model`` alone.
        directions: the directions (2, P) that span the plane, or (1, P) for a line; None draws
            two random ones and normalizes each filter to the norm of the model's (Li et al.,
            2018).
        extent: the grid reaches from -extent to extent times each direction.
        points: the number of grid points along each direction; if it is odd, one of them is the
            model itself.
        seed: of the random directions.
        bn_stats: which statistics BatchNorm uses; required if the model has one: "batch" (those
            of x, as in training), "running" (as in evaluation) or "recomputed" from x
            (only for batch normalization of torch or lnlab).
        progress: whether to show a progress bar.

    Examples:
        >>> landscape = lnlab.loss_landscape(net, x, y, F.cross_entropy, points=9)
        >>> landscape.plot().show()
        >>> landscape.save("landscape.html")
    """
    objective = as_objective(model, x, y, loss_fn, bn_stats)
    at = _centred_grid(extent, points)
    if directions is not None:
        return evaluate_grid(objective, directions, [at] * len(directions), progress=progress)
    random = random_filter_normalized_directions(objective, 2, seed=seed)
    return replace(evaluate_grid(objective, random, [at, at], progress=progress), seed=seed)


def _centred_grid(extent: float, points: int) -> Tensor:
    """Return points from -extent to extent; if their number is odd, the middle is 0."""
    # torch.linspace misses 0 by a rounding
    steps = torch.arange(1 - points, points, 2, dtype=torch.float64)
    return extent * steps / max(1, points - 1)


def losses_on_random_lines(
    model: nn.Module | Objective,
    x: Tensor | None = None,
    y: Any = None,
    loss_fn: Loss | None = None,
    *,
    count: int = 5,
    extent: float = 1.0,
    points: int = 25,
    seed: int = 0,
    bn_stats: str | None = None,
    progress: bool = False,
) -> list[LossLandscape]:
    """Return the loss on lines in random directions (P,): a single one is an anecdote.

    Arguments as in :func:`loss_landscape`.
    """
    objective = as_objective(model, x, y, loss_fn, bn_stats)
    at = _centred_grid(extent, points)
    return [
        replace(evaluate_grid(objective, direction[None], [at], progress=progress), seed=seed)
        for direction in random_filter_normalized_directions(objective, count, seed=seed)
    ]


def linear_interpolation(
    model: nn.Module | Objective,
    x: Tensor | None = None,
    y: Any = None,
    loss_fn: Loss | None = None,
    *,
    other: Tensor | nn.Module,
    points: int = 25,
    bn_stats: str | None = None,
    progress: bool = False,
) -> LossLandscape:
    """Return the loss on the line from w (at 0) to another solution (at 1), and half beyond.

    ``other`` is the other model, or its parameters (P,). Running statistics are those of w
    along the whole line, which is wrong at its other end.
    """
    objective = as_objective(model, x, y, loss_fn, bn_stats)
    end = objective.parameters_of(other) if isinstance(other, nn.Module) else other
    objective.check_vector("other", end)
    # beyond both ends, to see whether each is a minimum along the line
    at = torch.linspace(-0.5, 1.5, points, dtype=torch.float64)
    return evaluate_grid(objective, (end - objective.start)[None], [at], progress=progress)


@in_one_thread_if_small
@torch.no_grad()
def evaluate_grid(
    objective: Objective, directions: Tensor, at: Sequence[Tensor], *, progress: bool = False
) -> LossLandscape:
    """Return the loss at every combination of coordinates along ``directions`` (n, P).

    ``at`` has the coordinates along each of them, n vectors.
    """
    if not bool(directions.isfinite().all()) or not bool(directions.any(dim=1).all()):
        raise ValueError("a direction is 0 or not finite: give another.")
    w, directions = objective.start, directions.to(objective.start)
    losses = torch.empty([len(a) for a in at], dtype=torch.float64)
    grid = list(torch.cartesian_prod(*(torch.arange(len(a)) for a in at)).view(-1, len(at)))
    for index in bar(grid, len(grid), "landscape", shown=progress):
        coordinates = torch.stack([a[i] for a, i in zip(at, index, strict=True)])
        losses[tuple(index)] = objective(w + coordinates.to(w) @ directions).double()
    return LossLandscape(
        coordinates=tuple(at),
        losses=losses,
        centre_loss=objective.value(),
        bn_stats=objective.bn_stats,
        direction_norms=tuple(vector_norm(directions, 1).tolist()),
        weight_norm=float(vector_norm(w)),
        example_count=len(objective.x),
    )


@in_one_thread_if_small
def random_filter_normalized_directions(
    objective: Objective, count: int, *, seed: int = 0
) -> Tensor:
    """Return random directions (count, P), filter-normalized: Li et al. (2018), section 4.

    Each row (each filter) of a direction is as long as that row of the parameter; vectors
    (biases, gains) are 0 in it. The numbers depend on the seed and on the place of a parameter
    among the others alone.
    """
    parameters = list(objective.unflatten(objective.start).values())

    def direction_tensors(direction_index: int) -> Iterator[Tensor]:
        for i, W in enumerate(parameters):
            if W.dim() < 2:
                yield torch.zeros_like(W)
                continue
            rows = normal(seed, (direction_index, i), *W.shape).to(W).flatten(1)
            # d_i <- d_i ||w_i|| / ||d_i|| for each filter i: a step of 1 changes every filter
            # by its own length, so that models with weights of other lengths compare
            length = vector_norm(W.flatten(1), 1, keepdim=True)
            yield (rows * (length / (vector_norm(rows, 1, keepdim=True) + TINY))).to(W)

    return torch.stack([objective.flatten(list(direction_tensors(n))) for n in range(count)])
