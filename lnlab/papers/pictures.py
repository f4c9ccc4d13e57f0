"""The pictures that trainings kept, as the panels of experiments read them."""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pandas as pd

from lnlab.training.runs import Run

LAST = -1
"""The moment of a state that stands for the last one."""

Pictures = dict[str, dict[int, dict[str, np.ndarray]]]
"""Arrays by name of the run, by update and by name."""


def of_first_seed(
    runs: Mapping[str, Run], who: str
) -> tuple[dict[str, pd.DataFrame], Pictures]:
    """Return the metrics of each run, and its pictures, both of its first seed.

    Args:
        runs: By name.
        who: Was trained: "readers".

    Raises:
        ValueError: Where a run kept no attention, or there is none.
    """
    if not runs:
        raise ValueError(f"there are no runs: train some {who} first.")
    rows, pictures = {}, {}
    for name, run in runs.items():
        metrics: Any = run.metrics()
        seed = int(metrics.seed.iloc[0])
        pictures[name] = run.pictures(seed)
        if not pictures[name]:
            raise ValueError(f"{name}: this run kept no attention, train it again.")
        rows[name] = metrics[metrics.seed == seed].reset_index(drop=True)
    return rows, pictures


def nearest(moments: Iterable[Any], wanted: Any) -> Any:
    """Return the moment that is nearest to what is wanted; the last one for -1."""
    moments = [*moments]
    if wanted == LAST:
        return moments[-1]
    return min(moments, key=lambda moment: abs(moment - wanted))


def within(name: str, index: int, count: int) -> None:
    """Raise ValueError unless an index is one of ``count``."""
    if not 0 <= index < count:
        raise ValueError(f"{name} is {index}: give 0 to {count - 1}.")
