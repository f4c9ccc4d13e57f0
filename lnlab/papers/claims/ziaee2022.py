"""Ziaee & Çano (2022, arXiv:2209.08898), Batch Layer Normalization: what it claims."""

from functools import partial
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from lnlab.analysis.magnitudes import relative_change
from lnlab.analysis.random import normal
from lnlab.nn import BatchLayerNorm, BatchNorm, LayerNorm, Population
from lnlab.papers.claims import (
    ziaee2022_inference,
    ziaee2022_pictures,
    ziaee2022_rates,
    ziaee2022_reviews,
)
from lnlab.papers.claims.ba2016_convolutions import at_every_rate, stable
from lnlab.papers.claims.claim import CHOSEN_LATE, Claim
from lnlab.papers.claims.claim import equation as equation_of
from lnlab.papers.claims.claim import restated as restated_of
from lnlab.papers.claims.claim import summary as summary_of
from lnlab.papers.claims.exact import changed, counted, greatest, nearly, readings, unchanged
from lnlab.papers.claims.rule import Kind

PAPER = "Ziaee & Çano (2022)"
equation = partial(equation_of, PAPER)
restated = partial(restated_of, PAPER)
summary = partial(summary_of, PAPER)
H = 12
OFF = "distance of a weight from the range"
ARITHMETIC = "no data, eq. 16 by itself"
SKEW = f"400 cases of random W and lognormal x, H = {H}, float64, eps = 0"
WORK = "work, of one training on 20 % of CIFAR-10"


def weights(m: int) -> tuple[float, float]:
    """Those of the batch's and of the feature's statistics, eq. 16."""
    batch, feature = BatchLayerNorm(H, m).weights(m)
    return batch, feature


def weights_off_range(seed: int) -> float:
    """The distance of the weights of eq. 16 from [eps, 1 - eps], the worst m to 50 (Fig. 2)."""
    eps = BatchLayerNorm.eps_weights
    all_weights = [w for m in range(1, 51) for w in weights(m)]
    return greatest(each for w in all_weights for each in (eps - w, w - (1 - eps), 0.0))


def weights_fall(seed: int) -> float:
    """The fall of the batch's weight, or the rise of the feature's, as m grows to 50."""
    pairs = [weights(m) for m in range(1, 51)]
    steps = [(a - b, d - c) for (a, c), (b, d) in pairwise(pairs)]
    return greatest([0.0, *(each for step in steps for each in step)])


@torch.no_grad()
def against_layer_norm(seed: int) -> float:
    """The distance of BLN of one case from 0.9999 LN / sqrt(d)."""
    a = normal(seed, 0, 1, H)
    blended = BatchLayerNorm(H, 1, eps=0.0).double()(a)
    return relative_change(blended, 0.9999 * LayerNorm(H, eps=0.0).double()(a) / H**0.5)


@torch.no_grad()
def against_plain_layer_norm(seed: int) -> float:
    """The distance of BLN of one case from LN, both as they start."""
    a = normal(seed, 0, 1, H)
    layer = LayerNorm(H, eps=0.0).double()
    return relative_change(BatchLayerNorm(H, 1, eps=0.0).double()(a), layer(a))


@torch.no_grad()
def gap(letters: str, seed: int) -> float:
    """The change of BLN's output from training to evaluation, in a configuration (Table 1)."""
    m, batches = 25, 100
    norm = BatchLayerNorm(H, m, population=Population.named(letters)).double()
    for batch in range(batches):
        a = normal(seed, batch, m, H)
        trained = norm.train()(a)
    return relative_change(norm.eval()(a), trained)


@torch.no_grad()
def standardized(seed: int) -> tuple[Tensor, Tensor]:
    """Summed inputs a of a random layer (B, H), and what batch norm makes of them."""
    W, x = normal(seed, 0, H, 7), normal(seed, 1, 400, 7).exp()
    a = x @ W.T
    return a, BatchNorm(H, eps=0.0).double()(a)


def off_unit(seed: int) -> float:
    """The distance of the outputs' means from 0, and of their variances from 1."""
    _, z = standardized(seed)
    mean, var = z.mean(0), z.var(0, correction=0)
    return greatest(map(float, [mean.abs().max(), (var - 1).abs().max()]))


def shape(a: Tensor) -> Tensor:
    """Skewness and kurtosis of every unit (2 H,), of a (B, H): 0 and 3 of a Gaussian."""
    z = (a - a.mean(0)) / a.std(0, correction=0)
    return torch.cat([z.pow(3).mean(0), z.pow(4).mean(0)])


def reshaped(seed: int) -> float:
    """The change that batch norm makes to skewness and kurtosis."""
    a, z = standardized(seed)
    return relative_change(shape(z), shape(a))


