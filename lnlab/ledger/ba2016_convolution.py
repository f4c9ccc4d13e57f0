"""Ba et al. (2016), section 6.7: convolutional networks."""

from lnlab.ledger.ba2016_analysis import untested

NOT_BUILT = "convolutional nets (notebook 05) are not built yet"

CLAIMS = [
    untested(
        "6.7-baseline",
        "6.7",
        "in convolutional nets layer norm offers a speedup over no normalization",
        would="the area under the training curve, CIFAR-10",
        waits=NOT_BUILT,
    ),
    untested(
        "6.7-batch",
        "6.7",
        "in convolutional nets batch norm outperforms the other methods",
        would="the same, batch against layer",
        waits=NOT_BUILT,
    ),
    untested(
        "6.7-similar",
        "6.7",
        "with fully connected layers all units tend to make similar contributions to the "
        "prediction",
        would="what leaving out each unit costs: its spread, dense against convolutional",
        waits=NOT_BUILT,
    ),
    untested(
        "6.7-boundary",
        "6.7",
        "units whose receptive fields lie near the boundary of the image are rarely turned on",
        would="the part of cases in which units are on, by place",
        waits=NOT_BUILT,
    ),
    untested(
        "6.7-statistics",
        "6.7",
        "units near the boundary have very different statistics from the rest of their layer",
        would="mean and variance of units, by place",
        waits=NOT_BUILT,
    ),
]
