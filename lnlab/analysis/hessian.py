r"""The curvature of the loss: extreme eigenvalues, trace and spectrum of its Hessian H.

Only products H v are computed (:meth:`Objective.hessian_product`), so that H may have millions
of rows. If the loss does not depend on the length of w, H scales as 1/||w||^2: of two models
the one with longer weights has the smaller eigenvalues and need not be the flatter one. Hence
lambda ||w||^2 is given beside lambda (Lyu, Li & Arora 2022). Gradient descent with learning
rate eta is stable along an eigenvector if lambda < 2/eta.

H is that of the objective's statistics: "batch" differentiates through them, "running" holds
them fixed. "Recomputed" ones are refused, as their derivative is not computed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from lnlab.analysis.magnitudes import vector_norm
from lnlab.analysis.objective import Loss, Objective, as_objective
from lnlab.analysis.random import normal
from lnlab.analysis.result import AnalysisResult, DataFrame, Figure, make_frame
from lnlab.progress import progress as bar
from lnlab.threads import in_one_thread_if_small

FallingEigenvalues = Tensor  # (K,)


@dataclass(frozen=True)
class ExtremeEigenvalues(AnalysisResult):
    """The largest eigenvalues of the Hessian, and the smallest one, with error bounds."""

    largest: FallingEigenvalues  # the K largest
    smallest: float  # often negative: the loss curves down there
    largest_errors: Tensor  # how far from each of ``largest`` an eigenvalue lies at most (K,)
    smallest_error: float
    largest_eigenvectors: Tensor  # those of ``largest``, one a row, of length 1 (K, P)
    weight_norm: float  # the length of w
    product_count: int  # how many H v it took

    def summary(self) -> dict[str, float]:
        """Return the eigenvalues and their errors as one row of a table.

        ``scale_free`` is the largest eigenvalue times ||w||^2, ``critical_rate`` the learning
        rate at which 2/eta is that eigenvalue, ``negative_ratio`` |smallest / largest|,
        by which Li et al. (2018) ask whether a landscape that looks convex is; 0 if the
        smallest is not negative.
        """
        top = float(self.largest[0])
        return {
            "largest": top,
            "error": float(self.largest_errors[0]),
            "smallest": self.smallest,
            "smallest_error": self.smallest_error,
            "negative_ratio": max(-self.smallest, 0.0) / abs(top) if top else float("nan"),
            "weights": self.weight_norm,
            "scale_free": top * self.weight_norm**2,
            "critical_rate": 2 / top if top > 0 else float("inf"),
            "products": self.product_count,
        }

    def to_frame(self) -> DataFrame:
        """Return a row per eigenvalue: which ("largest", "smallest"), eigenvalue and error."""
        largest = zip(self.largest.tolist(), self.largest_errors.tolist(), strict=True)
        rows = [*(("largest", *row) for row in largest)]
        rows.append(("smallest", self.smallest, self.smallest_error))
        return make_frame(rows, columns=["which", "eigenvalue", "error"])


@dataclass(frozen=True)
class HessianTrace(AnalysisResult):
    """Hutchinson's estimate of the trace of H: the mean of v^T H v over random signs v."""

    estimates: Tensor  # v^T H v of each v (K,)

    @property
    def mean(self) -> float:
        """The estimate of the trace."""
        return float(self.estimates.mean())

    @property
    def standard_error(self) -> float:
        """The standard error of the estimate; NaN for a single v."""
        return _standard_error(self.estimates)

    def _lines_above_table(self) -> list[str]:
        return [f"trace of the Hessian: {self.mean:.3g} ± {self.standard_error:.2g}"]

    def to_frame(self) -> DataFrame:
        """Return one row per draw."""
        return make_frame({"trace": self.estimates.numpy()})


