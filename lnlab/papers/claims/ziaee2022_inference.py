"""Ziaee & Çano (2022), section 3 and appendix: what evaluation takes from the training."""

from functools import partial
from itertools import product
from math import gamma, sqrt

import torch
from torch import Tensor

from lnlab.analysis.magnitudes import relative_change
from lnlab.analysis.random import normal
from lnlab.nn import CONFIGURATIONS, BatchLayerNorm, BatchNorm, Population
from lnlab.papers.claims.ba2016_analysis import AFFINE, fewer_cases
from lnlab.papers.claims.claim import equation as equation_of
from lnlab.papers.claims.exact import changed, greatest, least, readings, unchanged
from lnlab.papers.claims.rule import Kind

PAPER = "Ziaee & Çano (2022)"
equation = partial(equation_of, PAPER)
H, M = 12, 25
NORMAL = "independent normal numbers, in closed form"
COMPANY = f"random cases, {M} to a batch, H = {H}, float64, eps = 0"


FOUR = "all batches of 2 to 5 cases that can be drawn, with repetition, from four"
CROWD = f"{M} random cases, one of them a million times as large, H = {H}, float64, eps = 0"


def off_variance(seed: int) -> float:
    """The distance of eq. 5 from the variance of the population, relative, the worst m."""
    population = normal(seed, 0, 4)
    there = population.var(correction=0)

    def off(m: int) -> float:
        batches = population[torch.tensor(list(product(range(4), repeat=m)))]
        mean = batches.var(1, correction=0).mean()
        return float((m / (m - 1) * mean / there - 1).abs())

    return greatest(map(off, range(2, 6)))


@torch.no_grad()
def beside_a_bad_input(seed: int) -> tuple[Tensor, Tensor]:
    """Batch norm's outputs (M, H), without and with a case a million times as large."""
    norm, x = BatchNorm(H, eps=0.0).double(), normal(seed, 0, M, H)
    bad = x.clone()
    bad[0] *= 1e6
    return norm(x), norm(bad)


def in_bounds(seed: int) -> float:
    """The part of the largest output beyond sqrt(M - 1), which no input can exceed."""
    _, y = beside_a_bad_input(seed)
    return greatest([float(y.abs().max()) / (M - 1) ** 0.5 - 1, 0.0])


def of_others(seed: int) -> float:
    """The change of the outputs of all other cases."""
    before, after = beside_a_bad_input(seed)
    return relative_change(after[1:], before[1:])


def mean_deviation(count: int) -> float:
    """The mean of the deviation (over ``count``) of so many standard normal numbers."""
    return sqrt(2 / count) * gamma(count / 2) / gamma((count - 1) / 2)


def off_batch_deviation(seed: int) -> float:
    """The distance of eq. 19 from the population's deviation, 1, the worst m from 2 to 50."""
    return greatest(abs(m / (m - 1) * mean_deviation(m) - 1) for m in range(2, 51))


def off_feature_deviation(seed: int) -> float:
    """The distance of eq. 21 from the deviation of all features' numbers, of H a case.

    The factor is of m, the deviation one of H numbers: the worst m from 2 to 50.
    """
    return greatest(abs(m / (m - 1) * mean_deviation(H) - 1) for m in range(2, 51))


def learned(letters: str, seed: int) -> BatchLayerNorm:
    """BLN in a configuration, in evaluation, after 20 batches."""
    norm = BatchLayerNorm(H, M, eps=0.0, population=Population.named(letters)).double()
    for batch in range(20):
        norm(normal(seed, batch, M, H))
    return norm.eval()


@torch.no_grad()
def not_linear(letters: str, seed: int) -> float:
    """The part that the best affine map of x leaves of BLN's output in evaluation."""
    norm, x = learned(letters, seed), normal(seed, 99, 4 * M, H)
    y: Tensor = torch.cat([norm(part) for part in x.split(M)])
    design = torch.cat([x, x.new_ones(len(x), 1)], dim=1)
    return relative_change(design @ torch.linalg.lstsq(design, y).solution, y)


