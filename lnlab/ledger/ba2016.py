"""Ba, Kiros & Hinton (2016, arXiv:1607.06450), Layer Normalization: what it claims."""

from dataclasses import replace

import torch
from torch import Tensor

from lnlab.ledger.exact import Defect, changed, random, relative, unchanged
from lnlab.ledger.paired import along, better, final, sturdier
from lnlab.ledger.verdict import Claim
from lnlab.norms import BatchNorm, LayerNorm, Normalizer, WeightNorm
from lnlab.norms.invariances import ROWS, TABLE_1
from lnlab.norms.transformations import TRANSFORMATIONS
from lnlab.probes.givens import random_given, random_shift
from lnlab.probes.invariance import Layer

PAPER = "Ba et al. (2016)"
H, D, B = 12, 7, 8
DELTA = 3.7
LEDGER = "lnlab claims"
NOT_AFFINE = "what the best affine map of x leaves of the output, relative"
MNIST = "lnlab train mnist --budget paper --set norm={} --set batch_size={} --set epochs={}"
NAMES = {"batch": "batch norm", "weight": "weight norm", "layer": "layer norm"}


def moved(name: str, column: int) -> Defect:
    """How far a transformation moves the output of the normalizer ``name``."""

    def defect(seed: int) -> float:
        given = random_given(H, D, B, seed=seed)
        layer = Layer(ROWS[name], given, seed=seed)
        return layer.defect(TRANSFORMATIONS[column - 1], DELTA, random_shift(given, seed=seed))

    return defect


def table_1() -> list[Claim]:
    """The 18 entries of Table 1, each with its condition."""
    claims = []
    for name, cells in TABLE_1.items():
        for transformation, cell in zip(TRANSFORMATIONS, cells, strict=False):
            kind, says = (unchanged, "is") if cell == "Y" else (changed, "is not")
            claims.append(
                Claim(
                    f"ba2016-table1-{name}-{transformation.column}",
                    f"{PAPER}, Table 1",
                    f"{NAMES[name]} {says} invariant to {transformation.name}",
                    kind(moved(name, transformation.column)),
                    LEDGER,
                    paper="Invariant" if cell == "Y" else "No",
                    note="with eps = 0, delta > 0, no bias inside a, batch statistics",
                )
            )
    return claims


def equation_6(seed: int) -> float:
    """How far W' = delta W + 1 gamma^T moves the output under layer norm."""
    given = random_given(H, D, B, seed=seed)
    norm = LayerNorm(H, eps=0.0).double()
    W = DELTA * given.W + random(D, seed=seed)
    return relative(replace(given, W=W).output(norm), given.output(norm))


def before_the_weights(column: int) -> Defect:
    """How far a change of W moves W LN(x): normalization of the input alone."""

    def defect(seed: int) -> float:
        given, norm = random_given(H, D, B, seed=seed), LayerNorm(D, eps=0.0).double()
        normalized = replace(given, x=norm(given.x))
        change = TRANSFORMATIONS[column - 1]
        shift = random_shift(given, seed=seed)
        identity = ROWS["none"].make(H)
        new = change(normalized, DELTA, shift).output(identity)
        return relative(new, normalized.output(identity))

    return defect


def other_cases(seed: int) -> float:
    """How far the output of one case moves when all others are exchanged."""
    norm, a = LayerNorm(H, eps=0.0).double(), random(B, H, seed=seed)
    exchanged = torch.cat([a[:1], random(B - 1, H, seed=seed + 100)])
    return relative(norm(exchanged)[:1], norm(a)[:1])


def evaluation(seed: int) -> float:
    """How far the output moves from training to evaluation."""
    norm, a = LayerNorm(H, eps=0.0).double(), random(B, H, seed=seed)
    return relative(norm.eval()(a), norm.train()(a))


def not_affine(norm: Normalizer) -> Defect:
    """What is left of the outputs after the best affine map of x, relative to the largest.

    0 where the normalized layer is a re-parameterization of one without normalization.
    """

    def defect(seed: int) -> float:
        W, x = random(H, D, seed=seed), random(64, D, seed=seed + 1)
        norm.double().eval()
        y = norm(x @ W.T, W).detach()
        design = torch.cat([x, torch.ones(len(x), 1, dtype=x.dtype)], dim=1)
        fit: Tensor = design @ torch.linalg.lstsq(design, y).solution
        return relative(fit, y)

    return defect


