"""A whole run of an experiment: opened, resumed, saved, finished, and found again."""

import time
from collections.abc import Callable, Generator
from contextlib import ExitStack, nullcontext
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.utils._pytree import tree_map

from lnlab.progress import progress
from lnlab.runs import Run
from lnlab.threads import one_thread
from lnlab.training.course import TOGETHER, Course, models
from lnlab.training.loop import Step
from lnlab.training.machine import available, read_device
from lnlab.training.ranks import first, joined, own, refuse_mixing, world
from lnlab.training.stacked import stack
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
) -> Generator[Step, None, Run | None]:
    """Run a task to its end, one :class:`Step` at a time, from where it was left.

    What the generator returns is the run, on the first rank.

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

    Started by torchrun (:func:`lnlab.training.launch`), each rank takes its share of every
    batch. Their number is part of the configuration, as it shows in the last bits; the first
    rank writes.

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
            (:mod:`lnlab.probes.training.record`).

    Raises:
        Busy: if the run is being written already.
        ValueError: if the device is not there, or the precision is unknown; of several ranks,
            if they cannot share a batch evenly, or if a case's output depends on other cases.
        ValueError: if the run is done, and was so before the task promised what it measures.
    """
    device = own(available(device))
    if beside and world() > 1:
        raise ValueError("beside goes along with one process: a rank sees its share only.")
    _known(precision)
    return _train(task, Path(root), device, precision, save_every, beside)


def finish(task: Experiment, text: str = "", **how: Any) -> Run | None:
    """The run of a task, trained in view to its end; None on ranks but the first.

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
        if ended.value is not None:
            when = f", trained {ended.value.finished} UTC" if ended.value.finished else ""
            print(f"{text}: read back from run {ended.value.key}{when}", flush=True)
        return ended.value
    run = None

    def left() -> Generator[Step, None, None]:
        nonlocal run
        yield step
        run = yield from steps

    last = task.length(round(step.update / step.epoch))
    for _ in progress(left(), last - step.update + 1, text) if first() else left():
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


def shareable(task: Experiment, ranks: int) -> None:
    """Raise unless so many ranks can train the task as one device does.

    Raises:
        ValueError: if the task has batches of its own, if they cannot be shared evenly, or if
            a case's output depends on the other cases of its batch.
    """
    if not task.shares:
        raise ValueError(
            f"{task.name} has batches of its own, which ranks cannot share: train it in one "
            "process."
        )
    dataset = task.dataset()
    batches = task.batches(dataset, share=(0, ranks))
    x, _ = next(batches.epoch(0))
    some = tree_map(lambda cases: cases[0, :8], x)
    refuse_mixing(stack(models(task, dataset)), some, ranks)


def _identity(
    task: Experiment, dataset: Described, device: torch.device, precision: str
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The configuration of a run and what is known of its data: they tell it from others."""
    config = {**task.config(), "device": device.type, "precision": precision}
    if world() > 1:
        config["ranks"] = world()
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
) -> Generator[Step, None, Run | None]:
    dataset = task.dataset()
    config, data = _identity(task, dataset, device, precision)
    if world() > 1:
        shareable(task, world())
    with ExitStack() as closing:
        # of any size: how sums are cut among threads shows in their last bits
        closing.enter_context(one_thread())
        ranks = closing.enter_context(joined(device))
        run = Run.open(task.name, config, data, root, device) if ranks.first else None
        closing.enter_context(run or nullcontext())
        if ranks.told(run is not None and run.done):
            _refuse_lacking(task, run)
            return run
        mixed = precision == "mixed"
        course = Course(task, dataset, run, device, PRECISIONS[precision], beside, ranks, mixed)
        with course.beside or nullcontext():
            yield from _saved(course, save_every)
        if run is not None:
            run.finish(course.result(), course.weights())
        ranks.wait()
    return run


def _refuse_lacking(task: Experiment, run: Run | None) -> None:
    absent = lacking(task, run) if run is not None else []
    if run is not None and absent:
        raise ValueError(
            f"{run.folder} is done and has no {', '.join(absent)}: delete it to train it "
            "again, with what is measured now."
        )


def _saved(course: Course, save_every: float) -> Generator[Step, None, None]:
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
