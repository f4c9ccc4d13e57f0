"""Ba et al. (2016), what abstract, sections 1 to 5 and 7 say of training: not yet measured."""

from functools import partial

from lnlab.ledger.ba2016_analysis import PAPER
from lnlab.ledger.claim import Before, Claim, Declared, said

said_here = partial(said, PAPER)
SEEDS = tuple(range(100, 115))
ALONG = "runs do not record this along a training yet"
NETS = "permutation-invariant digits 128-128 at batch 128, and MNIST 1000-1000"
SIXTH = "half of the sixth by which the exploratory runs differed"
CHOSEN = "the window was chosen after looking"
WIDER = f"{CHOSEN}: 15 seeds give -0.35 to 0.05 where five gave the interval that was here"


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


GRADIENTS = "turn of gradients by steps of the layers below, 1 - cos(G, G')"
DRIFT = "drift of the means of units, over their standard deviation"
REDUCES = (
    "fixing the mean and the variance of the summed inputs within each layer reduces the "
    "covariate shift: "
)
SOME = "train the six experiments of section 6 with and without it"
ROWS = (
    ("abstract-reduces", "abstract", "layer norm can substantially reduce the training time "
     "compared with previously published techniques", SOME,
     "judged one by one, experiment by experiment, in section 6"),
    ("abstract-stabilizes", "abstract", "layer norm is very effective at stabilizing the "
                                        "hidden "
     "state dynamics in recurrent networks",
     "the growth of perturbations of the state, a step, before and after training, layer "
     "against "
     "none", ALONG),
    ("1-sgd", "1", "feed-forward nets trained with batch norm converge faster even with simple "
     "SGD", "digits by SGD at each arm's best rate, batch hidden against none",
     "the task trains by Adam alone"),
    ("1-regularizer", "1", "the stochasticity of batch statistics serves as a regularizer",
     "the gap of test and training NLL at equal training NLL, batch statistics against those "
     "of "
     "all cases", "no such arm yet"),
    ("1-running", "1", "batch norm requires running averages of the summed input statistics",
     "evaluation with the statistics of a test batch of 1, 4, 128, against running ones",
     ALONG),
    ("1-steps", "1", "applied to RNNs batch norm appears to require different statistics for "
     "different time steps", "ba2016-4-recurrent-bn", "judged there"),
    ("1-large", "1", "batch norm cannot be applied to extremely large distributed models where "
     "the mini-batches have to be small", "training at 1, 2, 4 and 8 cases a worker",
     "no distributed runs here"),
    ("1-speed", "1", "layer norm improves the training speed of various models",
     SOME, "judged one by one in section 6"),
    ("1-generalization", "1", "layer norm improves the generalization of several existing RNN "
     "models", "test metrics of 6.1 to 6.5 at the best validation model",
     "those experiments are not built yet"),
    ("2-dependent", "2", "gradients with respect to the weights of one layer are highly "
                         "dependent "
     "on the outputs of the layer before, especially if these change in a correlated way",
     "the turn of gradients by a step of the layer below, against the correlation of its "
     "changes",
     ALONG),
    ("2-reduces", "2", "batch norm was proposed to reduce covariate shift, and reduces it",
     "as ba2016-3-covariate, batch against none", ALONG),
    ("3.1-gradients", "3.1", "the growth leads to exploding or vanishing gradients",
     "the length of the gradient of the last state by each earlier one, with and without LN",
     "notebook 06 shows it, without a declared test"),
    ("3.1-gain", "3.1", "layer norm has only one set of gain and bias shared over all time "
                        "steps",
     "a set for each step against one set, on digits", "no such arm yet"),
    ("3.1-stable", "3.1", "the invariance results in much more stable hidden-to-hidden "
                          "dynamics",
     "the largest Lyapunov exponent along trained nets, layer against none",
     "notebook 06 shows 1.022 a step of an LN net, without a declared test"),
    ("5.2-stable", "5.2", "sigma makes learning more stable",
     "the largest rate at which all seeds still finish, each arm", "needs a sweep of failures"),
    ("5.2.2-stopping", "5.2.2", "normalization has an implicit early stopping effect on the "
     "weight vectors", "the turn of weight vectors a step against their length along a run",
                       ALONG),
    ("5.2.2-block", "5.2.2", "the results are easily applied to deep nets by a block-diagonal "
     "approximation", "the part of the Fisher matrix off the blocks, along training", ALONG),
    ("5.2.2-error", "5.2.2", "learning the gains depends only on the magnitude of the "
                             "prediction "
     "error, under layer norm", "ba2016-supplement-eq33: the metric holds (a - mu)/sigma too",
     "the statement and its own eq. 33 differ; judged there"),
    ("5.2-learning-rate", "5.2", "sigma implicitly reduces the learning rate: the weight "
                                 "vectors "
     "grow, and the norm of one controls how fast it learns",
     "log of eta/||W||^2 at the end over that at the start, by plain descent, 15 seeds", ALONG),
    ("7-speed", "7", "layer norm speeds up the training of neural networks", SOME,
     "judged one by one in section 6"),
    ("7-recurrent", "7", "recurrent nets benefit the most from the method",
     "the ratio of times to a common level, recurrent against feed-forward experiments",
     "needs 6.1 to 6.6"),
    ("7-long", "7", "recurrent nets benefit most for long sequences",
     "digits read 1, 2, 4 and 8 pixels a step: does the gain of layer norm grow with T",
     "not declared yet: pixels change D as well as T"),
)  # fmt: skip

CLAIMS = [
    *(said_here(*row) for row in ROWS),
    shift("ba2016", "3-covariate-drift", f"{PAPER}, 3", f"{REDUCES}{DRIFT}, layer against none",
          DRIFT, "layer - none",
          Before("same direction", f"the interval held 0; {CHOSEN}", "-0.0803 to 0.0175")),
    shift("ba2016", "3-covariate-gradients", f"{PAPER}, 3",
          f"{REDUCES}{GRADIENTS}, layer against none", GRADIENTS, "layer - none",
          Before("same direction", WIDER, "-0.306 to -0.0846")),
]  # fmt: skip
