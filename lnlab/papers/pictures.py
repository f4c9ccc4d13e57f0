"""The pictures saved during training, for the panels of experiments."""

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

import numpy as np
import pandas as pd

from lnlab.training.runs import Run

Number = TypeVar("Number", int, float)

Pictures = dict[str, dict[int, dict[str, np.ndarray]]]
"""Arrays by name of the run, by update and by name."""


def read_first_seed_metrics_and_pictures(
    runs: Mapping[str, Run], models_name_in_error: str
) -> tuple[dict[str, pd.DataFrame], Pictures]:
    """Return the metrics of each run, and its pictures, both of its first seed.

    ``models_name_in_error`` is what the runs trained, in a word for the message: "readers".
    """
    if not runs:
        raise ValueError(f"there are no runs: train some {models_name_in_error} first.")
    rows, pictures = {}, {}
    for name, run in runs.items():
        metrics: Any = run.metrics()
        seed = int(metrics.seed.iloc[0])
        pictures[name] = run.pictures(seed)
        if not pictures[name]:
            raise ValueError(f"{name}: this run kept no attention, train it again.")
        rows[name] = metrics[metrics.seed == seed].reset_index(drop=True)
    return rows, pictures


def nearest_value(values: Iterable[Number], target: float) -> Number:
    """Return the value nearest to ``target``."""
    return min(values, key=lambda value: abs(value - target))
