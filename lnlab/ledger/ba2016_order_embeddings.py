"""Ba et al. (2016), section 6.1: order embeddings of images and language."""

from lnlab.ledger.ba2016_analysis import untested

NOT_BUILT = "order embeddings (notebook 08) are not built yet"

TABLE_2 = {
    "caption retrieval": {
        ("r1", "R@1"): "48.5 against 46.6",
        ("r5", "R@5"): "80.6 against 79.3",
        ("r10", "R@10"): "89.8 against 89.1",
        ("rank", "mean rank"): "5.1 against 5.2",
    },
    "image retrieval": {
        ("r1", "R@1"): "38.9 against 37.8",
        ("r5", "R@5"): "74.3 against 73.6",
        ("r10", "R@10"): "86.3 against 85.7",
        ("rank", "mean rank"): "7.6 against 7.9",
    },
}
"""The numbers of Table 2, with layer norm against without, by task and measure."""

CLAIMS = [
    *(
        untested(
            f"6.1-updates-{k}",
            "6.1, Fig. 1",
            f"layer norm gives order embeddings a per-iteration speedup in R@{k} of image "
            "retrieval",
            would=f"the area under R@{k} of validation against updates, with and without LN",
            waits=NOT_BUILT,
        )
        for k in (1, 5, 10)
    ),
    untested(
        "6.1-speed",
        "6.1, Fig. 1",
        "order embeddings with LN reach their best validation model in 60 % of the time",
        would="the time to a validation recall that both reach, updates and seconds",
        waits=NOT_BUILT,
        paper="60 %",
    ),
    *(
        untested(
            f"6.1-table2-{task.split()[0]}-{name}",
            "6.1, Table 2",
            f"order embeddings with LN have the better {words} of {task}",
            would="the test of the best validation model, five folds, with and without LN",
            waits=NOT_BUILT,
            paper=numbers,
        )
        for task, row in TABLE_2.items()
        for (name, words), numbers in row.items()
    ),
    untested(
        "6.1-art",
        "6.1, Table 2",
        "the results are state-of-the-art for RNN embedding models",
        would="the table of its time: Sym and OE of Vendrov et al. beside it",
        waits=NOT_BUILT,
        paper="48.5 against 46.7",
    ),
]
