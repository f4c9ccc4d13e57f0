"""Ba et al. (2016), section 6.4: what it claims of DRAW, declared.

For the paper's own experiment; for one of a size for two cores on the same pictures, at its end
and cut at half of it; and for digits of 16 x 16, with two starts of the weights.
"""

from collections.abc import Mapping
from dataclasses import replace
from math import log
from typing import Any

import numpy as np
import pandas as pd

from lnlab.analysis.statistics import interval
from lnlab.papers.claims.ba2016_analysis import PAPER
from lnlab.papers.claims.claim import Claim
from lnlab.papers.claims.measurement import (
    Measurement,
    Numbers,
    Term,
    common_levels,
    declare,
    each,
    over_levels,
    over_levels_below,
    time_to,
    until,
)
from lnlab.papers.claims.paired import Arms, final, rows
from lnlab.papers.draw.experiment import TWO_CORES, PictureDrawing

SEEDS = tuple(range(100, 105))
MNIST = PictureDrawing.budget("paper", seeds=SEEDS)
SMALLER = replace(MNIST, **TWO_CORES)
LONGER = replace(SMALLER, epochs=40, seeds=tuple(range(105, 110)))
"""Twice as long, of other seeds: the first half of the same ones has been seen."""
SHOWN = 100
"""The epochs that Fig. 4 shows, of 200."""
DIGITS = PictureDrawing.budget("notebook", epochs=24, drawings=2, seeds=SEEDS)
SEEN = (
    "seven trainings of seed 0 on these pictures, 1,000 updates each, chose the learning rate "
    "for all arms; at that seed LN was ahead from the one start and behind from the other"
)
STATED: dict[str, Any] = {
    name: value
    for name, value in MNIST.config().items()
    if name in ("data", "glimpses", "units", "batch_size", "learning_rate", "epochs")
}
OPEN = (
    "seeds",
    "Z, both windows, initialisation and clipping: as in a public command whose settings are "
    "the same (jbornschein/draw)",
)
LESS: tuple[Term, ...] = ((1, {"norm": "layer"}), (-1, {"norm": "none"}))
BOUND = "valid_bound"
NOT_THERE = "the declared runs are not all there"
CUT = (
    "trainings of 20 epochs of their own; those of 40 have other seeds; the four are one family"
)
ON_IT = (
    "the sign is who leaves the shelf near 206 nats: of seeds 105 to 107 the net with layer "
    "norm never does, of 108 that without"
)
AT_ALL = (
    "supported means faster at all, not almost twice; by how much, the interval of the log of "
    "the ratio says"
)
LEFT = 201.0
"""Nats: 5 below the shelf on which nets of :data:`SMALLER` stand."""
SHELF = (
    "from this start nets stood, at seed 0 (exploratory, not kept), on a shelf near 105.5 "
    "nats, what knowing how often each pixel is black costs; levels above it tell who gets "
    "there, those below who leaves it first, rather than who learns to draw faster"
)


def claims(
    id: str,
    statement: str,
    numbers: Numbers,
    paper: str,
    own: Mapping[str, Mapping[str, Any]] | None = None,
    notes: Mapping[str, str] | None = None,
    **words: Any,
) -> list[Claim]:
    """A claim in the paper's own setting, in two that are smaller, and on other digits with
    two starts.

    Args:
        own: what is declared otherwise in a setting, by the end of its id.
        notes: of the settings, likewise.
    """
    own = own or {}
    notes = {"-two-cores": CUT, **(notes or {})}
    settings = {
        "": (MNIST, "mnist-binary=PATH", "DRAW, MNIST", "", "ten trainings of 14 core-hours"),
        "-two-cores": (SMALLER, "mnist-binary=PATH", "DRAW, two cores",
                       ", ten glimpses and 128 units, 20 epochs", NOT_THERE),
        "-two-cores-40": (LONGER, "mnist-binary=PATH", "DRAW, two cores",
                          ", ten glimpses and 128 units, 40 epochs", NOT_THERE),
        "-digits": (DIGITS, "", "DRAW, digits", ", weights drawn from N(0, 0.01²)", NOT_THERE),
        "-digits-modern": (replace(DIGITS, initialisation="modern"), "", "DRAW, digits",
                           ", weights drawn from N(0, 1/fan-in)", NOT_THERE),
    }  # fmt: skip
    made = []
    for end, (task, data, family, how, waits) in settings.items():
        here: dict[str, Any] = {"numbers": numbers, **words, **own.get(end, {})}
        test, declared = declare(
            Measurement(task, LESS, here.pop("numbers"), STATED), family=family,
            open=() if task.data == "digits-binary" else OPEN,
            seen=SEEN if task.data == "digits-binary" else "", **here,
        )  # fmt: skip
        made.append(
            Claim(f"ba2016-6.4-{id}{end}", f"{PAPER}, 6.4, Fig. 4", statement + how, test=test,
                  declared=declared, command=test.command(data), paper=paper, waits=waits,
                  note=notes.get(end, ""))
        )  # fmt: skip
    return made


