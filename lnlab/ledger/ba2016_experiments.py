"""Ba et al. (2016), sections 6.1 to 6.5 and 6.7: experiments that are not built here yet."""

from functools import partial

from lnlab.ledger.ba2016_analysis import PAPER
from lnlab.ledger.claim import said

said_here = partial(said, PAPER)
ORDER = "order embeddings (notebook 08) are not built yet"
READER = "the attentive reader (notebook 09) is not built yet"
SKIP = "skip-thoughts (notebook 10) are not built yet"
DRAW = "DRAW (notebook 11) is not built yet"
PEN = "handwriting (notebook 12) is not built yet"
CONV = "convolutional nets (notebook 05) are not built yet"

RETRIEVAL = [
    (f"6.1-table2-{where.split()[0]}-{name}", "6.1, Table 2",
     f"order embeddings with LN have the better {words} of {where}",
     "the test of the best validation model, five folds, with and without LN", ORDER, numbers)
    for where, four in (
        ("caption retrieval", ("48.5 against 46.6", "80.6 against 79.3", "89.8 against 89.1",
                               "5.1 against 5.2")),
        ("image retrieval", ("38.9 against 37.8", "74.3 against 73.6", "86.3 against 85.7",
                             "7.6 against 7.9")),
    )
    for (name, words), numbers in zip(
        (("r1", "R@1"), ("r5", "R@5"), ("r10", "R@10"), ("rank", "mean rank")), four,
          strict=True)
]  # fmt: skip
SENTENCES = [
    (f"6.3-table3-{name}", "6.3, Table 3",
     f"skip-thoughts with LN have the better {words} after 1M updates",
     f"{words}, with and without LN, at equal updates", SKIP, numbers)
    for name, words, numbers in (
        ("sick-r", "Pearson's r on SICK", ".854 against .842"),
        ("sick-rho", "Spearman's rho on SICK", ".785 against .767"),
        ("sick-mse", "mean squared error on SICK", ".277 against .298"),
        ("mr", "accuracy on MR", "79.5 against 77.3"),
        ("cr", "accuracy on CR", "82.6 against 81.8"),
        ("subj", "accuracy on SUBJ", "93.4 against 92.6"),
        ("mpqa", "accuracy on MPQA", "89.0 against 87.9"),
    )
]  # fmt: skip
ROWS = [
    *((f"6.1-updates-{k}", "6.1, Fig. 1",
       f"layer norm gives order embeddings a per-iteration speedup in R@{k} of image retrieval",
       f"the area under R@{k} of validation against updates, with and without LN", ORDER)
      for k in (1, 5, 10)),
    ("6.1-speed", "6.1, Fig. 1", "order embeddings with LN reach their best validation model "
                                 "in "
     "60 % of the time", "the time to a validation recall that both reach, updates and seconds",
     ORDER, "60 %"),
    *RETRIEVAL,
    ("6.1-art", "6.1, Table 2", "the results are state-of-the-art for RNN embedding models",
     "the table of its time: Sym and OE of Vendrov et al. beside it", ORDER,
         "48.5 against 46.7"),
    *((f"6.2-faster-{arm}", "6.2, Fig. 2", f"the attentive reader with LN trains faster than "
                                           f"{w}",
       "the area under the validation error against updates", READER)
      for arm, w in (("baseline", "the LSTM"), ("bn", "with BN in the LSTM"),
                     ("everywhere", "with BN everywhere"))),
    *((f"6.2-better-{arm}", "6.2, Fig. 2", "the attentive reader with LN converges to a better "
       f"validation error than {w}", "the least of the trend of validation errors", READER)
      for arm, w in (("baseline", "the LSTM"), ("bn", "with BN in the LSTM"),
                     ("everywhere", "with BN everywhere"))),
    ("6.3-faster", "6.3, Fig. 3", "layer norm speeds up skip-thoughts over the baseline",
     "the area under each task's curve against updates", SKIP),
    *SENTENCES,
    ("6.3-month", "6.3, Table 3", "training for a month gives further gains on all tasks but "
                                  "one",
     "1.7M updates against 1M, on seven metrics", SKIP, "SICK r .858 against .854, MR 79.4 "
     "against 79.5"),
    ("6.3-cost", "6.3", "layer norm makes no significant difference to the time of an update",
     "seconds an update of a GRU of 2400 units, with and without LN, on one machine",
     "needs a declared benchmark; a claim of CNMeM on their GPU"),
    ("6.3-conditioning", "6.3", "what separates their results from the reported ones is likely "
     "that the decoder is not conditioned at each step", "both decoders, same data", SKIP,
     "SICK r .842 against .848"),
    ("6.4-faster", "6.4, Fig. 4", "DRAW with LN converges almost twice as fast",
     "log of the ratio of times to a common test bound, margin log(2)/2", DRAW, "almost 2"),
    ("6.4-bound", "6.4", "after 200 epochs DRAW with LN has the lower variational bound",
     "the test bound after 200 epochs, margin 0.13 nats, five seeds", DRAW,
     "82.09 against 82.36 nats"),
    ("6.5-faster", "6.5, Fig. 5", "handwriting generation with LN converges much faster",
     "log of the ratio of times to a common NLL, at batch 8 and length 500", PEN),
    ("6.5-comparable", "6.5, Fig. 5", "handwriting generation with LN converges to a "
                                      "comparable "
     "log likelihood", "the difference at the end, inside a declared margin", PEN),
    ("6.5-stable", "6.5", "small mini-batches and very long sequences make stable hidden "
                          "dynamics "
     "important", "failures and times against length and batch size", PEN),
    ("6.6-logits-scale", "6.6", "layer norm is unnecessary for the logits, whose scale "
                                "determines "
     "the confidence of the prediction", "layer norm on the logits as well, on MNIST",
     "no such arm yet"),
    ("6.6-desirable", "6.6", "invariance to input re-scaling is desirable for hidden layers",
     "test error on cases scaled by 0.5 to 2, layer against none", "not declared yet"),
    ("6.7-baseline", "6.7", "in convolutional nets layer norm offers a speedup over no "
     "normalization", "the area under the training curve, CIFAR-10", CONV),
    ("6.7-batch", "6.7", "in convolutional nets batch norm outperforms the other methods",
     "the same, batch against layer", CONV),
    ("6.7-similar", "6.7", "with fully connected layers all units tend to make similar "
     "contributions to the prediction", "what leaving out each unit costs: its spread, dense "
     "against convolutional", CONV),
    ("6.7-boundary", "6.7", "units whose receptive fields lie near the boundary of the image "
                            "are "
     "rarely turned on", "the part of cases in which units are on, by place", CONV),
    ("6.7-statistics", "6.7", "units near the boundary have very different statistics from the "
     "rest of their layer", "mean and variance of units, by place", CONV),
]  # fmt: skip

CLAIMS = [said_here(*row[:5], paper=row[5] if len(row) > 5 else "") for row in ROWS]
