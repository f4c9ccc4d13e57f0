"""Ba et al. (2016), section 6.5: handwriting sequence generation."""

from lnlab.ledger.ba2016_analysis import claim, untested
from lnlab.ledger.exact import counted

NOT_BUILT = "handwriting (notebook 12) is not built yet"


def handwriting_weights() -> float:
    """Millions of weights: three layers of 400 LSTM cells, each fed by all that is below.

    The pen (3) and the window (57) reach every layer, every layer the 121 outputs.
    """
    lstm = sum(4 * 400 * (below + 3 + 57 + 400 + 1) for below in (0, 400, 400))
    return (lstm + (400 * 30 + 30) + (3 * 400 * 121 + 121)) / 1e6


CLAIMS = [
    claim(
        "6.5-weights",
        "6.5",
        "the handwriting model has approximately 3.7M weights",
        counted(handwriting_weights, lambda n: abs(n - 3.7) <= 0.05, "millions of weights"),
        paper="3.7M",
        note="without peepholes and normalizers, which add 3,600 and some 5,000",
    ),
    untested(
        "6.5-faster",
        "6.5, Fig. 5",
        "handwriting generation with LN converges much faster",
        would="log of the ratio of times to a common NLL, at batch 8 and length 500",
        waits=NOT_BUILT,
    ),
    untested(
        "6.5-comparable",
        "6.5, Fig. 5",
        "handwriting generation with LN converges to a comparable log likelihood",
        would="the difference at the end, inside a declared margin",
        waits=NOT_BUILT,
    ),
    untested(
        "6.5-stable",
        "6.5",
        "small mini-batches and very long sequences make stable hidden dynamics important",
        would="failures and times against length and batch size",
        waits=NOT_BUILT,
    ),
]
