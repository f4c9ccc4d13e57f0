"""Ziaee & Çano (2022, arXiv:2209.08898), Batch Layer Normalization: what it claims."""

from itertools import pairwise

import torch

from lnlab.ledger.exact import Defect, changed, unchanged
from lnlab.ledger.verdict import Claim
from lnlab.norms import BatchLayerNorm, LayerNorm
from lnlab.probes.givens import normal
from lnlab.probes.invariance import relative_change

PAPER = "Ziaee & Çano (2022)"
LEDGER = "lnlab claims"
H = 12
OFF = "how far a weight lies outside the range"
ARITHMETIC = "no data, eq. 16 by itself"


def weights(m: int) -> tuple[float, float]:
    """Those of the batch's and of the feature's statistics, eq. 16."""
    batch, feature = BatchLayerNorm(H, m).weights(m)
    return batch, feature


def weights_off_range(m: int) -> Defect:
    """How far the weights of eq. 16 leave [eps, 1 - eps], 0 if they do not."""
    eps = BatchLayerNorm.eps_weights
    return lambda seed: max(max(eps - w, w - (1 - eps), 0.0) for w in weights(m))


def weights_fall(seed: int) -> float:
    """By how much the batch's weight falls, or the feature's rises, as m grows to 50."""
    pairs = [weights(m) for m in range(1, 51)]
    steps = [(a - b, d - c) for (a, c), (b, d) in pairwise(pairs)]
    return max(0.0, *(max(step) for step in steps))


@torch.no_grad()
def against_layer_norm(seed: int) -> float:
    """How far BLN of one case is from 0.9999 LN / sqrt(d)."""
    a = normal(seed, 0, 1, H)
    blended = BatchLayerNorm(H, 1, eps=0.0).double()(a)
    return relative_change(blended, 0.9999 * LayerNorm(H, eps=0.0).double()(a) / H**0.5)


CLAIMS = [
    Claim("ziaee2022-3-range-25", f"{PAPER}, 3",
          "the weights of eq. 16 lie between eps and 1 - eps (at m = 25)",
          unchanged(weights_off_range(25), OFF, ARITHMETIC), LEDGER),
    Claim("ziaee2022-3-range-1", f"{PAPER}, 3",
          "the weights of eq. 16 lie between eps and 1 - eps (at m = 1)",
          unchanged(weights_off_range(1), OFF, ARITHMETIC), LEDGER,
          note="the batch weight is -eps at m = 1; past m = 1/eps the feature's is negative"),
    Claim("ziaee2022-3-weights", f"{PAPER}, 3, Fig. 2",
          "larger mini-batches put more weight on mini-batch normalization, smaller ones on "
          "feature normalization (for m from 1 to 50)",
          unchanged(weights_fall, "greatest step to the wrong side", ARITHMETIC), LEDGER),
    Claim("ziaee2022-4-m1-differs", f"{PAPER}, 4.1, Fig. 4",
          "at batch size 1 batch layer normalization is another method than layer norm (the "
          "figures compare them)",
          changed(against_layer_norm, "difference from 0.9999 LN/sqrt(d), relative"), LEDGER,
          paper="training accuracy .61 against .34",
          note="at m = 1 it is 0.9999 LN(a)/sqrt(d) to rounding: that comparison of the paper "
          "is of output scale only"),
    Claim("ziaee2022-3-placement", f"{PAPER}, 3, eq. 27",
          "normalization after the nonlinearity is more accurate than before it",
          note="taken from Mishkin et al. (2017)"),
    Claim("ziaee2022-4-cifar", f"{PAPER}, 4.1, Fig. 4",
          "on 20 % of CIFAR-10 BLN converges faster than BN and LN at batch 1 and 25",
          paper="training accuracy .61/.87 against .09/.78 (BN) and .34/.73 (LN)",
          note="the 16 configurations were chosen on the test set"),
    Claim("ziaee2022-4-cifar-bn", f"{PAPER}, 4.1, Fig. 4",
          "in a convolutional net BN is better than LN at batch 25 and much worse at batch 1",
          paper="training accuracy .78 against .73, .09 against .34"),
    Claim("ziaee2022-4-imdb", f"{PAPER}, 4.2, Fig. 6",
          "on 20 % of IMDB BLN converges faster than BN and LN at batch 1 and 25",
          note="published logs, batch 25: test accuracy .771 (the best of 16 on the test set) "
          "against .698 (BN) and .711 (LN)"),
    Claim("ziaee2022-4-imdb-ln", f"{PAPER}, 4.2, Fig. 6",
          "in a recurrent net LN is better than BN in loss and accuracy"),
    Claim("ziaee2022-5-configuration", f"{PAPER}, 5, Tables 1 and 2",
          "which statistics serve best depends on the task, the amount of data and the size of "
          "the batches",
          note="the order of the 16 configurations was taken on the test set"),
]  # fmt: skip
