"""The pictures that trainings kept of what they attended to, as panels read them."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from lnlab.training.runs import Run


def looks(
    runs: Mapping[str, Run], who: str
) -> tuple[dict[str, pd.DataFrame], dict[str, dict[int, dict[str, np.ndarray]]]]:
    """The metrics of each run, and its pictures by update, both of its first seed.

    Args:
        runs: by name.
        who: was trained: "readers".

    Raises:
        ValueError: where a run kept no attention, or there is none.
    """
    if not runs:
        raise ValueError(f"there are no runs: train some {who} first.")
    rows, kept = {}, {}
    for name, run in runs.items():
        metrics: Any = run.metrics()
        seed = int(metrics.seed.iloc[0])
        kept[name] = run.pictures(seed)
        if not kept[name]:
            raise ValueError(f"{name}: this run kept no attention, train it again.")
        rows[name] = metrics[metrics.seed == seed].reset_index(drop=True)
    return rows, kept