def searching(times: int, pictures: int) -> float:
    """The work of a search over configurations on these pictures, of that of one training.

    A picture is a forward pass, of a training step three: the way back costs two.
    """
    cases = ziaee2022_pictures.FIFTH.train_size
    return times * pictures / (3 * cases * ziaee2022_pictures.FIFTH.epochs)


EQUATIONS = [
    equation("2-gaussian", "2",
             "batch normalization tries to force the activations of a layer into a Gaussian "
             "unit distribution at the beginning of training",
             readings({
                 "unit: mean 0 and variance 1": unchanged(
                     off_unit, "distance of mean from 0 and variance from 1", SKEW),
                 "Gaussian: their skewness or kurtosis becomes another": changed(
                     reshaped, "change of skewness and kurtosis, relative", SKEW),
             }),
             kind=Kind.READING,
             note="a map a z + b of each unit leaves the shape of its distribution; near a "
             "Gaussian at the beginning are sums of many inputs, with batch norm or without"),
    equation("3-range", "3",
             "the weights of eq. 16 lie between eps and 1 - eps",
             unchanged(weights_off_range, OFF, ARITHMETIC),
             note="the batch's weight is -eps at m = 1; of m from 2 to 50 it holds; past "
             "m = 1/eps the feature's is negative"),
    equation("3-weights", "3, Fig. 2",
             "larger mini-batches put more weight on mini-batch normalization, smaller ones on "
             "feature normalization (for m from 1 to 50)",
             unchanged(weights_fall, "step to the wrong side", ARITHMETIC)),
    equation("4-m1-differs", "4.1, Fig. 4",
             "at batch size 1 batch layer normalization is another method than layer norm (the "
             "figures compare them)",
             readings({
                 "as they start, scale included": changed(against_plain_layer_norm),
                 "but for a constant scale": changed(
                     against_layer_norm, "difference from 0.9999 LN/sqrt(d), relative"),
             }),
             kind=Kind.READING,
             paper="training accuracy .61 against .34",
             note="at m = 1 it is 0.9999 LN(a)/sqrt(d) to rounding: that comparison of the "
             "paper is of output scale only"),
    equation("abstract-inference", "abstract",
             "BLN performs the exact computation with a minor change at inference",
             readings({
                 "with the batch's own statistics, FFFF": unchanged(partial(gap, "FFFF")),
                 "with the population's mean and deviation of the batch, TTFF, to a hundredth":
                     nearly(partial(gap, "TTFF"), "change of the output, relative"),
             }),
             kind=Kind.READING,
             note="a minor change is not a number: the outputs of a batch of 25 random cases, "
             "after 100 such batches"),
    equation("5-time", "5",
             "the time to search for a configuration limits BLN",
             readings({
                 "16 trainings": counted(lambda: 16, lambda n: n > 1, WORK),
                 "16 evaluations of one training, on the 10,000 test pictures as the paper's":
                     counted(lambda: searching(16, 10_000), lambda n: n > 1, WORK),
             }),
             kind=Kind.READING,
             note="a limit is taken to be more than a training costs; on the 1,000 pictures "
             "that validate 16 evaluations are a tenth of those on the test"),
]  # fmt: skip

FIRST = {
    "Table 1 A": ("True", "True", "False", "False"),
    "Table 1 B": ("False", "True", "False", "False"),
    "Table 2 A": ("False", "False", "True", "False"),
    "Table 2 B": ("False", "True", "False", "False"),
}
"""The best of the 16 configurations, (E_B, Std_B, E_F, Std_F), on 20 % (A) and all (B) of the
training data: images in table 1, reviews in table 2."""


def first(place: int, value: str, *tables: str) -> float:
    """The number of these tables in which the best configuration has another value there."""
    return float(sum(FIRST[table][place] != value for table in tables))


RANKED = "of the tables as printed: they rank 16 evaluations of one training, by the test set"


def table(id: str, source: str, statement: str, *cells: tuple, note: str = "") -> Claim:
    """A sentence about the best configurations, held against the paper's own tables."""
    note = "; ".join(filter(None, [note, RANKED]))
    wrong = counted(
        lambda: sum(first(*cell) for cell in cells), lambda n: n == 0,
        "first rows of the tables that say otherwise",
    )  # fmt: skip
    return equation(id, source, statement, wrong, note=note)