@dataclass(frozen=True)
class HessianSpectrum(AnalysisResult):
    """The density of the eigenvalues of the Hessian, by stochastic Lanczos quadrature.

    Each random vector gives the density as K nodes with a weight each. Integrals of polynomials
    up to degree 2K - 1 are exact (Ghorbani, Krishnan & Xiao 2019).
    """

    nodes: Tensor  # (draws, K)
    weights: Tensor  # (draws, K), each row's sum 1

    @property
    def mean_per_draw(self) -> Tensor:
        """The mean of all eigenvalues, trace / P, estimated from each draw (draws,)."""
        # the rule is exact for lambda itself: each draw is vᵀ H v of a v of length 1
        return (self.nodes * self.weights).sum(1)

    @property
    def mean(self) -> float:
        """The mean of all eigenvalues, trace / P."""
        return float(self.mean_per_draw.mean())

    @property
    def standard_error(self) -> float:
        """The standard error of :attr:`mean`; NaN for a single draw."""
        return _standard_error(self.mean_per_draw)

    @property
    def negative_fraction_bounds(self) -> tuple[float, float]:
        """Bounds of the fraction of eigenvalues below 0, by more than rounding.

        The weight of a node counts eigenvalues on both of its sides, so the two nodes next to
        0 may stand for negative eigenvalues or not. The lower bound leaves both out, the upper
        one has both (inequalities of Chebyshev, Markov and Stieltjes); more steps bring the
        bounds closer. They are means over the draws, widened by two standard errors if there
        are several draws.
        """
        nodes, order = self.nodes.sort(dim=1)
        weights = self.weights.gather(1, order)
        below = nodes < -1e-6 * nodes.abs().max()
        rows = [(w, int(count)) for w, count in zip(weights, below.sum(1), strict=True)]
        low = torch.stack([w[: max(count - 1, 0)].sum() for w, count in rows])
        high = torch.stack([w[: count + 1].sum() for w, count in rows])
        spread = [2 * _standard_error(each) if len(rows) > 1 else 0.0 for each in (low, high)]
        return (
            max(float(low.mean()) - spread[0], 0.0),
            min(float(high.mean()) + spread[1], 1.0),
        )

    def density(self, at: Tensor, width: float) -> Tensor:
        """Return the density at eigenvalues (N,), smoothed by a normal curve of a width."""
        apart = (at[:, None, None] - self.nodes) / width
        bells = torch.exp(-apart.square() / 2) / (width * (2 * torch.pi) ** 0.5)
        return (bells * self.weights).sum(2).mean(1)

    def _lines_above_table(self) -> list[str]:
        mean = f"mean eigenvalue: {self.mean:.3g} ± {self.standard_error:.2g}"
        low, high = self.negative_fraction_bounds
        return [f"{mean}; {low:.0%} to {high:.0%} of the eigenvalues are below 0"]

    def to_frame(self) -> DataFrame:
        """Return one row per node: its draw, its eigenvalue and its weight."""
        draws, K = self.nodes.shape
        columns = {
            "draw": torch.arange(draws).repeat_interleave(K),
            "eigenvalue": self.nodes.flatten(),
            "weight": self.weights.flatten(),
        }
        return make_frame({name: column.numpy() for name, column in columns.items()})

    def plot(self) -> Figure:
        """Return the density, smoothed by 1 % of its range."""
        from lnlab.figures.curves import line_chart

        low, high = float(self.nodes.min()), float(self.nodes.max())
        reach = high - low or abs(high) or 1.0
        at = torch.linspace(low - 0.05 * reach, high + 0.05 * reach, 600)
        heights = self.density(at, 0.01 * reach) + 1e-9
        curve = {"density": (at.numpy(), heights.numpy())}
        return line_chart({"": curve}, x="eigenvalue", y="density")


def _standard_error(values: Tensor) -> float:
    return float(values.std()) / len(values) ** 0.5 if len(values) > 1 else float("nan")


