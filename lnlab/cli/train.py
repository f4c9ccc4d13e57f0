"""``lnlab train``: one experiment, from where it was left to its end."""

import ast
import dataclasses
import re
from collections.abc import Mapping, Sequence
from inspect import cleandoc, formatannotation, getsource
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

import lnlab
from lnlab.cli.tables import show_run
from lnlab.papers import WHERE
from lnlab.seeds import read_seeds

if TYPE_CHECKING:
    from lnlab.training import Experiment


# Subjects and fields of tasks, read from their source and not run: that would take torch.


def subject(name: str) -> str:
    """The subject of a task, and its paper: the first line of its module's docstring."""
    return (ast.get_docstring(source(module_of(name)).tree) or "").partition("\n")[0]


def missing(name: str) -> str:
    """A message for a task that there is not."""
    return f"There is no task {name!r}. There are: {', '.join(WHERE)}"


def defaults(name: str) -> dict[str, Any]:
    """The fields of a task and their defaults, in the order in which its class has them.

    Raises:
        ValueError: There is no such task; the message lists those that are.
    """
    if name not in WHERE:
        raise ValueError(missing(name))
    return fields(module_of(name), WHERE[name][1])


def module_of(name: str) -> str:
    """The module of a task."""
    return f"lnlab.papers.{WHERE[name][0]}"


class Module(NamedTuple):
    """A module as it is written, and the package that its relative imports begin at."""

    tree: ast.Module
    package: str


def source(module: str) -> Module:
    """The source of a module of lnlab, which is not imported for it."""
    place = Path(str(lnlab.__file__)).parent.joinpath(*module.split(".")[1:])
    is_package = place.is_dir()
    file = place / "__init__.py" if is_package else place.with_suffix(".py")
    package = module if is_package else module.rpartition(".")[0]
    return Module(ast.parse(file.read_text(encoding="utf-8")), package)


def fields(module: str, kind: str) -> dict[str, Any]:
    """The fields of a class of lnlab and of those that it is made from, and their defaults."""
    tree, package = source(module)
    places = {kind: (module, kind)}
    constants: dict[str, ast.expr] = {}
    body: ast.ClassDef | None = None
    # a lazy package imports for type checkers alone
    hidden = (inner for node in tree.body if isinstance(node, ast.If) for inner in node.body)
    for node in [*tree.body, *hidden]:
        match node:
            case ast.Assign([ast.Name(name)], value):
                constants[name] = value
            case ast.ImportFrom():
                other = ".".join(filter(None, [package if node.level else "", node.module]))
                places |= {alias.name: (other, alias.name) for alias in node.names}
            case ast.ClassDef(name):
                places[name] = (module, name)
                body = node if name == kind else body
    if body is None:  # the module passes on what another has
        return fields(*places[kind])
    found: dict[str, Any] = {}
    for base in body.bases:
        place = places[ast.unparse(base)]
        found |= fields(*place) if place[0].startswith("lnlab.") else {}
    for node in body.body:
        match node:
            case ast.AnnAssign(ast.Name(name), kind_of, ast.expr() as value):
                if not ast.unparse(kind_of).startswith("ClassVar"):
                    found[name] = literal(value, constants)
    return found


def literal(value: ast.expr, constants: dict[str, ast.expr]) -> Any:
    """The number, text or tuple that a default is: in a call the first argument, or a name."""
    match value:
        case ast.Call(args=[first, *_]):
            value = first
        case ast.Name(name):
            value = constants[name]
    return ast.literal_eval(value)


# Tasks and their fields as a command line names them.


class Fields(click.Command):
    """A command on a task, whose help lists the tasks, or the fields of the one named.

    Raises:
        click.UsageError: if help is asked for with a task that there is not.
    """

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        from lnlab.papers import TASKS

        named = [argument for argument in args if argument in TASKS]
        ctx.meta["task"] = named[0] if named else None
        asked = {*args} & {*ctx.help_option_names}
        if asked and not named and not args[0].startswith("-"):
            raise click.UsageError(missing(args[0]), ctx)
        return super().parse_args(ctx, args)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        from lnlab.papers import TASKS

        name = ctx.meta.get("task") or ""
        if name in TASKS:
            with formatter.section(f"Fields of {name}, for --set FIELD=VALUE [what they are]"):
                formatter.write_dl(described(TASKS[name]))
        else:
            with formatter.section("Tasks"):
                formatter.write_dl([(task, subject(task)) for task in TASKS])


def described(kind: "type[Experiment]") -> list[tuple[str, str]]:
    """Each field of a class of tasks: its name and type, then what each budget has and what it
    is."""
    from lnlab.training.experiment import declared

    words: dict[str, str] = {}
    for ancestor in reversed(kind.__mro__[:-1]):
        if dataclasses.is_dataclass(ancestor):
            words |= documented(ancestor)
    budgets = kind.budgets()
    lines = []
    for field in declared(kind).values():
        choices = ", ".join(map(str, field.allowed.get("choices", ())))
        said = [words.get(field.name), choices and f"One of {choices}."]
        about = " ".join(filter(None, [f"[{by_budget(budgets, field.name)}]", *said]))
        lines.append((f"{field.name}: {formatannotation(field.kind)}", plain(about)))
    return lines


