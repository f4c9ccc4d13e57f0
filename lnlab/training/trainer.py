"""A whole run of an experiment: opened, resumed, saved, finished, and found again."""

import math
import random
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils._pytree import tree_map

from lnlab.progress import progress
from lnlab.threads import in_one_thread, one_thread
from lnlab.training.experiment import Beside, Described, Experiment, Moment, measured_after
from lnlab.training.random_state import (
    Noise,
    available,
    default_dtype,
    placed,
    read_device,
    seconds_until_idle,
)
from lnlab.training.runs import Run
from lnlab.training.stacking import Stacked, stack

if TYPE_CHECKING:
    from lnlab.training.experiment import Epochs


# The weights that count: of each model those at its best value of a metric.


class Best:
    """The weights of stacked models at the best value of a metric, each model's own.

    Args:
        metric: its name among what is measured.
        rises: whether it is better when larger.
        model: whose weights are kept; those that it has now until there is a value.
    """

    def __init__(self, metric: str, rises: bool, model: Stacked) -> None:
        self.metric, self.rises, self.model = metric, rises, model
        self.values: list[float | None] = [None] * model.count
        self.updates = [0] * model.count
        self.weights = {name: value.clone() for name, value in model.state_dict().items()}

    def look(self, update: int, measured: Mapping[str, Sequence[Any]]) -> None:
        """Keep the weights of the models whose metric is better than ever; NaN never is.

        Raises:
            ValueError: if the metric was not measured.
        """
        if self.metric not in measured:
            raise ValueError(
                f"best_metric is {self.metric!r}, and only {', '.join(measured)} were measured "
                f"after update {update}: name one of them, or let measure() give it there."
            )
        for index, value in enumerate(map(float, measured[self.metric])):
            if math.isnan(value) or not self._better(value, self.values[index]):
                continue
            self.values[index], self.updates[index] = value, update
            for name, now in self.model.state_dict().items():
                self._slice(self.weights[name], index).copy_(self._slice(now, index))

    def put(self) -> None:
        """Give the model the weights that count; one that never had a value keeps its own."""
        now = self.model.state_dict()
        for index, value in enumerate(self.values):
            if value is None:
                for name, kept in self.weights.items():
                    self._slice(kept, index).copy_(self._slice(now[name], index))
        self.model.load_state_dict(self.weights)

    def _better(self, value: float, before: float | None) -> bool:
        return before is None or (value > before if self.rises else value < before)

    def _slice(self, tensor: Tensor, index: int) -> Tensor:
        return tensor[index] if self.model.count > 1 else tensor

    def report(self, index: int) -> dict[str, Any]:
        """The entry in a result: metric, value, and the update after which it was measured."""
        return {
            "metric": self.metric,
            "value": self.values[index],
            "update": self.updates[index],
        }

    def state_dict(self) -> dict[str, Any]:
        """All that is needed to go on."""
        return {"values": self.values, "updates": self.updates, "weights": self.weights}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from where a :meth:`state_dict` was taken."""
        self.values, self.updates = list(state["values"]), list(state["updates"])
        for name, kept in self.weights.items():
            kept.copy_(state["weights"][name])


# The loop over updates, and measurements that leave no trace in the model.


Loss = Callable[[Any, Any], Tensor]
"""A loss: from outputs and targets of S models to their losses (S,), means over the cases."""


class Step(NamedTuple):
    """One update.

    Attributes:
        update: how many there were, this one included.
        epoch: how many passes over the data they make; whole at the end of one.
        loss: the loss of each model (S,) on the batch, before the update; on the device.
        seconds: how long training took so far; what is done between two steps is not counted.
        cpu_seconds: the processor time of the same.
    """

    update: int
    epoch: float
    loss: Tensor
    seconds: float
    cpu_seconds: float


def fit(
    model: nn.Module,
    batches: "Epochs",
    loss: Loss,
    optimizer: torch.optim.Optimizer,
    epochs: int,
    *,
    start: int = 0,
    mixed: bool = False,
) -> Generator[Step, None, None]:
    """Train, one update each time that the next :class:`Step` is asked for.

    Between two steps the model is at rest: it may be measured, saved, or left where it is.
    The losses of the models are added, so each has the gradient that it would have alone.
    They are not read here, which on an accelerator would mean to wait for them: whoever
    reads them sees whether they are finite.

    Args:
        model: from x to outputs; put in training mode at the start.
        batches: the data.
        loss: from outputs and targets to the loss of each model.
        optimizer: what moves the parameters of the model.
        epochs: how many in all, those before ``start`` included.
        start: how many updates there were already.
        mixed: whether the model's products of matrices are made in bfloat16 (autocast);
            statistics, the loss and the weights stay in float32.
    """
    model.train()
    seconds = cpu_seconds = 0.0
    update = start
    for epoch in range(start // len(batches), epochs):
        cases = batches.epoch(epoch, update - epoch * len(batches))
        while True:
            began, cpu_began = time.perf_counter(), time.process_time()
            batch = next(cases, None)
            if batch is None:
                break
            x, y = batch
            with one_thread(model):
                optimizer.zero_grad()
                losses = loss(_mixed(model, x) if mixed else model(x), y)
                # the sum, as for a gradient given torch would import a second of sympy
                losses.sum().backward()
                optimizer.step()
            update += 1
            seconds += time.perf_counter() - began
            cpu_seconds += time.process_time() - cpu_began
            yield Step(update, update / len(batches), losses.detach(), seconds, cpu_seconds)


def _mixed(model: nn.Module, x: Any) -> Any:
    """The outputs of a model whose products are made in bfloat16, in the weights' precision."""
    weight = next(model.parameters())
    with torch.autocast(weight.device.type, torch.bfloat16):
        output = model(x)

    def whole(leaf: Any) -> Any:
        low = isinstance(leaf, Tensor) and leaf.dtype is torch.bfloat16
        return leaf.to(weight.dtype) if low else leaf

    return tree_map(whole, output)


