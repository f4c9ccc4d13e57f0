"""The loss on lines and planes through the space of parameters, by Li et al. (2018).

A picture of a landscape is right only if one knows in which directions and how far it goes,
and where BatchNorm's statistics come from at each of its points: all of this is part of the
result, with what tells whether to trust it (:meth:`Surface.readout`).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from lnlab.analysis.arguments import (
    keeping,
    normal,
    refuse_no_count,
    refuse_no_number,
    refuse_no_tensor,
    refuse_other,
)
from lnlab.analysis.magnitudes import vector_norm
from lnlab.analysis.objective import Objective, refuse_no_objective
from lnlab.nn.table1 import Statistics
from lnlab.progress import progress as bar
from lnlab.threads import in_one_thread

# Directions in the space of parameters, in which a landscape is drawn.


TINY = 1e-10
"""Added to the length of a random row by Li et al.'s code."""


@in_one_thread
def random_directions(
    objective: Objective, count: int, *, seed: int = 0, normalized: bool = True
) -> Tensor:
    """Random directions (count, P), by Li et al. (2018), section 4, filter-normalized.

    Each row (each filter) of a direction has the length of that row of the parameter; vectors
    (biases, gains) are 0 there. The random numbers depend on the seed and on the place of a
    parameter among the others alone.

    Args:
        objective: the loss, with the module's own parameters.
        count: how many directions.
        seed: of the random numbers.
        normalized: whether the lengths are the parameters' own; else they stay random.

    Raises:
        ValueError: where there is no parameter of two axes or more.
    """
    refuse_no_objective(objective)
    shapes = zip(objective.names, objective.shapes, strict=True)
    if not any(len(shape) > 1 for _, shape in shapes):
        raise ValueError("no parameter has rows: a filter-normalized direction would be 0.")
    own = objective.split(objective.start)
    return torch.stack(
        [
            torch.cat(
                [
                    _direction(W, seed, (number, place), normalized).reshape(-1)
                    for place, W in enumerate(own.values())
                ]
            )
            for number in range(count)
        ]
    )


def _direction(W: Tensor, seed: int, stream: tuple[int, int], normalized: bool) -> Tensor:
    if W.dim() < 2:
        return torch.zeros_like(W)
    d = normal(seed, stream, *W.shape).to(W)
    if not normalized:
        return d
    # d_i <- d_i ||w_i|| / ||d_i|| for each filter i: a step of 1 changes every filter by its
    # own length, so that nets whose weights have other lengths can be compared.
    rows = d.flatten(1)
    length = vector_norm(W.detach().flatten(1), 1, keepdim=True)
    return (rows * (length / (vector_norm(rows, 1, keepdim=True) + TINY))).view_as(W).to(W)


@dataclass(frozen=True)
class Path:
    """The way of a training, seen in the plane in which it is widest.

    Attributes:
        directions: the two (2, P), each of length 1.
        coordinates: where each w lies in that plane (K, 2); the last is (0, 0).
        explained: the fraction of the squared distances from the last w that lies along
            each direction (2,).
        distances: how far each w lies from the plane (K,), in the units of w.
    """

    directions: Tensor
    coordinates: Tensor
    explained: Tensor
    distances: Tensor


