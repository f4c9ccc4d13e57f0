"""A grid of losses beside the plain loop, and what a product with the Hessian costs.

The net is 784-256-256-10 with layer norm, the grid 25 x 25 points on 1,000 random cases, two
threads. The plain loop is the one that everybody writes: at each point the weights are added
up, loaded by ``load_state_dict``, and the net is called. Contenders take turns; ratios are
ours / theirs in one round, of which the median and the range are shown. The losses of both are
compared before anything is timed.
"""

import time
from collections.abc import Callable
from json import dumps
from statistics import median
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from lnlab.kernels import fuse
from lnlab.norms import Identity, LayerNorm
from lnlab.norms.invariances import Statistics
from lnlab.probes.loss.directions import random_directions
from lnlab.probes.loss.landscape import surface
from lnlab.probes.loss.objective import Objective
from lnlab.runs import device_name
from lnlab.tasks.mnist import MLP

SIZES, CASES, POINTS, THREADS = (784, 256, 256, 10), 1_000, 25, 2
ROUNDS = 9


def main(json: bool = False) -> None:
    """Print a table, or one JSON object whose ``ratio`` is the grid's median."""
    torch.manual_seed(0)
    threads = torch.get_num_threads()
    torch.set_num_threads(THREADS)
    net = fuse(MLP(SIZES, LayerNorm, Identity))
    x, y = torch.randn(CASES, SIZES[0]), torch.randint(SIZES[-1], (CASES,))
    objective = Objective(net, x, y, F.cross_entropy, statistics=Statistics.FROZEN)
    grid, product = of_grid(objective, net), of_hessian(objective)
    torch.set_num_threads(threads)
    result = {
        "net": "-".join(map(str, SIZES)),
        "points": POINTS**2,
        "cases": CASES,
        "threads": THREADS,
        "hardware": device_name(torch.device("cpu")),
        "torch": torch.__version__,
        "ratio": grid["ratio"],
        "grid": grid,
        "hessian_product_in_gradients": product,
    }
    print(dumps(result, indent=1) if json else table(result))


def of_grid(objective: Objective, net: nn.Module) -> dict[str, Any]:
    """The grid of :func:`lnlab.probes.loss.landscape.surface` against the plain loop."""
    directions = random_directions(objective, 2)
    ours = surface(objective, directions, points=POINTS).losses
    theirs = plain(objective, net, directions)
    apart = float(((ours - theirs) / theirs).abs().max())
    if apart > 1e-6:
        raise RuntimeError(f"the losses differ by {apart:.1e}, relatively: nothing to time.")
    rounds = turns(
        lambda: surface(objective, directions, points=POINTS),
        lambda: plain(objective, net, directions),
    )
    return {"greatest_relative_difference": apart, **rounds}


@torch.no_grad()
def plain(objective: Objective, net: nn.Module, directions: Tensor) -> Tensor:
    """The same losses by the loop over ``load_state_dict``."""
    start = {name: tensor.clone() for name, tensor in net.state_dict().items()}
    along = [objective.split(direction) for direction in directions]
    at = torch.linspace(-1, 1, POINTS, dtype=torch.float64).tolist()
    losses = torch.empty(POINTS, POINTS, dtype=torch.float64)
    net.eval()
    for i, a in enumerate(at):
        for j, b in enumerate(at):
            net.load_state_dict(
                {n: w + a * along[0][n] + b * along[1][n] for n, w in start.items()}
            )
            losses[i, j] = F.cross_entropy(net(objective.x), objective.y)
    net.load_state_dict(start)
    return losses


def of_hessian(objective: Objective) -> dict[str, Any]:
    """A product with the Hessian against a gradient."""
    product, v = objective.hessian_product(), torch.randn_like(objective.start)
    return turns(lambda: product(v), objective.gradient)


def turns(ours: Callable[[], object], theirs: Callable[[], object]) -> dict[str, Any]:
    """Milliseconds of each, and their ratio in each round."""
    ours()
    theirs()
    rounds = []
    for n in range(ROUNDS):
        times = {}
        for run in (ours, theirs)[:: (-1) ** n]:
            began = time.perf_counter()
            run()
            times[run] = time.perf_counter() - began
        rounds.append((times[ours], times[theirs]))
    ratios = sorted(a / b for a, b in rounds)
    return {
        "ratio": round(median(ratios), 3),
        "range": [round(ratios[0], 3), round(ratios[-1], 3)],
        "ours_ms": round(1e3 * median(a for a, _ in rounds), 2),
        "theirs_ms": round(1e3 * median(b for _, b in rounds), 2),
    }


def table(result: dict[str, Any]) -> str:
    """The figures, a line each."""
    lines = []
    for name, row in (
        (f"grid of {result['points']} points / plain loop", result["grid"]),
        ("product with the Hessian / gradient", result["hessian_product_in_gradients"]),
    ):
        low, high = row["range"]
        lines.append(
            f"{name:40} {row['ratio']:.2f} ({low:.2f}-{high:.2f})"
            f"{row['ours_ms']:10.1f} ms{row['theirs_ms']:10.1f} ms"
        )
    lines.append(
        f"{result['net']}, {result['cases']} cases, {result['threads']} threads, "
        f"{result['hardware']}; median of {ROUNDS} rounds (least-most)."
    )
    return "\n".join(lines)


if __name__ == "__main__":
    main()
