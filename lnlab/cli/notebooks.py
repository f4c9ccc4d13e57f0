"""``lnlab list``, ``lnlab run`` and ``lnlab site``: the notebooks and their pages."""

import json
import os
import signal
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

from lnlab import paths
from lnlab.book import notebooks as book
from lnlab.seeds import read_seeds

if TYPE_CHECKING:
    from lnlab.book.run import NotebookRun

BUDGETS = ("smoke", "notebook", "paper")

TIMEOUT = 1800
"""Seconds of one cell: of the longest notebook it takes minutes."""


folder_option = partial(click.option, type=click.Path(path_type=Path), show_default=True)
names_argument = click.argument("names", nargs=-1, metavar="[NUMBER OR NAME]...")


def notebooks_of_checkout() -> list[Path]:
    """Return the notebooks of the checkout in reading order."""
    return book.list_notebooks(paths.checkout_folder() / "notebooks")


@click.command("list")
@names_argument
def list_notebooks(names: tuple[str, ...]) -> None:
    """List the notebooks and their parameters.

    Of those that are named, also the values.
    """
    for path in book.select_notebooks(names, notebooks_of_checkout()):
        number = path.stem.split("_")[0]
        title, _ = book.read_title_and_first_paragraph(book.read_notebook(path))
        if names:
            lines = book.read_parameter_lines(path, os.environ)
            click.echo("\n    ".join([f"{number}  {title}", *lines]))
        else:
            parameter_names = "  ".join(book.read_parameter_defaults_as_text(path))
            click.echo(f"{number}  {title:<40} {parameter_names}")


