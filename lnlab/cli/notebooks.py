"""``lnlab list`` and ``lnlab run``: the notebooks."""

import json
import os
import re
import signal
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

from lnlab.seeds import read_seeds

if TYPE_CHECKING:
    import lnlab.book.run


BUDGETS = ("smoke", "notebook", "paper")

KINDS = {dict: "names and values in braces, as '{\"delta\": 2}'", int: "a whole number"}
"""The kinds of values that not every text is, each with the way to write it."""


def parse_parameter(name: str, text: str, default: Any = None) -> Any:
    """Return the value of ``-p NAME VALUE``; a text where its ``default`` is one.

    Raises:
        ValueError: if the name has a "=" in it, the text is of another kind than the default,
            or it names no seeds, budget, device or data, for the parameters of these names;
            what a notebook would find out minutes later is refused at once.
    """
    from lnlab import book, data
    from lnlab.data.dataset import find_source, split_spec

    if "=" in name:
        raise ValueError(write_apart(name))
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
    if name == "data" and value:  # empty is the budget's own
        find_source(split_spec(str(value))[0], data.sources())
    return value


def write_apart(word: str) -> str:
    """Return the complaint about one word that stands for a parameter's name and value."""
    return f"-p {word}: write the name and the value apart, as -p seeds 3-5."


def check_available(values: Mapping[str, Any]) -> None:
    """Raise ValueError if the device or the data of the parameters is not on this machine.

    Of a budget's own data the notebook says so.
    """
    if values.get("device", "cpu") != "cpu":
        from lnlab.training.random_state import available

        available(values["device"])
    if spec := values.get("data"):
        from lnlab import data
        from lnlab.cli.data import whereabouts
        from lnlab.data.dataset import find_source, split_spec

        name, folder = split_spec(spec)
        source = find_source(name, data.sources())
        if folder is None:
            where = whereabouts(source, data.data_folder() / source.name)
        else:
            where = "" if folder.exists() else f"not here: there is no {folder}"
        if where.startswith("not here"):
            raise ValueError(f"-p data {spec}: {where}.")


TIMEOUT, PAPER_TIMEOUT = 1800, 7 * 86400
"""Seconds of one cell: of the longest notebook it takes minutes, with a paper's budget days."""


@click.command("list")
@click.argument("notebooks", nargs=-1, metavar="[NUMBER OR NAME]...")
def list_all(notebooks: tuple[str, ...]) -> None:
    """List the notebooks and what each can be told with -p; of those named, the values, too."""
    import lnlab.paths
    from lnlab import book

    paths = book.notebooks(lnlab.paths.root() / "notebooks")
    for path in book.chosen(notebooks, paths):
        number, (title, _) = path.stem.split("_")[0], book.opening(book.read(path))
        if notebooks:
            click.echo("\n    ".join([f"{number}  {title}", *book.parameter_lines(path)]))
        else:
            click.echo(f"{number}  {title:<40} {'  '.join(book.parameters(path))}")


