"""``lnlab list`` and ``lnlab run``: the notebooks."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

if TYPE_CHECKING:
    from lnlab import workbook

# one cell of the longest notebook takes minutes; with the papers' budgets, days
PATIENCE = {"paper": 7 * 86400}
ORDINARY_PATIENCE = 1800


@click.command("list")
def list_all() -> None:
    """List the notebooks and what each can be told with -p."""
    from lnlab import checkout, workbook
    from lnlab.pages import opening

    for path in workbook.notebooks(checkout.root() / "notebooks"):
        title, _ = opening(workbook.opened(path))
        known = workbook.parameters(path)
        click.echo(f"{path.stem.split('_')[0]}  {title:<40} {'  '.join(known)}")


@click.command()
@click.argument("notebooks", nargs=-1, metavar="[NUMBER OR NAME]...")
@click.option(
    "-p",
    "parameters",
    nargs=2,
    multiple=True,
    metavar="NAME VALUE",
    help="Set a parameter, as in -p budget smoke; may be repeated.",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    default=Path("build"),
    show_default=True,
    help="The folder for what comes out.",
)
@click.option("--jobs", type=click.IntRange(1), default=1, help="Notebooks at a time.")
@click.option(
    "--timeout",
    type=click.IntRange(1),
    metavar="SECONDS",
    help=f"What one cell may take [{ORDINARY_PATIENCE}; a week for -p budget paper].",
)
def run(
    notebooks: tuple[str, ...],
    parameters: tuple[tuple[str, str], ...],
    out: Path,
    jobs: int,
    timeout: int | None,
) -> None:
    """Execute notebooks headless, all of them or those named, and make a page of each.

    One that fails, hangs or loses its kernel is kept as NAME.failed.ipynb; the others
    finish, and the exit code is 1.
    """
    from lnlab import checkout, pages, workbook

    folder = checkout.root() / "notebooks"
    if out.resolve() == folder.resolve():
        raise ValueError(f"--out {out}: executed notebooks would replace those in git")
    everything = workbook.notebooks(folder)
    told = {name: workbook.value(text) for name, text in parameters}
    wanted = workbook.shared(told, workbook.chosen(notebooks, everything))
    patience = timeout or PATIENCE.get(str(told.get("budget")), ORDINARY_PATIENCE)
    os.environ["LNLAB_HEADLESS"] = "1"
    if jobs > 1:
        # or each would start as many threads as there are cores
        os.environ["OMP_NUM_THREADS"] = "1"
    out.mkdir(parents=True, exist_ok=True)
    try:
        outcomes = watched(wanted, out, jobs, patience)
    except KeyboardInterrupt:
        stop(out)
    click.echo(f"pages: {pages.publish(everything, out)}")
    if any(outcome.error for outcome in outcomes):
        raise SystemExit(1)


def watched(
    wanted: "dict[Path, dict[str, Any]]", out: Path, jobs: int, timeout: int
) -> "list[workbook.Outcome]":
    """Run with one bar over the notebooks, which also shows the last line that one printed."""
    from tqdm import tqdm

    from lnlab import workbook

    with tqdm(total=len(wanted), unit="notebook", leave=False, disable=None) as bar:

        def hear(name: str, line: str) -> None:
            bar.set_postfix_str(f"{name.split('_')[0]}: {line[:60]}")

        outcomes = []
        for outcome in workbook.run(wanted, out, jobs=jobs, timeout=timeout, hear=hear):
            bar.set_postfix_str("", refresh=False)
            bar.write(str(outcome))
            bar.update()
            outcomes.append(outcome)
        return outcomes


def stop(out: Path) -> NoReturn:
    """End now; what has finished stays, what was running leaves nothing."""
    for draft in out.glob(f".*.{os.getpid()}.ipynb"):
        draft.unlink(missing_ok=True)
    click.echo("stopped; run it again for the notebooks that are missing", err=True)
    # the threads wait for cells and cannot be told to stop; the kernels end when we are gone
    os._exit(130)
