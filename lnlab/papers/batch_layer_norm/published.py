"""The logs that Ziaee & Çano (2022) published with their code: one training of each arm.

From A2Amir/Batch-Layer-Normalization at a79b856, 20 % of the training data. The figures of the
paper are made from these; its text rounds them. Losses are in nats.
"""

from pathlib import Path
from typing import Any

import pandas as pd


def read_logs_by_arm(experiment: str, batch_size: int) -> dict[str, pd.DataFrame]:
    """Return the log of each arm, epoch by epoch; empty where none was published.

    Training numbers are means along an epoch, validation numbers are those after it.
    """
    rows: Any = _read_published_rows("logs.csv", experiment, batch_size)
    return {arm: log.reset_index() for arm, log in rows.groupby("arm", sort=False)}


def read_test_scores(experiment: str, batch_size: int) -> pd.DataFrame:
    """Return ``nll`` and ``accuracy`` on the whole test, by arm or by configuration.

    Batch layer normalization has those of its best configuration. At batch size 25 there are
    the 16 configurations of the paper's Tables 1 A and 2 A.
    """
    return _read_published_rows("tests.csv", experiment, batch_size).set_index("normalizer")


def _read_published_rows(file_name: str, experiment: str, batch_size: int) -> pd.DataFrame:
    table: Any = pd.read_csv(Path(__file__).with_name(file_name))
    return table[(table.experiment == experiment) & (table.batch_size == batch_size)]
