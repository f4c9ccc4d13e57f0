"""Directions in the space of parameters, in which a landscape is drawn."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from lnlab.probes.givens import normal
from lnlab.probes.loss.objective import Objective, refuse_no_objective
from lnlab.probes.magnitudes import vector_norm
from lnlab.probes.refusals import refuse_no_tensor, refuse_other
from lnlab.threads import in_one_thread

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
