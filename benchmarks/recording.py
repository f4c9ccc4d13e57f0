"""What listening costs: training with a recorder on every layer beside training without one.

The net of notebook 04 with layer norm, on random cases and one thread, listened to at every
tenth step. The two take turns, and each round gives one ratio: the median and the range are
shown. The clock is the processor time of this process, so that others on the machine hardly
count.
"""

from collections.abc import Callable
from contextlib import nullcontext
from itertools import islice
from json import dumps
from typing import Any

import torch

from benchmarks.training import CPU, FOREVER, cases, compare
from lnlab.norms import Linear
from lnlab.probes.training.record import ALSO, WHAT, record
from lnlab.runs.environment import device_name
from lnlab.tasks import PermutationInvariantMNIST as Task
from lnlab.training import Batches, fit, stack

EVERY = 10
LISTENED = {
    "activations": {"what": WHAT[:1]},
    "activations, gradients, parameters": {"what": WHAT},
    "all of it, with drift, rank and cosine": {"what": WHAT, "also": ALSO},
}


def training(task: Task, data: Any, listened: dict[str, Any] | None) -> Callable[[int], None]:
    """Makes so many updates, listened to or not."""
    model = stack([task.model(0, data)])
    batches = Batches(data.train.x, data.train.y, task.batch_size, task.seeds)
    steps = fit(model, batches, task.loss, task.optimizer(model.parameters()), FOREVER)
    layers = [n for n, part in model.named_modules() if isinstance(part, Linear)]
    ear = record(model, layers, every=EVERY, **listened) if listened else None

    def run(count: int) -> None:
        with ear or nullcontext():
            for _ in islice(steps, count):
                pass

    return run


def measure() -> list[dict[str, Any]]:
    """A row for each batch size and for what is listened to; ratios are to no recorder."""
    table = []
    for B in (128, 4):
        task = Task(batch_size=B, units=(128, 128), seeds=(0,))
        data = cases((64, 128, 128, 10))
        for name, listened in LISTENED.items():
            found = compare(training(task, data, listened), training(task, data, None))
            table.append({"listened": name, "batch_size": B, "every": EVERY, **found})
    return table


def main(json: bool = False) -> None:
    """Measure and print; times are of one update."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    figures = {"rows": measure(), "threads": 1, "hardware": device_name(CPU)}
    if json:
        print(dumps(figures, indent=2))
        return
    print(f"{'listened to, every 10 steps':42}{'batch':>6}{'ms':>9}{'ms':>9}  ratio")
    for row in figures["rows"]:
        ratio = "{median:.2f} ({min:.2f}-{max:.2f})".format(**row["ratio"])
        head = f"{row['listened']:42}{row['batch_size']:6}"
        print(f"{head}{row['ours_ms']:9.3f}{row['theirs_ms']:9.3f}  {ratio}")
    print(f"1 thread, {figures['hardware']}; median of the rounds (least-most).")


if __name__ == "__main__":
    main()
