"""Runs as the command line prints them."""

import time
from collections.abc import Sequence
from shutil import get_terminal_size
from statistics import fmean
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from lnlab.training.runs import Run

WIDTH = 100
"""The letters of a line where there is no terminal; what does not fit, --csv has."""

SHOWN = 40
"""The most runs that are shown, where nobody asks for all."""

ALWAYS = ("key", "task", "norm", "finished", "state", "number", "data")
"""The columns that come first and are shown however narrow a terminal is."""

SHRINKING = ("norm", "state", "data")
"""The columns of these whose words may lose their ends, so that a number has room."""

GAP = 2
"""Spaces between columns."""

WIDEST_SETTING = 24
"""The most letters of a setting that are shown."""

USUAL_METRICS = ("test_error", "test_nll", "loss")
"""The metrics of a run that does not say by which it is judged: it is on its way, or older."""


def overview(runs: "Sequence[Run]", wanted: Sequence[str] = (), most: int | None = None) -> str:
    """Return a line for each run, the latest first: its arm, state, number and settings.

    Args:
        runs: to be shown.
        wanted: the settings that are shown; by default those in which the runs differ, and
            what all of them have in common is said once. Those for which a line has no room
            are counted.
        most: of the runs, the older ones being counted; None: all.
    """
    latest = sorted(runs, key=lambda run: (not run.done, run.finished), reverse=True)[:most]
    settings = list(wanted) or differing_settings(latest)
    table = [[*ALWAYS, *settings], *(_row(run, settings) for run in latest)]
    width = get_terminal_size((WIDTH, 24)).columns
    text = ""
    if not wanted and len(latest) > 1:
        columns = list(zip(*table, strict=True))
        alike = [column for column in columns if len({*column[1:]}) == 1]
        if alike:
            text = f"all: {'; '.join(f'{column[0]} {column[1]}' for column in alike)}\n"
            rest = [column for column in columns if column not in alike]
            table = [list(row) for row in zip(*rest, strict=True)]
    table = _shrink(table, width)
    room, first = _widths(table), sum(name in ALWAYS for name in table[0])
    fitting = [k for k in range(len(room)) if sum(room[: k + 1]) + GAP * k <= width]
    shown = max(first, len(fitting))
    text += aligned([row[:shown] for row in table])
    if left := len(table[0]) - shown:
        text += f"\nno room for {left} more columns: `lnlab results compare --csv` has them"
    if older := len(runs) - len(latest):
        text += f"\nand {older} older runs: --all shows them"
    return text


def _row(run: "Run", settings: Sequence[str]) -> list[str]:
    """Return the cells of a run; a damaged one says so, and its error goes to stderr."""
    try:
        known = [run.finished or "-", state(run), number(run)]
    except ValueError as error:
        known = ["-", "damaged", "-"]
        click.echo(str(error), err=True)
    name, kind = run.config.get("data", ""), str(run.data.get("kind"))
    data = kind if name in ("", kind) else f"{brief(name)}, {kind}"
    values = [brief(run.config.get(name, "-")) for name in settings]
    return [run.key, run.task, brief(run.config.get("norm", "-")), *known, data, *values]


def brief(value: Any) -> str:
    """Return a setting in few letters; several seeds in a row as the first and the last."""
    if isinstance(value, list | tuple):
        if len(value) > 2 and [*value] == [*range(value[0], value[0] + len(value))]:
            return f"{value[0]} to {value[-1]}"
        value = ",".join(map(str, value))
    return _cut(str(value), WIDEST_SETTING)


def differing_settings(runs: "Sequence[Run]") -> list[str]:
    """Return the settings in which runs differ, those of the most values first."""
    names = dict.fromkeys(n for run in runs for n in run.config if n not in ALWAYS)
    values = {n: len({repr(run.config.get(n)) for run in runs}) for n in names}
    return sorted((n for n in names if values[n] > 1), key=values.__getitem__, reverse=True)


def number(run: "Run") -> str:
    """Return the number that matters, the mean over the seeds of its last rows.

    It is the metric that chose the weights that count, where there is one, else the last that
    the experiment judges by and that the run has.
    """
    rows, judged = run.last(), run.result.get("main_metrics", ()) if run.done else ()
    for name in filter(
        None, (run.config.get("best_metric"), *reversed(judged), *USUAL_METRICS)
    ):
        values = [row[name] for row in rows if row.get(name) is not None]
        if values:
            return f"{name} {fmean(values):.4g}"
    return "-"


def state(run: "Run") -> str:
    """Return "done", or "kept" of a run of results/, with the seeds that diverged; of another
    run how far it is and how long ago it last said so."""
    from lnlab.training.runs import KeptRun

    if run.done:
        word = "kept" if isinstance(run, KeptRun) else "done"
        outcomes = run.result.get("outcomes", {}).values()
        diverged = sum(one["outcome"] == "diverged" for one in outcomes)
        return f"{word}, {diverged} of {len(outcomes)} diverged" if diverged else word
    update = max((row["update"] for row in run.last()), default=0)
    ago = round(time.time() - (run.folder / "metrics.jsonl").stat().st_mtime)
    return f"at update {update}, {ago} s ago"


def show_run(run: "Run") -> None:
    """Print a run: what it was, on what, and the last row of each seed, as columns."""
    click.echo(f"{run.folder}  {state(run)}")
    for title, values in (("", run.config), ("data ", run.data), ("on ", run.environment)):
        for name, value in values.items():
            click.echo(f"  {title}{name}: {value}")
    for what, (then, now) in run.changes().items():
        click.echo(f"  changed since: {what} was {then}, is {now}")
    metrics = run.metrics()
    if len(metrics):
        numbers = metrics.select_dtypes("number")  # images are for notebooks
        click.echo(numbers.groupby("seed").last().T.to_string(float_format="{:.6g}".format))


# Tables of texts, rows of cells with the head first.


def _widths(table: Sequence[Sequence[str]]) -> list[int]:
    return [max(map(len, column)) for column in zip(*table, strict=True)]


def _shrink(table: list[list[str]], width: int) -> list[list[str]]:
    """Cut the widest columns of SHRINKING until those of ALWAYS have room in ``width``."""
    room, first = _widths(table), sum(name in ALWAYS for name in table[0])
    least = {table[0].index(name): len(name) for name in SHRINKING if name in table[0]}
    while sum(room[:first]) + GAP * (first - 1) > width:
        wide = [k for k, letters in least.items() if room[k] > letters]
        if not wide:
            break
        room[max(wide, key=lambda k: room[k])] -= 1
    return [[_cut(*cell) for cell in zip(row, room, strict=True)] for row in table]


def _cut(text: str, letters: int) -> str:
    return text if len(text) <= letters else f"{text[: letters - 1]}…"


def aligned(table: Sequence[Sequence[str]]) -> str:
    """Return cells below each other, without spaces at the ends of lines."""
    room = _widths(table)
    rows = ((" " * GAP).join(map(str.ljust, row, room)) for row in table)
    return "\n".join(row.rstrip() for row in rows)
