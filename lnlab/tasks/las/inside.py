"""The inside of a recognizer: its distributions, and the steepness of its loss.

Figures 4 to 7 of Ben Othman (2018), of every run at each of its evaluations.
"""

import re
from collections import defaultdict
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from lnlab.analysis.objective import Objective
from lnlab.analysis.recorder import QUANTILES, record, summary
from lnlab.analysis.smoothness import smoothness, steps
from lnlab.data.speech import Speech
from lnlab.nn.padding import cross_entropy
from lnlab.nn.table1 import Statistics
from lnlab.tasks.las.net import Heeded, gathered

if TYPE_CHECKING:
    import pandas as pd

UTTERANCES = 16
"""The first of those to train on are what the inside is seen with, at each evaluation."""
LENGTH = 0.1
"""Steps along the gradient are from 1/2 to 4 times this, as Santurkar et al. (2018) have it."""
SHOWN = [name for name, q in QUANTILES.items() if q in (0.05, 0.25, 0.5, 0.75, 0.95)]


def inside(net: Any, dataset: Speech) -> dict[str, Any]:
    """Steepness and distributions of a recognizer, on always the same training utterances.

    ``lipschitz``, the length of the gradient: the local Lipschitz constant of the loss;
    ``loss_range``, between the least and the greatest loss along it, in nats;
    ``beta_smoothness``, the effective smoothness (:mod:`lnlab.analysis.smoothness`);
    ``quantiles``, by the name of a parameter or of a layer (its outputs): five quantiles, 5,
    25, 50, 75 and 95 %.
    """
    weight = next(net.parameters())
    numbers = {unit: number for number, unit in enumerate(dataset.units)}
    said = dataset.train[:UTTERANCES]
    batch, counts = gathered(said, numbers, weight.dtype, weight.device)

    def loss(logits: Tensor, rows: Tensor) -> Tensor:
        return cross_entropy(logits, batch.units[rows], counts[rows])

    rows = torch.arange(len(said), device=weight.device)
    objective = Objective(Chosen(net, batch), rows, rows, loss, statistics=Statistics.FROZEN)
    found = smoothness(objective, steps(LENGTH))
    low, high = found.variation
    return {
        "lipschitz": found.slope,
        "loss_range": high - low,
        "beta_smoothness": found.beta,
        "quantiles": distributions(net, batch),
    }


class Chosen(nn.Module):
    """A net on those utterances of a batch whose numbers it is given (B,)."""

    def __init__(self, net: nn.Module, batch: Heeded) -> None:
        super().__init__()
        self.net, self.batch = net, batch

    def forward(self, rows: Tensor) -> Tensor:
        return self.net(Heeded(*(v[rows.to(v.device)] for v in self.batch)))


@torch.no_grad()
def distributions(net: Any, batch: Heeded) -> dict[str, list[float]]:
    """Quantiles of all parameters, and of what each LSTM of the listener and the readout make
    of a batch; both directions of an LSTM are one."""
    net.eval()
    layers = [f"listener.layers.{k}" for k in range(len(net.listener.layers))]
    with record(net, [*layers, "speller.readout"], evaluation=True) as seen:
        net(batch)
    rows = {row["name"].removesuffix("[0]"): row for row in seen if not row["call"]}
    pooled = defaultdict(list)
    for name, p in net.named_parameters():
        pooled[re.sub(r"^(listener\.layers\.\d+)\.cells\.\d+", r"\1", name)].append(p.flatten())
    rows |= {name: summary(torch.cat(ps)) for name, ps in pooled.items()}
    return {
        name: [float(f"{row[q]:.3g}") for q in SHOWN]
        for name, row in rows.items()
        if not name.endswith("]")  # last states
    }


def ribbon(metrics: "pd.DataFrame", name: str) -> "pd.DataFrame":
    """The quantiles of a parameter or layer along a run, for :func:`lnlab.figures.curves`.

    Args:
        metrics: the rows of one seed.

    Raises:
        ValueError: for a name that was not watched.
    """
    import pandas as pd

    seen = metrics["quantiles"]
    if name not in seen.iloc[0]:
        raise ValueError(f"nothing is called {name!r}: choose from {', '.join(seen.iloc[0])}.")
    frame = pd.DataFrame([row[name] for row in seen], columns=SHOWN)
    return frame.assign(step=metrics["update"].to_numpy())
