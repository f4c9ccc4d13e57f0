r"""Batch layer normalization: the mixture of Ziaee & Çano (2022, arXiv:2209.08898).

Their eq. 16, with the paper's m (nominal batch size), d (features, here H) and eps:

.. math::
    \hat a = \frac{w_B\,\frac{a - \mu_B}{\sigma_B} + w_F\,\frac{a - \mu_F}{\sigma_F}}{\sqrt d},
    \qquad w_B = 1 - (1/m + \epsilon),\quad w_F = 1/m - \epsilon

Known oddities, kept because they are the source: the weights sum to 1 - 2 eps; w_B is
-eps at m = 1 and w_F is negative past m = 1/eps; "the root mean square of d" is the
constant :math:`1/\sqrt d`, so the output has a standard deviation of about that.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from .normalizer import Normalizer, Stats, wide


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
        """The configuration that the paper's tables call, say, "TTFF"."""
        if len(letters) != 4 or set(letters) - set("TF"):
            raise ValueError(f"{letters!r} is no configuration: give four of T and F.")
        return cls(*(letter == "T" for letter in letters))


@dataclass(frozen=True)
class Reading:
    """What the paper says and what its code does differently.

    Attributes:
        eps: inside the root of both standard deviations.
        of_variance: whether the population sigma is the root of the averaged variance
            times m/(m-1) (the code) or m/(m-1) times the averaged sigma (eq. 19, 21).
        by_slot: whether population feature statistics are kept for each place in the batch
            (the code: an average over unrelated cases, and m is then fixed) or one of all.
    """

    eps: float
    of_variance: bool
    by_slot: bool


PAPER = Reading(eps=1e-4, of_variance=False, by_slot=False)
CODE = Reading(eps=1e-3, of_variance=True, by_slot=True)