LINEAR = ("TTTT", "TTFT")
"""Configurations with all deviations, and the batch's mean, from the population: the mean of a
case is linear in it."""


def farthest_of_linear(seed: int) -> float:
    """The greatest of :func:`not_linear` in these two configurations."""
    return greatest(not_linear(letters, seed) for letters in LINEAR)


def nearest_of_others(seed: int) -> float:
    """The least of :func:`not_linear` in the fourteen others."""
    return least(not_linear(each, seed) for each in CONFIGURATIONS if each not in LINEAR)


@torch.no_grad()
def by_others(m: int, seed: int) -> float:
    """The change of a case's output in training when the others of its batch are others."""
    norm = BatchLayerNorm(H, m, eps=0.0).double()
    one, other = normal(seed, 0, m, H), normal(seed, 1, m, H)
    other[0] = one[0]
    return relative_change(norm(other)[:1], norm(one)[:1])


CLAIMS = [
    equation(
        "2-variance", "2, eq. 5",
        "the population's variance is m/(m - 1) times the mean of the batches' variances",
        unchanged(off_variance, "distance from the population's, relative", FOUR),
        note="the mean over all batches; moving averages of a training weigh the last ones "
        "more, and each is of other weights",
    ),
    equation(
        "2-bad-input", "2",
        "batch norm is invariant to scale, meaning that a bad input from the previous layer "
        "does not ruin the next one",
        readings({
            "no output is beyond the root of m - 1": unchanged(
                in_bounds, "part of an output beyond it", CROWD),
            "the other cases keep their outputs": unchanged(of_others, data=CROWD),
        }),
        kind=Kind.READING,
        note="what is invariant is the whole batch to one scale; a case a million times as "
        "large has all of sigma, and the others come out as one; by layer norm no case knows "
        "of another",
    ),
    equation(
        "eq19", "appendix, eq. 19",
        "the population's deviation of a batch's statistic is m/(m - 1) times the mean of the "
        "batches' deviations",
        unchanged(off_batch_deviation, "distance from the population's, relative", NORMAL),
        note="the factor belongs to the variance, as in eq. 5; of a deviation it is too large "
        "by 13 % at m = 2, by 1 % at 25, and infinite at m = 1, a size that the paper uses",
    ),
    equation(
        "eq21", "appendix, eq. 21",
        "the population's deviation of features is m/(m - 1) times the mean of the cases' "
        "deviations",
        unchanged(off_feature_deviation, "distance from the population's, relative", NORMAL),
        note="there are m cases, and the deviation is one of d features: the factor would be "
        "of d",
    ),
    equation(
        "3-layer-norm", "3",
        "the normalization of layer norm depends only on mini-batch statistics, in training "
        "and at inference",
        changed(fewer_cases("layer", 1)),
        note="layer norm knows no mini-batch: each case has its own mean and deviation",
    ),
    equation(
        "3-single", "3 and appendix, algorithm 2",
        "at inference normalization, gain and bias form a single linear transform that "
        "replaces BLN",
        readings({
            "TTTT and TTFT": unchanged(farthest_of_linear, AFFINE),
            "any of the other fourteen": unchanged(nearest_of_others, AFFINE),
        }),
        kind=Kind.READING,
        note="with a deviation of the case, or a statistic of its batch, the map is not linear",
    ),
    equation(
        "abstract-independent", "abstract, 5 and 6",
        "the key advantage of BLN is being independent of the input data",
        readings({
            "at batch size 1, of other cases": unchanged(partial(by_others, 1), data=COMPANY),
            "at batch size 25, of other cases": unchanged(partial(by_others, M), data=COMPANY),
        }),
        kind=Kind.READING,
        note="no equation says what is meant; read as layer norm's independence of the other "
        "cases it is lost wherever batches have more than one",
    ),
]  # fmt: skip
