"""``lnlab list``, ``lnlab run`` and ``lnlab site``: the notebooks and their pages."""

import json
import os
import re
import signal
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

from lnlab.seeds import read_seeds

if TYPE_CHECKING:
    from lnlab.book.run import Executed

    Parameters = dict[Path, dict[str, Any]]
    """The parameters of each notebook that is to run."""

BUDGETS = ("smoke", "notebook", "paper")

KINDS = {dict: "names and values in braces, as '{\"delta\": 2}'", int: "a whole number"}
"""The kinds of values that not every text is, each with the way to write it."""

TIMEOUT, PAPER_TIMEOUT = 1800, 7 * 86400
"""Seconds of one cell: of the longest notebook it takes minutes, with a paper's budget days."""

UNFINISHED = "unfinished.json"
"""A file in the folder of pages: the plan of a run that was stopped, and what it had done."""


# The values of parameters: what a notebook would refuse minutes later is refused at once.


def parse_parameter(name: str, text: str, default: Any = None) -> Any:
    """Return the value of ``-p NAME VALUE``; a text where its ``default`` is one."""
    from lnlab import book, data
    from lnlab.data.dataset import find_source, split_spec

    if "=" in name:
        raise ValueError(explain_spelling(name))
    if name == "seeds":
        try:
            return [*read_seeds(text)]
        except ValueError as error:
            raise ValueError(f"-p {error}") from None
    value = text if isinstance(default, str) else book.value(text)
    if type(default) in KINDS and type(value) is not type(default):
        raise ValueError(f"-p {name} {text!r}: write {KINDS[type(default)]}.")
    if name == "budget" and value not in BUDGETS:
        raise ValueError(f"-p budget {text!r}: choose from {', '.join(BUDGETS)}.")
    if name == "device" and not re.fullmatch(r"auto|cpu|mps|cuda(:\d+)?", str(value)):
        raise ValueError(f"-p device {text!r}: write auto, cpu, cuda, cuda:1 or mps.")
    if name == "data" and value:  # empty stands for the data of the budget
        find_source(split_spec(str(value))[0], data.sources())
    return value


def explain_spelling(word: str) -> str:
    """Return the message for one word in place of a parameter's name and value."""
    return f"-p {word}: write the name and the value apart, as -p seeds 3-5."


def check_available(values: Mapping[str, Any]) -> None:
    """Raise ValueError if the device or the data of the parameters are not on this machine.

    The data of a budget are not checked: the notebook does so.
    """
    if values.get("device", "cpu") != "cpu":
        from lnlab.training.random_state import check_device

        check_device(values["device"])
    if spec := values.get("data"):
        from lnlab import data
        from lnlab.cli.data import locate
        from lnlab.data.dataset import find_source, split_spec

        name, folder = split_spec(spec)
        location = locate(find_source(name, data.sources()), data.data_folder() / name)
        if folder is not None:
            location = "" if folder.exists() else f"not here: there is no {folder}"
        if location.startswith("not here"):
            raise ValueError(f"-p data {spec}: {location}.")


