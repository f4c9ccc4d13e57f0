"""Ba et al. (2016), section 6.3: skip-thought vectors of sentences."""

from lnlab.ledger.ba2016_analysis import untested

NOT_BUILT = "skip-thoughts (notebook 10) are not built yet"

TABLE_3 = {
    ("sick-r", "Pearson's r on SICK"): ".854 against .842",
    ("sick-rho", "Spearman's rho on SICK"): ".785 against .767",
    ("sick-mse", "mean squared error on SICK"): ".277 against .298",
    ("mr", "accuracy on MR"): "79.5 against 77.3",
    ("cr", "accuracy on CR"): "82.6 against 81.8",
    ("subj", "accuracy on SUBJ"): "93.4 against 92.6",
    ("mpqa", "accuracy on MPQA"): "89.0 against 87.9",
}
"""The numbers of Table 3 after 1M updates, with layer norm against without, by measure."""

CLAIMS = [
    untested(
        "6.3-faster",
        "6.3, Fig. 3",
        "layer norm speeds up skip-thoughts over the baseline",
        would="the area under each task's curve against updates",
        waits=NOT_BUILT,
    ),
    *(
        untested(
            f"6.3-table3-{name}",
            "6.3, Table 3",
            f"skip-thoughts with LN have the better {words} after 1M updates",
            would=f"{words}, with and without LN, at equal updates",
            waits=NOT_BUILT,
            paper=numbers,
        )
        for (name, words), numbers in TABLE_3.items()
    ),
    untested(
        "6.3-month",
        "6.3, Table 3",
        "training for a month gives further gains on all tasks but one",
        would="1.7M updates against 1M, on seven metrics",
        waits=NOT_BUILT,
        paper="SICK r .858 against .854, MR 79.4 against 79.5",
    ),
    untested(
        "6.3-cost",
        "6.3",
        "layer norm makes no significant difference to the time of an update",
        would="seconds an update of a GRU of 2400 units, with and without LN, on one machine",
        waits="needs a declared benchmark; a claim of CNMeM on their GPU",
    ),
    untested(
        "6.3-conditioning",
        "6.3",
        "what separates their results from the reported ones is likely that the decoder "
        "is not conditioned at each step",
        would="both decoders, same data",
        waits=NOT_BUILT,
        paper="SICK r .842 against .848",
    ),
]
