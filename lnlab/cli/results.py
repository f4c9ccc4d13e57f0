"""``lnlab results``: what runs have left behind."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from lnlab import paths
from lnlab.cli.tables import describe_completion_or_last_update, format_runs_table, print_run
from lnlab.cli.train import find_experiment, root_option

if TYPE_CHECKING:
    from lnlab.training.runs import Run


@click.group()
def results() -> None:
    """List, show, compare, resume, keep or remove runs."""


@results.command("list")
@root_option
def list_runs(root: Path | None) -> None:
    """List the runs, the latest first.

    First your own in runs/, then those kept in results/.
    """
    from lnlab.training import runs

    own_runs, kept_runs = (
        root or paths.folder_in_checkout_or_cwd("runs"),
        paths.folder_in_checkout_or_cwd("results"),
    )
    for title, folder in (("Your own runs", own_runs), ("Kept in git", kept_runs)):
        found = runs.read(folder)
        click.echo(f"{title}, in {folder}: {len(found) or 'none'}")
        if found:
            click.echo(format_runs_table(found, ("batch_size", "seeds")))
        click.echo()


@results.command("show")
@click.argument("key")
@root_option
def show_run(key: str, root: Path | None) -> None:
    """Show a run: its settings, data, machine, and last numbers."""
    print_run(find_run_by_key(read_kept_and_local_runs(root), key))


@results.command("compare")
@click.argument("keys", nargs=-1, metavar="[KEY OR TASK]...")
@click.option("--csv", is_flag=True, help="Print comma-separated values.")
@root_option
def compare_runs(keys: tuple[str, ...], csv: bool, root: Path | None) -> None:
    """Compare runs: where they differ, and what matters.

    All of them, or those named by key or task. --csv has all settings and numbers, a line
    for each seed.
    """
    import pandas as pd

    runs = read_kept_and_local_runs(root)
    of_task = {key: [run for run in runs if run.task == key] for key in keys}
    runs = [run for key in keys for run in of_task[key] or [find_run_by_key(runs, key)]] or runs
    if not csv:
        click.echo(format_runs_table(runs))
        return
    frame = pd.DataFrame(
        {"key": run.key, "task": run.task, "done": run.done, **run.config, **row}
        for run in runs
        for row in run.rows_of_last_update()
    )
    click.echo(frame.to_csv(index=False), nl=False)


@results.command("resume")
@click.argument("key")
@click.option("--data", help="NAME=PATH, for data of your own.")
@root_option
def resume_run(key: str, data: str | None, root: Path | None) -> None:
    """Go on with a run that was stopped, whatever its settings were."""
    from lnlab.training import train

    run = find_run_by_key(read_kept_and_local_runs(root), key)
    if run.done:
        print_run(run)
        return
    kind = find_experiment(run.task)
    task = kind.from_config_ignoring_unknown(run.config, **({"data": data} if data else {}))
    where = {"device": run.config["device"], "precision": run.config["precision"]}
    print_run(train(task, root=run.folder.parents[1], **where))


@results.command("rm")
@click.argument("keys", nargs=-1, required=True, metavar="KEY...")
@click.option("--yes", is_flag=True, help="Do not ask.")
@root_option
def remove_runs(keys: tuple[str, ...], yes: bool, root: Path | None) -> None:
    """Remove runs with all that they left.

    What is kept in results/ is git's.
    """
    from lnlab.training import runs

    own_runs = runs.read(root or paths.folder_in_checkout_or_cwd("runs"))
    for run in [find_run_by_key(own_runs, key) for key in keys]:
        if yes or click.confirm(
            f"Remove {run.folder} ({describe_completion_or_last_update(run)})?"
        ):
            runs.remove(run)
            click.echo(f"removed {run.folder}")


@results.command("keep")
@click.argument("key")
@root_option
def copy_run_to_results(key: str, root: Path | None) -> None:
    """Copy a finished run to results/, to keep it in git.

    The copy is small: without checkpoint and weights.
    """
    from lnlab.training import runs

    click.echo(
        runs.keep(
            find_run_by_key(read_kept_and_local_runs(root), key),
            paths.folder_in_checkout_or_cwd("results"),
        ).folder
    )


def read_kept_and_local_runs(root: Path | None) -> "list[Run]":
    """Return the runs kept in git and those made here."""
    from lnlab.training import runs

    return runs.read(
        [
            paths.folder_in_checkout_or_cwd("results"),
            root or paths.folder_in_checkout_or_cwd("runs"),
        ]
    )


def find_run_by_key(runs: "Sequence[Run]", key_prefix: str) -> "Run":
    """Return the run whose key begins so."""
    matching = [run for run in runs if run.key.startswith(key_prefix)]
    if len(matching) != 1:
        raise ValueError(
            f"{len(matching)} runs have a key that begins with {key_prefix!r}: "
            "`lnlab results list` shows the keys."
        )
    return matching[0]