class InPairs(click.Command):
    """A command whose last word may be the "seeds=3" of a -p, which click would call two words
    of which one is missing."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if args[-2:-1] == ["-p"]:
            raise ValueError(write_apart(args[-1]))
        return super().parse_args(ctx, args)


@click.command(cls=InPairs)
@click.argument("notebooks", nargs=-1, metavar="[NUMBER OR NAME]...")
@click.option(
    "-p",
    "parameters",
    nargs=2,
    multiple=True,
    metavar="NAME VALUE",
    help="Set a parameter, as in -p budget smoke -p seeds 3; may be repeated.",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    default=Path("build"),
    show_default=True,
    help="The folder for what comes out.",
)
@click.option(
    "--jobs", type=click.IntRange(1), help="Notebooks at a time [one a core, one thread each]."
)
@click.option("--embed", is_flag=True, help="Also write pages in one file each, to hand out.")
@click.option("--times", is_flag=True, help="Run nothing: show what each notebook took.")
@click.option(
    "--timeout",
    type=click.IntRange(1),
    metavar="SECONDS",
    help=f"What one cell may take [{TIMEOUT}; a week for -p budget paper].",
)
def run(
    notebooks: tuple[str, ...],
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
    import lnlab.paths
    from lnlab import book

    folder = lnlab.paths.root() / "notebooks"
    if out.resolve() == folder.resolve():
        raise ValueError(f"--out {out}: executed notebooks would replace those in git")
    everything = book.notebooks(folder)
    known = dict(one for path in everything for one in book.parameters(path).items())
    defaults = {name: book.value(text) for name, text in known.items()}
    told = {n: parse_parameter(n, text, defaults.get(n)) for n, text in parameters}
    wanted = book.shared(told, book.chosen(notebooks, everything))
    if times:
        return show_times(list(wanted), out)
    check_available(told)
    from lnlab.book.html import publish  # what was asked is right: now what takes time
    from lnlab.book.site import first_page

    timeout = timeout or (PAPER_TIMEOUT if told.get("budget") == "paper" else TIMEOUT)
    os.environ["LNLAB_HEADLESS"] = "1"
    os.environ["PLOTLY_RENDERER"] = "plotly_mimetype"  # what pages are made of
    jobs = jobs or cores()
    # or each would start as many threads as there are cores; alone, too, as they wait for each
    # other wherever the cores have other work to do
    os.environ["OMP_NUM_THREADS"] = "1"
    out.mkdir(parents=True, exist_ok=True)
    asked = {path.stem: book.fingerprint(path) for path in wanted}
    plan = {"asked": asked, "parameters": told}
    left = remaining(plan, wanted, out)
    done = [path.stem for path in wanted if path not in left]

    def settled(outcome: "lnlab.book.run.Executed") -> None:
        if not outcome.error:
            done.append(outcome.name)
        publish(everything, out, only=[outcome.name])

    def stopped(by: int, _: object = None) -> NoReturn:
        stop(out, plan | {"done": done}, by)

    before = signal.signal(signal.SIGTERM, stopped)
    try:
        outcomes = run_with_bar(left, out, jobs, timeout, settled)
        alone = [outcome.name for outcome in outcomes] if embed else []
        publish(everything, out, embed=alone)
        published = first_page(everything, out, out, **shown_first())
    except KeyboardInterrupt:
        stopped(signal.SIGINT)
    finally:
        signal.signal(signal.SIGTERM, before)
    (out / UNFINISHED).unlink(missing_ok=True)
    click.echo(f"pages: {published}")
    for name in alone:
        click.echo(f"in one file: {out / 'handout' / name}.html")
    if any(outcome.error for outcome in outcomes):
        raise SystemExit(1)


@click.command()
@click.option(
    "--pages",
    type=click.Path(path_type=Path),
    default=Path("build"),
    show_default=True,
    help="The folder that `lnlab run` filled.",
)
@click.option(
    "--out", type=click.Path(path_type=Path), default=Path("site"), show_default=True,
    help="The folder for a static host.",
)  # fmt: skip
def site(pages: Path, out: Path) -> None:
    """Make the site of what `lnlab run` left: a first page, and the pages of the notebooks."""
    import lnlab.paths
    from lnlab import book
    from lnlab.book.site import site as made

    paths = book.notebooks(lnlab.paths.root() / "notebooks")
    click.echo(f"site: {made(paths, pages, out, **shown_first())}")


def shown_first() -> dict[str, Any]:
    """Return what the first page shows beside the notebooks."""
    import lnlab.paths
    from lnlab.papers import claims

    found = claims.findings("claims.html").replace(", [errata](docs/errata.md)", "")
    return {
        "claims": claims.claims().records,
        "findings": found,
        "repository": lnlab.paths.repository(),
    }


UNFINISHED = "unfinished.json"
"""A file in the folder of pages: what a run was asked for, and had done when it was stopped.

