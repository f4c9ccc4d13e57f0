"""``lnlab results``: what runs have left behind."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

from lnlab.cli.tables import MOST_RUNS, describe_progress, overview, show_run
from lnlab.cli.train import find_experiment

if TYPE_CHECKING:
    from lnlab.training.runs import Damaged, Run

    AnyRun = TypeVar("AnyRun", bound="Run | Damaged")

MOST_KEYS = 8
"""The most keys that an error names."""

folder = click.Path(path_type=Path)
root_option = click.option("--root", type=folder, help="Where runs are kept [runs].")
all_option = click.option(
    "--all", "everything", is_flag=True, help=f"All of them, not the {MOST_RUNS} latest."
)


@click.group()
def results() -> None:
    """List the runs, show, compare, resume, keep in git or remove them."""


@results.command("list")
@all_option
@root_option
def list_runs(everything: bool, root: Path | None) -> None:
    """List the runs, the latest first: your own in runs/, then those kept in results/."""
    from lnlab import paths
    from lnlab.training import runs

    own_runs, kept_runs = root or paths.place("runs"), paths.place("results")
    for title, folder in (("Your own runs", own_runs), ("Kept in git", kept_runs)):
        readable, damaged = runs.survey(folder)
        click.echo(f"{title}, in {folder}: {len(readable) or 'none'}")
        if readable:
            max_runs = None if everything else MOST_RUNS
            click.echo(overview(readable, ("batch_size", "seeds"), max_runs))
        for run in damaged:
            click.echo(f"{run.key}  {run.task:<12} damaged: {run.error}")
        click.echo()


@results.command()
@click.argument("key")
@root_option
def show(key: str, root: Path | None) -> None:
    """Show a run: its settings, data, machine, and last numbers."""
    show_run(find_run(key, root))


@results.command()
@click.argument("keys", nargs=-1, metavar="[KEY OR TASK]...")
@click.option("--csv", is_flag=True, help="Print comma-separated values.")
@all_option
@root_option
def compare(keys: tuple[str, ...], csv: bool, everything: bool, root: Path | None) -> None:
    """Compare runs, all or those named, by key or task: where they differ, and what matters.

    --csv has all settings and numbers, a line for each seed.
    """
    from lnlab.training import runs

    readable, damaged = survey(root)
    for run in damaged:
        click.echo(f"left out: {run.error}", err=True)
    of_task = {key: [run for run in readable if run.task == key] for key in keys}
    wanted = [run for key in keys for run in of_task[key] or [find_run(key, root)]] or readable
    if csv:
        click.echo(runs.table(wanted).to_csv(index=False), nl=False)
    else:
        click.echo(overview(wanted, max_runs=None if everything else MOST_RUNS))


@results.command()
@click.argument("key")
@click.option("--data", help="NAME=PATH, for data of your own.")
@root_option
def resume(key: str, data: str | None, root: Path | None) -> None:
    """Go on with a run that was stopped, whatever its settings were."""
    from lnlab.training import train

    run = find_run(key, root)
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
@root_option
def rm(keys: tuple[str, ...], yes: bool, root: Path | None) -> None:
    """Remove runs with all that they left; what is kept in results/ is git's."""
    from lnlab import paths
    from lnlab.training import runs

    readable, damaged = runs.survey(root or paths.place("runs"))
    for run in [match_key([*readable, *damaged], key) for key in keys]:
        word = "damaged" if isinstance(run, runs.Damaged) else describe_progress(run)
        if yes or click.confirm(f"Remove {run.folder} ({word})?"):
            runs.remove(run)
            click.echo(f"removed {run.folder}")


@results.command()
@click.argument("key")
@root_option
def keep(key: str, root: Path | None) -> None:
    """Copy a finished run to results/, small: without checkpoint and weights."""
    from lnlab import paths
    from lnlab.training import runs

    click.echo(runs.keep(find_run(key, root), paths.place("results")).folder)


def survey(root: Path | None) -> "tuple[list[Run], list[Damaged]]":
    """Return the runs that can be read and those that cannot: kept in git, and made here."""
    from lnlab import paths
    from lnlab.training import runs

    return runs.survey([paths.place("results"), root or paths.place("runs")])


def find_run(key: str, root: Path | None) -> "Run":
    """Return the run whose key begins so, wherever it is."""
    from lnlab.training import runs

    readable, damaged = survey(root)
    run = match_key([*readable, *damaged], key)
    if isinstance(run, runs.Damaged):
        raise ValueError(f"{run.error}\n`lnlab results rm {run.key}` removes it.")
    return run


def match_key(runs: "Sequence[AnyRun]", key: str) -> "AnyRun":
    """Return the run whose key begins so."""
    matching = [run for run in runs if run.key.startswith(key)]
    if len(matching) != 1:
        keys = [run.key for run in matching or runs]
        choice = ", ".join(keys[:MOST_KEYS]) or "none"
        if len(keys) > MOST_KEYS:
            choice += f" and {len(keys) - MOST_KEYS} more, which `lnlab results list` shows"
        raise ValueError(f"{len(matching)} runs have a key like {key!r}. There are: {choice}")
    return matching[0]
