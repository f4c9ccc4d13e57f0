"""Runs as the command line prints them."""

import time
from collections.abc import Sequence
from itertools import accumulate
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

USUAL = ("test_error", "test_nll", "loss")
"""The metrics of a run that does not say by which it is judged: it is on its way, or older."""

WIDE = 24
"""The most letters of a setting that are shown."""


def overview(runs: "Sequence[Run]", wanted: Sequence[str] = (), most: int | None = None) -> str:
    """A line for each run, the latest first: its arm, how it stands, its number, its settings.

    Args:
        runs: to be shown.
        wanted: the settings that are shown; by default those in which the runs differ, and
            what all of them have in common is said once. Those for which a line has no room
            are counted.
        most: of the runs, the older ones being counted; None: all.
    """
    latest = sorted(runs, key=lambda run: (not run.done, run.finished), reverse=True)[:most]
    asked = list(wanted) or differing(latest)
    lines = []
    for run in latest:
        settings = [brief(run.config.get(name, "-")) for name in asked]
        try:
            found = [run.finished or "-", state(run), number(run)]
        except ValueError as error:
            found = ["-", "damaged", "-"]
            click.echo(str(error), err=True)
        arm = brief(run.config.get("norm", "-"))
        lines.append([run.key, run.task, arm, *found, data(run), *settings])
    head = [*ALWAYS, *asked]
    width = get_terminal_size((WIDTH, 24)).columns
    common, table = ("", [head, *lines]) if wanted else divided([head, *lines])
    table = narrowed(table, width)
    fit = fitting(table, width)
    text = common + aligned([line[:fit] for line in table])
    if left := len(table[0]) - fit:
        text += f"\nno room for {left} more columns: `lnlab results compare --csv` has them"
    if older := len(runs) - len(lines):
        text += f"\nand {older} older runs: --all shows them"
    return text


def data(run: "Run") -> str:
    """The data of a run as its settings name them, and of what kind they are."""
    name, kind = run.config.get("data", ""), str(run.data.get("kind"))
    return kind if name in ("", kind) else f"{brief(name)}, {kind}"


def brief(value: Any) -> str:
    """A setting in few letters; several seeds in a row as the first and the last."""
    if isinstance(value, list | tuple):
        count = len(value)
        if count > 2 and [*value] == [*range(value[0], value[0] + count)]:
            return f"{value[0]} to {value[-1]}"
        value = ",".join(map(str, value))
    return cut(str(value), WIDE)


def differing(runs: "Sequence[Run]") -> list[str]:
    """The settings in which some runs differ, those of the most values first, but for those
    that always have a column."""
    names = dict.fromkeys(n for run in runs for n in run.config if n not in ALWAYS)
    values = {n: len({repr(run.config.get(n)) for run in runs}) for n in names}
    return sorted((n for n in names if values[n] > 1), key=values.__getitem__, reverse=True)


def divided(lines: list[list[str]]) -> tuple[str, list[list[str]]]:
    """A line that tells what all lines below the head have in common, and the rest of them."""
    head, *rows = lines
    if len(rows) < 2:
        return "", lines
    alike = {k: column[0] for k, column in enumerate(zip(*rows, strict=True))
             if len({*column}) == 1}  # fmt: skip
    common = "; ".join(f"{head[k]} {value}" for k, value in alike.items())
    rest = [[cell for k, cell in enumerate(line) if k not in alike] for line in lines]
    return f"all: {common}\n" if common else "", rest


def number(run: "Run") -> str:
    """The number that matters, the mean over the seeds of its last rows.

    It is the metric that chose the weights that count, where there is one, else the last that
    the experiment judges by and that the run has.
    """
    last, judged = run.last(), run.result.get("main_metrics", ()) if run.done else ()
    for name in filter(None, (run.config.get("best_metric"), *reversed(judged), *USUAL)):
        found = [row[name] for row in last if row.get(name) is not None]
        if found:
            return f"{name} {fmean(found):.4g}"
    return "-"


ALWAYS = ("key", "task", "norm", "finished", "state", "number", "data")
"""The columns that come first and are shown however narrow a terminal is."""

GAP = 2
"""Spaces between columns."""


def widths(lines: list[list[str]]) -> list[int]:
    """The letters that each column of some lines takes."""
    count = max(map(len, lines))
    return [
        max((len(line[k]) for line in lines if k < len(line)), default=0) for k in range(count)
    ]


def first(lines: list[list[str]]) -> int:
    """The number of columns of ``ALWAYS`` that a table, head first, has."""
    return sum(name in ALWAYS for name in lines[0])


CUT = ("norm", "state", "data")
"""The columns whose words may lose their ends, so that a number has room."""


def narrowed(lines: list[list[str]], width: int) -> list[list[str]]:
    """A table, head first, whose columns of ``ALWAYS`` have ``width`` letters: the widest of
    ``CUT`` lose their ends, their names excepted."""
    room, always = widths(lines), first(lines)
    least = {lines[0].index(name): len(name) for name in CUT if name in lines[0]}
    while sum(each + GAP for each in room[:always]) - GAP > width:
        left = [k for k, letters in least.items() if room[k] > letters]
        if not left:
            break
        room[max(left, key=lambda k: room[k])] -= 1
    return [
        [cut(cell, letters) for cell, letters in zip(line, room, strict=True)] for line in lines
    ]


def cut(text: str, letters: int) -> str:
    """A text in at most so many letters."""
    return text if len(text) <= letters else f"{text[: letters - 1]}…"


def fitting(lines: list[list[str]], width: int) -> int:
    """The number of columns for which ``width`` letters have room, or that always stand."""
    ends = accumulate(each + GAP for each in widths(lines))
    return max(first(lines), sum(end - GAP <= width for end in ends))


def aligned(lines: list[list[str]]) -> str:
    """Cells below each other, without spaces at the ends of lines."""
    room = widths(lines)
    rows = (
        (" " * GAP).join(f"{c:<{w}}" for c, w in zip(line, room, strict=False))
        for line in lines
    )
    return "\n".join(row.rstrip() for row in rows)


def state(run: "Run") -> str:
    """The word "done", with the seeds that diverged, or how far a run is and how long ago it
    last said so."""
    if run.done:
        outcomes = run.result.get("outcomes", {}).values()
        lost = sum(one["outcome"] == "diverged" for one in outcomes)
        return f"done, {lost} of {len(outcomes)} diverged" if lost else "done"
    update = max((row["update"] for row in run.last()), default=0)
    ago = round(time.time() - (run.folder / "metrics.jsonl").stat().st_mtime)
    return f"at update {update}, {ago} s ago"


def show_run(run: "Run") -> None:
    """Print a run: what it was, on what, and the last row of each seed, as columns."""
    click.echo(f"{run.folder}  {state(run)}")
    for title, values in (("", run.config), ("data", run.data), ("on", run.environment)):
        for name, value in values.items():
            click.echo(f"  {title + ' ' if title else ''}{name}: {value}")
    for what, (then, now) in run.changes().items():
        click.echo(f"  changed since: {what} was {then}, is {now}")
    metrics = run.metrics()
    if len(metrics):
        numbers = metrics.select_dtypes("number")  # pictures are for notebooks
        click.echo(numbers.groupby("seed").last().T.to_string(float_format="{:.6g}".format))
