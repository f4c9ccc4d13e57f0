"""Ba et al. (2016), section 6.4: modelling binarized MNIST using DRAW."""

from lnlab.ledger.ba2016_analysis import untested

NOT_BUILT = "DRAW (notebook 11) is not built yet"

CLAIMS = [
    untested(
        "6.4-faster",
        "6.4, Fig. 4",
        "DRAW with LN converges almost twice as fast",
        would="log of the ratio of times to a common test bound, margin log(2)/2",
        waits=NOT_BUILT,
        paper="almost 2",
    ),
    untested(
        "6.4-bound",
        "6.4",
        "after 200 epochs DRAW with LN has the lower variational bound",
        would="the test bound after 200 epochs, margin 0.13 nats, five seeds",
        waits=NOT_BUILT,
        paper="82.09 against 82.36 nats",
    ),
]