class RunCommand(click.Command):
    """A command whose last word may be the "seeds=3" of a -p, which click would call two words
    of which one is missing."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if args[-2:-1] == ["-p"]:
            raise ValueError(explain_spelling(args[-1]))
        return super().parse_args(ctx, args)


# The commands.


def folder_option(name: str, default: str, help: str) -> Callable[[Callable], Callable]:
    """Return an option that names a folder."""
    kind = click.Path(path_type=Path)
    return click.option(name, type=kind, default=default, show_default=True, help=help)


names_argument = click.argument("names", nargs=-1, metavar="[NUMBER OR NAME]...")


def workbook() -> list[Path]:
    """Return the notebooks of the checkout in reading order."""
    from lnlab import book, paths

    return book.notebooks(paths.root() / "notebooks")


@click.command("list")
@names_argument
def list_all(names: tuple[str, ...]) -> None:
    """List the notebooks and their parameters; of those named, the values, too."""
    from lnlab import book

    for path in book.select_notebooks(names, workbook()):
        number, (title, _) = path.stem.split("_")[0], book.read_opening(book.read(path))
        if names:
            click.echo("\n    ".join([f"{number}  {title}", *book.parameter_lines(path)]))
        else:
            click.echo(f"{number}  {title:<40} {'  '.join(book.parameters(path))}")


@click.command(cls=RunCommand)
@names_argument
@click.option(
    "-p",
    "parameters",
    nargs=2,
    multiple=True,
    metavar="NAME VALUE",
    help="Set a parameter, as in -p budget smoke -p seeds 3; may be repeated.",
)
@folder_option("--out", "build", "The folder of executed notebooks and pages.")
@click.option(
    "--jobs", type=click.IntRange(1), help="Notebooks at a time [one a core, one thread each]."
)
@click.option("--embed", is_flag=True, help="Also write pages in one file each, to hand out.")
@click.option("--times", is_flag=True, help="Run nothing: show what each notebook took.")
@click.option(
    "--timeout", type=click.IntRange(1), metavar="SECONDS",
    help=f"What one cell may take [{TIMEOUT}; a week for -p budget paper].",
)  # fmt: skip
def run(
    names: tuple[str, ...],
    parameters: tuple[tuple[str, str], ...],
    out: Path,
    jobs: int | None,
    embed: bool,
    times: bool,
    timeout: int | None,
) -> None:
    """Execute notebooks headless, all of them or those named, and make a page of each.

    One that fails, hangs or loses its kernel is kept as NAME.failed.ipynb; the others
    finish, and the exit code is 1.
    """
    from lnlab import book, paths

    if out.resolve() == (paths.root() / "notebooks").resolve():
        raise ValueError(f"--out {out}: executed notebooks would replace those in git")
    notebooks = workbook()
    every = (book.parameters(path).items() for path in notebooks)
    defaults = {name: book.value(text) for items in every for name, text in items}
    values = {n: parse_parameter(n, text, defaults.get(n)) for n, text in parameters}
    wanted = book.select_parameters(values, book.select_notebooks(names, notebooks))
    if times:
        return show_times(list(wanted), out)
    check_available(values)
    from lnlab.book.html import publish  # late, as it takes time
    from lnlab.book.site import first_page

    # the kernels of notebooks start with these
    os.environ["LNLAB_HEADLESS"] = "1"
    os.environ["PLOTLY_RENDERER"] = "plotly_mimetype"  # what pages are made of
    # or each would start as many threads as there are cores; alone, too, as they wait for each
    # other wherever the cores have other work to do
    os.environ["OMP_NUM_THREADS"] = "1"
    out.mkdir(parents=True, exist_ok=True)
    fingerprints = {path.stem: book.fingerprint(path) for path in wanted}
    plan = {"asked": fingerprints, "parameters": values}
    left = remaining(plan, wanted, out)
    done = [path.stem for path in wanted if path not in left]

    def finish(outcome: "Executed") -> None:
        if not outcome.error:
            done.append(outcome.name)
        publish(notebooks, out, only=[outcome.name])

    def stopped(by: int, _: object = None) -> NoReturn:
        stop(out, plan | {"done": done}, by)

    longest = PAPER_TIMEOUT if values.get("budget") == "paper" else TIMEOUT
    before = signal.signal(signal.SIGTERM, stopped)
    try:
        outcomes = run_with_bar(left, out, jobs or cores(), timeout or longest, finish)
        embedded = [outcome.name for outcome in outcomes] if embed else []
        publish(notebooks, out, embed=embedded)
        index = first_page(notebooks, out, out, **first_page_content())
    except KeyboardInterrupt:
        stopped(signal.SIGINT)
    finally:
        signal.signal(signal.SIGTERM, before)
    (out / UNFINISHED).unlink(missing_ok=True)
    click.echo(f"pages: {index}")
    for name in embedded:
        click.echo(f"in one file: {out / 'handout' / name}.html")
    if any(outcome.error for outcome in outcomes):
        raise SystemExit(1)


@click.command()
@folder_option("--pages", "build", "The folder that `lnlab run` filled.")
@folder_option("--out", "site", "The folder for a static host.")
def site(pages: Path, out: Path) -> None:
    """Make the site of what `lnlab run` left: a first page, and the pages of the notebooks."""
    from lnlab.book import site

    click.echo(f"site: {site.site(workbook(), pages, out, **first_page_content())}")


def first_page_content() -> dict[str, Any]:
    """Return what the first page shows beside the notebooks."""
    from lnlab import paths
    from lnlab.auditing.norm_survey import read_popular_norms
    from lnlab.papers import claims

    return {
        "claims": claims.claims().records,
        "findings": claims.findings("claims.html").replace(", [errata](docs/errata.md)", ""),
        "norms": read_popular_norms(),
        "repository": paths.repository(),
    }


# Parts of `lnlab run`.


def cores() -> int:
    """Return the number of cores that this process may use, or of all where that is unknown."""
    known = hasattr(os, "sched_getaffinity")
    return len(os.sched_getaffinity(0)) if known else os.cpu_count() or 1


def remaining(plan: dict[str, Any], wanted: "Parameters", out: Path) -> "Parameters":
    """Return what is left of a plan: everything, unless a run of the same plan was stopped.

    A notebook that was done and has changed since, or whose code has, runs again.
    """
    try:
        stopped = json.loads((out / UNFINISHED).read_text(encoding="utf-8"))
        before, now = dict(stopped["asked"]), plan["asked"]
        if before.keys() != now.keys() or stopped["parameters"] != plan["parameters"]:
            return wanted
        done = [name for name in stopped["done"] if before[name] == now[name]]
    except (OSError, ValueError, LookupError, TypeError):
        return wanted
    message = f"continued: {len(done)} of {len(wanted)} were done when it was stopped"
    click.echo(message, err=True)
    return {path: values for path, values in wanted.items() if path.stem not in done}


def stop(out: Path, plan: dict[str, Any], by: int) -> NoReturn:
    """End now: finished notebooks stay, of a running one nothing but its name in the plan."""
    from lnlab.book.run import find_drafts

    (out / UNFINISHED).write_text(json.dumps(plan), encoding="utf-8")
    for draft, process in find_drafts(out):
        if process == os.getpid():
            draft.unlink(missing_ok=True)
    click.echo("stopped; the same command again does the notebooks that are missing", err=True)
    # the threads wait for cells and cannot be told to stop; the kernels end when we are gone
    os._exit(128 + by)


def run_with_bar(
    wanted: "Parameters",
    out: Path,
    jobs: int,
    timeout: int,
    finish: "Callable[[Executed], None]",
) -> "list[Executed]":
    """Run notebooks with one bar over all, which also shows the last line that one printed.

    It moves by the seconds that each is expected to take; ``finish`` is called with each
    outcome.
    """
    import torch
    from tqdm import tqdm

    from lnlab.book.run import run, seconds_before
    from lnlab.training.runs import device_name

    plural = "core" if cores() == 1 else "cores"
    hardware = f"{device_name(torch.device('cpu'))}, {cores()} {plural}"
    expected = {path.stem: seconds_before(path, out) for path in wanted}
    layout = "{l_bar}{bar}| {elapsed}<{remaining}{postfix}"
    total = sum(expected.values())
    outcomes = []
    with tqdm(total=total, bar_format=layout, leave=False, disable=None) as bar:

        def show(name: str, line: str) -> None:
            bar.set_postfix_str(f"{name.split('_')[0]}: {line[:60]}")

        options = {"jobs": jobs, "timeout": timeout, "listener": show, "hardware": hardware}
        for outcome in run(wanted, out, **options):
            bar.set_postfix_str("", refresh=False)
            bar.write(str(outcome))
            bar.update(expected[outcome.name])
            finish(outcome)
            outcomes.append(outcome)
    return outcomes


def show_times(paths: Sequence[Path], out: Path) -> None:
    """Print how long each notebook took when it last ran into ``out``, and their sum.

    Seconds by the clock, and CPU-seconds of its kernel, which depend less on other work.
    """
    from lnlab import book

    seconds, cpu_seconds = 0.0, 0.0
    for path in paths:
        if not (out / path.name).exists():
            click.echo(f"{path.stem:<42} not run")
            continue
        run = book.read(out / path.name)["metadata"]["lnlab"]
        cpu = run.get("cpu_seconds") or 0.0
        seconds, cpu_seconds = seconds + run["seconds"], cpu_seconds + cpu
        budget = run["parameters"].get("budget", "")
        times = f"{run['seconds']:>7.1f} s {cpu:>7.1f} CPU-s"
        click.echo(f"{path.stem:<42} {times}  {budget:<9} {run['at']}")
    click.echo(f"{'all, one after the other':<42} {seconds:>7.1f} s {cpu_seconds:>7.1f} CPU-s")
