r"""Batch layer normalization: the mixture of Ziaee & Çano (2022, arXiv:2209.08898).

Their eq. 16, with the paper's m (nominal batch size), d (features, here H) and eps:

.. math::
    \hat a = \frac{w_B\,\frac{a - \mu_B}{\sigma_B} + w_F\,\frac{a - \mu_F}{\sigma_F}}{\sqrt d},
    \qquad w_B = 1 - (1/m + \epsilon),\quad w_F = 1/m - \epsilon

Known oddities, kept because they are the source: the weights sum to 1 - 2 eps; w_B is
-eps at m = 1 and w_F is negative past m = 1/eps; "the root mean square of d" is the
constant :math:`1/\sqrt d`, so the output has a standard deviation of about that.

Not kept: eq. 13 and 21 print no eps. Like the code, and the paper's "in all equations", we
put the one of eq. 11 there too, without which a case of equal units gives 0/0; with eps = 0
both are as printed.
"""

from dataclasses import astuple, dataclass
from itertools import product
from typing import Literal, get_args

import torch
from torch import Tensor, nn

from lnlab.nn.normalizer import Normalizer, Stats, refuse_negative, wide

# The average over batches of a mean and a spread, in the shapes of a batch's own.


class Average(nn.Module):
    """The mean over batches, all alike, of a batch's mu and its spread.

    The shape is that of the first batch, and a batch of another shape starts it anew.

    Args:
        epoch: the number of batches after which the next one starts it anew; None: never.
    """

    batches: Tensor
    mu: Tensor
    spread: Tensor

    def __init__(self, epoch: int | None = None) -> None:
        super().__init__()
        self.epoch = epoch
        self.register_buffer("batches", torch.zeros((), dtype=torch.int64))
        self.register_buffer("mu", torch.zeros(0))
        self.register_buffer("spread", torch.zeros(0))

    @torch.no_grad()
    def take(self, mu: Tensor, spread: Tensor) -> None:
        """Take in the statistics of one batch, of any one shape.

        Tensors are changed in place: a fused model shares them.
        """
        if self.mu.shape != mu.shape:
            self.forget()
            self.mu.resize_(mu.shape).zero_()
            self.spread.resize_(mu.shape).zero_()
        before = self.batches % self.epoch if self.epoch else self.batches.clone()
        self.batches += 1
        # the plain mean of all so far, brought up to date: no sum that grows
        for mean, new in ((self.mu, mu), (self.spread, spread)):
            mean.copy_(torch.where(before == 0, new, mean + (new - mean) / (before + 1)))

    def recall(self, like: Tensor) -> tuple[Tensor, Tensor]:
        """The averages of mu and spread, for a batch whose own mu is ``like``.

        Raises:
            RuntimeError: where there are none yet.
            ValueError: where they are of batches of another shape.
        """
        if not self.batches:
            raise RuntimeError(
                "BatchLayerNorm has no population statistics yet: train it on a batch first, "
                "or ask for none of them (population=Population())."
            )
        if self.mu.shape not in (like.shape, like[:1].shape):
            raise ValueError(
                f"population statistics of shape {tuple(self.mu.shape)} do not fit those of "
                f"this batch, {tuple(like.shape)}: evaluate on the shape that was trained on "
                "(in the code's reading, in batches of the same size too)."
            )
        return wide(self.mu), wide(self.spread)

    def begin(self) -> None:
        """Start anew, in the same shape."""
        self.batches.zero_()

    def forget(self) -> None:
        """Start anew, with batches of any shape."""
        self.begin()
        self.mu.resize_(0)
        self.spread.resize_(0)

    def _load_from_state_dict(self, state_dict: dict, prefix: str, *rest) -> None:
        for name in ("mu", "spread"):  # their shape is not known before
            if prefix + name in state_dict:
                getattr(self, name).resize_(state_dict[prefix + name].shape)
        super()._load_from_state_dict(state_dict, prefix, *rest)


@dataclass(frozen=True)
class Population:
    """Algorithm 2, step 9: which statistics come from the population in evaluation.

    The 16 configurations; the paper writes them as four letters T or F in this order.
    """

    mu_B: bool = False
    sigma_B: bool = False
    mu_F: bool = False
    sigma_F: bool = False

    @classmethod
    def named(cls, letters: str) -> "Population":
        """The configuration that the paper's tables call, say, "TTFF".

        Raises:
            ValueError: if these are not four letters T and F.
        """
        if len(letters) != 4 or set(letters) - set("TF"):
            raise ValueError(f"{letters!r} is no configuration: give four of T and F.")
        return cls(*(letter == "T" for letter in letters))

    @property
    def letters(self) -> str:
        """Its name in the paper's tables."""
        return "".join("FT"[asked] for asked in astuple(self))