@in_one_thread
def path(weights: Sequence[Tensor]) -> Path:
    """The principal plane of a trajectory, by Li et al. (2018), section 7.

    Principal components of w_k - w_last, about w_last: of all planes through it the one that
    is nearest to the others. (The authors' code takes the components about the mean.)
    That two of them explain nearly everything is so of random walks too, of which it is
    8/pi² (1 + 1/9), 90 %, and 76 % about the mean: look at the distances.

    Args:
        weights: the parameters (P,) in the order of training, three or more.

    Raises:
        ValueError: of fewer, or of several lengths, or where nothing moved in two directions,
            or where a number is not finite.
    """
    refuse_other("weights", weights, Sequence, "the parameters of three moments or more")
    for w in weights:
        refuse_no_tensor("one of weights", w)
    if len(weights) < 3 or len({w.shape for w in weights}) != 1:
        raise ValueError(
            f"there are {len(weights)} vectors of {len({w.shape for w in weights})} shapes: "
            "give three or more of one."
        )
    moved = torch.stack([w.detach().double() for w in weights]) - weights[-1].detach().double()
    if not bool(moved.isfinite().all()):
        raise ValueError("a w is not finite: leave out what came after a training diverged.")
    # rows are w_k - w_last: right singular vectors are the principal components about w_last
    _, sizes, directions = torch.linalg.svd(moved, full_matrices=False)
    if not sizes[1] > 1e-12 * sizes[0]:
        raise ValueError("the weights moved along a line: there is no plane to draw.")
    directions, shares = directions[:2], (sizes / sizes[0]).square()
    coordinates = moved @ directions.T
    return Path(
        directions=directions.to(weights[-1]),
        coordinates=coordinates.cpu(),
        explained=(shares[:2] / shares.sum()).cpu(),
        distances=vector_norm(moved - coordinates @ directions, 1).cpu(),
    )


@dataclass(frozen=True)
class Surface:
    """Losses on a grid through w: L(w + alpha d_1 + beta d_2 + ...).

    Attributes:
        at: coordinates along each direction, one tensor (K,) for each.
        losses: (K_1, K_2, ...), NaN where nobody came before an interrupt.
        centre: the loss at w itself, all coordinates 0.
        statistics: where BatchNorm's came from at every point.
        lengths: how long each direction is.
        weights: how long w is.
        cases: how many the loss is a mean of.
        computed: how many points there are; fewer than in ``losses`` after an interrupt.
        seed: what the directions were drawn with; None where they are not random.
    """

    at: tuple[Tensor, ...]
    losses: Tensor
    centre: float
    statistics: Statistics
    lengths: tuple[float, ...]
    weights: float
    cases: int
    computed: int
    seed: int | None = None

    def readout(self, training_loss: float | None = None) -> dict[str, float | str]:
        """Is this plot right? What to look at before one believes it.

        Args:
            training_loss: that the training reported for the same cases; the centre must be
                it, or statistics or cases are others than one thinks.
        """
        found = self.losses[self.losses.isfinite()]
        numbers: dict[str, float | str] = {
            "statistics over cases": self.statistics.value,
            "loss at the centre": self.centre,
            "least loss on the grid": float(found.min()) if len(found) else float("nan"),
            "greatest loss on the grid": float(found.max()) if len(found) else float("nan"),
            "points not computed": self.losses.numel() - self.computed,
            "points not finite": self.computed - len(found),
            "cases": self.cases,
        }
        for axis, (at, length) in enumerate(zip(self.at, self.lengths, strict=True), start=1):
            # Where the scale of w does not count, a small w looks sharp and a large one flat
            # in steps of the same length (Li et al., section 4): so in lengths of w.
            reach = float(at.abs().max()) * length / self.weights
            numbers[f"reach of direction {axis}, in lengths of w"] = reach
        if self.seed is not None:
            numbers["seed of the directions"] = self.seed
        if training_loss is not None:
            # to the digits of a loss: a difference of rounding is none, and has no sign
            difference = round(self.centre - training_loss, 6)
            numbers["centre - loss of the training"] = difference or 0.0
        return numbers


def surface(
    objective: Objective,
    directions: Tensor | None = None,
    *,
    extent: float = 1.0,
    points: int = 25,
    seed: int = 0,
    progress: bool = False,
) -> Surface:
    """The loss on a plane (or a line) through w.

    Args:
        objective: the loss; its ``statistics`` hold at each point.
        directions: (2, P), or (1, P) for a line; None: two filter-normalized random ones.
        extent: the grid goes from -extent to extent times each direction.
        points: along each direction; an odd number has the centre among them.
        progress: whether to show a bar.

    An interrupt ends it early, with a warning and what it has; the rest is NaN.

    Raises:
        ValueError: for directions of another shape, or not finite, or a grid of nothing.
    """
    drawn = random_directions(objective, 2, seed=seed) if directions is None else directions
    refuse_no_number("extent", extent)
    refuse_no_count("points", points)
    if not extent > 0 or points < 2:
        raise ValueError(f"extent is {extent}, points {points}: give more than 0, 2 or more.")
    at = torch.linspace(-extent, extent, points, dtype=torch.float64)
    found = grid(objective, drawn, [at] * len(drawn), progress=progress)
    return replace(found, seed=seed) if directions is None else found