The notebooks asked for have their fingerprints, by which a change of one is noticed.
"""


def remaining(
    plan: dict[str, Any], wanted: "dict[Path, dict[str, Any]]", out: Path
) -> "dict[Path, dict[str, Any]]":
    """Return what of a plan is left to do: all, unless the very same one was stopped.

    A notebook that was done and has changed since, or whose code has, is left to do again.
    """
    try:
        stopped = json.loads((out / UNFINISHED).read_text(encoding="utf-8"))
        before, now = dict(stopped["asked"]), plan["asked"]
        if before.keys() != now.keys() or stopped["parameters"] != plan["parameters"]:
            return wanted
        done = [name for name in stopped["done"] if before[name] == now[name]]
    except (OSError, ValueError, LookupError, TypeError):
        return wanted
    click.echo(
        f"continued: {len(done)} of {len(wanted)} were done when it was stopped", err=True
    )
    return {path: own for path, own in wanted.items() if path.stem not in done}


def show_times(paths: list[Path], out: Path) -> None:
    """Print how long each notebook took when it last ran into ``out``, and their sum.

    Seconds by the clock, and CPU-seconds of its kernel: what else runs changes these less.
    """
    import nbformat

    total, worked = 0.0, 0.0
    for path in paths:
        if not (out / path.name).exists():
            click.echo(f"{path.stem:<42} not run")
            continue
        run = nbformat.read(out / path.name, as_version=4).metadata["lnlab"]
        total += run["seconds"]
        cpu = run.get("cpu_seconds") or 0.0
        worked += cpu
        took = f"{run['seconds']:>7.1f} s {cpu:>7.1f} CPU-s"
        budget = run["parameters"].get("budget", "")
        click.echo(f"{path.stem:<42} {took}  {budget:<9} {run['at']}")
    click.echo(f"{'all, one after the other':<42} {total:>7.1f} s {worked:>7.1f} CPU-s")


def run_with_bar(
    wanted: "dict[Path, dict[str, Any]]",
    out: Path,
    jobs: int,
    timeout: int,
    settled: "Callable[[lnlab.book.run.Executed], None]",
) -> "list[lnlab.book.run.Executed]":
    """Run notebooks with one bar over all, which also shows the last line that one printed.

    It moves by the seconds that each is expected to take; ``settled`` is called with each
    outcome.
    """
    import torch
    from tqdm import tqdm

    import lnlab.book.run
    from lnlab.training.runs import device_name

    plural = "core" if cores() == 1 else "cores"
    hardware = f"{device_name(torch.device('cpu'))}, {cores()} {plural}"
    expected = {path.stem: lnlab.book.run.seconds_before(path, out) for path in wanted}
    form = "{l_bar}{bar}| {elapsed}<{remaining}{postfix}"
    total = sum(expected.values())
    with tqdm(total=total, bar_format=form, leave=False, disable=None) as bar:

        def show(name: str, line: str) -> None:
            bar.set_postfix_str(f"{name.split('_')[0]}: {line[:60]}")

        outcomes = []
        for outcome in lnlab.book.run.run(
            wanted, out, jobs=jobs, timeout=timeout, listener=show, hardware=hardware
        ):
            bar.set_postfix_str("", refresh=False)
            bar.write(str(outcome))
            bar.update(expected[outcome.name])
            settled(outcome)
            outcomes.append(outcome)
        return outcomes


def stop(out: Path, plan: dict[str, Any], by: int) -> NoReturn:
    """End now; what has finished stays, what was running leaves nothing but its name."""
    from lnlab.book.run import drafts

    (out / UNFINISHED).write_text(json.dumps(plan), encoding="utf-8")
    for draft, process in drafts(out):
        if process == os.getpid():
            draft.unlink(missing_ok=True)
    click.echo("stopped; the same command again does the notebooks that are missing", err=True)
    # the threads wait for cells and cannot be told to stop; the kernels end when we are gone
    os._exit(128 + by)


def cores() -> int:
    """Return the number of cores that this process may use, or of all where that is unknown."""
    known = hasattr(os, "sched_getaffinity")
    return len(os.sched_getaffinity(0)) if known else os.cpu_count() or 1
