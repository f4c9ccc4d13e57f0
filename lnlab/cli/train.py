"""``lnlab train`` and ``lnlab sweep``: experiments, from where they were left to their end."""

import ast
import dataclasses
import re
from collections.abc import Mapping, Sequence
from importlib import import_module
from inspect import cleandoc, formatannotation, getsource
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_origin

import click

from lnlab.cli.tables import overview, show_run
from lnlab.papers import TASKS, WHERE
from lnlab.seeds import read_seeds

if TYPE_CHECKING:
    from lnlab.training import Experiment
    from lnlab.training.experiment import Field


def find_experiment(name: str) -> "type[Experiment]":
    """Return the class of experiments that is called so.

    Raises:
        ValueError: None is; the message lists those that are.
    """
    if name not in TASKS:
        raise ValueError(f"There is no task {name!r}. There are: {', '.join(TASKS)}")
    return TASKS[name]


# Fields of an experiment in the help, and as a command line sets them.


class OnExperiment(click.Command):
    """A command on an experiment, whose help lists all of them, or the fields of the one named.

    Raises:
        click.UsageError: if help is asked for with an experiment that there is not.
    """

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.meta["experiment"] = next((arg for arg in args if arg in TASKS), "")
        wants_help = bool({*args} & {*ctx.help_option_names})
        if wants_help and not ctx.meta["experiment"] and not args[0].startswith("-"):
            try:
                find_experiment(args[0])
            except ValueError as error:
                raise click.UsageError(str(error), ctx) from error
        return super().parse_args(ctx, args)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        name = ctx.meta.get("experiment")
        if name:
            with formatter.section(f"Fields of {name}, for --set FIELD=VALUE [what they are]"):
                formatter.write_dl(describe_fields(find_experiment(name)))
        else:
            with formatter.section("Tasks"):
                formatter.write_dl([(name, describe(name)) for name in TASKS])


def describe(name: str) -> str:
    """Return the subject of an experiment, and its paper: how its module's docstring begins."""
    module = import_module(f"lnlab.papers.{WHERE[name][0]}")
    return (module.__doc__ or "").partition("\n")[0]


def describe_fields(experiment: "type[Experiment]") -> list[tuple[str, str]]:
    """Return name and type of each field, then its value at each budget and what it is."""
    from lnlab.training.experiment import declared

    about: dict[str, str] = {}
    for ancestor in reversed(experiment.__mro__[:-1]):
        if dataclasses.is_dataclass(ancestor):
            about |= field_docstrings(ancestor)
    budgets = experiment.budgets()
    lines = []
    for field in declared(experiment).values():
        values = {name: written(getattr(task, field.name)) for name, task in budgets.items()}
        said = "; ".join(f"{name}: {value}" for name, value in values.items())
        if len({*values.values()}) == 1:
            said = next(iter(values.values()))
        choices = ", ".join(map(str, field.allowed.get("choices", ())))
        parts = [f"[{said}]", about.get(field.name), choices and f"One of {choices}."]
        plain = re.sub(r"(:\w+:)?`+", "", " ".join(filter(None, parts)))  # without markup
        lines.append((f"{field.name}: {formatannotation(field.kind)}", plain))
    return lines


def written(value: Any) -> str:
    """Return a value as a command line takes it."""
    if isinstance(value, tuple):
        return ",".join(map(str, value))
    return str(value) if value != "" else "empty"


def field_docstrings(kind: type) -> dict[str, str]:
    """Return the text that stands under each field in the source of a class."""
    body = ast.parse(cleandoc("\n" + getsource(kind))).body[0]
    assert isinstance(body, ast.ClassDef)
    texts = {}
    for field, text in zip(body.body, body.body[1:], strict=False):
        match field, text:
            case ast.AnnAssign(ast.Name(name)), ast.Expr(ast.Constant(str(words))):
                texts[name] = " ".join(words.split())
    return texts


def parse_settings(
    experiment: "type[Experiment]", settings: Sequence[str], data: str | None = None
) -> dict[str, Any]:
    """Return the fields that ``FIELD=VALUE`` settings change, and their values.

    Raises:
        ValueError: There is no such field, a setting has no ``=``, or its value does not fit.
    """
    from lnlab.training.experiment import declared

    fields = declared(experiment)
    values: dict[str, Any] = {}
    for setting in [*settings, *([f"data={data}"] if data else [])]:
        name, equals, text = setting.partition("=")
        if not equals or name not in fields:
            choice = ", ".join(fields)
            raise ValueError(f"{setting!r}: write FIELD=VALUE, with a field of {choice}.")
        values[name] = parse_value(fields[name], text)
    return values


