"""Tables of kept runs of skip-thoughts, as notebook 10 shows them."""

from collections.abc import Sequence
from dataclasses import replace

import pandas as pd

from lnlab.ledger.ba2016_skip_thoughts import FAMILIES, TABLE_3, nested
from lnlab.ledger.paired import differences, like
from lnlab.ledger.rule import interval
from lnlab.ledger.vectors import WORDS, asked, at, fixed, mean, way
from lnlab.runs import Run

BOTH = ("none", "layer")
"""The arms of Table 3, in its order."""


def beside_table_3(runs: Sequence[Run], end: str) -> pd.DataFrame:
    """A row for each number of Table 3, of the kept runs of a setting: means over seeds.

    Both arms at their ends and the interval of their difference, C chosen by inner folds; with
    one C for all each arm from before its first update to its end, and a bag of words; and the
    paper's. Empty where not both arms are there.
    """
    task = FAMILIES[end][0]
    runs = [*runs]
    arms = max((like(runs, replace(task, measures=n)) for n in (2, 1)), key=len)
    if not set(BOTH) <= arms.keys():
        return pd.DataFrame()
    rows, C = {}, fixed(end)
    one = f"C = {C:g}" if C else "one C"
    for metric, (words, *paper) in TABLE_3.items():
        own = asked(metric, end)
        if not own:
            continue
        less = differences(arms, "layer", "none", nested(own))
        low, high = interval([*less.values()]) if len(less) > 1 else (float("nan"),) * 2
        rows[words if own == metric else f"{words}: here {own.partition('_')[0]}"] = {
            **{f"{arm}, C chosen": mean(arms[arm], nested(own)) for arm in BOTH},
            "layer − none": f"{low:.3g} to {high:.3g}",
            **{f"{arm}, {one}": way(arms[arm], own, C) for arm in BOTH},
            f"words, {one}": mean(arms["layer"], at(own + WORDS, -1, C)),
            **{f"paper, {arm}": value for arm, value in zip(BOTH, paper, strict=True)},
        }  # fmt: skip
    return pd.DataFrame(rows).T