@dataclass(frozen=True)
class Reading:
    """A reading of the paper: its own words, or what its code does differently.

    Attributes:
        eps: inside the root of both standard deviations.
        about_mu: whether a sigma that evaluation takes from the batch is about the mu in use,
            which may be the population's (eq. 19, 21), or about the batch's own (the code).
        of_variance: whether the population sigma is the root of the averaged variance
            times m/(m-1) (the code) or m/(m-1) times the averaged sigma (eq. 19, 21).
        by_slot: whether population feature statistics are kept for each place in the batch
            (the code: an average over unrelated cases, and m is then fixed) or one of all.
        corrected: whether the population's sigmas have the factor m/(m-1) at all; both do, of
            the features too, where it corrects nothing, and at m = 1 it is infinite.
    """

    eps: float
    about_mu: bool
    of_variance: bool
    by_slot: bool
    corrected: bool = True


PAPER = Reading(eps=1e-4, about_mu=True, of_variance=False, by_slot=False)
CODE = Reading(eps=1e-3, about_mu=False, of_variance=True, by_slot=True)

CONFIGURATIONS = tuple("".join(letters) for letters in product("TF", repeat=4))
"""The names of the 16 configurations, in the order in which the code tries them."""


def possible(letters: str, m: int | None, reading: Reading = CODE) -> bool:
    """False for a configuration that m/(m-1) keeps from being computed: 12 of 16 at m = 1."""
    asked = Population.named(letters)
    return not (m == 1 and reading.corrected and (asked.sigma_B or asked.sigma_F))


Copies = Literal["both", "cases", "features"]
"""The standardised copies that are added: both (eq. 16), or one alone, its weight 1."""


