"""``lnlab train``: one experiment, from where it was left to its end."""

import ast
import dataclasses
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import click


@click.command()
@click.argument("name", metavar="TASK")
@click.option("--budget", default="notebook", show_default=True, help="smoke, notebook, paper.")
@click.option(
    "--set", "settings", multiple=True, metavar="FIELD=VALUE", help="May be repeated."
)
@click.option("--data", help="embedded, NAME or NAME=PATH.")
@click.option("--device", default="cpu", show_default=True, help="cpu, cuda, cuda:1 or mps.")
@click.option("--precision", default="float32", show_default=True, help="float32, float64.")
@click.option(
    "--save-every", default=30.0, show_default=True, help="Seconds; what a kill costs."
)
@click.option("--nproc", type=click.IntRange(1), default=1, help="Ranks that share each batch.")
@click.option("--out", type=click.Path(path_type=Path), help="Where runs are kept [runs].")
def train(
    name: str,
    budget: str,
    settings: tuple[str, ...],
    data: str | None,
    device: str,
    precision: str,
    save_every: float,
    nproc: int,
    out: Path | None,
) -> None:
    """Train one experiment; a run that was stopped goes on, one that is done is shown.

    A wrong task, budget or field lists what there is.
    """
    from lnlab import checkout

    kind = task_named(name)
    task = kind.budget(budget, **changed(kind, settings, data))
    if nproc > 1:
        raise SystemExit(in_ranks(task, nproc))
    finish(task, out or checkout.place("runs"), device, precision, save_every)


def in_ranks(task: Any, nproc: int) -> int:
    """This command over again, in several processes; its exit status."""
    from lnlab import training

    training.shareable(task, nproc)
    told = dict(click.get_current_context().params, nproc=1)
    name, settings = told.pop("name"), told.pop("settings")
    said = {option: value for option, value in told.items() if value is not None}
    options = [f"--{option.replace('_', '-')}={value}" for option, value in said.items()]
    settings = [f"--set={setting}" for setting in settings]
    return training.launch(nproc, ["train", name, *options, *settings])


def finish(
    task: Any, root: Path, device: str, precision: str = "float32", save_every: float = 30.0
) -> None:
    """Train a task to its end, from where it was left, and show its run."""
    from lnlab import training
    from lnlab.cli.results import show_run

    place = {"root": root, "device": device, "precision": precision}
    steps = training.train(task, save_every=save_every, **place)
    if not training.first():
        for _ in steps:
            pass
        return
    for first in steps:
        left = round(first.update / first.epoch) * task.epochs - first.update + 1
        for _ in training.progress(chain([first], steps), left, task.name):
            pass
    run = training.found(task, **place)
    assert run is not None
    show_run(run)


def task_named(name: str) -> Any:
    """The class of tasks that is called so.

    Raises:
        ValueError: None is; the message lists those that are.
    """
    from lnlab.tasks import TASKS

    if name not in TASKS:
        raise ValueError(f"There is no task {name!r}. There are: {', '.join(TASKS)}")
    return TASKS[name]


def changed(task: type, settings: Sequence[str], data: str | None = None) -> dict[str, Any]:
    """The fields that ``FIELD=VALUE`` settings change, each of the type of its default.

    Raises:
        ValueError: There is no such field, a setting has no ``=``, or its value does not fit.
    """
    fields = {field.name: field for field in dataclasses.fields(task)}
    changes: dict[str, Any] = {}
    for setting in [*settings, *([f"data={data}"] if data else [])]:
        name, equals, text = setting.partition("=")
        if not equals or name not in fields:
            raise ValueError(f"{setting!r}: write FIELD=VALUE, with a field of {[*fields]}")
        changes[name] = like(fields[name].default, name, text)
    return changes


def like(default: Any, name: str, text: str) -> Any:
    """The value that a text stands for, of the type of ``default``; a tuple is ``0,1,2``."""
    if isinstance(default, str):
        return text
    kind = type(default)
    try:
        value = ast.literal_eval(text)
        if kind is float and type(value) is int:
            value = float(value)
        if kind is tuple and type(value) is int:
            value = (value,)
    except (ValueError, SyntaxError):
        value = None
    if type(value) is not kind:
        raise ValueError(f"{name}={text}: write it like its default, {default!r}")
    return value
