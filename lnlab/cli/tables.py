"""Runs as the command line prints them; without pandas, which takes a second to import."""

import time
from collections.abc import Sequence
from shutil import get_terminal_size
from statistics import fmean
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from lnlab.training.runs import Run

WIDTH = 100
"""The letters of a line where there is no terminal."""

MOST_RUNS = 40
"""The most runs that are shown."""

COLUMNS = ("key", "task", "norm", "finished", "state", "number", "data")
"""The columns that every table of runs has, unless all its runs have the same there."""

MOST_LETTERS = 24
"""The most letters of a setting."""


def overview(runs: "Sequence[Run]", settings: Sequence[str] = ()) -> str:
    """Return a table of the latest runs: norm, state, number and settings.

    What all runs have in common is said once above it; what does not fit is counted.

    Args:
        settings: the settings that have columns; none: those in which the runs differ.
    """
    latest = sorted(runs, key=lambda run: (not run.done, run.finished), reverse=True)
    latest = latest[:MOST_RUNS]
    settings = [*settings] or differing_settings(latest)
    rows = [[*COLUMNS, *settings], *(cells(run, settings) for run in latest)]
    columns, lines = [*zip(*rows, strict=True)], []
    if len(latest) > 1:
        common = [f"{head} {rest[0]}" for head, *rest in columns if len({*rest}) == 1]
        lines += [f"all: {'; '.join(common)}"] if common else []
        columns = [column for column in columns if len({*column[1:]}) > 1]
    fitting = columns
    while len(align(fitting).partition("\n")[0]) > get_terminal_size((WIDTH, 24)).columns:
        fitting = fitting[:-1]
    lines.append("\n".join(line.rstrip() for line in align(fitting).split("\n")))
    if left := len(columns) - len(fitting):
        lines.append(f"no room for {left} more columns: `lnlab results compare --csv` has them")
    if older := len(runs) - len(latest):
        lines.append(f"and {older} older runs: `lnlab results compare --csv` has them")
    return "\n".join(lines)


def align(columns: Sequence[Sequence[str]]) -> str:
    """Return columns beside each other, all lines of the same length."""
    padded = [[cell.ljust(max(map(len, column))) for cell in column] for column in columns]
    return "\n".join("  ".join(row) for row in zip(*padded, strict=True))


def cells(run: "Run", settings: Sequence[str]) -> list[str]:
    """Return the cells of a run."""
    outcome = [run.finished or "-", describe_progress(run), main_number(run)]
    name, kind = run.config.get("data", ""), str(run.data.get("kind"))
    data = kind if name in ("", kind) else f"{brief(name)}, {kind}"
    values = [brief(run.config.get(name, "-")) for name in settings]
    return [run.key, run.task, brief(run.config.get("norm", "-")), *outcome, data, *values]


def brief(value: Any) -> str:
    """Return a setting in few letters; several seeds in a row as the first and the last."""
    if isinstance(value, list | tuple):
        if len(value) > 2 and [*value] == [*range(value[0], value[0] + len(value))]:
            return f"{value[0]} to {value[-1]}"
        value = ",".join(map(str, value))
    text = str(value)
    return text if len(text) <= MOST_LETTERS else f"{text[: MOST_LETTERS - 1]}…"


def differing_settings(runs: "Sequence[Run]") -> list[str]:
    """Return the settings in which runs differ, those of the most values first."""
    names = dict.fromkeys(n for run in runs for n in run.config if n not in COLUMNS)
    values = {n: len({repr(run.config.get(n)) for run in runs}) for n in names}
    return sorted((n for n in names if values[n] > 1), key=values.__getitem__, reverse=True)


def main_number(run: "Run") -> str:
    """Return the metric by which a run is judged, the mean over the seeds of its last rows.

    It is the metric that chose the weights that count, where there is one, else the last of
    its experiment's, else the loss.
    """
    rows, metrics = run.last(), run.result.get("main_metrics", ()) if run.done else ()
    for name in [run.config.get("best_metric"), *reversed(metrics), "loss"]:
        values = [row[name] for row in rows if row.get(name) is not None]
        if values:
            return f"{name} {fmean(values):.4g}"
    return "-"


def describe_progress(run: "Run") -> str:
    """Return "done", with the number of seeds that diverged; of another run its update, and how
    long ago it wrote that."""
    if run.done:
        outcomes = run.result.get("outcomes", {}).values()
        diverged = sum(one["outcome"] == "diverged" for one in outcomes)
        return f"done, {diverged} of {len(outcomes)} diverged" if diverged else "done"
    update = max((row["update"] for row in run.last()), default=0)
    ago = round(time.time() - (run.folder / "metrics.jsonl").stat().st_mtime)
    return f"at update {update}, {ago} s ago"


def show_run(run: "Run") -> None:
    """Print a run: its settings, data and machine, and the last row of each seed as columns."""
    click.echo(f"{run.folder}  {describe_progress(run)}")
    for title, values in (("", run.config), ("data ", run.data), ("on ", run.environment)):
        for name, value in values.items():
            click.echo(f"  {title}{name}: {value}")
    metrics = run.metrics()
    if len(metrics):
        numbers = metrics.select_dtypes("number")  # images are for notebooks
        click.echo(numbers.groupby("seed").last().T.to_string(float_format="{:.6g}".format))