def cross_entropy(output: Tensor, y: Tensor) -> Tensor:
    """Negative log likelihood in nats: scores (S, B, classes) and classes (S, B) to (S,)."""
    if len(output) == 1:  # less to do for the gradient, least of all in a view
        return F.cross_entropy(output.squeeze(0), y.squeeze(0)).unsqueeze(0)
    losses = F.cross_entropy(output.flatten(0, 1), y.flatten(), reduction="none")
    return losses.view(y.shape).mean(1)


@contextmanager
def evaluating(model: nn.Module) -> Iterator[nn.Module]:
    """The model in evaluation mode, without gradients; afterwards each part as it was."""
    modes = [(part, part.training) for part in model.modules()]
    model.eval()
    try:
        with torch.no_grad():
            yield model
    finally:
        for part, mode in modes:
            part.training = mode


@in_one_thread
def evaluate(
    model: nn.Module, x: Tensor, y: Tensor, loss: Loss, *, size: int = 1000
) -> dict[str, list[float]]:
    """``nll`` and ``error`` of each model: mean loss, and the fraction of wrong classes.

    Args:
        model: from x to a score for each class; a :class:`Stacked` one shows all of its
            models the same cases.
        x: cases (N, ...).
        y: their classes (N,), or several of each case (N, T).
        loss: as in :func:`fit`.
        size: how many cases are in memory at a time.

    Raises:
        ValueError: if there are no cases.
    """
    if len(x) == 0:
        raise ValueError("there are no cases to evaluate on.")
    weight = next(model.parameters())
    nll = wrong = torch.zeros((), dtype=torch.float64)
    with evaluating(model):
        for some_x, some_y in zip(x.split(size), y.split(size), strict=True):
            cases = len(some_x)
            some_x, some_y = placed((some_x, some_y), weight.device, weight.dtype)
            if isinstance(model, Stacked):
                some_x = some_x.expand(model.count, *some_x.shape)
                some_y = some_y.expand(model.count, *some_y.shape)
            output = model(some_x)
            nll = nll + loss(output, some_y).double().cpu() * cases
            missed = output.argmax(-1) != some_y
            wrong = wrong + missed.reshape(*nll.shape, -1).sum(-1).cpu()
    return {
        "nll": (nll / len(x)).reshape(-1).tolist(),
        "error": (wrong.double() / y.numel()).reshape(-1).tolist(),
    }


# An experiment on its way: trained, measured, and saved so that it can be gone on with.


