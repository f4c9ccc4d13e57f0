"""Ziaee & Çano (2022, arXiv:2209.08898), Batch Layer Normalization: what it claims."""

from lnlab.ledger.exact import Defect, changed, random, relative, unchanged
from lnlab.ledger.verdict import Claim
from lnlab.norms import BatchLayerNorm, LayerNorm

PAPER = "Ziaee & Çano (2022)"
H = 12
OFF = "how far a weight lies outside the range"


def weights_off_range(m: int) -> Defect:
    """How far the weights of eq. 16 leave [eps, 1 - eps], 0 if they do not."""

    def defect(seed: int) -> float:
        eps = BatchLayerNorm.eps_weights
        weights = BatchLayerNorm(H, m).weights(m)
        return max(max(eps - w, w - (1 - eps), 0.0) for w in weights)

    return defect


def against_layer_norm(seed: int) -> float:
    """How far BLN of one case is from 0.9999 LN / sqrt(d)."""
    a = random(1, H, seed=seed)
    blended = BatchLayerNorm(H, 1, eps=0.0).double()(a)
    return relative(0.9999 * LayerNorm(H, eps=0.0).double()(a) / H**0.5, blended)


CLAIMS = [
    Claim("ziaee2022-3-range-25", f"{PAPER}, 3",
          "the weights of eq. 16 lie between eps and 1 - eps (at m = 25)",
          unchanged(weights_off_range(25), OFF), "lnlab claims"),
    Claim("ziaee2022-3-range-1", f"{PAPER}, 3",
          "the weights of eq. 16 lie between eps and 1 - eps (at m = 1)",
          unchanged(weights_off_range(1), OFF), "lnlab claims",
          note="the batch weight is -eps at m = 1; past m = 1/eps the feature's is negative"),
    Claim("ziaee2022-4-m1-differs", f"{PAPER}, 4",
          "at batch size 1 batch layer normalization is another method than layer norm",
          changed(against_layer_norm, "difference from 0.9999 LN/sqrt(d), relative"),
          "lnlab claims",
          note="at m = 1 it is 0.9999 LN(a)/sqrt(d) to rounding: that comparison of the paper "
          "is of output scale only"),
    Claim("ziaee2022-4-cifar", f"{PAPER}, 4, Fig. 4",
          "on 20 % of CIFAR-10 BLN converges faster than BN and LN at batch 1 and 25",
          paper="training accuracy .61/.87 against .09/.78 (BN) and .34/.73 (LN)",
          note="the 16 configurations were chosen on the test set"),
    Claim("ziaee2022-4-imdb", f"{PAPER}, 4, Fig. 6",
          "on 20 % of IMDB BLN converges faster than BN and LN at batch 1 and 25",
          paper="test accuracy .771 against .698 (BN) and .711 (LN) at batch 25"),
    Claim("ziaee2022-4-configuration", f"{PAPER}, 4, Tables 1 and 2",
          "which statistics serve best depends on the task and the amount of data"),
]  # fmt: skip
