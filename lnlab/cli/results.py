"""``lnlab results``: what runs have left behind."""

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
    """List the runs, show one, keep one in git."""


@results.command("list")
@where
def list_runs(root: Path | None) -> None:
    """List the runs: those kept in results/ and those in runs/."""
    for run in known(root):
        state = "done" if run.done else "not done"
        settings = {
            k: run.config[k] for k in ("norm", "batch_size", "seeds") if k in run.config
        }
        words = "  ".join(f"{name} {value}" for name, value in settings.items())
        click.echo(f"{run.key}  {run.task:<12} {state:<8} {run.data['kind']:<9} {words}")


@results.command()
@click.argument("key")
@where
def show(key: str, root: Path | None) -> None:
    """Show a run: its settings, data, machine, and last numbers."""
    show_run(named(key, root))


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
    """The run whose key begins so.

    Raises:
        ValueError: None does, or several do.
    """
    found = [run for run in known(root) if run.key.startswith(key)]
    if len(found) != 1:
        choice = ", ".join(run.key for run in found or known(root)) or "none"
        raise ValueError(f"{len(found)} runs have a key like {key!r}. There are: {choice}")
    return found[0]


def show_run(run: "Run") -> None:
    """Print a run: what it was, on what, and the last row of each seed."""
    click.echo(f"{run.folder}  {'done' if run.done else 'not done'}")
    for title, values in (("", run.config), ("data", run.data), ("on", run.environment)):
        for name, value in values.items():
            click.echo(f"  {title + ' ' if title else ''}{name}: {value}")
    metrics = run.metrics()
    if len(metrics):
        click.echo(metrics.groupby("seed").last().to_string())
