"""``lnlab sweep``: a grid of runs, each to its end."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from lnlab.cli.settings import Fields, changed, task_named
from lnlab.cli.sources import defaults


@click.command(cls=Fields)
@click.argument("name", metavar="TASK")
@click.option("--budget", default="notebook", show_default=True, help="smoke, notebook, paper.")
@click.option(
    "--arm",
    "arms",
    multiple=True,
    metavar="FIELD[=A,B,...]",
    help="What is compared: these values of a field, or all that it can be chosen from.",
)
@click.option("--norm", metavar="A,B,...", help="The same as --arm norm=A,B,...")
@click.option("--seeds", metavar="SEEDS", help="How many (5), or which (0,4 or 3-5).")
@click.option("--apart", is_flag=True, help="A run for each seed, not one for all of them.")
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="FIELD=A,B,...",
    help="Values to combine with all others. A value of several numbers: units=8,8;32,32.",
)
@click.option("--data", help="embedded, NAME or NAME=PATH.")
@click.option("--device", default="auto", show_default=True, help="cpu, cuda, cuda:1, mps.")
@click.option("--jobs", type=click.IntRange(1), help="Runs at a time [one on each core].")
@click.option("--out", type=click.Path(path_type=Path), help="Where runs are kept [runs].")
def sweep(
    name: str,
    budget: str,
    arms: tuple[str, ...],
    norm: str | None,
    seeds: str | None,
    apart: bool,
    settings: tuple[str, ...],
    data: str | None,
    device: str,
    jobs: int | None,
    out: Path | None,
) -> None:
    """Train every combination of settings; what is done stays, what was begun goes on.

    DASK_SCHEDULER_ADDRESS in the environment sends the runs to a Dask cluster.
    """
    compared = [*arms, *([f"norm={norm}"] if norm else [])]
    told = [arm for arm in compared if "=" in arm]
    fields = defaults(name)
    axes = values(fields, [*told, *settings]) | changed_once(fields, seeds, data)
    kind = task_named(name)  # what was asked fits: now what takes seconds to import
    from lnlab import checkout
    from lnlab.training.sweep import apart as one_for_each_seed
    from lnlab.training.sweep import grid

    for arm in compared:
        axes = axes if arm in told else choices(kind, budget, arm) | axes
    tasks = grid(kind, budget, axes)
    tasks = one_for_each_seed(tasks) if apart else tasks
    work_off(tasks, root=out or checkout.place("runs"), jobs=jobs, device=device)


def work_off(tasks: list[Any], **where: Any) -> None:
    """Sweep with a bar, report what failed, and show the table of what is there."""
    from lnlab import training
    from lnlab.cli.shown import overview
    from lnlab.progress import progress
    from lnlab.training.sweep import sweep

    outcomes = list(progress(sweep(tasks, **where), len(tasks), "sweep"))
    if back := sum(outcome.read_back for outcome in outcomes):
        click.echo(f"{back} of {len(tasks)} read back: they were done before")
    place = {"root": where["root"], "device": where["device"]}
    there = [run for task in tasks if (run := training.found(task, **place))]
    if there:
        click.echo(overview(there))
    failed = [outcome for outcome in outcomes if outcome.error]
    for outcome in failed:
        click.echo(f"FAILED  {outcome.task}: {outcome.error}", err=True)
    if failed:
        raise SystemExit(1)


def values(fields: Mapping[str, Any], settings: list[str]) -> dict[str, list[Any]]:
    """The values of each field that ``FIELD=A,B,...`` settings name.

    Raises:
        ValueError: There is no such field, or a value does not fit.
    """
    axes: dict[str, list[Any]] = {}
    for setting in settings:
        name, equals, text = setting.partition("=")
        between = ";" if isinstance(fields.get(name), tuple) else ","
        parts = [f"{name}{equals}{part.strip()}" for part in text.split(between)]
        axes[name] = [changed(fields, [part])[name] for part in parts]
    return axes


def choices(task: Any, budget: str, field: str) -> dict[str, list[Any]]:
    """All values that a field can be chosen from.

    Raises:
        ValueError: There is no such field, or it has no list to choose from.
    """
    return {field: [getattr(arm, field) for arm in task.arms(budget, field).values()]}


def changed_once(
    fields: Mapping[str, Any], seeds: str | None, data: str | None
) -> dict[str, list[Any]]:
    """Settings that all runs of the sweep share, as axes of one value."""
    same = changed(fields, [f"seeds={seeds}"] if seeds is not None else [], data)
    return {name: [value] for name, value in same.items()}