CLAIMS = [
    *claims(
        "faster", "DRAW with LN converges faster (the paper: almost twice as fast)",
        over_levels(BOUND), "almost 2",
        own={
            "": {
                "numbers": until(SHOWN, over_levels(BOUND)),
                "window": f"the first {SHOWN} of 200 epochs, which Fig. 4 shows, from a tenth "
                "of their updates on",
            },
            "-two-cores-40": {
                "numbers": over_levels_below(BOUND, LEFT),
                "measure": "log of the ratio of updates until the trend of the bound is at "
                           "a level, layer over none: the mean over twenty levels, from "
                           f"{LEFT:g} nats, below the shelf, to where the lower curve ends; "
                           "a net that does not come to a level counts as there at its end; "
                           "a pair of which none leaves the shelf has no number, and the "
                           "claim is inconclusive",
                "window": "the whole run",
            },
        },
        notes={
            "": f"{AT_ALL}; of validation pictures, where Fig. 4 is of the test",
            "-two-cores": f"{CUT}; {AT_ALL}; nets that stay on the shelf near 206 nats "
            "(with layer norm in three of five seeds, without in one) count by the levels "
            "above it, so that one which never leaves it can be called faster: of seed 100 no "
            "net leaves it (-0.52), of 104 that with layer norm does not (-0.58), nor of 102 "
            "(2.88)",
            "-two-cores-40": f"{ON_IT}; {AT_ALL}",
            "-digits": f"{SHELF}; all ten leave it, and by the levels below 100 nats alone the "
            f"interval is -1.26 to -0.25; {AT_ALL}",
            "-digits-modern": AT_ALL,
        },
        measure="log of the ratio of updates until the trend of the bound is at a level, layer "
        "over none: the mean over twenty levels, from where the higher curve is after a tenth "
        "of the updates to where the higher one ends",
        window="from a tenth of the updates to the end",
        split="validation, with the same noise at each look: the test is for the end",
        margin=round(log(2) / 2, 3),
        reason="half of log(2), the paper's almost twice: what is less than that for sure is "
        "called no effect as large; above it, that LN is faster at all is what is tested",
    ),
    *claims(
        "bound", "DRAW with LN has the lower variational bound in the end",
        each(final("test_bound")), "82.09 against 82.36 nats",
        measure="bound in nats a picture, layer - none", window="after the last update",
        split="test", margin=0.13, reason="half of the paper's 82.36 - 82.09",
        notes={
            "-two-cores-40": f"{ON_IT}; of 109 both do, and layer norm ends 3.2 nats behind"
        },
    ),
]  # fmt: skip


def ratios(arms: Arms, of: str = "update") -> pd.DataFrame:
    """The time of layer norm over that without to each of the twenty levels: a row a level.

    Columns: the level in nats and the ratio, each a mean over seeds (of logarithms), and the
    ends of its interval where there are two seeds or more. Below 1 LN is the faster one.

    Args:
        arms: "layer" and "none", runs by seed, as :func:`lnlab.papers.claims.paired.like` finds
            them.
        of: the column of time: "update" or "cpu_seconds".
    """
    seeds = sorted(arms["layer"].keys() & arms["none"].keys())
    levels, logs = [], []
    for seed in seeds:
        frames = [rows(arms[arm][seed].metrics(), seed) for arm in ("layer", "none")]
        levels.append(common_levels(frames, BOUND))
        layer, none = (
            [np.log1p(time_to(frame, BOUND, level, of).at) for level in levels[-1]]
            for frame in frames
        )
        logs.append(np.subtract(layer, none))
    table = pd.DataFrame({
        "level": np.mean(levels, axis=0), "ratio": np.exp(np.mean(logs, axis=0))
    })  # fmt: skip
    if len(seeds) > 1:
        ends = np.exp([interval(list(values)) for values in np.transpose(logs)])
        table["low"], table["high"] = ends.T
    return table
