"""What training costs: fit() beside a plain loop, and seeds together beside one by one.

The net of permutation-invariant MNIST with layer norm, on random cases and one thread. Two
contenders take turns, and each round gives one ratio: of all, the median and the range are
shown. A step is all that an update takes, the gathering of its batch included. The clock is
the processor time of this process, so that others on the machine hardly count.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import islice
from json import dumps
from statistics import median
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from lnlab.norms import LayerNorm, Linear
from lnlab.runs import device_name
from lnlab.tasks import PermutationInvariantMNIST as Task
from lnlab.training import Batches, fit, stack

CPU = torch.device("cpu")
SMALL, FULL = (64, 128, 128, 10), (784, 1000, 1000, 10)
SEEDS = tuple(range(5))
ROUNDS = 15
SECONDS = 0.1
"""How long the second contender is timed in one round, about."""
FOREVER = 10**6
"""Epochs: more than anybody waits for."""

Run = Callable[[int], None]
"""Makes so many updates, of each seed that it trains."""


def cases(sizes: tuple[int, ...]) -> Any:
    """A data set of 12,800 random cases."""
    x, y = torch.rand(12_800, sizes[0]), torch.randint(sizes[-1], (12_800,))
    return SimpleNamespace(train=SimpleNamespace(x=x, y=y), classes=sizes[-1])


def taking(steps: Iterator) -> Run:
    def run(count: int) -> None:
        for _ in islice(steps, count):
            pass

    return run


def fitted(task: Task, data: Any) -> Run:
    """fit() on the task's models, its seeds side by side."""
    model = stack([task.model(seed, data) for seed in task.seeds])
    batches = Batches(data.train.x, data.train.y, task.batch_size, task.seeds)
    return taking(fit(model, batches, task.loss, task.optimizer(model.parameters()), FOREVER))


def one_by_one(task: Task, data: Any) -> Run:
    """fit() on the model of one seed after the other."""
    runs = [fitted(replace(task, seeds=(seed,)), data) for seed in task.seeds]

    def run(count: int) -> None:
        for one in runs:
            one(count)

    return run


def plain(task: Task, data: Any) -> Run:
    """The same net made of torch's modules, in the loop that one would write for it."""
    model, x = task.model(task.seeds[0], data), data.train.x
    net = torchs(model)
    torch.testing.assert_close(net(x[:9]), model(x[:9]))
    return taking(loop(net, task, data))


def loop_alone(task: Task, data: Any) -> Run:
    """The task's own net in that loop: what is left is what fit() and stacking cost."""
    return taking(loop(task.model(task.seeds[0], data), task, data))


def loop(net: nn.Module, task: Task, data: Any) -> Iterator[Tensor]:
    x, y, B = data.train.x, data.train.y, task.batch_size
    optimizer = torch.optim.Adam(net.parameters(), lr=task.learning_rate, fused=True)
    for _ in range(FOREVER):
        for chosen in torch.randperm(len(x)).split(B):
            optimizer.zero_grad()
            loss = F.cross_entropy(net(x[chosen]), y[chosen])
            loss.backward()
            optimizer.step()
            yield loss.detach()


@torch.no_grad()
def torchs(model: nn.Module) -> nn.Sequential:
    """nn.Linear, nn.LayerNorm and nn.ReLU in place of a model's layers, with its weights."""
    parts: list[nn.Module] = []
    for layer in (part for part in model.modules() if isinstance(part, Linear)):
        units, inputs = layer.W.shape
        normalized = isinstance(layer.norm, LayerNorm)
        linear = nn.Linear(inputs, units, bias=not normalized)
        linear.weight.copy_(layer.W)
        if linear.bias is not None and layer.b_inside is not None:
            linear.bias.copy_(layer.b_inside)
        parts += [linear, nn.LayerNorm(units), nn.ReLU()] if normalized else [linear]
    return nn.Sequential(*parts)


def seconds(run: Run, count: int) -> float:
    """Processor time of an update."""
    began = time.process_time()
    run(count)
    return (time.process_time() - began) / count


def compare(ours: Run, theirs: Run) -> dict[str, Any]:
    """Milliseconds of an update of each, and the spread of their ratio."""
    warm_up = 3
    ours(warm_up)
    theirs(warm_up)
    count = max(2, round(SECONDS / seconds(theirs, warm_up)))
    rounds = []
    for n in range(ROUNDS):
        times = {run: seconds(run, count) for run in (ours, theirs)[:: (-1) ** n]}
        rounds.append((times[ours], times[theirs]))
    ratios = [a / b for a, b in rounds]
    return {
        "ours_ms": round(1e3 * median(a for a, _ in rounds), 3),
        "theirs_ms": round(1e3 * median(b for _, b in rounds), 3),
        "ratio": {
            "median": round(median(ratios), 3),
            "min": round(min(ratios), 3),
            "max": round(max(ratios), 3),
        },
    }


def measure() -> list[dict[str, Any]]:
    """A row for each comparison, size and batch size; ratios are to the second contender."""
    table = []
    for sizes in (SMALL, FULL):
        data = cases(sizes)
        for name, contenders, seeds, batch_sizes in (
            ("fit / plain loop", (fitted, plain), SEEDS[:1], (128, 4)),
            ("fit / plain loop, same net", (fitted, loop_alone), SEEDS[:1], (128, 4)),
            ("5 seeds together / one by one", (fitted, one_by_one), SEEDS, (4,)),
        ):
            for B in batch_sizes:
                task = Task(batch_size=B, units=sizes[1:-1], seeds=seeds)
                found = compare(*(make(task, data) for make in contenders))
                shape = "-".join(map(str, sizes))
                table.append({"comparison": name, "net": shape, "batch_size": B, **found})
    return table


def main(json: bool = False) -> None:
    """Measure and print; times are of one update, of all seeds that are trained."""
    tell(measure, {"comparison": 31, "net": 20, "batch_size": 7}, json)


def tell(rows: Callable[[], list[dict[str, Any]]], columns: dict[str, int], json: bool) -> None:
    """Measure rows on one thread and print them: columns with their widths, or JSON."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    figures = {"rows": rows(), "threads": 1, "hardware": device_name(CPU)}
    if json:
        print(dumps(figures, indent=2))
        return
    heads = (f"{name.replace('_size', ''):{width}}" for name, width in columns.items())
    print("".join(heads) + f"{'ms':>10}{'ms':>10}  ratio")
    for row in figures["rows"]:
        ratio = "{median:.2f} ({min:.2f}-{max:.2f})".format(**row["ratio"])
        cells = "".join(f"{row[name]!s:{width}}" for name, width in columns.items())
        print(f"{cells}{row['ours_ms']:10.3f}{row['theirs_ms']:10.3f}  {ratio}")
    print(f"1 thread, {figures['hardware']}; median of {ROUNDS} rounds (least-most).")


if __name__ == "__main__":
    main()