def parse_value(field: "Field", text: str) -> Any:
    """Return the value of a field that a text stands for; a tuple is ``0,1,2``.

    Raises:
        ValueError: it does not fit.
    """
    from lnlab.training.experiment import check_field

    if field.name == "seeds":
        return read_seeds(text)
    if field.kind is str:
        return text
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError):
        value = text
    if get_origin(field.kind) is tuple and not isinstance(value, tuple | list):
        value = (value,)
    return check_field(value, field)


# The commands.

budget_option = click.option(
    "--budget", default="notebook", show_default=True, help="smoke, notebook, paper."
)
data_option = click.option("--data", help="embedded, NAME or NAME=PATH.")
device_option = click.option(
    "--device", default="auto", show_default=True, help="cpu, cuda, cuda:1, mps."
)
out_option = click.option(
    "--out", type=click.Path(path_type=Path), help="Where runs are kept [runs]."
)


@click.command(cls=OnExperiment)
@click.argument("name", metavar="TASK")
@budget_option
@click.option(
    "--set", "settings", multiple=True, metavar="FIELD=VALUE", help="May be repeated."
)
@data_option
@device_option
@click.option(
    "--precision", default="float32", show_default=True, help="float32, float64, mixed."
)
@click.option(
    "--save-every", default=30.0, show_default=True, help="Seconds; what a kill costs."
)
@out_option
def train(
    name: str,
    budget: str,
    settings: tuple[str, ...],
    data: str | None,
    device: str,
    precision: str,
    save_every: float,
    out: Path | None,
) -> None:
    """Train one experiment; a run that was stopped goes on, one that is done is shown.

    `lnlab train TASK --help` lists the fields of a task.
    """
    experiment = find_experiment(name)
    from lnlab import paths, training

    task = experiment.budget(budget, **parse_settings(experiment, settings, data))
    place = {"root": out or paths.place("runs"), "device": device, "precision": precision}
    show_run(training.train(task, save_every=save_every, **place))


@click.command(cls=OnExperiment)
@click.argument("name", metavar="TASK")
@budget_option
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
@data_option
@device_option
@click.option("--jobs", type=click.IntRange(1), help="Runs at a time [one on each core].")
@click.option("--cluster", metavar="ADDRESS", help="A Dask scheduler: tls://host:8786.")
@out_option
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
    cluster: str | None,
    out: Path | None,
) -> None:
    """Train every combination of settings; what is done stays, what was begun goes on."""
    experiment = find_experiment(name)
    from lnlab import paths
    from lnlab.training.sweep import grid, split_seeds

    compared = [*arms, *([f"norm={norm}"] if norm else [])]
    axes = {}
    for arm in compared:
        if "=" not in arm:
            axes[arm] = [getattr(t, arm) for t in experiment.arms(budget, arm).values()]
    axes |= parse_axes(experiment, [arm for arm in compared if "=" in arm] + [*settings])
    shared = [f"seeds={seeds}"] if seeds is not None else []
    axes |= {k: [v] for k, v in parse_settings(experiment, shared, data).items()}
    tasks = grid(experiment, budget, axes)
    tasks = split_seeds(tasks) if apart else tasks
    root = out or paths.place("runs")
    run_sweep(tasks, root=root, jobs=jobs, cluster=cluster, device=device)


def parse_axes(
    experiment: "type[Experiment]", settings: Sequence[str]
) -> Mapping[str, list[Any]]:
    """Return the values of each field that ``FIELD=A,B,...`` settings name.

    Raises:
        ValueError: There is no such field, or a value does not fit.
    """
    from lnlab.training.experiment import declared

    fields = declared(experiment)
    axes: dict[str, list[Any]] = {}
    for setting in settings:
        name, equals, text = setting.partition("=")
        several = name in fields and get_origin(fields[name].kind) is tuple
        for value in text.split(";" if several else ","):
            parsed = parse_settings(experiment, [f"{name}{equals}{value.strip()}"])
            axes.setdefault(name, []).append(parsed[name])
    return axes


def run_sweep(tasks: list[Any], **where: Any) -> None:
    """Sweep with a bar, report what failed, and show the table of what is there."""
    from lnlab import training
    from lnlab.progress import progress
    from lnlab.training.sweep import sweep

    outcomes = list(progress(sweep(tasks, **where), len(tasks), "sweep"))
    if back := sum(outcome.read_back for outcome in outcomes):
        click.echo(f"{back} of {len(tasks)} read back: they were done before")
    place = {"root": where["root"], "device": where["device"]}
    runs = [run for task in tasks if (run := training.find_run(task, **place))]
    if runs:
        click.echo(overview(runs))
    failed = [outcome for outcome in outcomes if outcome.error]
    for outcome in failed:
        click.echo(f"FAILED  {outcome.experiment}: {outcome.error}", err=True)
    if failed:
        raise SystemExit(1)
