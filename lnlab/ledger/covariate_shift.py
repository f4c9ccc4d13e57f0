"""The claims of two papers about covariate shift: one measurement, read in either direction."""

from lnlab.ledger.claim import ALONG, Before, Claim, Declared

SEEDS = tuple(range(100, 115))
NETS = "permutation-invariant digits 128-128 at batch 128, and MNIST 1000-1000"
SIXTH = "half of the sixth by which the exploratory runs differed"
CHOSEN = "the window was chosen after looking"
WIDER = f"{CHOSEN}: 15 seeds give -0.35 to 0.05 where five gave the interval that was here"


GRADIENTS = "turn of gradients by steps of the layers below, 1 - cos(G, G')"
DRIFT = "drift of the means of units, over their standard deviation"


def shift(
    paper: str, id: str, source: str, statement: str, of: str, sign: str, *before: Before
):
    """A claim about covariate shift: one curve against progress, of two nets."""
    return Claim(
        f"{paper}-{id}", source, statement,
        declared=Declared(
            measure=f"log of the {of}, {sign}", window="against updates, and at equal training "
            "NLL: the mean from the first update until the loss is at a tenth of its start",
            split="500 training cases that stay the same", seeds=SEEDS, margin=0.08,
            reason=SIXTH, family="covariate shift",
        ),
        would=f"{of} along runs of {NETS}, layer against none", waits=ALONG, history=before,
    )  # fmt: skip
