"""Ba, Kiros & Hinton (2016, arXiv:1607.06450), Layer Normalization: what it claims."""

import shlex

from lnlab.ledger import ba2016_analysis, ba2016_geometry
from lnlab.ledger.ba2016_analysis import LEDGER, PAPER
from lnlab.ledger.ba2016_recurrent import RECURRENT
from lnlab.ledger.paired import along, better, sturdier
from lnlab.ledger.verdict import Claim
from lnlab.ledger.watched import SHIFT, SHIFTS, less_shift, watched
from lnlab.tasks import PermutationInvariantMNIST

MNIST = {m: PermutationInvariantMNIST.budget("paper", batch_size=m) for m in (128, 4)}
SPEED = "mean training NLL along the run (nats)"


def train(*arms: str, sizes: tuple[int, ...] = (128,)) -> str:
    """The command that fetches MNIST and trains some arms as the paper did."""
    runs = (
        f"lnlab train mnist --budget paper --set {shlex.quote(f'norm={arm}')} "
        f"--set batch_size={m}"
        for m in sizes
        for arm in arms
    )
    return " && ".join(["lnlab data fetch mnist", *runs])


def faster(
    id: str, source: str, statement: str, arm: str, other: str, m: int = 128, note: str = ""
) -> Claim:
    """``arm`` learns faster than ``other`` on permutation-invariant MNIST at batch ``m``."""
    return Claim(
        f"ba2016-{id}-{m}", f"{PAPER}, {source}", f"{statement}, at batch {m}",
        better(MNIST[m], arm, other, along("train_nll"), SPEED),
        train(arm, other, sizes=(m,)), note=note,
    )  # fmt: skip


TRAINING = [
    faster(
        "abstract-bn", "abstract",
        "batch normalization significantly reduces the training time in feed-forward networks: "
        "on permutation-invariant MNIST, on the hidden layers, against no normalization, per "
        "update",
        "batch hidden", "none",
        note="depends on the initialisation: N(0, 2/D) here, which helps the plain net",
    ),
    *(
        faster(
            "abstract-mlp", "abstract",
            "layer normalization substantially reduces the training time: on "
            "permutation-invariant MNIST, against no normalization, per update",
            "layer", "none", m,
            note="depends on the initialisation: N(0, 2/D) here, which helps the plain net",
        )
        for m in MNIST
    ),
    *(
        faster(
            "6.6-faster", "6.6, Fig. 6",
            "on permutation-invariant MNIST layer norm exhibits a faster training convergence "
            "than batch norm applied to all layers",
            "layer", "batch", m,
            note=note,
        )
        for m, note in (
            (128, "batch norm on the logits is what costs it: see ba2016-6.6-logits-128"),
            (4, "batch norm with the unbiased variance, as the paper says"),
        )
    ),
    *(
        faster(
            "6.6-logits", "6.6",
            "(the comparison that the paper leaves out) layer norm exhibits a faster training "
            "convergence than batch norm on the hidden layers only",
            "layer", "batch hidden", m,
            note=note,
        )
        for m, note in (
            (128, "off the logits batch norm learns faster: what layer norm won by in the "
             "paper's comparison is where batch norm was put"),
            (4, "here batch norm's statistics are of four cases"),
        )
    ),
    *(
        Claim(
            f"ba2016-6.6-robust-{name}", f"{PAPER}, 6.6, Fig. 6",
            f"layer norm is robust to the batch size: from 128 to 4 its {words} suffers less "
            "than that of batch norm",
            sturdier(MNIST[128], MNIST[4], "layer", "batch", metric, quantity),
            train("layer", "batch", sizes=(128, 4)),
        )
        for name, words, metric, quantity in (
            ("error", "test error", "test_error", "test error rate"),
            ("nll", "training NLL", "train_nll", "training NLL (nats)"),
        )
    ),
]  # fmt: skip


