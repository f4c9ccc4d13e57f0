"""Runs as the command line prints them."""

import time
from collections.abc import Sequence
from statistics import fmean
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from lnlab.runs import Run

COLUMNS = 6
"""The most settings that are shown; ``lnlab results compare --csv`` has the others."""

USUAL = ("test_error", "test_nll", "loss")
"""The metrics of a run that does not say by which it is judged: it is on its way, or older."""

WIDE = 24
"""The most letters of a setting that are shown."""


def overview(runs: "Sequence[Run]", wanted: Sequence[str] = ()) -> str:
    """A line for each run, the latest first: how it stands, its settings, and its number.

    Args:
        runs: to be shown.
        wanted: the settings that are shown; by default those in which the runs differ.
    """
    shown = list(wanted) or differing(runs)
    lines = []
    for run in sorted(runs, key=lambda run: (not run.done, run.finished), reverse=True):
        settings = [str(run.config.get(name, "-"))[:WIDE] for name in shown[:COLUMNS]]
        try:
            cells = [run.key, run.task, run.finished or "-", state(run), run.data["kind"]]
            lines.append([*cells, *settings, number(run)])
        except ValueError as error:
            lines.append(
                [run.key, run.task, "-", "damaged", str(run.data.get("kind")), *settings]
            )
            click.echo(str(error), err=True)
    head = ["key", "task", "finished", "state", "data", *shown[:COLUMNS], "number"]
    text = aligned([head, *lines])
    if len(shown) > COLUMNS:
        text += f"\n{len(shown) - COLUMNS} more settings differ: --csv has them all"
    return text


def differing(runs: "Sequence[Run]") -> list[str]:
    """The settings in which some runs differ, in the order of the task's fields."""
    names = dict.fromkeys(name for run in runs for name in run.config)
    return [n for n in names if len({repr(run.config.get(n)) for run in runs}) > 1]


def number(run: "Run") -> str:
    """The number that matters, the mean over the seeds of its last rows.

    It is the metric that chose the weights that count, where there is one, else the last that
    the experiment judges by and that the run has.
    """
    last, judged = run.last(), run.result.get("judged_by", ()) if run.done else ()
    for name in (run.config.get("best"), *reversed(judged), *USUAL):
        found = [row[name] for row in last if row.get(name) is not None]
        if found:
            return f"{name} {fmean(found):.4g}"
    return "-"


def aligned(lines: list[list[str]]) -> str:
    """Cells below each other, without spaces at the ends of lines."""
    count = max(map(len, lines))
    widths = [
        max((len(line[k]) for line in lines if k < len(line)), default=0) for k in range(count)
    ]
    rows = (
        "  ".join(f"{c:<{w}}" for c, w in zip(line, widths, strict=False)) for line in lines
    )
    return "\n".join(row.rstrip() for row in rows)


def state(run: "Run") -> str:
    """The word "done", or how far a run is and how long ago it last said so."""
    if run.done:
        return "done"
    update = max((row["update"] for row in run.last()), default=0)
    ago = round(time.time() - (run.folder / "metrics.jsonl").stat().st_mtime)
    return f"at update {update}, {ago} s ago"


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
