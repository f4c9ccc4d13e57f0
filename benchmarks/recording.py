"""What listening costs: training with a recorder on every layer beside training without one.

The net of notebook 04 with layer norm, on random cases and one thread, listened to at every
tenth step. The two take turns, and each round gives one ratio: the median and the range are
shown. The clock is the processor time of this process, so that others on the machine hardly
count.
"""

from collections.abc import Callable
from contextlib import nullcontext
from itertools import islice
from typing import Any

from benchmarks.training import FOREVER, cases, compare, tell
from lnlab.norms import Linear
from lnlab.probes.training.record import ALSO, WHAT, record
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
    """Measure and print; times are of one update, listened to at every tenth."""
    tell(measure, {"listened": 42, "batch_size": 7}, json)


if __name__ == "__main__":
    main()
