"""Ba et al. (2016), section 6.1: what it claims of order embeddings, declared.

For COCO as the authors have it, whose picture features are got from them; and for COCO's
val2017 with official boxes in the place of pixels, on five splits of its own.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import log
from typing import Any

import pandas as pd

from lnlab.analysis.statistics import ends, interval
from lnlab.papers.claims.ba2016_analysis import PAPER, untested
from lnlab.papers.claims.claim import Claim
from lnlab.papers.claims.measurement import (
    Measurement,
    Numbers,
    Term,
    Tuning,
    declare,
    each,
    to_common_level,
)
from lnlab.papers.claims.paired import (
    Arms,
    NumberOfRuns,
    along,
    asked,
    final,
    logarithm,
    numbers,
)
from lnlab.papers.order_embeddings.evaluate import chance
from lnlab.papers.order_embeddings.experiment import OrderEmbeddings
from lnlab.training.runs import Run

SEEDS = tuple(range(100, 105))
COCO = OrderEmbeddings.budget("paper", seeds=SEEDS)
STATED: dict[str, Any] = {
    name: value
    for name, value in COCO.config().items()
    if name
    in (
        "data",
        "units",
        "embedding_size",
        "batch_size",
        "learning_rate",
        "margin",
        "eval_every",
        "fold_size",
    )
}
"""Stated by the paper, or by Vendrov et al. (2016), whose choices it says it took."""
OPEN = (
    "seeds",
    "initialisation, clipping, the length of the training and the hot start of Adam: as in the "
    "published code",
)
BOXES = OrderEmbeddings(
    data="coco-boxes", units=(256,), epochs=30, eval_every=46, split=0, seeds=SEEDS
)
SPLITS = tuple({"split": k, "seeds": (seed,)} for k, seed in enumerate(SEEDS))
"""Five ways to part the pictures, each with a seed of its own: the unit of the interval."""
FRESH = tuple(range(105, 110))
FRESH_SPLITS = tuple({"split": k, "seeds": (seed,)} for k, seed in enumerate(FRESH, 5))
"""Five more for CPU-seconds: at the others the arms were two programs."""
SHARED = 1_000 / 2_952
"""Pictures of the test over those of the training, of which two splits have most in common."""
SEEN = (
    "one training of each arm, seed 0 on split 9, chose the length of the training; its test "
    "pictures are among those of the declared splits"
)
FASTER = (
    "supported means faster at all; how much, the interval of the log of the ratio says: 60 % "
    "are -0.51"
)
RATES = (3e-4, 1e-3, 3e-3, 1e-2, 3e-2)
OWN_RATE = Tuning(
    "learning_rate", RATES, lambda frame: -float(frame["valid_recall"].to_numpy().max()), 99,
    {"split": 0}, "by the best R@1 + R@5 + R@10 of image retrieval on validation in a run of "
    "seed 99 on the first split",
)  # fmt: skip
TABLE_2 = {
    ("caption", "r1"): (46.6, 48.5), ("caption", "r5"): (79.3, 80.6),
    ("caption", "r10"): (89.1, 89.8), ("caption", "mean_rank"): (5.2, 5.1),
    ("image", "r1"): (37.8, 38.9), ("image", "r5"): (73.6, 74.3),
    ("image", "r10"): (85.7, 86.3), ("image", "mean_rank"): (7.9, 7.6),
}  # fmt: skip
"""Without and with layer norm: recall in per cent, mean rank."""
WORDS_ALONE = {
    "caption_r1": 18.64,
    "caption_r5": 43.46,
    "caption_r10": 59.14,
    "caption_mean_rank": 23.11,
    "caption_median_rank": 7.4,
    "image_r1": 10.84,
    "image_r5": 35.07,
    "image_r10": 55.18,
    "image_mean_rank": 34.36,
    "image_median_rank": 9.0,
}
"""Findings of ``bag_of_words_baseline`` of :mod:`lnlab.papers.order_embeddings.evaluate` on the
boxes: means over the five splits. No two pictures have the same vector."""
WORDS = {"r1": "R@1", "r5": "R@5", "r10": "R@10", "mean_rank": "mean rank"}
SHORT = {"mean_rank": "rank"}
FOUND = {"caption": "caption retrieval", "image": "image retrieval"}
LESS: tuple[Term, ...] = ((1, {"norm": "layer"}), (-1, {"norm": "none"}))
MORE: tuple[Term, ...] = ((1, {"norm": "none"}), (-1, {"norm": "layer"}))
"""Such that the claim says that the sum is negative: of what falls, and of what rises."""
VALIDATION = "validation, the first 1,000 pictures with five captions each"
TEST = (
    "test, of the model that is best on validation: five folds of 1,000 pictures; of boxes one"
)
ONE_RATE = (
    "both arms at one rate, the paper's 0.001; see the rows at own rates, of R@1 and of updates"
)
CHOSEN = (
    "layer norm's rate is 0.01 of five, that without it 0.003; at 0.03 the net without it "
    "learns nothing"
)
BEST_MODEL = (
    "exploratory: the best model itself, one of every 46 updates, has 0.68 to 0.99 of the "
    "updates with layer norm (95 %)"
)
AHEAD = {
    f"6.1-updates-{k}": f"exploratory: at these rates, 0.01 with layer norm and 0.003 without, "
    f"it is ahead in R@{k}, by {by} points (95 %)"
    for k, by in ((1, "0.92 to 3.2"), (5, "2.4 to 4.9"), (10, "1.8 to 4.7"))
}
"""The words of runs at own rates on curves that were declared at the shared one."""
ONE_FINDING = "R@K and mean rank are read of the same ranks: no findings apart"
TO_LEVEL = (
    "until the trend of R@1 + R@5 + R@10 of image retrieval is at a level that both reach"
)


def way(frame: pd.DataFrame) -> pd.DataFrame:
    """The rows on the way, and ``missed``, what is missing to a recall of 300: it falls.

    The last row is of the best model again, out of the order of time.
    """
    before: Any = frame[frame["test_image_r1"].isna()]
    return before.assign(missed=300 - before["valid_recall"])


def on_the_way(numbers: Numbers) -> Numbers:
    """Numbers that are read of :func:`way`."""

    def read(frames: Sequence[pd.DataFrame]) -> Sequence[float]:
        return numbers([way(frame) for frame in frames])

    return read


def claims(
    id: str,
    where: str,
    statement: str,
    terms: tuple[Term, ...],
    numbers: Numbers,
    *,
    group: str,
    own_rate: bool = False,
    paper: str = "",
    note: str = "",
    **words: Any,
) -> list[Claim]:
    """A claim in the paper's own setting, and on boxes at one rate, and at each arm's own."""
    own = Measurement(COCO, terms, numbers, STATED)
    boxes = Measurement(BOXES, terms, numbers, STATED, blocks=SPLITS)
    if id.endswith("seconds"):
        boxes = replace(boxes, task=replace(BOXES, seeds=FRESH), blocks=FRESH_SPLITS)
    rows = [
        ("", own, {"family": "order embeddings, COCO", "open": OPEN}, "coco=PATH",
         "needs COCO's features as the authors laid them out"),
        ("-boxes", boxes,
         {"family": f"order embeddings, boxes, {group}", "seen": SEEN, "shared": SHARED},
         "coco-boxes=PATH", "the declared runs are not all there"),
    ]  # fmt: skip
    if own_rate:
        rows.append(
            ("-boxes-own-rates", replace(boxes, tuning=OWN_RATE),
             {"family": "order embeddings, boxes, own rates", "seen": SEEN,
              "shared": SHARED}, "coco-boxes=PATH",
             "the runs of the grid are not there")
        )  # fmt: skip
    made = []
    for end, test, more, data, waits in rows:
        test, declared = declare(test, **words, **more)
        said_so = f"{statement}, each arm at its best rate" if test.tuning else statement
        made.append(
            Claim(f"ba2016-{id}{end}", f"{PAPER}, {where}", said_so, test=test,
                  declared=declared, command=test.command(data), paper=paper, waits=waits,
                  note="; ".join(filter(None, [
                      note, ONE_RATE * (end == "-boxes"), CHOSEN * bool(test.tuning),
                      AHEAD.get(id, "") * (end == "-boxes"),
                      BEST_MODEL * (id == "6.1-speed" and bool(test.tuning))])))
        )  # fmt: skip
    return made


def better(way_of: str, name: str) -> list[Claim]:
    """A cell of Table 2: with layer norm the better one."""
    without, having = TABLE_2[way_of, name]
    ranks = name == "mean_rank"
    number: NumberOfRuns = final(f"test_{way_of}_{name}")
    apart = abs(log(having / without)) if ranks else having - without
    return claims(
        f"6.1-table2-{way_of}-{SHORT.get(name, name)}", "6.1, Table 2",
        f"order embeddings with LN have the better {WORDS[name]} of {FOUND[way_of]}",
        LESS if ranks else MORE, each(logarithm(number) if ranks else number),
        own_rate=name == "r1",
        measure=f"log of the ratio of {WORDS[name]}s, layer over none" if ranks
        else f"{WORDS[name]} in points, none - layer",
        window="the best model on validation, one of every 300 updates; of boxes of every 46",
        split=TEST, margin=round(apart / 2, 4),
        reason=f"half of what Table 2 has, {having} against {without}",
        paper=f"{having} against {without}", group="Table 2", note=ONE_FINDING,
    )  # fmt: skip


def sooner(end: str, of: str, unit: str) -> list[Claim]:
    """The claim about 60 % of the time, in one of its units."""
    return claims(
        f"6.1-speed{end}", "6.1, Fig. 1",
        "order embeddings with LN reach their best validation model sooner (the paper: in 60 % "
        f"of the time), {unit}",
        LESS, on_the_way(to_common_level("missed", of)), own_rate=not end,
        measure=f"log of the ratio of {unit} {TO_LEVEL}, layer over none",
        window="the whole run", split=VALIDATION,
        margin=round(-log(0.6) / 2, 2), reason="half of log(1/0.6)",
        paper="60 %", group="speed",
        note=FASTER,
    )  # fmt: skip


def area(metric: str) -> Callable[[pd.DataFrame], float]:
    """The mean of a metric along the way."""
    return lambda frame: along(metric)(way(frame))


def paired_splits(runs: Sequence[Run]) -> dict[int, Arms]:
    """The finished runs on boxes that were declared, by split, where both arms are there."""
    found = {}
    for split in SPLITS:
        arms = asked(runs, replace(BOXES, **split))
        if {"none", "layer"} <= arms.keys():
            found[split["split"]] = arms
    return found


def beside_table_2(splits: Mapping[int, Arms]) -> pd.DataFrame:
    """A row for each number of Table 2: means over splits of both arms, the interval of their
    difference, chance, what words alone find, and the paper's."""
    guessed = chance(BOXES.fold_size)
    rows = {}
    for (way_of, name), printed in TABLE_2.items():
        metric = f"{way_of}_{name}"
        number = final(f"test_{metric}")
        by_arm = {
            arm: [next(iter(numbers(arms[arm], number).values())) for arms in splits.values()]
            for arm in ("none", "layer")
        }
        apart = [b - a for a, b in zip(by_arm["none"], by_arm["layer"], strict=True)]
        bounds = interval(apart, shared=SHARED) if len(apart) > 1 else None
        rows[f"{WORDS[name]}, {FOUND[way_of]}"] = {
            **{arm: round(sum(v) / len(v), 2) for arm, v in by_arm.items()},
            "layer − none": f"{sum(apart) / len(apart):.2f} ({ends(bounds)})",
            "guessing": round(guessed[metric], 2),
            "words alone": WORDS_ALONE[metric],
            "paper, none": printed[0],
            "paper, layer": printed[1],
        }
    return pd.DataFrame(rows).T


CLAIMS = [
    *(
        claim
        for k in (1, 5, 10)
        for without, having in [TABLE_2["image", f"r{k}"]]
        for claim in claims(
            f"6.1-updates-{k}", "6.1, Fig. 1",
            f"layer norm gives order embeddings a per-iteration speedup in R@{k} of image "
            "retrieval",
            MORE, each(area(f"valid_image_r{k}")),
            measure=f"mean of R@{k} along the run against updates, in points, none - layer",
            window="the whole run", split=VALIDATION, margin=round((having - without) / 2, 2),
            reason="Fig. 1 has no numbers; half of what Table 2 has at its end, "
            f"{having} against {without}",
            group="speed", note=ONE_FINDING,
        )
    ),
    *sooner("", "update", "updates"),
    *sooner("-seconds", "cpu_seconds", "CPU-seconds"),
    *(claim for way_of, name in TABLE_2 for claim in better(way_of, name)),
    untested(
        "6.1-art", "6.1, Table 2",
        "the results are state-of-the-art for RNN embedding models",
        would="the table of its time: Sym and OE of Vendrov et al. beside it",
        waits="a statement about other people's results, not about a training",
        paper="48.5 against 46.7",
    ),
]  # fmt: skip
