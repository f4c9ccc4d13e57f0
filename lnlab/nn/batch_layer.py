r"""Batch layer normalization: the mixture of Ziaee & Çano (2022, arXiv:2209.08898).

Their eq. 16, with the paper's m (nominal batch size), d (features, here H) and eps:

.. math::
    \hat a = \frac{w_B\,\frac{a - \mu_B}{\sigma_B} + w_F\,\frac{a - \mu_F}{\sigma_F}}{\sqrt d},
    \qquad w_B = 1 - (1/m + \epsilon),\quad w_F = 1/m - \epsilon

Known oddities, kept because they are the source: the weights sum to 1 - 2 eps; w_B is
-eps at m = 1 and w_F is negative past m = 1/eps; "the root mean square of d" is the
constant :math:`1/\sqrt d`, so the output has a standard deviation of about that.

Not kept: eq. 13 and 21 print no eps. Like the code, and the paper's "in all equations", we
put the one of eq. 11 there too, without which an example of equal units gives 0/0; with
eps = 0 both are as printed.
"""

from dataclasses import dataclass
from itertools import product
from typing import Literal, get_args

import torch
from torch import Tensor, nn

from lnlab.nn.normalizer import MuSigma, Normalizer, at_least_float32

FlagPerMuBSigmaBMuFSigmaF = tuple[bool, bool, bool, bool]

VarianceOrSigma = Tensor  # whichever of them the variant averages over batches


class PopulationStatistics(nn.Module):
    """The unweighted mean over batches of mu and of a spread.

    Its shape is that of the first batch. A batch of another shape restarts it, and so does the
    first one after ``epoch`` batches.
    """

    batches: Tensor
    mu: Tensor
    spread: VarianceOrSigma

    def __init__(self, epoch: int | None = None) -> None:
        super().__init__()
        self.epoch = epoch
        self.register_buffer("batches", torch.zeros((), dtype=torch.int64))
        self.register_buffer("mu", torch.zeros(0))
        self.register_buffer("spread", torch.zeros(0))

    @torch.no_grad()
    def add_batch(self, mu: Tensor, spread: VarianceOrSigma) -> None:
        """Add the statistics of one batch, both of one shape.

        Tensors are changed in place: a fused model shares them.
        """
        if self.mu.shape != mu.shape:
            self.clear()
            self.mu.resize_(mu.shape).zero_()
            self.spread.resize_(mu.shape).zero_()
        before = self.batches % self.epoch if self.epoch else self.batches.clone()
        self.batches += 1
        # mean + (new - mean) / n is the mean of n batches without a sum that grows
        for mean, new in ((self.mu, mu), (self.spread, spread)):
            mean.copy_(torch.where(before == 0, new, mean + (new - mean) / (before + 1)))

    def get_checked_averages(self, batch_mu: Tensor) -> tuple[Tensor, VarianceOrSigma]:
        """Return the averages of mu and spread for a batch of this mu, (1, H) or (B, 1)."""
        if not self.batches:
            raise RuntimeError(
                "BatchLayerNorm has no population statistics yet: train it on a batch first, "
                'or ask for none of them (population="FFFF").'
            )
        if self.mu.shape not in (batch_mu.shape, batch_mu[:1].shape):
            raise ValueError(
                f"population statistics of shape {tuple(self.mu.shape)} do not fit those of "
                f"this batch, {tuple(batch_mu.shape)}: evaluate on the shape that was trained "
                "on (for variant=CODE, in batches of the same size too)."
            )
        return at_least_float32(self.mu), at_least_float32(self.spread)

    def clear(self) -> None:
        """Start again, with batches of any shape."""
        self.batches.zero_()
        self.mu.resize_(0)
        self.spread.resize_(0)

    def _load_from_state_dict(self, state_dict: dict, prefix: str, *rest) -> None:
        for name in ("mu", "spread"):  # their shape is not known before
            if prefix + name in state_dict:
                getattr(self, name).resize_(state_dict[prefix + name].shape)
        super()._load_from_state_dict(state_dict, prefix, *rest)


@dataclass(frozen=True)
class BatchLayerNormVariant:
    """A reading of the paper: by its text, or what its code does differently."""

    eps: float  # inside the root of both standard deviations
    # whether a sigma that evaluation takes from the batch is about the mu in use, which may be
    # the population's (eq. 19, 21), or about the batch's own (the code).
    eval_variance_about_used_mu: bool
    # whether the population sigma is the root of the averaged variance times m/(m-1) (the code)
    # or m/(m-1) times the averaged sigma (eq. 19, 21).
    averages_variance_not_sigma: bool
    # whether population feature statistics are kept for each position in the batch (the code:
    # an average over unrelated examples, and m is then fixed) or once
    per_batch_position: bool
    # whether the population's sigmas have the factor m/(m-1) at all; both do, of the features
    # too, where it corrects nothing, and at m = 1 it is infinite
    population_sigma_bessel_corrected: bool = True