@in_one_thread_if_small
def extreme_eigenvalues(
    model: nn.Module | Objective,
    x: Tensor | None = None,
    y: Any = None,
    loss_fn: Loss | None = None,
    *,
    count: int = 1,
    w: Tensor | None = None,
    steps: int = 100,
    tolerance: float = 1e-3,
    seed: int = 0,
    start: Tensor | None = None,
    bn_stats: str | None = None,
    progress: bool = False,
) -> ExtremeEigenvalues:
    """Return the largest eigenvalues of the Hessian of the loss, and the smallest one.

    The Hessian H (P, P) of the P parameters is taken at w. The Lanczos method stops when the
    error of each eigenvalue is below ``tolerance`` times the largest absolute eigenvalue, or
    after ``steps`` products with H; ``largest_errors`` and ``smallest_error`` are the bounds
    that were reached. An eigenvalue with several eigenvectors may be found only once. If a part
    of the module is detached, its gradient is not that of the loss, and H is not the Hessian:
    ``lnlab.audit`` tests this (LN608). If H is not symmetric, as where an operator has a wrong
    second derivative, a ValueError says so.

    Args:
        model, x, y, loss_fn: as for :class:`Objective`; or an Objective as ``model`` alone.
        count: how many of the largest eigenvalues to find.
        w: the parameters (P,) at which to take H; None takes those of the model.
        steps: the largest number of products with H. As many vectors (P,) are kept in memory.
        tolerance: the relative error at which to stop.
        seed: of the random first direction.
        start: the first direction (P,) in place of a random one. The gradient is a good choice:
            it lies near the eigenvectors of the largest eigenvalues and saves products.
        bn_stats: which statistics BatchNorm uses; required if the model has one: "batch" (those
            of x, as in training) or "running" (as in evaluation).
        progress: whether to show a progress bar.

    Examples:
        >>> eigenvalues = lnlab.extreme_eigenvalues(net, x, y, F.cross_entropy, count=2)
        >>> print(eigenvalues.to_frame())
    """
    objective = as_objective(model, x, y, loss_fn, bn_stats)
    w = objective.start if w is None else w
    start = _gaussian_vector(objective, seed, 0) if start is None else start
    space = KrylovSpace(start, min(steps, len(start)))
    # the outermost come first: among all p(H) v are those of a p that is large at an end alone
    iterations = space.extend(_finite_checked_hessian_product(objective, w))
    for _ in bar(iterations, steps, "eigenvalues", shown=progress):
        values, _, errors = space.ritz_values_coefficients_and_errors()
        outermost = torch.cat([errors[-count:], errors[:1]])
        if len(values) > count and (outermost <= tolerance * values.abs().max()).all():
            break
    values, vectors, errors = space.ritz_values_coefficients_and_errors()
    return ExtremeEigenvalues(
        largest=values[-count:].flip(0),
        smallest=float(values[0]),
        largest_errors=errors[-count:].flip(0),
        smallest_error=float(errors[0]),
        largest_eigenvectors=vectors[:, -count:].flip(1).T.to(w) @ space.basis[: len(values)],
        weight_norm=float(vector_norm(w)),
        product_count=len(values),
    )


@in_one_thread_if_small
def hessian_trace(
    model: nn.Module | Objective,
    x: Tensor | None = None,
    y: Any = None,
    loss_fn: Loss | None = None,
    *,
    draws: int = 30,
    w: Tensor | None = None,
    seed: int = 0,
    bn_stats: str | None = None,
    progress: bool = False,
) -> HessianTrace:
    """Return an estimate of the trace of the Hessian H (P, P) at w, with its standard error.

    The other arguments are those of :func:`extreme_eigenvalues`. If a part of the module is
    detached, H is not the Hessian of the loss: ``lnlab.audit`` tests this (LN608).

    Args:
        draws: the number of random sign vectors of Hutchinson's estimate; each takes one
            product with H.

    Examples:
        >>> trace = lnlab.hessian_trace(net, x, y, F.cross_entropy)
        >>> print(trace.mean, trace.standard_error)
    """
    objective = as_objective(model, x, y, loss_fn, bn_stats)
    product, values = _finite_checked_hessian_product(objective, w), []
    for number in bar(range(draws), draws, "trace", shown=progress):
        # E[v vᵀ] is the identity, so that E[vᵀ H v] = tr H (Hutchinson 1990). Signs, not normal
        # numbers: as v_i² is always 1, the diagonal of H comes out exactly, and only what is
        # off it makes the draws differ.
        v = _gaussian_vector(objective, seed, number).sign()
        values.append(float(v @ product(v)))
    return HessianTrace(torch.tensor(values, dtype=torch.float64))


@in_one_thread_if_small
def hessian_spectrum(
    model: nn.Module | Objective,
    x: Tensor | None = None,
    y: Any = None,
    loss_fn: Loss | None = None,
    *,
    draws: int = 4,
    w: Tensor | None = None,
    steps: int = 40,
    seed: int = 0,
    bn_stats: str | None = None,
    progress: bool = False,
) -> HessianSpectrum:
    """Return the density of the eigenvalues of the Hessian H (P, P) at w.

    The other arguments are those of :func:`extreme_eigenvalues`. If a part of the module is
    detached, H is not the Hessian of the loss: ``lnlab.audit`` tests this (LN608).

    Args:
        draws: the number of random start vectors (P,); each takes ``steps`` products with H.

    Examples:
        >>> lnlab.hessian_spectrum(net, x, y, F.cross_entropy).plot()
    """
    objective = as_objective(model, x, y, loss_fn, bn_stats)
    product = _finite_checked_hessian_product(objective, w)
    nodes, weights = [], []
    for number in bar(range(draws), draws, "spectrum", shown=progress):
        v = _gaussian_vector(objective, seed, number)
        space = KrylovSpace(v, min(steps, len(v)))
        for _ in space.extend(product):
            pass
        # v is the first vector of the basis: its share in an eigenvector of T, squared, is the
        # weight that it sees there, and the rule is Gauss's (Golub & Welsch 1969).
        values, vectors, _ = space.ritz_values_coefficients_and_errors()
        nodes.append(values)
        weights.append(vectors[0].square())
    return HessianSpectrum(torch.stack(nodes), torch.stack(weights))


