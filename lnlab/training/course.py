"""A whole run of a task: opened, resumed, measured, saved and finished."""

import math
import random
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import ExitStack, nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from lnlab.runs import Run, key
from lnlab.training.batches import Batches
from lnlab.training.loop import Epochs, Step, finite, fit
from lnlab.training.machine import Noise, available, one_thread, seconds_until_idle
from lnlab.training.ranks import Ranks, joined, own, refuse_mixing, world
from lnlab.training.stacked import stack
from lnlab.training.task import Beside, Task

PRECISIONS = {"float32": torch.float32, "float64": torch.float64}

TOGETHER = 16
"""Updates after which ranks ask the first one whether it is time to save."""


def train(
    task: Task,
    *,
    root: Path,
    device: str | torch.device = "cpu",
    precision: str = "float32",
    save_every: float = 30.0,
    beside: Callable[[nn.Module], Beside] | None = None,
) -> Generator[Step, None, None]:
    """Run a task to its end, one :class:`Step` at a time, from where it was left.

    The seeds train side by side, in one thread. At the task's evaluation points the losses
    are looked at and a row for each seed goes to the metrics of the run, with ``update``,
    ``epoch``, ``seconds``, ``cpu_seconds``, ``seed``, ``loss`` (of the last batch) and what
    the task measures. A checkpoint is kept every ``save_every`` seconds, and when the
    iterator is closed. Killed at any moment, the next call goes on to the same bytes, times
    aside. If the run is done there are no steps: read it.

    Started by torchrun (:func:`lnlab.training.launch`), each rank takes its share of every
    batch. Their number is part of the configuration, as it shows in the last bits; the first
    rank writes.

    Args:
        task: what to train.
        root: where runs are kept; the run is ``root/<task>/<key>``.
        device: where to compute; part of the configuration, as results differ in the last
            bits and in their times.
        precision: float32 or float64; part of the configuration.
        save_every: seconds between checkpoints.
        beside: makes, of the stacked models, what goes along with them and is resumed with
            them: ``lambda model: record(model, every=10)`` (:mod:`lnlab.probes.record`).

    Raises:
        Busy: if the run is being written already.
        ValueError: if the device is not there, or the precision is unknown; of several ranks,
            if they cannot share a batch evenly, or if a case's output depends on other cases.
        FloatingPointError: if a loss is not finite at an evaluation point.
    """
    device = own(available(device))
    if beside and world() > 1:
        raise ValueError("beside goes along with one process: a rank sees its share only.")
    if precision not in PRECISIONS:
        raise ValueError(f"precision {precision!r}: choose from {', '.join(PRECISIONS)}.")
    return _train(task, Path(root), device, precision, save_every, beside)


def found(
    task: Task,
    *,
    root: Path,
    device: str | torch.device = "cpu",
    precision: str = "float32",
) -> Run | None:
    """The run that :func:`train` makes of a task, to read; None if it was never begun."""
    config, data = _identity(task, task.dataset(), torch.device(device), precision)
    folder = Path(root) / task.name / key(config, data["checksum"])
    return Run(folder) if (folder / "config.json").is_file() else None


def shareable(task: Task, ranks: int) -> None:
    """Raise unless so many ranks can train the task as one device does.

    Raises:
        ValueError: if the task has batches of its own, if they cannot be shared evenly, or if
            a case's output depends on the other cases of its batch.
    """
    dataset = task.dataset()
    batches(task, dataset, torch.device("cpu"), torch.float32, Ranks(0, ranks))
    refuse_mixing(stack(models(task, dataset)), dataset.train.x[:8], ranks)


def _identity(
    task: Task, dataset: Any, device: torch.device, precision: str
) -> tuple[dict[str, Any], dict[str, Any]]:
    """What tells a run from others: its configuration, and what is known of its data."""
    config = {**task.config(), "device": device.type, "precision": precision}
    if world() > 1:
        config["ranks"] = world()
    about = ("name", "kind", "checksum", "licence")
    return config, {name: getattr(dataset, name) for name in about}


def _train(
    task: Task,
    root: Path,
    device: torch.device,
    precision: str,
    save_every: float,
    beside: Callable[[nn.Module], Beside] | None,
) -> Generator[Step, None, None]:
    dataset = task.dataset()
    config, data = _identity(task, dataset, device, precision)
    if world() > 1:
        shareable(task, world())
    with ExitStack() as closing:
        closing.enter_context(one_thread())
        ranks = closing.enter_context(joined(device))
        run = Run.open(task.name, config, data, root, device) if ranks.first else None
        closing.enter_context(run or nullcontext())
        if ranks.told(run is not None and run.done):
            return
        course = Course(task, dataset, run, device, PRECISIONS[precision], beside, ranks)
        with course.beside or nullcontext():
            yield from _saved(course, save_every)
        if run is not None:
            run.finish(course.result(), course.weights())
        ranks.wait()


def _saved(course: "Course", save_every: float) -> Generator[Step, None, None]:
    """The steps of a course, with checkpoints between them."""
    saved, alone = time.monotonic(), course.ranks.count == 1
    try:
        for step in course:
            due = time.monotonic() - saved >= save_every
            if (alone or step.update % TOGETHER == 0) and course.ranks.told(due):
                course.save()
                saved = time.monotonic()
            yield step
    except GeneratorExit:  # between two updates: nothing is half done
        if alone:
            course.save()
        raise