IMAGES, REVIEWS = ("Table 1 A", "Table 1 B"), ("Table 2 A", "Table 2 B")
TABLES = [
    table("5-1-features", "5, Table 1", "by the first rows, the global mean and standard "
          "deviation of features are not recommended in CNNs",
          (2, "False", *IMAGES), (3, "False", *IMAGES)),
    table("4-1-features", "4.1, Table 1", "by the first rows, there is no advantage of the "
          "population mean of features, of all the training data or 20 % of them",
          (2, "False", *IMAGES)),
    table("5-1-small", "5, Table 1", "the global batch mean serves CNNs when the training data "
          "are small, the current one when they are big",
          (0, "True", "Table 1 A"), (0, "False", "Table 1 B")),
    table("5-2-batch", "5, Table 2", "by the first rows, the population mean of batches is "
                                     "not a "
          "good idea in RNNs", (0, "False", *REVIEWS)),
    table("5-2-features", "5, Table 2", "by the first rows, the current mean and standard "
          "deviation of features can help RNNs converge faster",
          (2, "False", *REVIEWS), (3, "False", *REVIEWS),
          note="the first row of part A has the population mean of features, E_F = True"),
    table("5-3-deviation", "5, Tables 1 and 2", "by the first rows, the current standard "
          "deviation of features usually helps CNNs and RNNs",
          (3, "False", *IMAGES), (3, "False", *REVIEWS)),
]  # fmt: skip

OF_BATCH_NORM: dict[str, Any] = {
    "seeds": range(115, 120), "family": "stability of batch norm",
    "seen": "at 3e-4 to 1e-2, one seed, none and batch norm",
}  # fmt: skip
STABLE = [
    stable(
        PAPER, "2-stable", "2", "batch norm improves the stability of a training",
        at_every_rate((1, "batch"), (-1, "none")),
        "batch norm's less that of no normalization",
        note="a training that ends in no number tells nine in ten wrong", **OF_BATCH_NORM,
    ),
    stable(
        PAPER, "2-scale", "2",
        "batch norm's stability is mainly due to its scale invariance",
        at_every_rate((2, "weight"), (-1, "batch"), (-1, "none")),
        "twice that of weight norm less those of batch norm and of none",
        note="weight norm is invariant to the scale of W as batch norm is, and has no "
        "statistics of the data: mainly is taken to be more than half of what batch norm saves "
        "over none, and says something where batch norm saves any", **OF_BATCH_NORM,
    ),
]  # fmt: skip

RESTATED = [
    restated(
        "2-linear",
        "2, eq. 6",
        "at inference batch norm applies a linear map",
        same="ba2016-4-reparameterization-bn",
    ),
    restated(
        "2-convolutions",
        "2",
        "layer norm works not as well as batch norm with convolutions",
        same="ba2016-6.7-batch-lenet-128",
    ),
    restated(
        "2-restriction",
        "2",
        "layer norm is not subject to any restriction on mini-batches",
        same="ba2016-3-online",
    ),
]

FASTER = (
    "ziaee2022-4-cifar-against-bn-25-own",
    "ziaee2022-4-cifar-against-ln-25-own",
    "ziaee2022-4-cifar-against-bn-1",
    "ziaee2022-4-cifar-against-ln-1",
    "ziaee2022-4-imdb-against-bn",
    "ziaee2022-4-imdb-against-ln",
)
BETTER = (
    "ziaee2022-4-cifar-test-25",
    "ziaee2022-4-cifar-test-1",
    "ziaee2022-4-imdb-train-loss-own",
    "ziaee2022-4-imdb-train-accuracy-own",
    "ziaee2022-4-imdb-test-loss",
    "ziaee2022-4-imdb-test-accuracy",
)
SUMMARIES = [
    summary(
        "4-ics",
        "4.1, Fig. 4",
        "BLN takes a step toward reducing internal covariate shift",
        parts=("ziaee2022-4-ics-bn", "ziaee2022-4-ics-ln"),
    ),
    summary(
        "5-faster",
        "5",
        "BLN converges significantly faster in both CNN and RNN domains",
        parts=FASTER,
        note="one run of each in the paper, and no significance is computed; pictures at batch "
        "25 in the batches of the training; on reviews it is ahead of BN by less than the "
        "margin; "
        f"{CHOSEN_LATE}",
    ),
    summary(
        "5-configuration",
        "5, Tables 1 and 2",
        "which statistics serve best depends on the task, the amount of data and the size"
        " of batches",
        parts=("ziaee2022-4-cifar-size", "ziaee2022-4-cifar-batches"),
        note="of the task only the printed tables tell, in the rows 5-1 to 5-3: what a "
        "configuration costs in pictures and in reviews has no common margin",
    ),
    summary(
        "6-superior",
        "6",
        "BLN is superior to batch and layer normalization in CNNs and RNNs",
        parts=(*FASTER, *BETTER),
        note="the training's metrics in the very batches, along which the paper reads them; on "
        f"reviews it is faster than BN by less than the margin; {CHOSEN_LATE}",
    ),
]

CLAIMS = [
    *EQUATIONS,
    *ziaee2022_inference.CLAIMS,
    *TABLES,
    *ziaee2022_pictures.CLAIMS,
    *ziaee2022_rates.CLAIMS,
    *ziaee2022_reviews.CLAIMS,
    *STABLE,
    *RESTATED,
    *SUMMARIES,
]
