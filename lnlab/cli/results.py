"""``lnlab results``: what runs have left behind."""

import dataclasses
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from lnlab.runs import Run

where = click.option(
    "--root", type=click.Path(path_type=Path), help="Where runs are kept [runs]."
)


@click.group()
def results() -> None:
    """List the runs, show, compare, resume, keep in git or remove them."""


@results.command("list")
@where
def list_runs(root: Path | None) -> None:
    """List the runs: those kept in results/ and those in runs/."""
    for run in known(root):
        settings = {
            k: run.config[k] for k in ("norm", "batch_size", "seeds") if k in run.config
        }
        words = "  ".join(f"{name} {value}" for name, value in settings.items())
        click.echo(f"{run.key}  {run.task:<12} {state(run):<24} {run.data['kind']:<9} {words}")


@results.command()
@click.argument("key")
@where
def show(key: str, root: Path | None) -> None:
    """Show a run: its settings, data, machine, and last numbers."""
    show_run(named(key, root))


@results.command()
@click.argument("keys", nargs=-1, metavar="[KEY]...")
@click.option("--csv", is_flag=True, help="Print comma-separated values.")
@where
def compare(keys: tuple[str, ...], csv: bool, root: Path | None) -> None:
    """Compare runs, all or those named: where they differ, and their last numbers."""
    from lnlab import runs

    table = runs.table([named(key, root) for key in keys] or known(root))
    text = table.to_csv(index=False) if csv else f"{table.to_string(index=False)}\n"
    click.echo(text, nl=False)


@results.command()
@click.argument("key")
@click.option("--data", help="NAME=PATH, for data of your own.")
@where
def resume(key: str, data: str | None, root: Path | None) -> None:
    """Go on with a run that was stopped, whatever its settings were."""
    from lnlab.cli.train import finish, task_named
    from lnlab.training import launch
    from lnlab.training.ranks import world

    run = named(key, root)
    ranks, place = run.config.get("ranks", 1), run.folder.parents[1]
    if ranks > 1 and world() == 1:
        again = ["results", "resume", run.key, f"--root={place}"]
        raise SystemExit(launch(ranks, [*again, *([f"--data={data}"] if data else [])]))
    kind = task_named(run.task)
    names = {field.name for field in dataclasses.fields(kind)} & set(run.config)
    like = {n: run.config[n] for n in names} | ({"data": data} if data else {})
    task = kind(**{n: tuple(v) if isinstance(v, list) else v for n, v in like.items()})
    finish(task, place, run.config["device"], run.config["precision"])


@results.command()
@click.argument("keys", nargs=-1, required=True, metavar="KEY...")
@click.option("--yes", is_flag=True, help="Do not ask.")
@where
def rm(keys: tuple[str, ...], yes: bool, root: Path | None) -> None:
    """Remove runs with all that they left; what is kept in results/ is git's."""
    from lnlab import checkout, runs

    ours = runs.read(root or checkout.place("runs"))
    for run in [among(ours, key) for key in keys]:
        if yes or click.confirm(f"Remove {run.folder} ({state(run)})?"):
            runs.remove(run)
            click.echo(f"removed {run.folder}")


@results.command()
@click.argument("key")
@where
def keep(key: str, root: Path | None) -> None:
    """Copy a finished run to results/, small: without checkpoint and weights."""
    from lnlab import checkout, runs

    click.echo(runs.keep(named(key, root), checkout.place("results")).folder)


def known(root: Path | None) -> "list[Run]":
    from lnlab import checkout, runs

    return runs.read([checkout.place("results"), root or checkout.place("runs")])


def named(key: str, root: Path | None) -> "Run":
    """The run whose key begins so, wherever it lies."""
    return among(known(root), key)


def among(runs: "list[Run]", key: str) -> "Run":
    """The run whose key begins so.

    Raises:
        ValueError: None does, or several do.
    """
    found = [run for run in runs if run.key.startswith(key)]
    if len(found) != 1:
        choice = ", ".join(run.key for run in found or runs) or "none"
        raise ValueError(f"{len(found)} runs have a key like {key!r}. There are: {choice}")
    return found[0]


def state(run: "Run") -> str:
    """Whether a run is done, or how far it is and how long ago it last said so."""
    if run.done:
        return "done"
    metrics, now = run.metrics(), time.time()
    ago = round(now - (run.folder / "metrics.jsonl").stat().st_mtime)
    return f"at update {metrics['update'].max() if len(metrics) else 0}, {ago} s ago"


def show_run(run: "Run") -> None:
    """Print a run: what it was, on what, and the last row of each seed."""
    click.echo(f"{run.folder}  {state(run)}")
    for title, values in (("", run.config), ("data", run.data), ("on", run.environment)):
        for name, value in values.items():
            click.echo(f"  {title + ' ' if title else ''}{name}: {value}")
    for what, (then, now) in run.changes().items():
        click.echo(f"  changed since: {what} was {then}, is {now}")
    metrics = run.metrics()
    if len(metrics):
        numbers = metrics.select_dtypes("number")  # pictures are for notebooks
        click.echo(numbers.groupby("seed").last().to_string())