def band(
    objective: Objective,
    count: int = 5,
    *,
    extent: float = 1.0,
    points: int = 25,
    seed: int = 0,
    progress: bool = False,
) -> list[Surface]:
    """Lines through w in several random directions: what one direction says is an anecdote.

    Arguments as in :func:`surface`. An interrupt ends it with the line that it came in.
    """
    refuse_no_count("count", count)
    refuse_no_number("extent", extent)
    refuse_no_count("points", points)
    drawn = random_directions(objective, count, seed=seed)
    at = torch.linspace(-extent, extent, points, dtype=torch.float64)
    lines: list[Surface] = []
    for direction in drawn:
        line = grid(objective, direction[None], [at], progress=progress)
        lines.append(replace(line, seed=seed))
        if line.computed < points:
            break
    return lines


def between(
    objective: Objective,
    other: Tensor | nn.Module,
    *,
    points: int = 25,
    progress: bool = False,
) -> Surface:
    """The straight line from w (at 0) to another solution (at 1), and half beyond both.

    Mind the statistics: FROZEN ones are those of w along the whole line, which is wrong at
    its other end.

    Args:
        other: the parameters (P,) there, or the module that has them.

    Raises:
        ValueError: where they are not those of such a module.
    """
    refuse_no_objective(objective)
    refuse_no_count("points", points)
    other = objective.of(other) if isinstance(other, nn.Module) else other
    objective.refuse("other", other)
    # beyond both ends, to see whether each is a minimum along the line
    at = torch.linspace(-0.5, 1.5, points, dtype=torch.float64)
    toward = (other - objective.start)[None]
    return grid(objective, toward, [at], progress=progress)


@in_one_thread
@torch.no_grad()
def grid(
    objective: Objective,
    directions: Tensor,
    at: Sequence[Tensor],
    *,
    progress: bool = False,
) -> Surface:
    """The loss at every combination of the coordinates along ``directions``.

    Args:
        objective: the loss, whose w has P numbers.
        directions: (n, P).
        at: the coordinates along each of them, n vectors.
        progress: whether to show a bar.

    Raises:
        ValueError: if the shapes do not fit.
    """
    _refuse(objective, directions, at)
    w, directions = objective.start, directions.to(objective.start)
    losses = torch.full([len(a) for a in at], float("nan"), dtype=torch.float64)
    places = list(torch.cartesian_prod(*(torch.arange(len(a)) for a in at)).view(-1, len(at)))
    computed = 0
    with keeping(lambda: computed and f"{computed} of {losses.numel()} points are there"):
        for place in bar(places, len(places), "landscape", shown=progress):
            where = torch.stack([a[i] for a, i in zip(at, place, strict=True)])
            losses[tuple(place)] = objective(w + where.to(w) @ directions).double()
            computed += 1
    return Surface(
        at=tuple(at),
        losses=losses,
        centre=objective.value(),
        statistics=objective.statistics,
        lengths=tuple(vector_norm(directions, 1).tolist()),
        weights=float(vector_norm(w)),
        cases=len(objective.x),
        computed=computed,
    )


def _refuse(objective: Objective, directions: Tensor, at: Sequence[Tensor]) -> None:
    refuse_no_objective(objective)
    P = len(objective.start)
    if not isinstance(directions, Tensor):
        raise ValueError(
            f"directions are a {type(directions).__name__}: give a tensor, one row of {P} "
            "numbers for each axis; objective.flat puts tensors into a row."
        )
    if directions.dim() != 2 or directions.shape[1] != P or len(directions) != len(at):
        raise ValueError(
            f"directions have shape {tuple(directions.shape)}: give one row of {P} numbers for "
            f"each of the {len(at)} axes."
        )
    if not bool(directions.isfinite().all()) or not bool(directions.any(dim=1).all()):
        raise ValueError("a direction is 0 or not finite: give another.")