COVARIATES = [
    Claim(
        f"ba2016-3-covariate-{of}", f"{PAPER}, 3",
        "fixing the mean and the variance of the summed inputs within each layer reduces the "
        f"covariate shift: {words}, layer norm against none",
        watched(less_shift("layer", "none", of), f"{words}: {SHIFT}"),
        LEDGER,
        note=note,
    )
    for (of, words), note in zip(
        SHIFTS.items(),
        (
            "the interval holds 0: nothing is shown; batch norm, which fixes them over cases, "
            "leaves a twentieth of the drift",
            "Santurkar et al. (2018), definition 2.1; over the first epochs alone it is more, "
            "not less: see notebook 15",
        ),
        strict=True,
    )
]  # fmt: skip


def later(id: str, source: str, statement: str, *, paper: str = "", note: str = "") -> Claim:
    """A claim that nothing here tests yet."""
    return Claim(f"ba2016-{id}", f"{PAPER}, {source}", statement, paper=paper, note=note)


LATER = [
    later("1-regularizer", "1",
          "the stochasticity from the batch statistics serves as a regularizer"),
    later("3.1-longer", "3.1",
          "unlike batch norm's, the statistics of layer norm have no problem with a test "
          "sequence longer than any training sequence"),
    later("3.1-grow", "3.1", "in a standard RNN the average magnitude of the summed inputs "
          "tends to grow or shrink at every time step, so that gradients explode or vanish"),
    later("3.1-dynamics", "abstract and 3.1",
          "layer norm makes hidden-to-hidden dynamics much more stable"),
    later("6.1-updates", "6.1, Fig. 1",
          "layer norm gives order embeddings a per-iteration speedup across all metrics"),
    later("6.1-speed", "6.1, Fig. 1",
          "order embeddings with LN reach their best validation model in 60 % of the time",
          paper="60 %"),
    later("6.1-table2", "6.1, Table 2",
          "layer norm improves the generalization of order embeddings",
          paper="caption R@1 48.5 against 46.6, image R@1 38.9 against 37.8"),
    later("6.2-faster", "6.2, Fig. 2",
          "the attentive reader with LN trains faster and converges to a better validation "
          "result than the baseline and the BN variants"),
    later("6.3-table3", "6.3, Table 3 and Fig. 3",
          "layer norm speeds up skip-thoughts and gives better final results after 1M updates",
          paper="SICK r .854 against .842, MR 79.5 against 77.3"),
    later("6.3-month", "6.3, Table 3",
          "training for a month gives further gains on all tasks but one",
          paper="SICK r .858 against .854, MR 79.4 against 79.5"),
    later("6.3-cost", "6.3",
          "layer norm makes no significant difference to the time of an update"),
    later("6.4-faster", "6.4, Fig. 4", "DRAW with LN converges almost twice as fast"),
    later("6.4-bound", "6.4", "after 200 epochs DRAW with LN has the lower variational bound",
          paper="82.09 against 82.36 nats"),
    later("6.5-handwriting", "6.5, Fig. 5",
          "handwriting generation with LN converges to a comparable likelihood much faster"),
    later("6.6-logits-scale", "6.6", "layer norm is unnecessary for the logits, whose scale "
          "determines the confidence of the prediction"),
    later("6.7-baseline", "6.7",
          "in convolutional nets layer norm offers a speedup over no normalization"),
    later("6.7-batch", "6.7", "in convolutional nets batch norm outperforms the other methods"),
    later("6.7-boundary", "6.7", "units whose receptive fields lie near the boundary of the "
          "image are rarely turned on and have very different statistics from the rest"),
    later("7-recurrent", "7", "recurrent nets benefit most, for long sequences above all"),
]  # fmt: skip

CLAIMS = [
    *ba2016_analysis.CLAIMS,
    *ba2016_geometry.CLAIMS,
    *COVARIATES,
    *TRAINING,
    *RECURRENT,
    *LATER,
]
