"""Runs as the command line prints them."""

import time
from collections.abc import Sequence
from statistics import fmean
from typing import TYPE_CHECKING, Any

import click

from lnlab.seeds import format_seeds

if TYPE_CHECKING:
    from lnlab.training.runs import Run

WIDTH = 100
"""The letters of a line where there is no terminal."""

MOST_RUNS = 40
"""The most runs that are shown."""


def format_runs_table(runs: "Sequence[Run]", settings: Sequence[str] = ()) -> str:
    """Return a table of the latest runs: norm, state, number and settings.

    Args:
        settings: the settings that have columns; none: those in which the runs differ.
    """
    import pandas as pd

    latest = sorted(runs, key=lambda run: (not run.done, run.finish_time), reverse=True)
    latest = latest[:MOST_RUNS]
    settings = settings or names_of_differing_settings(latest)
    rows = [
        {
            "key": run.key,
            "task": run.task,
            "norm": run.config.get("norm", "-"),
            "finished": run.finish_time or "-",
            "state": describe_completion_or_last_update(run),
            "number": format_final_main_metric(run),
            "data": run.data.get("name"),
            **{name: option_value_text(name, run.config.get(name, "-")) for name in settings},
        }
        for run in latest
    ]
    text = pd.DataFrame(rows).to_string(index=False, justify="left")
    if older := len(runs) - len(latest):
        text += f"\nand {older} older runs: `lnlab results compare --csv` has them"
    return text


def option_value_text(name: str, value: Any) -> str:
    """Return the value of a setting as the command line takes it."""
    if isinstance(value, list | tuple):
        return format_seeds(value) if name == "seeds" else ",".join(map(str, value))
    return str(value) if value != "" else "empty"


def names_of_differing_settings(runs: "Sequence[Run]") -> list[str]:
    """Return the settings in which runs differ, those of the most values first."""
    names = dict.fromkeys(n for run in runs for n in run.config if n not in ("norm", "data"))
    values = {n: len({repr(run.config.get(n)) for run in runs}) for n in names}
    return sorted((n for n in names if values[n] > 1), key=values.__getitem__, reverse=True)


def format_final_main_metric(run: "Run") -> str:
    """Return the metric by which a run is judged, the mean over the seeds of its last rows.

    It is the metric that chose the weights that count, where there is one, else the last of
    its experiment's, else the loss.
    """
    rows = run.rows_of_last_update()
    metrics = run.result.get("main_metrics", ()) if run.done else ()
    for name in [run.config.get("best_metric"), *reversed(metrics), "loss"]:
        values = [row[name] for row in rows if row.get(name) is not None]
        if values:
            return f"{name} {fmean(values):.4g}"
    return "-"


def describe_completion_or_last_update(run: "Run") -> str:
    """Return "done", with the number of seeds that diverged; of another run its update, and how
    long ago it wrote that."""
    if run.done:
        outcomes = run.result.get("outcomes", {}).values()
        diverged = sum(one["outcome"] == "diverged" for one in outcomes)
        return f"done, {diverged} of {len(outcomes)} diverged" if diverged else "done"
    update = max((row["update"] for row in run.rows_of_last_update()), default=0)
    ago = round(time.time() - (run.folder / "metrics.jsonl").stat().st_mtime)
    return f"at update {update}, {ago} s ago"


def print_run(run: "Run") -> None:
    """Print a run: its settings, data and machine, and the last row of each seed as columns."""
    click.echo(f"{run.folder}  {describe_completion_or_last_update(run)}")
    for title, values in (("", run.config), ("data ", run.data), ("on ", run.environment)):
        for name, value in values.items():
            click.echo(f"  {title}{name}: {value}")
    metrics = run.evaluations()
    if len(metrics):
        numbers = metrics.select_dtypes("number")  # images are for notebooks
        click.echo(numbers.groupby("seed").last().T.to_string(float_format="{:.6g}".format))
