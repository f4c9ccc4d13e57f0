"""``lnlab results``: what runs have left behind."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

from lnlab.cli.tables import SHOWN, overview, show_run, state
from lnlab.cli.train import find_experiment

if TYPE_CHECKING:
    from lnlab.training.runs import Damaged, Run

    Named = TypeVar("Named", bound="Run | Damaged")

NAMED = 8
"""The most keys that an error names."""

where = click.option(
    "--root", type=click.Path(path_type=Path), help="Where runs are kept [runs]."
)


@click.group()
def results() -> None:
    """List the runs, show, compare, resume, keep in git or remove them."""


everything = click.option(
    "--all", "everything", is_flag=True, help=f"All of them, not the {SHOWN} latest."
)


@results.command("list")
@everything
@where
def list_runs(everything: bool, root: Path | None) -> None:
    """List the runs, the latest first: those kept in results/ and those in runs/."""
    from lnlab.training import runs

    there, damaged = runs.survey(places(root))
    click.echo(overview(there, ("batch_size", "seeds"), None if everything else SHOWN))
    for one in damaged:
        click.echo(f"{one.key}  {one.task:<12} damaged: {one.error}")


@results.command()
@click.argument("key")
@where
def show(key: str, root: Path | None) -> None:
    """Show a run: its settings, data, machine, and last numbers."""
    show_run(named(key, root))


@results.command()
@click.argument("keys", nargs=-1, metavar="[KEY OR TASK]...")
@click.option("--csv", is_flag=True, help="Print comma-separated values.")
@everything
@where
def compare(keys: tuple[str, ...], csv: bool, everything: bool, root: Path | None) -> None:
    """Compare runs, all or those named, by key or task: where they differ, and what matters.

    --csv has all settings and numbers, a line for each seed.
    """
    from lnlab.training import runs

    there = known(root)
    of_task = {key: [run for run in there if run.task == key] for key in keys}
    wanted = [run for key in keys for run in of_task[key] or [named(key, root)]] or there
    if csv:
        click.echo(runs.table(wanted).to_csv(index=False), nl=False)
    else:
        click.echo(overview(wanted, most=None if everything else SHOWN))


@results.command()
@click.argument("key")
@click.option("--data", help="NAME=PATH, for data of your own.")
@where
def resume(key: str, data: str | None, root: Path | None) -> None:
    """Go on with a run that was stopped, whatever its settings were."""
    from lnlab.training import train

    run = named(key, root)
    if run.done:
        show_run(run)
        return
    kind = find_experiment(run.task)
    task = kind.from_config(run.config, **({"data": data} if data else {}))
    where = {"device": run.config["device"], "precision": run.config["precision"]}
    show_run(train(task, root=run.folder.parents[1], **where))


@results.command()
@click.argument("keys", nargs=-1, required=True, metavar="KEY...")
@click.option("--yes", is_flag=True, help="Do not ask.")
@where
def rm(keys: tuple[str, ...], yes: bool, root: Path | None) -> None:
    """Remove runs with all that they left; what is kept in results/ is git's."""
    from lnlab import paths
    from lnlab.training import runs

    place = root or paths.place("runs")
    ours, damaged = runs.survey(place)
    there = [*ours, *damaged]
    for run in [among(there, key) for key in keys]:
        word = "damaged" if isinstance(run, runs.Damaged) else state(run)
        if yes or click.confirm(f"Remove {run.folder} ({word})?"):
            runs.remove(run)
            click.echo(f"removed {run.folder}")


@results.command()
@click.argument("key")
@where
def keep(key: str, root: Path | None) -> None:
    """Copy a finished run to results/, small: without checkpoint and weights."""
    from lnlab import paths
    from lnlab.training import runs

    click.echo(runs.keep(named(key, root), paths.place("results")).folder)


def places(root: Path | None) -> list[Path]:
    """Folders of runs: those kept in git, and those made here."""
    from lnlab import paths

    return [paths.place("results"), root or paths.place("runs")]


def known(root: Path | None) -> "list[Run]":
    """The runs that can be read; of those that cannot it is said that they are left out."""
    from lnlab.training import runs

    there, damaged = runs.survey(places(root))
    for one in damaged:
        click.echo(f"left out: {one.error}", err=True)
    return there


def named(key: str, root: Path | None) -> "Run":
    """The run whose key begins so, wherever it lies.

    Raises:
        ValueError: none does, or several do, or it is damaged.
    """
    from lnlab.training import runs

    there, damaged = runs.survey(places(root))
    found = among([*there, *damaged], key)
    if isinstance(found, runs.Damaged):
        raise ValueError(f"{found.error}\n`lnlab results rm {found.key}` removes it.")
    return found


def among(runs: "Sequence[Named]", key: str) -> "Named":
    """The run whose key begins so.

    Raises:
        ValueError: none does, or several do.
    """
    found = [run for run in runs if run.key.startswith(key)]
    if len(found) != 1:
        like = [run.key for run in found or runs]
        choice = ", ".join(like[:NAMED]) or "none"
        if len(like) > NAMED:
            choice += f" and {len(like) - NAMED} more, which `lnlab results list` shows"
        raise ValueError(f"{len(found)} runs have a key like {key!r}. There are: {choice}")
    return found[0]