class BatchLayerNorm(Normalizer):
    """Ziaee & Çano (2022), algorithms 1 and 2: eq. 16 with gain g and bias b (eq. 17).

    Batch statistics run over the first axis alone, so every place of a sequence or picture
    has its own; feature statistics over the units alone. It is computed as the sum of its
    two parts: one combined mu would cancel in float32. Of a single case the batch part is
    0, whatever eps. Population statistics are averages over the training batches since
    :meth:`forget`, which the code calls at every epoch; before there are any, evaluation
    that asks for them raises RuntimeError.

    Args:
        m: nominal batch size of the weights and of m/(m-1); None takes the cases at hand.
        population: which statistics evaluation takes from the population.
        reading: :data:`PAPER` or :data:`CODE`.
        eps: replaces the reading's, in the roots; the weights keep theirs, 1e-4.
    """

    eps_weights = 1e-4
    batches: Tensor

    def __init__(
        self,
        units: int,
        m: int | None = None,
        *,
        population: Population = Population(),
        reading: Reading = PAPER,
        eps: float | None = None,
        space: int = 0,
    ) -> None:
        super().__init__(units, space=space)
        if m is not None and m < 1:
            raise ValueError(f"m is {m}: a batch holds at least one case.")
        self.m, self.population, self.reading = m, population, reading
        self.eps = reading.eps if eps is None else eps
        self.g = nn.Parameter(torch.ones(units))
        self.b = nn.Parameter(torch.zeros(units))
        self.register_buffer("batches", torch.zeros((), dtype=torch.int64))
        for name in ("mu_B", "spread_B", "mu_F", "spread_F"):
            self.register_buffer(name, torch.zeros(0))

    def weights(self, cases: int) -> tuple[float, float]:
        """(w_B, w_F) of eq. 16."""
        m = self.m or cases
        return 1 - (1 / m + self.eps_weights), 1 / m - self.eps_weights

    def forward(self, a: Tensor, W: Tensor | None = None, t: int | None = None) -> Tensor:
        self.check(a)
        a_ = wide(a)
        (mu_B, sigma_B), (mu_F, sigma_F) = self.parts(a_)
        w_B, w_F = self.weights(len(a))
        x_B = torch.zeros_like(a_) if self.alone(a) else (a_ - mu_B) / sigma_B
        x = (w_B * x_B + w_F * (a_ - mu_F) / sigma_F) / self.units**0.5
        return (self.along_units(self.g) * x + self.along_units(self.b)).to(a.dtype)

    def stats(self, a: Tensor, W: Tensor | None = None, t: int | None = None) -> Stats:
        """The (mu, sigma) that eq. 5 would need: for display, not for computing with."""
        (mu_B, sigma_B), (mu_F, sigma_F) = self.parts(a)
        w_B, w_F = self.weights(len(a))
        slope_B = torch.zeros_like(sigma_B) if self.alone(a) else w_B / sigma_B
        slope_F = w_F / sigma_F
        slope = (slope_B + slope_F) / self.units**0.5
        return Stats((slope_B * mu_B + slope_F * mu_F) / self.units**0.5 / slope, 1 / slope)

    def alone(self, a: Tensor) -> bool:
        """Whether the batch part has nothing to see: one case and its own mean."""
        return len(a) == 1 and (self.training or not self.population.mu_B)

    def parts(self, a: Tensor) -> tuple[Stats, Stats]:
        """The batch's (mu, sigma) and the features', each from where it should come."""
        var_B, mu_B = torch.var_mean(a, dim=0, correction=0, keepdim=True)
        var_F, mu_F = torch.var_mean(a, dim=self.unit_axis, correction=0, keepdim=True)
        if self.training:
            self.remember(mu_B, var_B, mu_F, var_F, len(a))
        else:
            if self.population.mu_B:
                mu_B = self.recalled(self.mu_B, a)
                var_B = (a - mu_B).square().mean(0, keepdim=True)  # eq. 19, about E_B
            if self.population.mu_F:
                mu_F = self.recalled(self.mu_F, a)
                var_F = (a - mu_F).square().mean(self.unit_axis, keepdim=True)
        sigma_B, sigma_F = (var_B + self.eps).sqrt(), (var_F + self.eps).sqrt()
        if not self.training and self.population.sigma_B:
            sigma_B = self.population_sigma(self.spread_B, a)
        if not self.training and self.population.sigma_F:
            sigma_F = self.population_sigma(self.spread_F, a)
        return Stats(mu_B, sigma_B), Stats(mu_F, sigma_F)

    def recalled(self, statistic: Tensor, a: Tensor) -> Tensor:
        """A population statistic, checked against the batch ``a`` that it should serve."""
        if not statistic.numel():
            raise RuntimeError(
                "BatchLayerNorm has no population statistics yet: train it on a batch first, "
                "or ask for none of them (population=Population())."
            )
        if statistic.dim() > 1 and len(statistic) not in (1, len(a)):
            raise ValueError(
                f"the code's feature statistics are of {len(statistic)} places in the batch, "
                f"and this one has {len(a)}: evaluate in batches of {len(statistic)}."
            )
        return statistic

    def population_sigma(self, spread: Tensor, a: Tensor) -> Tensor:
        """Eq. 19 and 21, or the code's root of the averaged variance."""
        m = self.m or len(a)
        bessel = m / (m - 1) if m > 1 else float("inf")
        spread = self.recalled(spread, a)
        if self.reading.of_variance:
            return (bessel * spread + self.eps).sqrt()
        return bessel * spread

    @torch.no_grad()
    def remember(
        self, mu_B: Tensor, var_B: Tensor, mu_F: Tensor, var_F: Tensor, cases: int
    ) -> None:
        """Let the population statistics take in one training batch, all batches alike."""
        if self.reading.by_slot and self.mu_F.numel() and len(self.mu_F) != cases:
            return  # the code drops the last, smaller batch
        if not self.reading.by_slot:
            mu_F, var_F = mu_F.mean(0, keepdim=True), var_F.mean(0, keepdim=True)
        spreads = [
            v if self.reading.of_variance else (v + self.eps).sqrt() for v in (var_B, var_F)
        ]
        self.batches += 1
        for name, new in zip(
            ("mu_B", "spread_B", "mu_F", "spread_F"),
            (mu_B, spreads[0], mu_F, spreads[1]),
            strict=True,
        ):
            old = getattr(self, name)
            if old.shape != new.shape:
                setattr(self, name, new.clone())
            else:
                old.add_((new - old) / self.batches)

    def forget(self) -> None:
        """Start the population statistics anew."""
        self.batches.zero_()
        for name in ("mu_B", "spread_B", "mu_F", "spread_F"):
            setattr(self, name, torch.zeros(0, device=self.batches.device))

    def _load_from_state_dict(self, state_dict: dict, prefix: str, *rest) -> None:
        # The population statistics have the shape of a batch, not known until one was seen.
        for name in ("mu_B", "spread_B", "mu_F", "spread_F"):
            if prefix + name in state_dict:
                setattr(self, name, torch.empty_like(state_dict[prefix + name]))
        super()._load_from_state_dict(state_dict, prefix, *rest)

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, m={self.m}, eps={self.eps}"
