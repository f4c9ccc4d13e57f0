r"""The curvature of the loss: eigenvalues, trace and spectral density of its Hessian H.

Nothing but products H v is computed (:meth:`Objective.hessian_product`), so that H may have
millions of rows. At a w whose length the loss does not see, H is as 1/||w||^2: of two nets the
one with longer weights has the smaller eigenvalues and need not be the flatter one. Hence
lambda ||w||^2 beside lambda everywhere (Lyu, Li & Arora 2022). Gradient descent with learning
rate eta is stable along an eigenvector where lambda < 2/eta.

H is that of the objective's statistics: BATCH differentiates through them, FROZEN and
RECOMPUTED hold them fixed, the latter at those of w itself.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from lnlab.analysis.arguments import keeping, normal, refuse_no_count
from lnlab.analysis.magnitudes import vector_norm
from lnlab.analysis.objective import Objective, refuse_no_objective
from lnlab.nn.table1 import Statistics
from lnlab.progress import progress as bar
from lnlab.threads import in_one_thread

Product = Callable[[Tensor], Tensor]
"""v (P,) to H v (P,)."""


@dataclass(frozen=True)
class Ends:
    """The outermost eigenvalues of H.

    Attributes:
        largest: the K largest, in falling order (K,); fewer after an early interrupt.
        least: the least of all, often negative: the loss bends down there.
        errors: for each of ``largest``, how far from it an eigenvalue lies at most (K,).
        least_error: the same for ``least``.
        vectors: the eigenvectors of ``largest``, of length 1 (K, P).
        weights: the length of w.
        products: how many H v it took.
        statistics: where BatchNorm's came from.
    """

    largest: Tensor
    least: float
    errors: Tensor
    least_error: float
    vectors: Tensor
    weights: float
    products: int
    statistics: Statistics

    def row(self) -> dict[str, float]:
        """The numbers of a data frame.

        ``spherical`` is the largest eigenvalue times ||w||^2, ``largest_rate`` the learning
        rate at which 2/eta is that eigenvalue, ``bent_down`` |least / largest|, by which Li et
        al. (2018) ask whether a landscape that looks convex is.
        """
        top = float(self.largest[0])
        return {
            "largest": top,
            "error": float(self.errors[0]),
            "least": self.least,
            "least_error": self.least_error,
            "bent_down": abs(self.least / top) if top else float("nan"),
            "weights": self.weights,
            "spherical": top * self.weights**2,
            "largest_rate": 2 / top if top > 0 else float("inf"),
            "products": self.products,
        }


@dataclass(frozen=True)
class Trace:
    """The trace of H by Hutchinson's estimate, the mean of v^T H v over random signs v.

    Attributes:
        values: v^T H v of each v (K,).
        statistics: where BatchNorm's came from.
    """

    values: Tensor
    statistics: Statistics

    @property
    def mean(self) -> float:
        """The estimate."""
        return float(self.values.mean())

    @property
    def error(self) -> float:
        """Its standard error; NaN of a single v."""
        count = len(self.values)
        return float(self.values.std()) / count**0.5 if count > 1 else float("nan")


@dataclass(frozen=True)
class Density:
    """The spread of the eigenvalues of H, by stochastic Lanczos quadrature.

    Each random v sees the density as K places with a weight each, exact for polynomials up to
    degree 2K - 1 (Ghorbani, Krishnan & Xiao 2019).

    Attributes:
        places: (draws, K).
        masses: (draws, K), each row's sum 1.
        statistics: where BatchNorm's came from.
    """

    places: Tensor
    masses: Tensor
    statistics: Statistics

    @property
    def mean(self) -> float:
        """The mean of all eigenvalues, trace / P."""
        # the rule is exact for lambda itself: each draw is vᵀ H v of a v of length 1
        return float((self.places * self.masses).sum(1).mean())

    @property
    def error(self) -> float:
        """The standard error of :attr:`mean`; NaN of a single draw."""
        each = (self.places * self.masses).sum(1)
        return float(each.std()) / len(each) ** 0.5 if len(each) > 1 else float("nan")

    @property
    def negative(self) -> float:
        """The fraction of eigenvalues below 0, by more than rounding."""
        below = self.places < -1e-6 * self.places.abs().max()
        return float((self.masses * below).sum(1).mean())

    def on(self, at: Tensor, width: float) -> Tensor:
        """The density at ``at`` (N,), each place blurred to a normal of standard deviation
        ``width``."""
        apart = (at[:, None, None] - self.places) / width
        bells = torch.exp(-apart.square() / 2) / (width * (2 * torch.pi) ** 0.5)
        return (bells * self.masses).sum(2).mean(1)


@in_one_thread
def ends(
    objective: Objective,
    count: int = 1,
    *,
    w: Tensor | None = None,
    steps: int = 100,
    tolerance: float = 1e-3,
    seed: int = 0,
    progress: bool = False,
) -> Ends:
    """The ``count`` largest eigenvalues of H at w and the least one, by Lanczos iteration.

    It ends when all of them are known to ``tolerance`` times the greatest in size; with
    ``steps`` products; or by an interrupt, with a warning and what it has. ``errors`` says
    what was reached. An eigenvalue that stands more than once may be found once.

    Args:
        w: where (P,); None: the module's own parameters.
        steps: products at most; so many vectors (P,) are kept.

    Raises:
        ValueError: for a count or steps below 1, or where there is no H, or none that is
            finite.
    """
    refuse_no_objective(objective)
    refuse_no_count("count", count)
    refuse_no_count("steps", steps)
    P = len(objective.start)
    if not 1 <= count <= P or steps < 1:
        raise ValueError(f"count is {count}, steps {steps}: give a count of 1 to {P}, steps.")
    w = objective.start if w is None else w
    found = Krylov(_drawn(objective, seed, 0), min(steps, P))
    # the outermost come first: among all p(H) v are those of a p that is large at an end alone
    iterations = found.grow(_product(objective, w))
    with keeping(lambda: found.rows and f"{len(found.rows)} products of at most {steps}"):
        for _ in bar(iterations, steps, "eigenvalues", shown=progress):
            places, _, errors = found.ritz()
            outermost = torch.cat([errors[-count:], errors[:1]])
            if len(places) > count and bool(
                (outermost <= tolerance * places.abs().max()).all()
            ):
                break
    places, vectors, errors = found.ritz()
    return Ends(
        largest=places[-count:].flip(0),
        least=float(places[0]),
        errors=errors[-count:].flip(0),
        least_error=float(errors[0]),
        vectors=(vectors[:, -count:].flip(1).T.to(w) @ found.basis[: len(places)]),
        weights=float(vector_norm(w)),
        products=len(places),
        statistics=objective.statistics,
    )


@in_one_thread
def trace(
    objective: Objective,
    draws: int = 30,
    *,
    w: Tensor | None = None,
    seed: int = 0,
    progress: bool = False,
) -> Trace:
    """The trace of H at w (P,) (the module's own parameters by default), with its error.

    An interrupt ends it early, with a warning and the draws that there are.

    Raises:
        ValueError: for less than one draw, or where there is no H, or none that is finite.
    """
    refuse_no_objective(objective)
    refuse_no_count("draws", draws)
    if draws < 1:
        raise ValueError(f"draws is {draws}: give 1 or more, 2 for an error.")
    product, values = _product(objective, objective.start if w is None else w), []
    with keeping(lambda: values and f"{len(values)} draws of {draws}"):
        for number in bar(range(draws), draws, "trace", shown=progress):
            # E[v vᵀ] is the identity, so that E[vᵀ H v] = tr H (Hutchinson 1990). Signs, not
            # normal numbers: as v_i² is always 1, the diagonal of H comes out exactly, and only
            # what is off it makes the draws differ.
            v = _drawn(objective, seed, number).sign()
            values.append(float(v @ product(v)))
    return Trace(torch.tensor(values, dtype=torch.float64), objective.statistics)


@in_one_thread
def density(
    objective: Objective,
    draws: int = 4,
    *,
    w: Tensor | None = None,
    steps: int = 40,
    seed: int = 0,
    progress: bool = False,
) -> Density:
    """The spread of the eigenvalues of H at w; other arguments as in :func:`ends`.

    An interrupt ends it early, with a warning and the draws that there are.

    Args:
        draws: random v (P,), each of which takes ``steps`` products.

    Raises:
        ValueError: for less than one draw or step, or where there is no H, or none that is
            finite.
    """
    refuse_no_objective(objective)
    refuse_no_count("draws", draws)
    refuse_no_count("steps", steps)
    if draws < 1 or steps < 1:
        raise ValueError(f"draws is {draws}, steps {steps}: give 1 or more.")
    product = _product(objective, objective.start if w is None else w)
    steps = min(steps, len(objective.start))
    rules: list[tuple[Tensor, Tensor]] = []
    with keeping(lambda: rules and f"{len(rules)} draws of {draws}"):
        for number in bar(range(draws), draws, "density", shown=progress):
            found = Krylov(_drawn(objective, seed, number), steps)
            for _ in found.grow(product):
                pass
            # v is the first vector of the basis: its share in an eigenvector of T, squared, is
            # the mass that it sees there, and the rule is Gauss's (Golub & Welsch 1969).
            places, vectors, _ = found.ritz()
            rules.append((places, vectors[0].square()))
    places, masses = (torch.stack(each) for each in zip(*rules, strict=True))
    return Density(places, masses, objective.statistics)


class Krylov:
    """H seen in the space of v, Hv, HHv, ...: there it is tridiagonal (Lanczos).

    The basis is kept and made orthogonal again at each step, without which eigenvalues come
    twice. Where the space is exhausted a new direction is drawn.

    Args:
        v: where it starts (P,).
        steps: how large it may grow.
    """

    def __init__(self, v: Tensor, steps: int) -> None:
        self.basis = v.new_empty(steps, len(v))
        self.basis[0] = v / vector_norm(v)
        self.rows: list[tuple[float, float]] = []

    def grow(self, product: Product) -> Iterator[int]:
        """One more product v (P,) to H v (P,) at each turn, up to ``steps``."""
        tiny, size = 100 * torch.finfo(self.basis.dtype).eps, 0.0
        for k, v in enumerate(self.basis):
            moved = product(v)
            # H v_k = beta_(k-1) v_(k-1) + alpha_k v_k + beta_k v_(k+1): three terms, as H is
            # symmetric; what is left beyond the known ones is beta_k v_(k+1).
            alpha, size = float(v @ moved), max(size, float(vector_norm(moved)))
            beta, after = self._beyond(moved, k + 1)
            if beta <= tiny * size:
                another = normal(0, (0, k + 1), len(v)).to(v)  # no stream of `_drawn`
                beta, (_, after) = 0.0, self._beyond(another, k + 1)
            if k + 1 < len(self.basis):
                self.basis[k + 1] = after
            self.rows.append((alpha, beta))
            yield k

    def _beyond(self, v: Tensor, k: int) -> tuple[float, Tensor]:
        """The length and the direction of what is left of v outside of the first k."""
        known = self.basis[:k]
        for _ in range(2):  # once leaves rounding errors the size of v's
            v = v - known.T @ (known @ v)
        length = float(vector_norm(v))
        return length, v / length if length else v

    def ritz(self) -> tuple[Tensor, Tensor, Tensor]:
        """Eigenvalues of H in this space, rising (k,); their vectors in its basis (k, k), a
        column each; and how far from each an eigenvalue of H lies at most (k,)."""
        alpha, beta = torch.tensor(self.rows, dtype=torch.float64).T
        # H times a Ritz vector V s is theta V s and what leaves the space, beta_k s_k v_(k+1):
        # an eigenvalue of H lies within beta_k |s_k| of theta (Parlett 1980).
        T = torch.diag(alpha) + torch.diag(beta[:-1], 1) + torch.diag(beta[:-1], -1)
        places, vectors = torch.linalg.eigh(T)
        rounding = torch.finfo(self.basis.dtype).eps * float(places.abs().max())
        return places, vectors, beta[-1] * vectors[-1].abs() + rounding


def _product(objective: Objective, w: Tensor) -> Product:
    """v to H v, refusing what is not finite; H is prepared when the first v comes."""
    whole: Product | None = None

    def product(v: Tensor) -> Tensor:
        nonlocal whole
        whole = objective.hessian_product(w) if whole is None else whole
        moved = whole(v)
        if not bool(moved.isfinite().all()):
            raise ValueError(
                "a product with the Hessian is not finite: look at w and the loss."
            )
        return moved

    return product


def _drawn(objective: Objective, seed: int, number: int) -> Tensor:
    """A random direction (P,), the same on every device."""
    return normal(seed, number, len(objective.start)).to(objective.start)