PAPER = BatchLayerNormVariant(
    eps=1e-4,
    eval_variance_about_used_mu=True,
    averages_variance_not_sigma=False,
    per_batch_position=False,
)
CODE = BatchLayerNormVariant(
    eps=1e-3,
    eval_variance_about_used_mu=False,
    averages_variance_not_sigma=True,
    per_batch_position=True,
)

CONFIGURATIONS = tuple("".join(letters) for letters in product("TF", repeat=4))
"""The 16 choices of what evaluation takes from the population (algorithm 2, step 9).

The paper writes T or F for mu_B, sigma_B, mu_F and sigma_F. Its code tries them in this order.
"""


def has_finite_sigmas(
    configuration: str, m: int | None, variant: BatchLayerNormVariant = CODE
) -> bool:
    """Return False if m/(m-1) makes a configuration infinite: 12 of 16 at m = 1."""
    _, sigma_B, _, sigma_F = configuration
    return not (
        m == 1 and variant.population_sigma_bessel_corrected and "T" in (sigma_B, sigma_F)
    )


Terms = Literal["both", "examples", "features"]
"""The standardized terms that are added: both (eq. 16), or one alone with weight 1."""


class BatchLayerNorm(Normalizer):
    """Batch layer normalization: Ziaee & Çano (2022), eq. 16 with gain g and bias b (eq. 17).

    Batch statistics run over the first axis alone, so each position of a sequence or picture
    has its own; feature statistics over the units alone. It is computed as the sum of its two
    terms: one combined mu would cancel in float32. Of a single example the batch term is 0,
    whatever eps.

    Population statistics are averages over the training batches since
    :meth:`clear_population`. An evaluation that needs them before there are any raises
    RuntimeError, and ValueError if they do not fit the batch or m/(m-1) is infinite.

    Args:
        units: d.
        m: nominal batch size of the weights and of m/(m-1); None takes that of each batch.
        population: what evaluation takes from the population, one of :data:`CONFIGURATIONS`.
        variant: :data:`PAPER` or :data:`CODE`.
        eps: replaces the variant's, in the roots; the weights keep theirs, 1e-4.
        epoch: the number of training batches after which population statistics restart, as in
            the code; None: never.
        terms: "both" is eq. 16; controls that the paper lacks have one of them alone.
        root_d: whether eq. 16 divides by the root of d.
        space: the number of spatial axes.

    Examples:
        >>> norm = lnlab.nn.BatchLayerNorm(16)
        >>> h = norm(torch.randn(4, 16))
    """

    eps_weights = 1e-4

    def __init__(
        self,
        units: int,
        m: int | None = None,
        *,
        population: str = "FFFF",
        variant: BatchLayerNormVariant = PAPER,
        eps: float | None = None,
        epoch: int | None = None,
        terms: Terms = "both",
        root_d: bool = True,
        space: int = 0,
    ) -> None:
        super().__init__(units, space=space)
        if population not in CONFIGURATIONS:
            raise ValueError(f"population is {population!r}: give four letters T or F.")
        if terms not in get_args(Terms):
            raise ValueError(f"terms is {terms!r}: choose from {', '.join(get_args(Terms))}.")
        self.m, self.population, self.variant = m, population, variant
        self.eps = variant.eps if eps is None else eps
        self.g = nn.Parameter(torch.ones(units))
        self.b = nn.Parameter(torch.zeros(units))
        self.over_examples = PopulationStatistics(epoch)
        self.over_features = PopulationStatistics(epoch)
        self.terms, self.root_d = terms, root_d

    @property
    def sqrt_units_or_one(self) -> float:
        """The root of d, by which eq. 16 divides, or 1."""
        return self.units**0.5 if self.root_d else 1.0

    def term_weights(self, batch_size: int) -> tuple[float, float]:
        """Return (w_B, w_F) of eq. 16; of one term alone, 1 and 0."""
        if self.terms != "both":
            return float(self.terms == "examples"), float(self.terms == "features")
        m = self.m or batch_size
        # eq. 16: the larger the batch, the more its own statistics are trusted. The weights sum
        # to 1 - 2 eps and not to 1, as printed
        return 1 - (1 / m + self.eps_weights), 1 / m - self.eps_weights

    def check_input(self, a: Tensor) -> None:
        super().check_input(a)
        if a.dim() < 2 + self.space or len(a) == 0:
            raise ValueError(
                f"a batch of shape {tuple(a.shape)} has no examples to average over."
            )

    def forward(self, a: Tensor, W: Tensor | None = None, t: int | None = None) -> Tensor:
        self.check_input(a)
        a_ = at_least_float32(a)
        of_examples, of_features = (
            self._is_from_population()[:2],
            self._is_from_population()[2:],
        )
        mu_B, sigma_B = self._stats_over_axis(a_, 0, self.over_examples, *of_examples)
        mu_F, sigma_F = self._stats_over_axis(
            a_, self.unit_axis, self.over_features, *of_features
        )
        w_B, w_F = self.term_weights(len(a))
        # of one example by the statistics of its own batch: 0 whatever eps
        alone = len(a) == 1 and not any(of_examples)
        x_B = torch.zeros_like(a_) if alone else (a_ - mu_B) / sigma_B
        x_F = (a_ - mu_F) / sigma_F
        # Eq. 16 as printed, the sum of two standardized terms. As one (a - mu)/sigma its mu
        # could be far outside of the data (w_F < 0 past m = 1/eps), and cancel in float32.
        x = (w_B * x_B + w_F * x_F) / self.sqrt_units_or_one
        return (self.broadcast_units(self.g) * x + self.broadcast_units(self.b)).to(a.dtype)

    def _is_from_population(self) -> FlagPerMuBSigmaBMuFSigmaF:
        """Return whether mu_B, sigma_B, mu_F, sigma_F are the population's; not in training."""
        mu_B, sigma_B, mu_F, sigma_F = [
            letter == "T" and not self.training for letter in self.population
        ]
        return mu_B, sigma_B, mu_F, sigma_F

    def _stats_over_axis(
        self,
        a: Tensor,
        axis: int,
        population: PopulationStatistics,
        use_population_mu: bool,
        use_population_sigma: bool,
    ) -> MuSigma:
        """Return (mu, sigma) over one axis, each from the batch or from the population.

        Over the examples, eq. 10, 11, 18 and 19, they are (1, H, *space); over the units, eq.
        12, 13, 20 and 21, (B, 1, *space).
        """
        # 1/m and 1/d, the biased variances of eq. 11 and 13
        var, mu = torch.var_mean(a, dim=axis, correction=0, keepdim=True)
        if self.training:
            self._add_batch_to_population(population, mu, var, len(a))
        batch_mu = mu
        # The four questions are independent: a mu of the population may meet a sigma of the
        # batch. About which mu that sigma is taken is where paper and code part.
        if use_population_mu:
            mu, _ = population.get_checked_averages(batch_mu)
            if self.variant.eval_variance_about_used_mu:
                var = (a - mu).square().mean(axis, keepdim=True)
        if not use_population_sigma:
            return MuSigma(mu, (var + self.eps).sqrt())
        _, spread = population.get_checked_averages(batch_mu)
        factor = self._checked_bessel_factor(self.m or len(a))
        if self.variant.averages_variance_not_sigma:
            # spread is the averaged variance here, and the averaged sigma below: the mean of
            # roots is smaller than the root of the mean (Jensen), so that the two differ
            return MuSigma(mu, (factor * spread + self.eps).sqrt())
        return MuSigma(mu, factor * spread)

    def _checked_bessel_factor(self, m: int) -> float:
        """Return the m/(m-1) of eq. 19 and 21, or 1 in a variant without it."""
        if not self.variant.population_sigma_bessel_corrected:
            return 1.0
        if m == 1:
            raise ValueError(
                "m is 1: the population's sigma has the factor m/(m-1), which is infinite. "
                "Take both sigmas from the batch (TFTF, TFFF, FFTF or FFFF), or leave the "
                "factor out (replace(CODE, population_sigma_bessel_corrected=False))."
            )
        return m / (m - 1)

    @torch.no_grad()
    def _add_batch_to_population(
        self, population: PopulationStatistics, mu: Tensor, var: Tensor, examples: int
    ) -> None:
        """Add mu and var, in the shapes of ``population``, of one batch to it."""
        batch_size = self.m or len(self.over_features.mu) or examples
        if self.variant.per_batch_position and examples != batch_size:
            return  # the code drops the last, smaller batch
        spread = var if self.variant.averages_variance_not_sigma else (var + self.eps).sqrt()
        if population is self.over_features and not self.variant.per_batch_position:
            # one statistic for all: the examples at one position of the batch are unrelated
            mu, spread = mu.mean(0, keepdim=True), spread.mean(0, keepdim=True)
        population.add_batch(mu, spread)

    def clear_population(self) -> None:
        """Start the population statistics again, with batches of any shape."""
        self.over_examples.clear()
        self.over_features.clear()

    def extra_repr(self) -> str:
        variant = {PAPER: "PAPER", CODE: "CODE"}.get(self.variant, str(self.variant))
        terms = "" if self.terms == "both" else f", terms={self.terms}"
        root_d = "" if self.root_d else ", root_d=False"
        return (
            f"{super().extra_repr()}, m={self.m}, eps={self.eps}, {variant}, "
            f"population={self.population}{terms}{root_d}"
        )