ANALYSIS = [
    Claim(
        "ba2016-3-independence", f"{PAPER}, 3",
        "layer normalization introduces no new dependencies between training cases",
        unchanged(other_cases), LEDGER,
    ),
    Claim(
        "ba2016-3-train-test", f"{PAPER}, abstract and 3",
        "layer normalization performs the same computation at training and test times",
        unchanged(evaluation), LEDGER,
    ),
    Claim(
        "ba2016-4-reparameterization-wn", f"{PAPER}, 4",
        "weight normalization is a different parameterization of the original network",
        unchanged(not_affine(WeightNorm(H)), NOT_AFFINE), LEDGER,
    ),
    Claim(
        "ba2016-4-reparameterization-bn", f"{PAPER}, 4",
        "batch normalization with expected statistics is a different parameterization of the "
        "original network",
        unchanged(not_affine(BatchNorm(H, eps=0.0)), NOT_AFFINE), LEDGER,
    ),
    Claim(
        "ba2016-4-reparameterization-ln", f"{PAPER}, 4",
        "layer normalization is not a re-parameterization of the original network",
        changed(not_affine(LayerNorm(H, eps=0.0)), NOT_AFFINE), LEDGER,
    ),
    Claim(
        "ba2016-eq6", f"{PAPER}, 5.1, eq. 6",
        "under layer norm, W' = delta W + 1 gamma^T computes the same output",
        unchanged(equation_6), LEDGER,
    ),
    Claim(
        "ba2016-eq7", f"{PAPER}, 5.1, eq. 7",
        "re-scaling individual data points does not change the prediction under layer norm",
        unchanged(moved("layer", 6)), LEDGER,
    ),
    *(
        Claim(
            f"ba2016-5.1-input-only-{column}", f"{PAPER}, 5.1",
            f"normalization applied only to the input before the weights is not invariant to "
            f"{TRANSFORMATIONS[column - 1].name}",
            changed(before_the_weights(column)), LEDGER,
            note="so of Table 1's weight columns none holds for the W behind a pre-LN",
        )
        for column in (1, 2)
    ),
    Claim(
        "ba2016-5.1-all-rescaling", f"{PAPER}, 5.1",
        "all the normalization methods are invariant to re-scaling the dataset",
        unchanged(lambda seed: max(moved(name, 4)(seed) for name in TABLE_1)), LEDGER,
        note="contradicts the paper's own Table 1, which is right: weight norm is not",
    ),
    Claim(
        "ba2016-7-scaling", f"{PAPER}, 7",
        "layer normalization is invariant to per training-case feature scaling",
        unchanged(moved("layer", 6)), LEDGER,
    ),
    Claim(
        "ba2016-7-shifting", f"{PAPER}, 7",
        "layer normalization is invariant to per training-case feature shifting",
        unchanged(moved("layer", 9)), LEDGER,
        note="measured as x_n + c 1: not so, W turns it into a different shift of each unit; "
        "it holds for the summed inputs (a_n + c 1), and for a layer norm in front of W",
    ),
]  # fmt: skip

TRAINING = [
    *(
        Claim(
            f"ba2016-6.6-faster-{batch_size}", f"{PAPER}, 6.6",
            f"on permutation-invariant MNIST at batch {batch_size}, layer norm exhibits a "
            "faster training convergence than batch norm applied to all layers",
            better(
                "mnist", "layer", "batch", along("train_nll"),
                "mean training NLL along the run (nats)", batch_size=batch_size,
            ),
            MNIST.format("layer,batch", batch_size, epochs),
            paper="Fig. 6, no numbers",
            note=note,
        )
        for batch_size, epochs, note in (
            (128, 20, "part of it is batch norm on the logits: see ba2016-6.6-logits-128"),
            (4, 5, "batch norm with the unbiased variance, as the paper says"),
        )
    ),
    *(
        Claim(
            f"ba2016-6.6-logits-{batch_size}", f"{PAPER}, 6.6",
            f"the same at batch {batch_size} against batch norm on the hidden layers only (the "
            "comparison that the paper leaves out)",
            better(
                "mnist", "layer", "batch hidden", along("train_nll"),
                "mean training NLL along the run (nats)", batch_size=batch_size,
            ),
            MNIST.format("'layer,batch hidden'", batch_size, epochs),
        )
        for batch_size, epochs in ((128, 20), (4, 5))
    ),
    Claim(
        "ba2016-6.6-robust", f"{PAPER}, 6.6",
        "layer norm is robust to the batch size: it loses less than batch norm from 128 to 4",
        sturdier("mnist", "layer", "batch", "test_error", "test error rate"),
        MNIST.format("layer,batch", "128,4", 5),
        paper="Fig. 6, no numbers",
    ),
    *(
        Claim(
            f"ba2016-6.6-test-{batch_size}", f"{PAPER}, Fig. 6",
            f"at batch {batch_size} the test error of layer norm ends below that of batch norm "
            "on all layers",
            better(
                "mnist", "layer", "batch", final("test_error"),
                "test error rate at the end", batch_size=batch_size,
            ),
            MNIST.format("layer,batch", batch_size, epochs),
            paper="Fig. 6, no numbers",
        )
        for batch_size, epochs in ((128, 20), (4, 5))
    ),
    *(
        Claim(
            f"ba2016-abstract-mlp-{batch_size}", f"{PAPER}, abstract",
            f"layer normalization reduces the training time: against no normalization, on "
            f"permutation-invariant MNIST at batch {batch_size}, per update",
            better(
                "mnist", "layer", "none", along("train_nll"),
                "mean training NLL along the run (nats)", batch_size=batch_size,
            ),
            MNIST.format("layer,none", batch_size, epochs),
            note="depends on the initialisation: N(0, 2/D) here, which helps the plain net",
        )
        for batch_size, epochs in ((128, 20), (4, 5))
    ),
]  # fmt: skip