@click.command("run")
@names_argument
@click.option(
    "-p",
    "parameters",
    nargs=2,
    multiple=True,
    metavar="NAME VALUE",
    help="Set a parameter, as in -p budget smoke -p seeds 3; may be repeated.",
)
@folder_option("--out", default="build", help="The folder of executed notebooks and pages.")
@click.option(
    "--jobs", type=click.IntRange(1), help="Notebooks at a time [one a core, one thread each]."
)
@click.option("--embed", is_flag=True, help="Also write pages in one file each, to hand out.")
@click.option("--times", is_flag=True, help="Run nothing: show what each notebook took.")
@click.option(
    "--timeout",
    type=click.IntRange(1),
    metavar="SECONDS",
    help=f"Stop a notebook if one cell takes longer. If not given: {TIMEOUT} seconds, and no "
    "limit with -p budget paper.",
)
def run_and_publish(
    names: tuple[str, ...],
    parameters: tuple[tuple[str, str], ...],
    out: Path,
    jobs: int | None,
    embed: bool,
    times: bool,
    timeout: int | None,
) -> None:
    """Execute notebooks headless, and make a page of each.

    Without a name, all of them.

    One that fails, hangs or loses its kernel is kept as NAME.failed.ipynb; the others
    finish, and the exit code is 1.
    """
    if out.resolve() == (paths.checkout_folder() / "notebooks").resolve():
        raise ValueError(f"--out {out}: executed notebooks would replace those in git")
    notebooks = notebooks_of_checkout()
    every = (book.read_parameter_defaults_as_text(path).items() for path in notebooks)
    defaults = {
        name: book.parse_literal_or_text(text) for items in every for name, text in items
    }
    values = {n: parse_parameter(n, text, defaults.get(n)) for n, text in parameters}
    wanted = book.select_parameters_per_notebook(
        values, book.select_notebooks(names, notebooks)
    )
    if times:
        return print_run_times(list(wanted), out)
    for name in values:
        if without := [path.stem for path, given in wanted.items() if name not in given]:
            click.echo(f"-p {name}: not a parameter of {', '.join(without)}")
    if "device" in values:
        from lnlab.training.random_state import read_device

        read_device(values["device"])
    if values.get("data"):
        from lnlab.book.run import check_data

        for path, of_notebook in wanted.items():
            if "data" in of_notebook:
                check_data(path, of_notebook["data"], of_notebook.get("budget", ""))
    from joblib import cpu_count

    from lnlab.book.html import write_notebook_pages  # late, as it takes time
    from lnlab.book.site import write_index_claims_and_playground

    # the kernels of notebooks start with these
    os.environ["LNLAB_HEADLESS"] = "1"
    os.environ["PLOTLY_RENDERER"] = "plotly_mimetype"  # what pages are made of
    # or each would start as many threads as there are cores; alone, too, as they wait for each
    # other wherever the cores have other work to do
    os.environ["OMP_NUM_THREADS"] = "1"
    out.mkdir(parents=True, exist_ok=True)
    longest = None if values.get("budget") == "paper" else TIMEOUT
    handlers = {
        one: signal.signal(one, force_exit_on_signal) for one in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        outcomes = run_with_progress_bar(wanted, out, jobs or cpu_count(), timeout or longest)
        embedded = [one.name for one in outcomes if embed and not one.error]
        write_notebook_pages(notebooks, out, self_contained_names=embedded)
        index = write_index_claims_and_playground(
            notebooks, out, out, **collect_first_page_content()
        )
    finally:
        for one, handler in handlers.items():
            signal.signal(one, handler)
    kept = [o.name for o in outcomes if o.error and (out / f"{o.name}.ipynb").exists()]
    for name in kept:
        click.echo(f"not replaced: {name}.html of an earlier run; see {name}.failed.ipynb")
    if all(outcome.error for outcome in outcomes):
        if len(kept) < len(outcomes):
            click.echo(f"no page is complete; {out} has the pages of the failed runs")
    else:
        click.echo(f"pages: {index}")
    for name in embedded:
        click.echo(f"in one file: {out / 'handout' / name}.html")
    if any(outcome.error for outcome in outcomes):
        raise SystemExit(1)


@click.command("site")
@folder_option("--pages", default="build", help="The folder that `lnlab run` filled.")
@folder_option("--out", default="site", help="The folder for a static host.")
def make_site(pages: Path, out: Path) -> None:
    """Make a site of what `lnlab run` left.

    It has a first page, and the pages of the notebooks.
    """
    from lnlab.book import site

    content = collect_first_page_content()
    notebooks = notebooks_of_checkout()
    click.echo(f"site: {site.build_site(notebooks, pages, out, **content)}")
    if omitted := site.explain_omitted_pages(notebooks, pages):
        click.echo(f"not in it: {', '.join(omitted)}")


def collect_first_page_content() -> dict[str, Any]:
    """Return what the first page shows beside the notebooks."""
    from lnlab.auditing.norm_survey import read_stored_norm_survey
    from lnlab.papers import claims

    return {
        "claims": claims.claims().records,
        "findings": claims.findings_markdown("claims.html").replace(
            ", [errata](docs/errata.md)", ""
        ),
        "norms": read_stored_norm_survey(),
        "repository": paths.repository_url(),
    }


def parse_parameter(name: str, text: str, default: Any = None) -> Any:
    """Return the value of ``-p NAME VALUE``; a text where its ``default`` is one."""
    if name == "seeds":
        return [*read_seeds(text)]
    if name == "budget" and text not in BUDGETS:
        raise ValueError(f"-p budget {text!r}: choose from {', '.join(BUDGETS)}.")
    if isinstance(default, dict):
        return parse_dictionary(name, text)
    return text if isinstance(default, str) else book.parse_literal_or_text(text)


def parse_dictionary(name: str, text: str) -> dict[str, Any]:
    """Return the value of a parameter that is a dictionary, written as JSON or as Python."""
    try:
        value = json.loads(text)
    except ValueError:
        value = book.parse_literal_or_text(text)
    if not isinstance(value, dict):
        raise ValueError(
            f"-p {name} {text!r}: write a dictionary, '{{\"NAME\": VALUE}}'. "
            "`lnlab list NUMBER` shows an example for most notebooks."
        )
    return value


def force_exit_on_signal(signal_number: int, _: object) -> NoReturn:
    """End now: the notebooks that are done stay, those that are running leave nothing."""
    click.echo("stopped", err=True)
    # the threads wait for cells and cannot be told to stop; the kernels end when we are gone
    os._exit(128 + signal_number)


def run_with_progress_bar(
    wanted: dict[Path, dict[str, Any]], out: Path, jobs: int, timeout: int | None
) -> "list[NotebookRun]":
    """Run notebooks with one bar over all, which also shows the last line that one printed."""
    from tqdm import tqdm

    from lnlab.book.run import run_notebooks

    outcomes = []
    with tqdm(total=len(wanted), leave=False, disable=None) as bar:

        def show_last_line(name: str, line: str) -> None:
            bar.set_postfix_str(f"{name.split('_')[0]}: {line[:60]}")

        for outcome in run_notebooks(
            wanted, out, jobs=jobs, cell_timeout=timeout, listener=show_last_line
        ):
            bar.set_postfix_str("", refresh=False)
            bar.write(str(outcome))
            bar.update()
            outcomes.append(outcome)
    return outcomes


def print_run_times(notebooks: Sequence[Path], out: Path) -> None:
    """Print how long each notebook took when it last ran into ``out``, and their sum."""
    total = 0.0
    for path in notebooks:
        if not (out / path.name).exists():
            click.echo(f"{path.stem:<42} not run")
            continue
        run = book.read_notebook(out / path.name)["metadata"]["lnlab"]
        total += run["seconds"]
        budget = run["parameters"].get("budget", "")
        click.echo(f"{path.stem:<42} {run['seconds']:>7.1f} s  {budget:<9} {run['at']}")
    click.echo(f"{'all, one after the other':<42} {total:>7.1f} s")