ASYMMETRIC = 1e-2
"""A relative asymmetry of the Hessian that is no rounding: of float32 it is about 1e-7."""


class KrylovSpace:
    """H in the space of v (P,), Hv, HHv, ..., where it is tridiagonal (Lanczos).

    The basis is kept and orthogonalized again at each step, without which eigenvalues appear
    twice. If the space is exhausted a new direction is drawn.
    """

    def __init__(self, v: Tensor, steps: int) -> None:
        self.basis = v.new_empty(steps, len(v))
        self.basis[0] = v / vector_norm(v)
        self.rows: list[tuple[float, float]] = []  # alpha and beta of each step

    def extend(self, product: Callable[[Tensor], Tensor]) -> Iterator[int]:
        """Make one more product v (P,) to H v (P,) at each turn, up to ``steps``."""
        tiny, size = 100 * torch.finfo(self.basis.dtype).eps, 0.0
        for k, v in enumerate(self.basis):
            Hv = product(v)
            # H v_k = beta_(k-1) v_(k-1) + alpha_k v_k + beta_k v_(k+1): three terms, as H is
            # symmetric; what is left beyond the known ones is beta_k v_(k+1).
            alpha, size = float(v @ Hv), max(size, float(vector_norm(Hv)))
            if k > 1:
                self._check_symmetry(float(vector_norm(self.basis[: k - 1] @ Hv)), size)
            beta, after = self._orthogonal_length_and_direction(Hv, k + 1)
            if beta <= tiny * size:
                another = normal(0, (0, k + 1), len(v)).to(v)  # no stream of _gaussian_vector
                beta, (_, after) = 0.0, self._orthogonal_length_and_direction(another, k + 1)
            if k + 1 < len(self.basis):
                self.basis[k + 1] = after
            self.rows.append((alpha, beta))
            yield k

    def _check_symmetry(self, asymmetric: float, size: float) -> None:
        """Raise ValueError if H v has parts that it would not have if H were symmetric."""
        if asymmetric > ASYMMETRIC * size:
            raise ValueError(
                "the second derivative of the loss is not symmetric (by "
                f"{asymmetric / size:.1%}), so it is no Hessian: an operator has a wrong "
                "second derivative (torch.autograd.gradgradcheck finds it), or computes in a "
                "low precision."
            )

    def _orthogonal_length_and_direction(self, v: Tensor, k: int) -> tuple[float, Tensor]:
        """Return length and direction of what is left of v outside of the first k."""
        known = self.basis[:k]
        for _ in range(2):  # once leaves rounding errors the size of v's
            v = v - known.T @ (known @ v)
        length = float(vector_norm(v))
        return length, v / length if length else v

    def ritz_values_coefficients_and_errors(self) -> tuple[Tensor, Tensor, Tensor]:
        """Return the k eigenvalues of H in this space, rising, coefficients and errors (k,).

        The coefficients, a column for each (k, k), are of its vector in the basis; an error
        says how far from a value an eigenvalue of H lies at most.
        """
        alpha, beta = torch.tensor(self.rows, dtype=torch.float64).T
        # H times a Ritz vector V s is theta V s and what leaves the space, beta_k s_k v_(k+1):
        # an eigenvalue of H lies within beta_k |s_k| of theta (Parlett 1980).
        T = torch.diag(alpha) + torch.diag(beta[:-1], 1) + torch.diag(beta[:-1], -1)
        values, vectors = torch.linalg.eigh(T)
        rounding = torch.finfo(self.basis.dtype).eps * float(values.abs().max())
        return values, vectors, beta[-1] * vectors[-1].abs() + rounding


def _finite_checked_hessian_product(
    objective: Objective, w: Tensor | None
) -> Callable[[Tensor], Tensor]:
    """Return the map v to H v at w, which raises if that is not finite."""
    hessian = objective.hessian_product(w)

    def product(v: Tensor) -> Tensor:
        Hv = hessian(v)
        if not bool(Hv.sum(dtype=torch.float64).isfinite()):
            raise ValueError(
                "a product with the Hessian is not finite: look at w and the loss."
            )
        return Hv

    return product


def _gaussian_vector(objective: Objective, seed: int, number: int) -> Tensor:
    return normal(seed, number, len(objective.start)).to(objective.start)
