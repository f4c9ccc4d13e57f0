"""Tables of kept runs of skip-thoughts, as notebook 10 shows them."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from lnlab.analysis.statistics import interval
from lnlab.ledger.ba2016_skip_thoughts import TABLE_3, nested
from lnlab.ledger.paired import Arms, differences, final, like, trajectories
from lnlab.ledger.thoughts_trainings import FAMILIES, begun
from lnlab.ledger.vectors import TFIDF, WORDS, asked, at, fixed, looked, mean, way
from lnlab.training.runs import Run

BOTH = ("none", "layer")
"""The arms of Table 3, in its order."""
WITHIN = "_within"
"""The end of the name of half of a number's interval over folds."""


def compared(runs: Sequence[Run], end: str) -> Arms:
    """Return the kept runs of a setting by arm: of its own seeds alone; empty where not both
    arms are there. Runs on the data of most seeds count."""
    task = FAMILIES[end][0]
    arms = like(runs, task, seeds=task.seeds)
    return arms if set(BOTH) <= arms.keys() else {}


def how_far(arms: Arms) -> str:
    """The length of the runs in updates and epochs, and the number of seeds, in words."""
    runs = arms["layer"]
    last = next(iter(runs.values())).metrics().iloc[-1]
    return f"{last['update']:,.0f} updates, {last['epoch']:.1f} epochs, {len(runs)} seeds"


def beside_table_3(runs: Sequence[Run], end: str) -> pd.DataFrame:
    """A row for each number of Table 3, of the kept runs of a setting: means over seeds.

    The interval over seeds of the difference of both arms at their ends, C chosen by inner
    folds, and half of one over the folds of one net; each arm from before its first update to
    its end, a bag of words, TF-IDF, and each arm before any update from the other start, as the
    setting reads them along a run (where that is with another C, the ends with the chosen one,
    too); and the paper's. Empty where not both arms are there, or a number is not.
    """
    arms, rows, C = compared(runs, end), {}, fixed(end)
    others = like(runs, begun(FAMILIES[end][0]))
    one = f", C = {C:g}" if C else ""
    for metric, (words, *paper) in TABLE_3.items() if arms else ():
        own = asked(metric, end)
        if not own:
            continue
        less = differences(arms, "layer", "none", nested(own))
        low, high = interval([*less.values()]) if len(less) > 1 else (float("nan"),) * 2
        rows[words if own == metric else f"{words}: here {own.partition('_')[0]}"] = {
            **{f"{arm}, C chosen": mean(arms[arm], nested(own)) for arm in BOTH if C},
            "layer − none": f"{low:.3g} to {high:.3g}",
            "over folds": folds(arms["layer"], own),
            **{f"{arm}, start → end{one}": way(arms[arm], own, C) for arm in BOTH},
            f"words{one}": mean(arms["layer"], at(own + WORDS, -1, C)),
            f"TF-IDF{one}": mean(others["layer"], at(own + TFIDF, -1, C)) if others else "",
            **{
                f"{arm}, modern start, untrained{one}": mean(others[arm], at(own, 0, C))
                for arm in BOTH
                if arm in others
            },
            **{f"paper, {arm}": value for arm, value in zip(BOTH, paper, strict=True)},
        }  # fmt: skip
    return pd.DataFrame(rows).T


def beside_words(arms: Arms, metric: str) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """As Fig. 3: what a judge says along the runs of both arms, and of a bag of words."""
    pair = {arm: arms[arm] for arm in BOTH}
    curves = trajectories(pair, metric, read=lambda metrics: looked(metrics, metric))
    along, _ = curves["layer"]
    words = mean(arms["layer"], at(metric + WORDS, -1))
    return curves | {"bag of words": (along, np.full((1, len(along)), words))}


def folds(runs: Mapping[int, Run], metric: str) -> str:
    """Half of the interval over folds, "± 0.9"; empty where it was not measured."""
    try:
        return f"± {mean(runs, final(metric + WITHIN)):.2g}"
    except KeyError:
        return ""
