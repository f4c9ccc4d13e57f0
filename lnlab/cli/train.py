"""``lnlab train`` and ``lnlab sweep``: experiments, from where they were left to their end."""

import sys
from collections.abc import Sequence
from inspect import formatannotation
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_origin

import click

from lnlab import paths
from lnlab.book.notebooks import parse_literal_or_text as parse_literal
from lnlab.cli.tables import format_runs_table, option_value_text, print_run
from lnlab.papers import EXPERIMENTS
from lnlab.seeds import read_seeds

if TYPE_CHECKING:
    from lnlab.training import Experiment
    from lnlab.training.experiment import Field


def find_experiment(name: str) -> "type[Experiment]":
    """Return the class of experiments of a name."""
    if name not in EXPERIMENTS:
        raise ValueError(f"There is no task {name!r}. There are: {', '.join(EXPERIMENTS)}")
    return EXPERIMENTS[name]


class ExperimentHelpCommand(click.Command):
    """A command whose help lists all experiments, or the fields of the one that is named."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.meta["experiment"] = next((arg for arg in args if arg in EXPERIMENTS), "")
        return super().parse_args(ctx, args)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        if name := ctx.meta["experiment"]:
            with formatter.section(f"Fields of {name}, for --set FIELD=VALUE"):
                formatter.write_dl(describe_experiment_fields(find_experiment(name)))
        else:
            with formatter.section("Tasks"):
                formatter.write_dl([(name, experiment_title(name)) for name in EXPERIMENTS])


def experiment_title(name: str) -> str:
    """Return the subject of an experiment and its paper: the first line of its module."""
    module = sys.modules[EXPERIMENTS[name].__module__]
    return (module.__doc__ or "").partition("\n")[0]


def describe_experiment_fields(experiment: "type[Experiment]") -> list[tuple[str, str]]:
    """Return name and type of each field, then its value at each budget and its choices."""
    from lnlab.training.experiment import experiment_fields

    budgets, descriptions = experiment.budgets(), []
    for field in experiment_fields(experiment).values():
        values = {
            name: option_value_text(field.name, getattr(task, field.name))
            for name, task in budgets.items()
        }
        text = "; ".join(f"{name}: {value}" for name, value in values.items())
        if len({*values.values()}) == 1:
            text = next(iter(values.values()))
        if choices := field.constraints.get("choices"):
            text += f" (of {', '.join(map(str, choices))})"
        descriptions.append((f"{field.name}: {formatannotation(field.type_hint)}", text))
    return descriptions


def find_field_and_text(experiment: "type[Experiment]", setting: str) -> "tuple[Field, str]":
    """Return the field and the text of its value of a ``FIELD=VALUE`` setting."""
    from lnlab.training.experiment import experiment_fields

    fields = experiment_fields(experiment)
    name, equals, text = setting.partition("=")
    if not equals or name not in fields:
        problem = f"there is no field {name!r}" if equals else "write FIELD=VALUE"
        raise ValueError(f"{setting!r}: {problem}; fields: {', '.join(fields)}.")
    return fields[name], text.strip()


def parse_settings(experiment: "type[Experiment]", settings: Sequence[str]) -> dict[str, Any]:
    """Return the fields and values of ``FIELD=VALUE`` settings."""
    pairs = [find_field_and_text(experiment, setting) for setting in settings]
    return {field.name: parse_field_value(field, text) for field, text in pairs}


def parse_sweep_axes(
    experiment: "type[Experiment]", settings: Sequence[str]
) -> dict[str, list[Any]]:
    """Return the fields and values of ``FIELD=A,B,...``; ";" stands between tuples."""
    axes = {}
    for field, text in [find_field_and_text(experiment, setting) for setting in settings]:
        separator = ";" if get_origin(field.type_hint) is tuple else ","
        axes[field.name] = [
            parse_field_value(field, one.strip()) for one in text.split(separator)
        ]
    return axes


def parse_field_value(field: "Field", text: str) -> Any:
    """Return the value of a field that a text stands for; a tuple is ``0,1,2``."""
    if field.name == "seeds":
        return read_seeds(text)
    value = text if field.type_hint is str else parse_literal(text)
    is_single = get_origin(field.type_hint) is tuple and not isinstance(value, list)
    return (value,) if is_single else value


task_argument = click.argument("name", metavar="TASK")
budget_option = click.option(
    "--budget", default="notebook", show_default=True, help="smoke, notebook, paper."
)
data_option = click.option("--data", help="embedded, NAME or NAME=PATH.")
device_option = click.option(
    "--device", default="auto", show_default=True, help="cpu, cuda, cuda:1, mps."
)
root_option = click.option(
    "--root", type=click.Path(path_type=Path), help="Where runs are kept [runs]."
)


@click.command(cls=ExperimentHelpCommand)
@task_argument
@budget_option
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="FIELD=VALUE",
    help="May be repeated. Seeds are how many (seeds=5) or which (seeds=105-134).",
)
@data_option
@device_option
@click.option(
    "--precision", default="float32", show_default=True, help="float32, float64, mixed."
)
@click.option(
    "--save-every", default=30.0, show_default=True, help="Seconds; what a kill costs."
)
@root_option
def train(
    name: str,
    budget: str,
    settings: tuple[str, ...],
    data: str | None,
    root: Path | None,
    **options: Any,
) -> None:
    """Train one experiment.

    A run that was stopped goes on, one that is done is shown.
    `lnlab train TASK --help` lists the fields of a task.
    """
    experiment = find_experiment(name)
    from lnlab import training

    settings += (f"data={data}",) if data else ()
    task = experiment.budget(budget, **parse_settings(experiment, settings))
    print_run(
        training.train(task, root=root or paths.folder_in_checkout_or_cwd("runs"), **options)
    )


@click.command(cls=ExperimentHelpCommand)
@task_argument
@budget_option
@click.option(
    "--arm",
    "arms",
    multiple=True,
    metavar="FIELD[=A,B,...]",
    help="What is compared: these values of a field, or all that it can be chosen from.",
)
@click.option("--norm", metavar="A,B,...", help="The same as --arm norm=A,B,...")
@click.option("--seeds", metavar="SEEDS", help="How many (5), or which (0,4 or 105-134).")
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="FIELD=A,B,...",
    help="Values to combine with all others. A value of several numbers: units=8,8;32,32.",
)
@data_option
@device_option
@click.option("--jobs", type=click.IntRange(1), help="Runs at a time [one on each core].")
@click.option("--cluster", metavar="ADDRESS", help="A Dask scheduler: tls://host:8786.")
@root_option
def sweep(
    name: str, budget: str, arms: tuple[str, ...], norm: str | None, seeds: str | None,
    settings: tuple[str, ...], data: str | None, root: Path | None, **options: Any,
) -> None:  # fmt: skip
    """Train every combination of settings.

    What is done stays, what was begun goes on.
    """
    experiment = find_experiment(name)
    from lnlab.training.sweep import grid

    compared = [*arms, *([f"norm={norm}"] if norm else [])]
    axes = {
        arm: [getattr(task, arm) for task in experiment.arms(budget, arm).values()]
        for arm in compared
        if "=" not in arm
    }
    axes |= parse_sweep_axes(experiment, [arm for arm in compared if "=" in arm] + [*settings])
    given = {"seeds": seeds, "data": data}
    shared = [f"{name}={text}" for name, text in given.items() if text is not None]
    axes |= {name: [value] for name, value in parse_settings(experiment, shared).items()}
    tasks = grid(experiment, budget, axes)
    run_and_print_sweep(tasks, root=root or paths.folder_in_checkout_or_cwd("runs"), **options)


def run_and_print_sweep(tasks: list[Any], *, root: Path, device: str, **options: Any) -> None:
    """Sweep with a bar, report what failed, and show the table of the runs."""
    from lnlab import training
    from lnlab.progress import progress
    from lnlab.training.sweep import sweep

    swept = sweep(tasks, root=root, device=device, **options)
    outcomes = list(progress(swept, len(tasks), "sweep"))
    if done_before := sum(outcome.was_read_back for outcome in outcomes):
        click.echo(f"{done_before} of {len(tasks)} read back: they were done before")
    runs = [training.find_run(task, root=root, device=device) for task in tasks]
    if runs := [run for run in runs if run]:
        click.echo(format_runs_table(runs))
    failed = [outcome for outcome in outcomes if outcome.error]
    for outcome in failed:
        click.echo(f"FAILED  {outcome.experiment}: {outcome.error}", err=True)
    if failed:
        raise SystemExit(1)
