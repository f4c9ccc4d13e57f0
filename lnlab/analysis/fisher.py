r"""The Fisher metric of normalized generalized linear models: Ba et al. (2016), section 5.2.

The metric is computed exactly, by its definition (eq. 8 and 9), and beside it as the paper
writes it (eq. 12 to 14 and 32 to 35). The two are the same for batch and weight normalization.
Under layer normalization all units share mu and sigma, so that every output depends on every
:math:`w_i`; eq. 13 leaves that out, and is off by O(1/H).

Parameters are ordered as in the paper, unit by unit: theta (H, K) has the rows
:math:`[w_i, b_i, g_i]`, K = D + 2, and a metric is (H, K, H, K), its blocks F[i, :, j, :].
Without a normalizer there is no gain, and K = D + 1.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.func import jacrev

from lnlab.analysis.magnitudes import vector_norm
from lnlab.analysis.module_copy import (
    ModuleCopy,
    SelectOutput,
    check_model,
    check_type,
    first_tensor,
)
from lnlab.analysis.objective import Objective, float32_if_half_precision
from lnlab.analysis.random import normal
from lnlab.analysis.result import AnalysisResult, DataFrame, Figure, make_frame
from lnlab.nn import (
    AffineNormalizer,
    BatchNormalizer,
    Identity,
    MuSigma,
    NormLayer,
    StatisticsMode,
)
from lnlab.threads import in_one_thread_if_small

# Distributions P(y | x) of an output, as the exponential families of a linear model: Ba et al.
# (2016), eq. 10 and 11, in terms of the natural parameters h = a + b (..., H). With
# log P(y | x) = (hᵀ y - eta(h))/phi + c(y, phi), E[y | x] = eta'(h) and
# Cov[y | x] = phi eta''(h). The paper takes H independent outputs, of which GAUSSIAN and
# BERNOULLI are examples; CATEGORICAL, the softmax, has outputs that depend on each other.


@dataclass(frozen=True)
class ExponentialFamily:
    """An exponential family with natural parameters h (..., H)."""

    name: str  # in words
    log_partition: Callable[[Tensor], Tensor]  # eta, (..., H) to (...)
    mean: Callable[[Tensor], Tensor]  # its slope f, the transfer function: (..., H) to (..., H)
    curvature: Callable[[Tensor], Tensor]  # its second derivative, (..., H) to (..., H, H)
    # draws y - E[y | x] at phi = 1 from h and standard normal numbers, both (..., H)
    residual: Callable[[Tensor, Tensor], Tensor]
    phi: float = 1.0  # the scale of the variance; 1 but for a Gaussian

    def cov(self, h: Tensor) -> Tensor:
        """Return Cov[y | x] (..., H, H) at h (..., H)."""
        return self.phi * self.curvature(h)

    def kl(self, h: Tensor, other: Tensor) -> Tensor:
        """Return D_KL[P(y; h) || P(y; other)] in nats, (..., H) to (...)."""
        # E[log P(y; h) - log P(y; other)] by eq. 10: c(y, phi) cancels, and E[y] = eta'(h)
        # makes it what eta at `other` lies above its tangent at h
        linear = (self.mean(h) * (other - h)).sum(-1)
        return (self.log_partition(other) - self.log_partition(h) - linear) / self.phi


def _bernoulli_curvature_matrix(h: Tensor) -> Tensor:
    p = torch.sigmoid(h)
    # eta'' of softplus, p (1 - p), of each output by itself
    return torch.diag_embed(p * (1 - p))


def _categorical_curvature_matrix(h: Tensor) -> Tensor:
    p = torch.softmax(h, -1)
    # diag(p) - p pᵀ: the probabilities have a sum of 1, and where one rises others fall
    return torch.diag_embed(p) - p.unsqueeze(-1) * p.unsqueeze(-2)


def _draw_bernoulli_residual(h: Tensor, noise: Tensor) -> Tensor:
    p = torch.sigmoid(h)
    return (torch.special.ndtr(noise) < p).to(h) - p


def _draw_categorical_residual(h: Tensor, noise: Tensor) -> Tensor:
    # the largest of h with Gumbel noise is a draw from its softmax
    gumbel = -torch.log(-torch.log(torch.special.ndtr(noise)))
    drawn = nn.functional.one_hot((h + gumbel).argmax(-1), h.shape[-1])
    return drawn - torch.softmax(h, -1)


GAUSSIAN = ExponentialFamily(
    "Gaussian",
    log_partition=lambda h: h.square().sum(-1) / 2,
    mean=lambda h: h,
    curvature=lambda h: torch.diag_embed(torch.ones_like(h)),
    residual=lambda h, noise: noise,
)
BERNOULLI = ExponentialFamily(
    "Bernoulli",
    # softplus is cut off at 20, and has no curvature beyond
    log_partition=lambda h: torch.logaddexp(h, torch.zeros_like(h)).sum(-1),
    mean=torch.sigmoid,
    curvature=_bernoulli_curvature_matrix,
    residual=_draw_bernoulli_residual,
)
CATEGORICAL = ExponentialFamily(
    "categorical",
    log_partition=lambda h: h.logsumexp(-1),
    mean=lambda h: torch.softmax(h, -1),
    curvature=_categorical_curvature_matrix,
    residual=_draw_categorical_residual,
)
FAMILIES = {family.name: family for family in (GAUSSIAN, BERNOULLI, CATEGORICAL)}


ROWS = 64
"""The rows of a Jacobian that are computed at once: more are slower, out of the cache."""

ParametersPerUnit = Tensor
"""The parameters of a :class:`GLM` (H, K), a row for each unit: w_i, b_i and, if any, g_i."""

InputsOfExamples = Tensor  # (B, D), a row for each example
BiasesOrNoneForZeros = Tensor | None
GainsOrNoneForOnes = Tensor | None


@dataclass(frozen=True)
class GLM:
    """H normalized linear models of the same inputs, eq. 10 and 13.

    Statistics over examples are those of x, at every theta; the inputs x are P(x).
    """

    W: Tensor  # weights (H, D), one row a unit
    x: InputsOfExamples
    norm: NormLayer = Identity  # makes the normalizer; only its rule for (mu, sigma) is used
    family: ExponentialFamily = BERNOULLI  # the distribution of the outputs
    b: BiasesOrNoneForZeros = None  # (H,)
    g: GainsOrNoneForOnes = None  # (H,); without a normalizer there are none
    eps: float = 0.0  # of the normalizer; the paper's equations have none

    def __post_init__(self) -> None:
        if not bool(self.h.isfinite().all()):
            raise ValueError(
                "the outputs are not finite: W, x, b or g hold NaN or an infinity, or sigma is "
                "0, as of a single example under batch norm or a single unit under layer norm."
            )

    @property
    def is_unnormalized(self) -> bool:
        """True if nothing normalizes: the standard model of eq. 12."""
        return isinstance(self._normalizer_for_statistics, Identity)

    @cached_property
    def _normalizer_for_statistics(self) -> AffineNormalizer | Identity:
        norm = self.norm(len(self.W)).to(self.W)
        if not isinstance(norm, AffineNormalizer | Identity):
            raise TypeError(
                f"{type(norm).__name__} is no rule for (mu, sigma), as eq. 13 asks."
            )
        norm.eval()  # what it remembers of examples stays as it is
        if isinstance(norm, BatchNormalizer):
            norm.mode = StatisticsMode.BATCH
        norm.eps = self.eps
        return norm

    def stats(self, W: Tensor) -> MuSigma:
        """Return (mu, sigma) of the pre-activations that weights ``W`` make, each (B, H)."""
        a = self.x @ W.T
        mu, sigma = self._normalizer_for_statistics.stats(a, W)
        return MuSigma(mu.expand_as(a), sigma.expand_as(a))

    @property
    def a(self) -> Tensor:
        """The pre-activations (B, H)."""
        return self.x @ self.W.T

    @property
    def normalized(self) -> Tensor:
        """(a - mu)/sigma (B, H)."""
        mu, sigma = self.stats(self.W)
        return (self.a - mu) / sigma

    @property
    def h(self) -> Tensor:
        """The natural parameters of the outputs (B, H)."""
        return self.natural_parameters(self.theta)

    def natural_parameters(self, theta: ParametersPerUnit) -> Tensor:
        """Return h = g/sigma (a - mu) + b (B, H) at other parameters (H, K)."""
        D = self.W.shape[1]
        W, b = theta[:, :D], theta[:, D]
        g = 1.0 if self.is_unnormalized else theta[:, D + 1]
        mu, sigma = self.stats(W)
        return g / sigma * (self.x @ W.T - mu) + b

    @property
    def theta(self) -> ParametersPerUnit:
        """All parameters (H, K)."""
        b = self.W.new_zeros(len(self.W)) if self.b is None else self.b
        g = self.W.new_ones(len(self.W)) if self.g is None else self.g
        return torch.column_stack([self.W, b] if self.is_unnormalized else [self.W, b, g])


@in_one_thread_if_small
def fisher_metric(glm: GLM) -> Tensor:
    r"""Return the Fisher metric (H, K, H, K), eq. 9: exact.

    .. math:: F = E_x[J^\top \frac{Cov[y \mid x]}{\phi^2} J], \qquad
              J = \partial h/\partial\theta

    J is differentiated automatically, through mu and sigma and into every unit.
    """
    theta = glm.theta
    J = jacrev(glm.natural_parameters, chunk_size=ROWS)(theta).flatten(2)  # (B, H, H K)
    # The score of an exponential family is J' (y - E[y])/phi: its covariance given x is the
    # matrix under the mean of eq. 9, and the mean over examples stands for E_x.
    scaled = glm.family.cov(glm.h) / glm.family.phi**2 @ J
    F = J.flatten(0, 1).T @ scaled.flatten(0, 1) / len(glm.x)
    return F.reshape(theta.shape + theta.shape)


def fisher_metric_eq_13(glm: GLM) -> Tensor:
    """Return the metric (H, K, H, K) of eq. 13 and 14, or, without a normalizer, of eq. 12.

    As printed: the output of unit k depends on the parameters of unit k alone.
    """
    cov = glm.family.cov(glm.h) / glm.family.phi**2  # (B, H, H)
    # Block (i, j) is Cov[y_i, y_j | x]/phi² times the outer product of each unit's own
    # derivatives, dh/dw = g/sigma chi, dh/db = 1 and dh/dg = (a - mu)/sigma: dh_i/dw_j of j
    # other than i, which shared statistics make, is not in it.
    sigma = glm.stats(glm.W).sigma
    w = ((1.0 if glm.g is None else glm.g) / sigma).unsqueeze(-1) * chi_eq_14(glm)
    columns = [w, torch.ones_like(sigma).unsqueeze(-1)]
    columns += [] if glm.is_unnormalized else [glm.normalized.unsqueeze(-1)]
    own = torch.cat(columns, -1)  # (B, H, K)
    return torch.einsum("nij,nik,njl->ikjl", cov, own, own) / len(glm.x)


def chi_eq_14(glm: GLM) -> Tensor:
    r"""Return chi (B, H, D), eq. 14: the part of x that changes the output of a unit.

    .. math:: \chi_i = x - \frac{\partial\mu_i}{\partial w_i}
              - \frac{a_i - \mu_i}{\sigma_i} \frac{\partial\sigma_i}{\partial w_i}
    """
    derivatives = jacrev(lambda W: tuple(glm.stats(W)), chunk_size=ROWS)(glm.W)
    # of each (B, H, H, D), that of a unit by its own weights
    dmu, dsigma = (torch.diagonal(d, dim1=1, dim2=2).mT for d in derivatives)
    return glm.x.unsqueeze(1) - dmu - glm.normalized.unsqueeze(-1) * dsigma


def predicted_divergence(F: Tensor, delta: Tensor) -> float:
    """Return the KL divergence (nats) that F predicts of a small step (H, K), eq. 8."""
    return float(torch.einsum("ik,ikjl,jl->", delta, F, delta) / 2)


def actual_divergence(glm: GLM, delta: Tensor) -> float:
    """Return the KL divergence (nats) of a step delta (H, K) from theta."""
    moved = glm.natural_parameters(glm.theta + delta)
    return float(glm.family.kl(glm.h, moved).mean())


class Eq13FisherError(NamedTuple):
    """The distance of eq. 13 from the metric; all 0 where it is exact."""

    # the relative error of the block of a unit with itself, a mean over the units
    own_block_error: float
    # the mean size of the exact blocks of two different units' weights, relative to that of one
    # unit's: eq. 13 has 0 there for independent outputs.
    relative_cross_block_size: float


def error_of_eq_13(glm: GLM) -> Eq13FisherError:
    """Return the distance of eq. 13 from the metric, for a model with independent outputs.

    NaN where a block of the metric is 0, as of layer norm over two units, which are -1 and 1.
    """
    exact, paper = fisher_metric(glm), fisher_metric_eq_13(glm)
    H, D = glm.W.shape
    blocks, theirs = (torch.diagonal(F, dim1=0, dim2=2).movedim(-1, 0) for F in (exact, paper))
    error = vector_norm(blocks - theirs, (1, 2)) / vector_norm(blocks, (1, 2))
    sizes = vector_norm(exact[:, :D, :, :D], (1, 3))  # (H, H)
    diagonal = sizes.diagonal().mean()
    cross = (sizes.sum() - sizes.trace()) / (H * (H - 1))
    return Eq13FisherError(float(error.mean()), float(cross / diagonal))


def gain_metric(glm: GLM) -> Tensor:
    """Return the metric (H, H) along the lengths of the weight vectors: exact.

    With a normalizer along its gains, eq. 33 and 34; without one along w_i/||w_i||, eq. 35.
    """
    # Along a gain dh/dg = (a - mu)/sigma (eq. 33, 34); along the length of w_i, which a plain
    # model has in its place, a_i/||w_i|| (eq. 35): the first does not grow with W or x.
    h = glm.a / vector_norm(glm.W, 1).to(glm.W) if glm.is_unnormalized else glm.normalized
    cov = glm.family.cov(glm.h) / glm.family.phi**2
    return torch.einsum("nij,ni,nj->ij", cov, h, h) / len(glm.x)


def gain_metric_eq_32(glm: GLM) -> Tensor:
    """Return the metric (H, H) along the gains by eq. 32: E[Cov[y | x]]/phi².

    It is the exact one only where outputs are independent of each other and, given x, of the
    same covariance everywhere: of Gaussian outputs under batch norm; not of Bernoulli ones.
    """
    return glm.family.cov(glm.h).mean(0) / glm.family.phi**2


# The Fisher metric of any network, by products with vectors.
#
# Ba et al. (2016), eq. 8: a small step delta of the parameters changes the distribution of the
# outputs by D_KL = 1/2 delta^T F delta. Read from right to left this defines F, as the Hessian
# of the divergence where it is 0, and so eq. 9 needs no sampling: the labels of the data play
# no part in it (with them it would be the "empirical Fisher", another matrix).


class FisherInformation(Objective, AnalysisResult):
    """The Fisher information F (P, P) of a model, and the divergence that it approximates.

    Called with parameters w (P,), it returns D_KL[P(y | x; theta) || P(y | x; w)] in nats, a
    mean over the examples x, where theta are the model's parameters. The output of an example
    holds the natural parameters h of its distribution, units along the last axis; over further
    axes (time) the divergences are added. Made by :func:`fisher_information`.
    """

    def __init__(
        self,
        model: nn.Module,
        x: Tensor,
        h: Tensor,
        family: ExponentialFamily,
        select_output: SelectOutput,
        **options: Any,
    ) -> None:
        self.family, self.select_output = family, select_output
        super().__init__(model, x, h, self._mean_kl_from_fixed_h, **options)

    def _mean_kl_from_fixed_h(self, output: object, fixed_h: Tensor) -> Tensor:
        # E over P(x); time adds up
        return self.family.kl(fixed_h, self.select_output(output)).sum() / len(fixed_h)

    def product(self) -> Callable[[Tensor], Tensor]:
        """Return the map v to F v, eq. 9, of v (P,) or several as (P, K)."""
        # The Hessian of the divergence at w = theta is Jᵀ Cov[y]/phi² J and a sum over the
        # second derivatives of h, each times eta'(h) - E[y] = 0: it is F itself, not an
        # approximation.
        return self.hessian_product()

    def predicted_divergence(self, delta: Tensor) -> float:
        """Return eq. 8, 1/2 delta^T F delta in nats, of a step delta (P,)."""
        self.check_vector("delta", delta)
        return float(delta @ self.product()(delta) / 2)

    def actual_divergence(self, delta: Tensor) -> float:
        """Return the divergence in nats after a step delta (P,)."""
        self.check_vector("delta", delta)
        return self.value(self.start + delta)

    def matrix(self) -> Tensor:
        """Return F (P, P); this takes one product per parameter."""
        # F times each unit vector is a column of F
        return self.product()(torch.eye(len(self.start)).to(self.start))

    def traces(self, draws: int = 50, seed: int = 0) -> dict[str, float]:
        """Return estimates of the trace of the block of F of each parameter, by name.

        F is the covariance of the gradient of log P(y | x), for y drawn from the model: the
        mean square of this gradient's numbers estimates the diagonal of F. It is never
        negative. :meth:`to_frame` has standard errors; :meth:`matrix` is exact.
        """
        estimates = self._estimate_traces(draws, seed).mean(0).tolist()
        return dict(zip(self.names, estimates, strict=True))

    def _estimate_traces(self, draws: int, seed: int) -> Tensor:
        """Return one estimate of each parameter's trace per draw (draws, parameters)."""
        outputs = copy(self)
        outputs.loss_fn = lambda output, _: self.select_output(output)
        w = self.start.clone().requires_grad_()
        h = outputs(w)
        estimates = []
        for number in range(draws):
            noise = normal(seed, number, h.numel()).to(h).view_as(h)
            residual = self.family.residual(h.detach(), noise) / self.family.phi**0.5
            # examples are independent, so that products of two of them have a mean of 0
            (score,) = torch.autograd.grad(
                h, w, residual / len(h) ** 0.5, retain_graph=number + 1 < draws
            )
            squares = score.square()
            estimates.append(torch.stack([squares[i].sum() for i in self.slices().values()]))
        return torch.stack(estimates).double().cpu()

    def to_frame(self) -> DataFrame:
        """Return one row per parameter: its name, size and trace of F, with a standard error.

        The trace is that of the parameter's block of F, estimated by 50 draws of
        :meth:`traces`.
        """
        sizes = [shape.numel() for shape in self.shapes]
        estimates = self._estimate_traces(draws=50, seed=0)
        errors = estimates.std(0) / len(estimates) ** 0.5
        columns = {"trace": estimates.mean(0).tolist(), "standard error": errors.tolist()}
        return make_frame({"parameter": self.names, "size": sizes} | columns)

    def plot(self) -> Figure:
        """Return a chart of the mean diagonal entry of F for each parameter, estimated."""
        from lnlab.figures.curves import line_chart_over_depth

        frame = self.to_frame()
        means = (frame["trace"] / frame["size"]).tolist()
        return line_chart_over_depth(self.names, {"F": means}, y="mean of the diagonal of F")


