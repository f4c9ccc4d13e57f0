"""The measurements of a net: nats on held-out sentences, verdicts of judges, its weights."""

from typing import Any

import torch
from torch.utils._pytree import tree_map

from lnlab.training import Moment

from .net import SkipThoughts, of_one_length
from .numbered import Numbered

HELD = 1000
"""Held-out sentences that are looked at, spread evenly over all of them."""
WEIGHTS = "weights "
"""The beginning of the names of pictures that are weights."""


@torch.no_grad()
def held_out(net: SkipThoughts, numbered: Numbered) -> dict[str, float]:
    """``valid_nll``, nats a word of the neighbours of held-out sentences; ``valid_nll_before``
    and ``valid_nll_after``, of each neighbour."""
    chosen = numbered.valid[:: max(1, len(numbered.valid) // HELD)][:HELD]
    lengths = numbered.lengths[chosen].tolist()
    device = net.word.device
    nats, words = torch.zeros(2, dtype=torch.float64), torch.zeros(2)
    for places in of_one_length([range(length) for length in lengths]):
        told = tree_map(lambda tensor: tensor.to(device), numbered.told(chosen[places]))
        nats += net(told).double().cpu()
        words += told.counts.sum(0).cpu()
    before, after = (nats / words).tolist()
    return {
        "valid_nll": float(nats.sum() / words.sum()),
        "valid_nll_before": before,
        "valid_nll_after": after,
    }


def measured(net: Any, numbered: Numbered, moment: Moment, *, snapshot: bool) -> dict[str, Any]:
    """All that is measured of a net at a moment.

    On the way often :func:`held_out` alone; seldom also its weights, where they are asked for.
    """
    found: dict[str, Any] = held_out(net.eval(), numbered)
    if moment is Moment.CHEAP:
        return found
    if snapshot:
        found |= {f"{WEIGHTS}{n}": p.detach().half() for n, p in net.named_parameters()}
    return found


def snapshots(task: Any, run: Any, numbered: Numbered) -> dict[int, Any]:
    """The nets of a run's first seed along its training, by update, as they were kept.

    Raises:
        ValueError: if the run kept no weights.
    """
    seed = task.seeds[0]
    found = {}
    for update, pictures in run.pictures(seed).items():
        weights = {
            name.removeprefix(WEIGHTS): torch.from_numpy(array).float()
            for name, array in pictures.items()
            if name.startswith(WEIGHTS)
        }
        if weights:
            found[update] = task.model(seed, numbered).eval()
            found[update].load_state_dict(weights, strict=False)  # buffers are as they begin
    if not found:
        raise ValueError("the run kept no weights: train it with snapshots=True.")
    return found
