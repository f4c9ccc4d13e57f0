"""Tables of the kept runs of 6.7 with all arms, as notebook 05 shows them."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from lnlab.ledger.ba2016_convolution_arms import CLAIMS, NLL_ALONG
from lnlab.ledger.measurement import Measurement
from lnlab.ledger.paired import Arms, Number, bounds, differences, final, logarithm, numbers
from lnlab.training.runs import Run


def at_own_rates(runs: Sequence[Run], end: str) -> Arms:
    """The kept runs of a setting by arm, each at its own rate; empty where not all are there.

    Args:
        end: of the name of a claim about all arms: "lenet-4-whole".
    """
    (test,) = (c.test for c in CLAIMS if c.id == f"ba2016-6.7-batch-all-{end}-own-rates")
    assert isinstance(test, Measurement)
    names = [fields["norm"] for _, fields in test.terms]
    return dict(zip(names, test.arms(runs), strict=False))


def all_arms(arms: Arms) -> pd.DataFrame:
    """A row for each arm, the fastest first: means over seeds, and what batch norm is ahead.

    ``over batch norm`` is the interval (95 %, each by itself) of the ratio of the mean training
    NLL along the run to that of batch norm: above 1 where batch norm is the faster one.
    """
    rows = {}
    for arm, runs in arms.items():
        ratios = differences(arms, arm, "batch", logarithm(NLL_ALONG)).values()
        low, high = np.exp(bounds([*ratios]))
        (rate,) = {run.config["learning_rate"] for run in runs.values()}
        rows[arm] = {
            "rate": rate,
            "training NLL along the run": _mean(runs, NLL_ALONG),
            "over batch norm": "" if arm == "batch" else f"{low:.2f} to {high:.2f}",
            "training NLL at the end": _mean(runs, final("train_nll")),
            "test error": _mean(runs, final("test_error")),
        }
    table = pd.DataFrame(rows).T
    return table.sort_values("training NLL along the run").rename_axis(index="arm")


def _mean(runs: dict[int, Run], number: Number) -> float:
    return round(float(np.mean([*numbers(runs, number).values()])), 3)