def fisher_information(
    model: nn.Module,
    x: Tensor,
    *,
    family: ExponentialFamily = CATEGORICAL,
    bn_stats: str | None = None,
    params: Collection[str] | None = None,
    dtype: torch.dtype | None = None,
    select_output: SelectOutput = first_tensor,
) -> FisherInformation:
    """Return the Fisher information of a model's output distribution at its parameters.

    Args:
        model: called as ``model(x)``.
        x: its input, examples along the first axis. The mean over them stands for E_x.
        family: the distribution of y whose natural parameters the outputs are; logits are those
            of CATEGORICAL.
        bn_stats: which statistics BatchNorm uses; required if the model has one: "batch" (those
            of x, as in training) or "running" (as in evaluation).
        params: the names of the parameters to differentiate by; None takes all that are
            trained.
        dtype: the precision; None takes that of the model, but at least float32.
        select_output: returns, from the output of the model, the natural parameters h.

    Raises:
        ValueError: as for :class:`Objective`; also for ``bn_stats="recomputed"``, because the
            derivative would treat these statistics as constants.

    Examples:
        >>> information = lnlab.fisher_information(net, x)
        >>> print(information)
    """
    check_model(model)
    check_type("family", family, ExponentialFamily, "CATEGORICAL, BERNOULLI or GAUSSIAN")
    if bn_stats == "recomputed":
        raise ValueError(
            'bn_stats is "recomputed", whose dependence on w has no derivative here: give '
            '"batch", which are statistics of x too, or "running".'
        )
    dtype = dtype or float32_if_half_precision(model)
    # h stays that of theta while w moves: at w = theta the divergence is 0 and so is its
    # gradient, and what is left of second order is F (eq. 9)
    h = (
        ModuleCopy(
            model, x, dtype=dtype, bn_stats=bn_stats or "running", select_output=select_output
        )
        .run()
        .y
    )

    return FisherInformation(
        model, x, h, family, select_output, bn_stats=bn_stats, params=params, dtype=dtype
    )