def plain(text: str) -> str:
    """Words of a docstring without its markup: ``code`` and :func:`roles`."""
    return re.sub(r"(:\w+:)?`+", "", text)


def by_budget(budgets: Mapping[str, Any], field: str) -> str:
    """The value of a field at each budget, once where all of them have the same."""
    values = {name: written(getattr(task, field)) for name, task in budgets.items()}
    if len(set(values.values())) == 1:
        return next(iter(values.values()))
    return "; ".join(f"{name}: {value}" for name, value in values.items())


def written(value: Any) -> str:
    """A value as a command line takes it."""
    if isinstance(value, tuple):
        return ",".join(map(str, value))
    return str(value) if value != "" else "empty"


def documented(kind: type) -> dict[str, str]:
    """Text that stands under the fields in the source of a class, by name."""
    body = ast.parse(cleandoc("\n" + getsource(kind))).body[0]
    assert isinstance(body, ast.ClassDef)
    found = {}
    for field, text in zip(body.body, body.body[1:], strict=False):
        match field, text:
            case ast.AnnAssign(ast.Name(name)), ast.Expr(ast.Constant(str(words))):
                found[name] = " ".join(words.split())
    return found


def task_named(name: str) -> Any:
    """The class of tasks that is called so.

    Raises:
        ValueError: None is; the message lists those that are.
    """
    from lnlab.papers import TASKS

    if name not in TASKS:
        raise ValueError(missing(name))
    return TASKS[name]


def changed(
    defaults: Mapping[str, Any], settings: Sequence[str], data: str | None = None
) -> dict[str, Any]:
    """The fields that ``FIELD=VALUE`` settings change, each of the type of its default.

    Raises:
        ValueError: There is no such field, a setting has no ``=``, or its value does not fit.
    """
    changes: dict[str, Any] = {}
    for setting in [*settings, *([f"data={data}"] if data else [])]:
        name, equals, text = setting.partition("=")
        if not equals or name not in defaults:
            there = ", ".join(defaults)
            raise ValueError(f"{setting!r}: write FIELD=VALUE, with a field of {there}.")
        changes[name] = like(defaults[name], name, text)
    return changes


def like(default: Any, name: str, text: str) -> Any:
    """The value that a text stands for, of the type of ``default``; a tuple is ``0,1,2``."""
    if isinstance(default, str):
        return text
    if name == "seeds":
        return read_seeds(text)
    kind = type(default)
    try:
        value = ast.literal_eval(text)
        if kind is float and type(value) is int:
            value = float(value)
        if kind is tuple and type(value) is int:
            value = (value,)
    except (ValueError, SyntaxError):
        value = None
    if type(value) is not kind or value == ():
        raise ValueError(f"{name}={text}: write it like its default, {default!r}")
    return value


@click.command(cls=Fields)
@click.argument("name", metavar="TASK")
@click.option("--budget", default="notebook", show_default=True, help="smoke, notebook, paper.")
@click.option(
    "--set", "settings", multiple=True, metavar="FIELD=VALUE", help="May be repeated."
)
@click.option("--data", help="embedded, NAME or NAME=PATH.")
@click.option("--device", default="auto", show_default=True, help="cpu, cuda, cuda:1, mps.")
@click.option(
    "--precision", default="float32", show_default=True, help="float32, float64, mixed."
)
@click.option(
    "--save-every", default=30.0, show_default=True, help="Seconds; what a kill costs."
)
@click.option("--out", type=click.Path(path_type=Path), help="Where runs are kept [runs].")
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
    from lnlab import paths

    changes = changed(defaults(name), settings, data)  # before what takes seconds to import
    task = task_named(name).budget(budget, **changes)
    from lnlab import training  # what was asked is right: now what takes time

    place = {"root": out or paths.place("runs"), "device": device, "precision": precision}
    show_run(training.finish(task, save_every=save_every, **place))


# ``lnlab sweep``: a grid of runs, each to its end.


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
    from lnlab import paths
    from lnlab.training.sweep import apart as one_for_each_seed
    from lnlab.training.sweep import grid

    for arm in compared:
        axes = axes if arm in told else choices(kind, budget, arm) | axes
    tasks = grid(kind, budget, axes)
    tasks = one_for_each_seed(tasks) if apart else tasks
    work_off(tasks, root=out or paths.place("runs"), jobs=jobs, device=device)


def work_off(tasks: list[Any], **where: Any) -> None:
    """Sweep with a bar, report what failed, and show the table of what is there."""
    from lnlab import training
    from lnlab.cli.tables import overview
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
