"""A whole run of an experiment: opened, resumed, saved, finished, and found again."""

import time
from collections.abc import Callable, Generator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch
from torch import nn

from lnlab.progress import progress
from lnlab.runs import Run
from lnlab.threads import one_thread
from lnlab.training.course import Course
from lnlab.training.loop import Step
from lnlab.training.machine import available, read_device
from lnlab.training.task import Beside, Described, Experiment

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
