"""An update of the reader of reviews, fused, beside the reference loop of the same net.

Two LSTMs of Ziaee & Çano (2022) over 80 words, units dropped at every step, an embedding of
20,000 words; made reviews, one thread. An update is all that training does of it. Contenders
take turns, every other round in the reverse order, on the clock of the processor; the median
and the quartiles of the ratios within a round are shown.
"""

import os
from dataclasses import replace
from json import dumps
from typing import Any

import torch

from benchmarks.thoughts import summary, table, timed, updates
from lnlab.papers.batch_layer_norm import ReviewExperiment
from lnlab.training.runs import device_name

SIZES = (1, 25)
"""The published sizes of a batch."""


def main(json: bool) -> None:
    """Print the ratios, as a table or as JSON."""
    torch.set_num_threads(1)
    found: dict[str, Any] = {
        "device": device_name(torch.device("cpu")), "torch": torch.__version__,
        "load": round(os.getloadavg()[0], 1),
        **{f"an update, fused / reference, batches of {m}": update(m) for m in SIZES},
    }  # fmt: skip
    found["load at the end"] = round(os.getloadavg()[0], 1)
    print(dumps(found, indent=1) if json else table(found))


def update(m: int) -> dict[str, Any]:
    """The time of an update over that of one with ``fused=False``."""
    fused = ReviewExperiment(
        data="opinions", batch_size=m, train_size=1_000, valid_size=250, test_size=500
    )
    dataset = fused.dataset()
    steps = {
        name: updates(replace(fused, fused=name == "fused"), dataset)
        for name in ("fused", "reference")
    }
    return summary(
        timed({name: lambda steps=steps: next(steps) for name, steps in steps.items()})
    )