class Course:
    """An experiment on its way: model, optimizer, random numbers, clocks, and where they stand.

    Iterating goes on from there to the end, and logs to the run at the evaluation points.

    Attributes:
        diverged: the update after which a seed's loss or weights were seen not to be finite, by
            seed.
        best: the weights that count so far, where these are not the last.
    """

    def __init__(
        self,
        task: Experiment,
        dataset: Any,
        run: Run,
        device: torch.device,
        dtype: torch.dtype,
        beside: Callable[[nn.Module], Beside] | None,
        mixed: bool = False,
    ) -> None:
        self.task, self.dataset, self.run, self.device = task, dataset, run, device
        self.mixed = mixed
        self.model = stack(models(task, dataset)).to(device, dtype)
        self.optimizer = task.optimizer(self.model.parameters())
        self.rates = [group["lr"] for group in self.optimizer.param_groups]
        self.batches = task.batches(dataset, device=device, dtype=dtype)
        self.noise = Noise(f"noise of seeds {task.seeds}", device)
        self.beside = beside(self.model) if beside else None
        metric = task.best_metric
        self.best = Best(metric, metric in task.rises, self.model) if metric else None
        self.diverged: dict[int, int] = {}
        self.step = Step(0, 0.0, torch.full((len(task.seeds),), math.nan), 0.0, 0.0)
        state = run.restore()
        if state is not None:
            self.load_state_dict(state)

    def __iter__(self) -> Iterator[Step]:
        task, before, each = self.task, self.step, len(self.batches)
        last = task.length(each)
        points = measured_after(task, each)
        if before.update == 0 and 0 in points:
            self._measure(points[0])
        steps = fit(
            self.model,
            self.batches,
            task.loss,
            self.optimizer,
            math.ceil(last / each),
            start=before.update,
            mixed=self.mixed,
        )
        waited = before.seconds
        while self.step.update < last and not all(self.lost):
            self._set_rates(self.step.update / last)
            with self.noise:
                step = next(steps)
            # elsewhere than at these points an accelerator would have to be waited for
            if step.update in points or self.device.type == "cpu":
                self._see(step.update, torch.isfinite(step.loss))
            if step.update in points:  # the loss is of before the update, which may be the last
                self._see(step.update, self.model.finite())
            moment = Moment.END if all(self.lost) else points.get(step.update)
            if moment:
                waited += seconds_until_idle(self.device)
            self.step = step._replace(
                seconds=waited + step.seconds,
                cpu_seconds=before.cpu_seconds + step.cpu_seconds,
            )
            if moment:
                self._measure(moment)
            yield self.step

    def _see(self, update: int, finite: Tensor) -> None:
        """Remember which seeds have diverged by now, and when that was seen."""
        if not bool(finite.all()):
            for seed, fine in zip(self.task.seeds, finite.tolist(), strict=True):
                if not fine:
                    self.diverged.setdefault(seed, update)

    @property
    def lost(self) -> list[bool]:
        """True for each seed that has diverged (S,)."""
        return [seed in self.diverged for seed in self.task.seeds]

    def _set_rates(self, part: float) -> None:
        """The learning rates of the next update."""
        for group, rate in zip(self.optimizer.param_groups, self.rates, strict=True):
            group["lr"] = rate * self.task.schedule(part)

    def _measure(self, moment: Moment) -> None:
        """Measure and log; at the end of the weights that count, which the model then has."""
        lost = self.lost
        if self.best and moment is Moment.END:
            self._log(*self._measured(Moment.DEAR, lost))  # the last may be the best
            self.best.put()
            lost = [
                gone and best is None for gone, best in zip(lost, self.best.values, strict=True)
            ]
        self._log(*self._measured(moment, lost))

    def _measured(
        self, moment: Moment, lost: list[bool]
    ) -> tuple[Mapping[str, Sequence[Any]], list[bool]]:
        """The task's measurements, NaN for seeds that are lost, and which are lost."""
        if all(lost):
            return {}, lost
        model = self.model if not any(lost) else self.model.without(lost)
        with self.noise:
            measured = self.task.measure(model, self.dataset, moment)
        found = {
            name: [
                math.nan if gone else value for gone, value in zip(lost, values, strict=True)
            ]
            for name, values in measured.items()
        }
        if self.best and moment in (Moment.START, Moment.DEAR):
            self.best.look(self.step.update, found)
        return found, lost

    def _log(self, measured: Mapping[str, Sequence[Any]], lost: list[bool]) -> None:
        """A row for each seed; of one that is lost, with nothing of it."""
        step, losses = self.step, self.step.loss.tolist()
        for index, seed in enumerate(self.task.seeds):
            row: dict[str, Any] = {
                "update": step.update,
                "epoch": step.epoch,
                "seconds": step.seconds,
                "cpu_seconds": step.cpu_seconds,
                "seed": seed,
                "loss": losses[index] if step.update else None,
            }
            if seed in self.diverged:
                row |= {"loss": None, "diverged": self.diverged[seed]}
            if lost[index]:
                self.run.log(row | dict.fromkeys((*self.task.falls, *self.task.rises)))
                continue
            found = {name: values[index] for name, values in measured.items()}
            pictures = {name: value for name, value in found.items() if is_picture(value)}
            numbers = {name: value for name, value in found.items() if name not in pictures}
            self.run.log(row | numbers, **({"pictures": pictures} if pictures else {}))

    def save(self) -> None:
        """Keep a checkpoint."""
        self.run.checkpoint(self.state_dict())

    def state_dict(self) -> dict[str, Any]:
        """All that the rest of the course depends on."""
        return {
            "step": tuple(self.step),
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "noise": self.noise.state,
            "diverged": self.diverged,
            "best": self.best.state_dict() if self.best else None,
            "beside": self.beside.state_dict() if self.beside else None,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from where a :meth:`state_dict` was taken."""
        self.step = Step(*state["step"])
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.noise.state = state["noise"]
        self.diverged = dict(state["diverged"])
        if self.best:
            self.best.load_state_dict(state["best"])
        if self.beside and state["beside"] is not None:
            self.beside.load_state_dict(state["beside"])

    def weights(self) -> dict[str, Tensor]:
        """Parameters and buffers (as each model has them), by ``<seed>.<name>``."""
        pairs = zip(self.task.seeds, self.model.unstack(), strict=True)
        return {
            f"{seed}.{name}": tensor
            for seed, model in pairs
            for name, tensor in model.state_dict().items()
        }

    def result(self) -> dict[str, Any]:
        """The time that the run took, the ending of each seed, and the metrics that judge."""
        return {
            "updates": self.step.update,
            "seconds": self.step.seconds,
            "cpu_seconds": self.step.cpu_seconds,
            "main_metrics": [*self.task.falls, *self.task.rises],
            "outcomes": {str(s): self._outcome(i) for i, s in enumerate(self.task.seeds)},
        }

    def _outcome(self, index: int) -> dict[str, Any]:
        diverged = self.diverged.get(self.task.seeds[index])
        outcome = {
            "outcome": "finished" if diverged is None else "diverged",
            "update": self.step.update if diverged is None else diverged,
        }
        return outcome | ({"best": self.best.report(index)} if self.best else {})


def is_picture(value: Any) -> bool:
    """True if a measurement has axes: attention, a canvas, a stroke."""
    return isinstance(value, Tensor | np.ndarray) and value.ndim > 0


def models(task: Experiment, dataset: Any) -> list[nn.Module]:
    """The model of each seed of a task as it is before training, drawn in float32."""
    with default_dtype(torch.float32), Noise("models", torch.device("cpu")):
        return [_drawn(task, seed, dataset) for seed in task.seeds]


def _drawn(task: Experiment, seed: int, dataset: Any) -> nn.Module:
    torch.default_generator.manual_seed(seed)
    np.random.seed(seed % 2**32)  # noqa: NPY002
    random.seed(seed)
    return task.model(seed, dataset)


PRECISIONS = {"float32": torch.float32, "float64": torch.float64, "mixed": torch.float32}
"""The dtype of weights and data; "mixed" makes products of matrices in bfloat16 in training."""


def train(
    task: Experiment,
    *,
    root: Path,
    device: str | torch.device = "auto",
    precision: str = "float32",
    save_every: float = 30.0,
    beside: Callable[[nn.Module], Beside] | None = None,
) -> Generator[Step, None, Run]:
    """Run a task to its end, one :class:`Step` at a time, from where it was left.

    What the generator returns is the run.

    The seeds train side by side, in one thread. At the task's evaluation points a row for
    each seed goes to the metrics of the run, with ``update``, ``epoch``, ``seconds``,
    ``cpu_seconds``, ``seed``, ``loss`` (of the last batch) and what the task measures. A
    checkpoint is kept every ``save_every`` seconds, and when the iterator is closed. Killed
    at any moment, the next call goes on to the same bytes, times aside. If the run is done
    there are no steps: read it.

    A seed whose loss is no longer finite has diverged, which is an ending like another: the
    rows say ``diverged``, its update, and have nothing else of it; the other seeds are
    trained on, to the very same weights. The result has ``outcomes``, by seed: "finished" or
    "diverged", and after which update.

    Args:
        task: what to train.
        root: where runs are kept; the run is ``root/<task>/<key>``.
        device: where to compute; "auto" is CUDA where there is one, else the CPU. The one that
            it is becomes part of the configuration, as results differ in the last bits and in
            their times.
        precision: float32, float64, or mixed: float32, but for the products of matrices of a
            training step, which are made in bfloat16; part of the configuration.
        save_every: seconds between checkpoints.
        beside: makes, of the stacked models, what goes along with them and is resumed with
            them: ``lambda model: record(model, every=10)``
            (:mod:`lnlab.analysis.recorder`).

    Raises:
        Busy: if the run is being written already.
        ValueError: if the device is not there, or the precision is unknown.
        ValueError: if the run is done, and was so before the task promised what it measures.
    """
    device = available(device)
    _known(precision)
    return _train(task, Path(root), device, precision, save_every, beside)


def finish(task: Experiment, text: str = "", **how: Any) -> Run:
    """The run of a task, trained in view to its end.

    Shown is how many of the updates that were left have come (:func:`progress`). A run that was
    done before is read back, and that is said, with its key and when it was done.

    Args:
        task: what to train.
        text: what it is called meanwhile; by default as the task is.
        how: arguments of :func:`train`.
    """
    steps, text = train(task, **how), text or task.name
    try:
        step = next(steps)
    except StopIteration as ended:
        when = f", trained {ended.value.finished} UTC" if ended.value.finished else ""
        print(f"{text}: read back from run {ended.value.key}{when}", flush=True)
        return ended.value
    run: Any = None

    def left() -> Generator[Step, None, None]:
        nonlocal run
        yield step
        run = yield from steps

    last = task.length(round(step.update / step.epoch))
    for _ in progress(left(), last - step.update + 1, text):
        pass
    return run


def found(
    task: Experiment,
    *,
    root: Path,
    device: str | torch.device = "auto",
    precision: str = "float32",
) -> Run | None:
    """The run that :func:`train` makes of a task, to read.

    None if it was never begun, and if it is done without what the task promises to measure.

    Raises:
        ValueError: if the precision is unknown.
    """
    _known(precision)
    config, data = _identity(task, task.dataset(), read_device(device), precision)
    run = Run.find(task.name, config, data, root)
    return run if run is not None and not lacking(task, run) else None


def _known(precision: str) -> None:
    if precision not in PRECISIONS:
        raise ValueError(f"precision {precision!r}: choose from {', '.join(PRECISIONS)}.")


def lacking(task: Experiment, run: Run) -> list[str]:
    """The metrics that a task promises and that its run, if it is done, does not have."""
    promised = (*task.falls, *task.rises)
    if not promised or not run.done:
        return []
    there = run.metrics().columns
    return [name for name in promised if name not in there]


def _identity(
    task: Experiment, dataset: Described, device: torch.device, precision: str
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The configuration of a run and what is known of its data: they tell it from others."""
    config = {**task.config(), "device": device.type, "precision": precision}
    about = ["name", "kind", "checksum", "licence"]
    if hasattr(dataset, "checksum_of"):  # data of the user's own may not say
        about.append("checksum_of")
    return config, {name: getattr(dataset, name) for name in about}


def _train(
    task: Experiment,
    root: Path,
    device: torch.device,
    precision: str,
    save_every: float,
    beside: Callable[[nn.Module], Beside] | None,
) -> Generator[Step, None, Run]:
    dataset = task.dataset()
    config, data = _identity(task, dataset, device, precision)
    # of any size: how sums are cut among threads shows in their last bits
    with one_thread(), Run.open(task.name, config, data, root, device) as run:
        if run.done:
            _refuse_lacking(task, run)
            return run
        mixed = precision == "mixed"
        course = Course(task, dataset, run, device, PRECISIONS[precision], beside, mixed)
        with course.beside or nullcontext():
            yield from _saved(course, save_every)
        run.finish(course.result(), course.weights())
    return run


def _refuse_lacking(task: Experiment, run: Run) -> None:
    absent = lacking(task, run)
    if absent:
        raise ValueError(
            f"{run.folder} is done and has no {', '.join(absent)}: delete it to train it "
            "again, with what is measured now."
        )


def _saved(course: Course, save_every: float) -> Generator[Step, None, None]:
    """The steps of a course, with checkpoints between them."""
    saved = time.monotonic()
    try:
        for step in course:
            if time.monotonic() - saved >= save_every:
                course.save()
                saved = time.monotonic()
            yield step
    except GeneratorExit:  # between two updates: nothing is half done
        course.save()
        raise