class BatchLayerNorm(Normalizer):
    """Ziaee & Çano (2022), algorithms 1 and 2: eq. 16 with gain g and bias b (eq. 17).

    Batch statistics run over the first axis alone, so every place of a sequence or picture
    has its own; feature statistics over the units alone. It is computed as the sum of its
    two parts: one combined mu would cancel in float32. Of a single case the batch part is
    0, whatever eps.

    Population statistics are averages over the training batches since :meth:`forget`.
    Evaluation that asks for them before there are any raises RuntimeError, and ValueError
    where they do not fit the batch, or where m/(m-1) is infinite.

    Args:
        m: nominal batch size of the weights and of m/(m-1); None takes the cases at hand.
        population: which statistics evaluation takes from the population.
        reading: :data:`PAPER` or :data:`CODE`.
        eps: replaces the reading's, in the roots; the weights keep theirs, 1e-4.
        epoch: the number of training batches after which population statistics start anew, as
            the code has it; None: never.
        copies: "both" is eq. 16; controls that the paper lacks have one of them alone.
        root_d: whether eq. 16 divides by the root of d.
    """

    eps_weights = 1e-4

    def __init__(
        self,
        units: int,
        m: int | None = None,
        *,
        population: Population = Population(),
        reading: Reading = PAPER,
        eps: float | None = None,
        epoch: int | None = None,
        copies: Copies = "both",
        root_d: bool = True,
        space: int = 0,
    ) -> None:
        super().__init__(units, space=space)
        if m is not None and m < 1:
            raise ValueError(f"m is {m}: a batch holds at least one case.")
        if epoch is not None and epoch < 1:
            raise ValueError(f"epoch is {epoch}: give a number of batches, or None.")
        if copies not in get_args(Copies):
            raise ValueError(
                f"copies is {copies!r}: choose from {', '.join(get_args(Copies))}."
            )
        self.m, self.population, self.reading = m, population, reading
        self.eps = reading.eps if eps is None else eps
        refuse_negative(self.eps)
        self.g = nn.Parameter(torch.ones(units))
        self.b = nn.Parameter(torch.zeros(units))
        self.over_cases, self.over_features = Average(epoch), Average(epoch)
        self.copies, self.root_d = copies, root_d

    @property
    def divisor(self) -> float:
        """The number by which eq. 16 divides: the root of d, or 1."""
        return self.units**0.5 if self.root_d else 1.0

    def weights(self, cases: int) -> tuple[float, float]:
        """(w_B, w_F) of eq. 16; of one copy alone, 1 and 0."""
        if self.copies != "both":
            return float(self.copies == "cases"), float(self.copies == "features")
        m = self.m or cases
        # eq. 16: the larger the batch, the more its own statistics are trusted. The weights sum
        # to 1 - 2 eps and not to 1, as printed
        return 1 - (1 / m + self.eps_weights), 1 / m - self.eps_weights

    def check(self, a: Tensor) -> None:
        super().check(a)
        if a.dim() < 2 + self.space or len(a) == 0:
            raise ValueError(f"a batch of shape {tuple(a.shape)} has no cases to average over.")

    def forward(self, a: Tensor, W: Tensor | None = None, t: int | None = None) -> Tensor:
        self.check(a)
        a_ = wide(a)
        (mu_B, sigma_B), (mu_F, sigma_F) = self.parts(a_)
        w_B, w_F = self.weights(len(a))
        x_B = torch.zeros_like(a_) if self.alone(a) else (a_ - mu_B) / sigma_B
        x_F = (a_ - mu_F) / sigma_F
        # Eq. 16 as it stands, the sum of two standardised copies. As one (a - mu)/sigma its mu
        # could be far outside of the data (w_F < 0 past m = 1/eps), and cancel in float32.
        x = (w_B * x_B + w_F * x_F) / self.divisor
        return (self.along_units(self.g) * x + self.along_units(self.b)).to(a.dtype)

    def stats(self, a: Tensor, W: Tensor | None = None, t: int | None = None) -> Stats:
        """The (mu, sigma) that eq. 5 would need of a (B, H): for display, not to compute with.

        In training mode ``a`` is remembered, as by a call.
        """
        (mu_B, sigma_B), (mu_F, sigma_F) = self.parts(a)
        w_B, w_F = self.weights(len(a))
        slope_B = torch.zeros_like(sigma_B) if self.alone(a) else w_B / sigma_B
        slope_F = w_F / sigma_F
        # sum_k s_k (a - mu_k) = s (a - mu) with s the sum of the s_k and mu their weighted mean
        slope = slope_B + slope_F
        return Stats((slope_B * mu_B + slope_F * mu_F) / slope, self.divisor / slope)

    def alone(self, a: Tensor) -> bool:
        """True if the batch part sees nothing of a (B, H): one case, its own statistics."""
        asked = self.asked
        return len(a) == 1 and not (asked.mu_B or asked.sigma_B)

    @property
    def asked(self) -> Population:
        """The statistics that come from the population: none while training."""
        return Population() if self.training else self.population

    def parts(self, a: Tensor) -> tuple[Stats, Stats]:
        """(mu_B, sigma_B), each (1, H), and (mu_F, sigma_F), each (B, 1), of a (B, H)."""
        asked = self.asked
        return (
            self.part(a, 0, self.over_cases, asked.mu_B, asked.sigma_B),
            self.part(a, self.unit_axis, self.over_features, asked.mu_F, asked.sigma_F),
        )

    def part(
        self, a: Tensor, axis: int, average: Average, recall_mu: bool, recall_sigma: bool
    ) -> Stats:
        """(mu, sigma) over one axis, each from the batch or from the population.

        Over the cases, eq. 10, 11, 18 and 19; over the units, eq. 12, 13, 20 and 21. Kept
        axes: (1, H, *space) over the cases, (B, 1, *space) over the units.
        """
        # 1/m and 1/d, the biased variances of eq. 11 and 13
        var, mu = torch.var_mean(a, dim=axis, correction=0, keepdim=True)
        if self.training:
            self.remember(average, mu, var, len(a))
        like = mu
        # The four questions are independent: a mu of the population may meet a sigma of the
        # batch. About which mu that sigma is taken is where paper and code part.
        if recall_mu:
            mu, _ = average.recall(like)
            if self.reading.about_mu:
                var = (a - mu).square().mean(axis, keepdim=True)
        if recall_sigma:
            _, spread = average.recall(like)
            return Stats(mu, self.population_sigma(spread, len(a)))
        return Stats(mu, (var + self.eps).sqrt())

    def population_sigma(self, spread: Tensor, cases: int) -> Tensor:
        """The population's sigma, shaped as ``spread``: eq. 19 and 21, or the code's."""
        factor = self.factor(self.m or cases)
        if self.reading.of_variance:
            # spread is the averaged variance here, and the averaged sigma below: the mean of
            # roots is smaller than the root of the mean (Jensen), so that the two differ
            return (factor * spread + self.eps).sqrt()
        return factor * spread

    def factor(self, m: int) -> float:
        """m/(m-1), or 1 in a reading that does without.

        Raises:
            ValueError: at m = 1, where it is infinite.
        """
        if not self.reading.corrected:
            return 1.0
        if m == 1:
            raise ValueError(
                "m is 1: the population's sigma has the factor m/(m-1), which is infinite. "
                "Take both sigmas from the batch (TFTF, TFFF, FFTF or FFFF), or leave the "
                "factor out (replace(CODE, corrected=False))."
            )
        return m / (m - 1)

    @torch.no_grad()
    def remember(self, average: Average, mu: Tensor, var: Tensor, cases: int) -> None:
        """Let ``average`` take in mu and var, in its shapes, of one batch of so many cases."""
        slots = self.m or len(self.over_features.mu) or cases
        if self.reading.by_slot and cases != slots:
            return  # the code drops the last, smaller batch
        spread = var if self.reading.of_variance else (var + self.eps).sqrt()
        if average is self.over_features and not self.reading.by_slot:
            # one statistic for all cases: that of a place in the batch is of unrelated cases
            mu, spread = mu.mean(0, keepdim=True), spread.mean(0, keepdim=True)
        average.take(mu, spread)

    def begin(self) -> None:
        """Start the population statistics anew, in the shapes that they have."""
        self.over_cases.begin()
        self.over_features.begin()

    def forget(self) -> None:
        """Start the population statistics anew, with batches of any shape."""
        self.over_cases.forget()
        self.over_features.forget()

    def extra_repr(self) -> str:
        reading = {PAPER: "PAPER", CODE: "CODE"}.get(self.reading, str(self.reading))
        copies = "" if self.copies == "both" else f", copies={self.copies}"
        root_d = "" if self.root_d else ", root_d=False"
        return (
            f"{super().extra_repr()}, m={self.m}, eps={self.eps}, {reading}, "
            f"population={self.population.letters}{copies}{root_d}"
        )