class Course:
    """A task on its way: model, optimizer, random numbers and clocks, and where they stand.

    Iterating goes on from there to the end, and logs to the run at the evaluation points.
    Of several ranks the first has the run.
    """

    def __init__(
        self,
        task: Task,
        dataset: Any,
        run: Run | None,
        device: torch.device,
        dtype: torch.dtype,
        beside: Callable[[nn.Module], Beside] | None,
        ranks: Ranks,
    ) -> None:
        self.task, self.dataset, self.run, self.device = task, dataset, run, device
        self.ranks = ranks
        self.model = stack(models(task, dataset)).to(device, dtype)
        self.optimizer = task.optimizer(self.model.parameters())
        self.rates = [group["lr"] for group in self.optimizer.param_groups]
        self.batches = batches(task, dataset, device, dtype, ranks)
        self.shared = ranks.share(self.model, device)
        whose = f"noise of seeds {task.seeds}"
        self.noise = Noise(whose if ranks.first else f"{whose}, rank {ranks.rank}", device)
        self.beside = beside(self.model) if beside else None
        self.step = Step(0, 0.0, torch.full((len(task.seeds),), math.nan), 0.0, 0.0)
        state = ranks.spread(run.restore() if run else None)
        if state is not None:
            self.load_state_dict(state)

    def __iter__(self) -> Iterator[Step]:
        task, before = self.task, self.step
        last = task.epochs * len(self.batches)
        points = {*task.evaluation_points(len(self.batches)), last}
        if before.update == 0 and 0 in points:
            self._measure()
        steps = fit(
            self.shared,
            self.batches,
            task.loss,
            self.optimizer,
            task.epochs,
            start=before.update,
        )
        waited = before.seconds
        while True:
            self._set_rates(self.step.update / last)
            with self.noise:
                step = next(steps, None)
            if step is None:
                return
            looked_at = step.update in points
            if looked_at:
                waited += seconds_until_idle(self.device)
            self.step = step._replace(
                loss=self.ranks.mean(step.loss) if looked_at else step.loss,
                seconds=waited + step.seconds,
                cpu_seconds=before.cpu_seconds + step.cpu_seconds,
            )
            if looked_at:
                self._measure()
            yield self.step

    def _set_rates(self, part: float) -> None:
        """Learning rates of the next update, where the task lets them change on the way."""
        schedule = getattr(self.task, "schedule", None)
        if schedule is not None:
            for group, rate in zip(self.optimizer.param_groups, self.rates, strict=True):
                group["lr"] = rate * schedule(part)

    def _measure(self) -> None:
        step = self.step
        if step.update:
            finite(step, self.task.seeds)
        with self.noise:
            measured = self.task.measure(self.model, self.dataset)
        if self.run is None:
            return
        losses = step.loss.tolist()
        for index, seed in enumerate(self.task.seeds):
            row = {
                "update": step.update,
                "epoch": step.epoch,
                "seconds": step.seconds,
                "cpu_seconds": step.cpu_seconds,
                "seed": seed,
                "loss": losses[index] if step.update else None,
            }
            self.run.log(row | {name: values[index] for name, values in measured.items()})

    def save(self) -> None:
        """Keep a checkpoint; all ranks must be here."""
        state = self.state_dict()
        if self.run is not None:
            self.run.checkpoint(state)

    def state_dict(self) -> dict[str, Any]:
        """All that the rest of the course depends on."""
        return {
            "step": tuple(self.step),
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "noise": self.ranks.gathered(self.noise.state),
            "beside": self.beside.state_dict() if self.beside else None,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from where a :meth:`state_dict` was taken."""
        self.step = Step(*state["step"])
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.noise.state = state["noise"][self.ranks.rank]
        if self.beside and state["beside"] is not None:
            self.beside.load_state_dict(state["beside"])

    def weights(self) -> dict[str, Tensor]:
        """Parameters and buffers of every model, by ``<seed>.<name>``."""
        pairs = zip(self.task.seeds, self.model.unstack(), strict=True)
        return {
            f"{seed}.{name}": tensor
            for seed, model in pairs
            for name, tensor in model.state_dict().items()
        }

    def result(self) -> dict[str, Any]:
        """How long it took."""
        return {
            "updates": self.step.update,
            "seconds": self.step.seconds,
            "cpu_seconds": self.step.cpu_seconds,
        }


def batches(
    task: Task, dataset: Any, device: torch.device, dtype: torch.dtype, ranks: Ranks
) -> Epochs:
    """The task's own batches where it has some, else its training cases in random order."""
    own = getattr(task, "batches", None)
    if own is not None:
        if ranks.count > 1:
            raise ValueError(
                f"{task.name} has batches of its own, which ranks cannot share: train it in "
                "one process."
            )
        return own(dataset, device, dtype)
    x, y = dataset.train.x.to(device, dtype), dataset.train.y.to(device)
    return Batches(x, y, task.batch_size, task.seeds, (ranks.rank, ranks.count))


def models(task: Task, dataset: Any) -> list[nn.Module]:
    """The model of each seed of a task as it is before training, drawn in float32."""
    dtype = torch.get_default_dtype()
    try:
        torch.set_default_dtype(torch.float32)
        with Noise("models", torch.device("cpu")):
            return [_drawn(task, seed, dataset) for seed in task.seeds]
    finally:
        torch.set_default_dtype(dtype)


def _drawn(task: Task, seed: int, dataset: Any) -> nn.Module:
    torch.default_generator.manual_seed(seed)
    np.random.seed(seed % 2**32)  # noqa: NPY002
    random.seed(seed)
    return task.model(seed, dataset)
