"""Ba, Kiros & Hinton (2016, arXiv:1607.06450), Layer Normalization: what it claims."""

from functools import partial

import lnlab.papers.claims.ba2016_mnist
from lnlab.papers.claims import (
    ba2016_analysis,
    ba2016_attentive_reader,
    ba2016_convolution_arms,
    ba2016_convolutions,
    ba2016_draw,
    ba2016_geometry,
    ba2016_handwriting,
    ba2016_mnist,
    ba2016_order_embeddings,
    ba2016_recurrence,
    ba2016_sequential_digits,
    ba2016_skip_thoughts,
)
from lnlab.papers.claims.ba2016_analysis import (
    PAPER,
    batch_norm_reduces,
    faster_by_descent,
    restated,
    untested,
)
from lnlab.papers.claims.claim import ALONG, CHOSEN_LATE
from lnlab.papers.claims.claim import summary as summary_of

# Ba et al. (2016), abstract, sections 1, 2 and 7: what is said of training.


summary = partial(summary_of, PAPER)
AGAINST_NONE = (
    "ba2016-6.1-speed-boxes",
    "ba2016-6.2-faster-baseline-books",
    "ba2016-6.3-faster-nll-novels",
    "ba2016-6.4-faster-two-cores-40",
    "ba2016-6.5-faster-unipen",
    "ba2016-6.7-baseline-lenet-128",
)
AGAINST_BATCH_NORM = (
    "ba2016-6.2-faster-bn-books",
    "ba2016-6.2-faster-everywhere-books",
    "ba2016-6.6-faster-128",
)
ONE_EACH = (
    "one row of each experiment with and without it, in updates: the real data that are here, "
    "the rate that both arms share, the size of the paper's or the nearest to it; "
    f"{CHOSEN_LATE}"
)

INTRODUCTION = [
    summary(
        "abstract-reduces",
        "abstract",
        "layer norm can substantially reduce the training time compared with previously "
        "published techniques",
        parts=AGAINST_BATCH_NORM,
        note="the technique that the paper compares it with is batch norm, in 6.2 and 6.6; "
        f"{CHOSEN_LATE}",
    ),
    faster_by_descent(
        "ba2016-1-sgd",
        f"{PAPER}, 1",
        "feed-forward nets trained with batch norm converge faster even with simple SGD",
        "batch hidden",
        "none",
    ),
    untested(
        "1-regularizer",
        "1",
        "the stochasticity of batch statistics serves as a regularizer",
        would=(
            "the gap of test and training NLL at equal training NLL, batch statistics against"
            " those of all cases"
        ),
        waits="no such arm yet",
    ),
    untested(
        "1-running",
        "1",
        "batch norm requires running averages of the summed input statistics",
        would=(
            "evaluation with the statistics of a test batch of 1, 4, 128, against running ones"
        ),
        waits=ALONG,
    ),
    restated(
        "1-steps",
        "1",
        "applied to RNNs batch norm appears to require different statistics for different"
        " time steps",
        same="ba2016-4-recurrent-bn",
    ),
    untested(
        "1-large",
        "1",
        "batch norm cannot be applied to extremely large distributed models where the "
        "mini-batches have to be small",
        would="training at 1, 2, 4 and 8 cases a worker",
        waits="no distributed runs here",
    ),
    summary(
        "1-speed",
        "1",
        "layer norm improves the training speed of various models",
        parts=AGAINST_NONE,
        note=ONE_EACH,
    ),
    untested(
        "1-generalization",
        "1",
        "layer norm improves the generalization of several existing RNN models",
        would="test metrics of 6.1 to 6.5 at the best validation model",
        waits="judged one by one in sections 6.1 to 6.5, on other data",
    ),
    untested(
        "2-dependent",
        "2",
        "gradients with respect to the weights of one layer are highly dependent on the "
        "outputs of the layer before, especially if these change in a correlated way",
        would=(
            "the turn of gradients by a step of the layer below, against the correlation of "
            "its changes"
        ),
        waits=ALONG,
    ),
    *batch_norm_reduces(
        "ba2016-2-reduces",
        f"{PAPER}, 2",
        "batch norm was proposed to reduce covariate shift, and reduces it: the angle by which "
        "the steps of the layers below turn gradients",
    ),
    summary(
        "7-speed",
        "7",
        "layer norm speeds up the training of neural networks",
        parts=AGAINST_NONE,
        note=ONE_EACH,
    ),
    untested(
        "7-recurrent",
        "7",
        "recurrent nets benefit the most from the method",
        would=(
            "the ratio of times to a common level, recurrent against feed-forward experiments"
        ),
        waits="needs 6.1 to 6.6",
    ),
    untested(
        "7-long",
        "7",
        "recurrent nets benefit most for long sequences",
        would=(
            "digits read 1, 2, 4 and 8 pixels a step: does the gain of layer norm grow with T"
        ),
        waits="not declared yet: pixels change D as well as T; exploratory, by seeds 0 to 4: "
        "the mean training NLL is 0.52, 0.69, 0.80 and 1.0 times that without, for T = 8, 16, "
        "32 and 64",
    ),
]


CLAIMS = [
    *INTRODUCTION,  # abstract, 1, 2 and 7
    *ba2016_analysis.CLAIMS,  # 4, 5.1, and what else is an equation
    *ba2016_recurrence.CLAIMS,  # 3
    *ba2016_geometry.CLAIMS,  # 5.2
    *ba2016_sequential_digits.CLAIMS,  # what is said of recurrent nets, tested on digits
    *ba2016_order_embeddings.CLAIMS,  # 6.1
    *ba2016_attentive_reader.CLAIMS,  # 6.2
    *ba2016_skip_thoughts.CLAIMS,  # 6.3
    *ba2016_draw.CLAIMS,  # 6.4
    *ba2016_handwriting.CLAIMS,  # 6.5
    *ba2016_mnist.CLAIMS,  # 6.6
    *lnlab.papers.claims.ba2016_mnist.LOGITS,  # 6.6
    *ba2016_convolutions.CLAIMS,  # 6.7
    *ba2016_convolution_arms.CLAIMS,  # 6.7
]