LATER = [
    Claim("ba2016-3.1-longer", f"{PAPER}, 3.1",
          "layer norm has no trouble with test sequences longer than those of training"),
    Claim("ba2016-3.1-dynamics", f"{PAPER}, 3.1",
          "layer norm makes hidden-to-hidden dynamics much more stable"),
    Claim("ba2016-5.2-eq8", f"{PAPER}, 5.2.1, eq. 8",
          "the Kullback-Leibler divergence is well approximated by half delta^T F delta"),
    Claim("ba2016-5.2-eq13", f"{PAPER}, 5.2.2, eq. 13",
          "the Fisher information of a normalized GLM has the block form of eq. 13 and 14",
          note="exact for BN and WN, for LN only as H grows: mu and sigma are shared"),
    Claim("ba2016-5.2-half", f"{PAPER}, 5.2.2",
          "when the norm of w_i doubles, the curvature along w_i changes by a factor 1/2",
          note="the w-w block scales by 1/4; it is its square root, ds, that halves"),
    Claim("ba2016-5.2-gain", f"{PAPER}, 5.2.2",
          "learning the gain depends only on the magnitude of the prediction error",
          note="holds where Cov[y | x] does not depend on x (eq. 32's hidden condition)"),
    Claim("ba2016-6.1-speed", f"{PAPER}, 6.1, Fig. 1",
          "order embeddings with LN reach their best validation model in 60 % of the time",
          paper="60 %"),
    Claim("ba2016-6.1-table2", f"{PAPER}, 6.1, Table 2",
          "layer norm improves the generalization of order embeddings",
          paper="caption R@1 48.5 against 46.6, image R@1 38.9 against 37.8"),
    Claim("ba2016-6.2-faster", f"{PAPER}, 6.2, Fig. 2",
          "the attentive reader with LN trains faster and ends better than baseline and BN"),
    Claim("ba2016-6.2-gain", f"{PAPER}, 6.2",
          "layer norm is not sensitive to the initial scale in the way recurrent BN is"),
    Claim("ba2016-6.3-table3", f"{PAPER}, 6.3, Table 3",
          "layer norm speeds up skip-thoughts and gives better final results",
          paper="SICK r .854 against .842, MR 79.5 against 77.3"),
    Claim("ba2016-6.4-draw", f"{PAPER}, 6.4, Fig. 4",
          "DRAW with LN converges almost twice as fast, to 82.09 against 82.36 nats",
          paper="82.09 against 82.36 nats"),
    Claim("ba2016-6.5-handwriting", f"{PAPER}, 6.5, Fig. 5",
          "handwriting generation with LN converges to a comparable likelihood much faster"),
    Claim("ba2016-6.7-baseline", f"{PAPER}, 6.7",
          "in convolutional nets layer norm is faster than no normalization"),
    Claim("ba2016-6.7-batch", f"{PAPER}, 6.7",
          "in convolutional nets batch norm outperforms the other methods"),
    Claim("ba2016-7-recurrent", f"{PAPER}, 7",
          "recurrent nets benefit most, for long sequences and small mini-batches above all"),
]  # fmt: skip

CLAIMS = [*table_1(), *ANALYSIS, *TRAINING, *LATER]
