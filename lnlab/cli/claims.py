"""``lnlab claims``: the statements of the papers and what became of them."""

import json
import re
from collections import Counter
from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path
from shutil import get_terminal_size
from textwrap import shorten
from typing import Any

import click

from lnlab.cli.tables import aligned

OPEN = "not yet run"
"""The verdict of a claim that was not judged."""

WIDTH, NARROWEST = 100, 40
"""Letters of a line where there is no terminal, and of a statement in a narrow one."""

MOST = 8
"""The most claims that an error names."""

BETWEEN = re.compile(r"(?s)(?<=<!-- claims -->\n).*?(?=<!-- /claims -->)")


@click.group(invoke_without_command=True)
@click.option("--paper", default="", help="Only claims whose source has this in it.")
@click.option("--open", "undone", is_flag=True, help="Only claims that are not yet run.")
@click.option("--json", "as_json", is_flag=True, help="Print a list of objects.")
@click.option("--readme", is_flag=True, help="Write the short table into README.md.")
@click.pass_context
def claims(
    context: click.Context, paper: str, undone: bool, as_json: bool, readme: bool
) -> None:
    """List the claims: verdict, what was found, statement; `claims show ID` has the rest.

    Verdicts are read as they were kept; `lnlab claims judge` judges anew.
    """
    import lnlab.papers.claims

    if context.invoked_subcommand:
        return
    chosen = [
        entry
        for entry in of_paper(lnlab.papers.claims.entries(), paper)
        if entry["verdict"] == OPEN or not undone
    ]
    if not lnlab.papers.claims.current():
        click.echo(
            "Kept before your latest runs or edits: `lnlab claims judge` judges anew.", err=True
        )
    if as_json:
        click.echo(json.dumps(chosen, indent=2, ensure_ascii=False))
    elif readme:
        write_table(lnlab.papers.claims.markdown())
    else:
        click.echo(listed(chosen, get_terminal_size((WIDTH, 24)).columns))


def of_paper(entries: Sequence[dict[str, Any]], paper: str) -> list[dict[str, Any]]:
    """The claims whose source has ``paper`` in it, in large letters or small.

    Raises:
        ValueError: none has; the message lists the papers.
    """
    found = [entry for entry in entries if paper.casefold() in entry["source"].casefold()]
    if paper and not found:
        papers = dict.fromkeys(entry["source"].partition(", ")[0] for entry in entries)
        raise ValueError(f"no source of a claim has {paper!r} in it: {', '.join(papers)}.")
    return found


def listed(entries: Sequence[dict[str, Any]], width: int) -> str:
    """Claims as a table of ``width`` letters: those that were judged first, and how many have
    each verdict.

    A statement has the line below its claim; ``lnlab claims show ID`` has the whole of it.
    """
    chosen = sorted(entries, key=lambda entry: entry["verdict"] == OPEN)
    head = ["verdict", "claim", "found"]
    cells = [[entry["verdict"], entry["id"], number(entry)] for entry in chosen]
    first, *rows = aligned([head, *cells]).splitlines()
    edge = first.index("claim")
    lines = [first]
    for row, entry in zip(rows, chosen, strict=True):
        room = max(NARROWEST, width - edge)
        lines += [row, " " * edge + shorten(entry["statement"], room, placeholder=" …")]
    counts = Counter(entry["verdict"] for entry in chosen)
    total = ", ".join(f"{count} {verdict}" for verdict, count in counts.items())
    return "\n".join([*lines, f"{len(chosen)} claims: {total or 'none'}"])


def number(entry: dict[str, Any]) -> str:
    """The number behind a verdict: an interval, or the worst of some draws; else empty."""
    from lnlab.analysis.statistics import ends
    from lnlab.papers.claims.rule import defect

    if entry["interval"]:
        return ends(entry["interval"])
    return "" if entry["worst"] is None else defect(entry["worst"])


@claims.command()
@click.argument("id")
def show(id: str) -> None:
    """One claim: the values of its seeds, its declaration, command and note."""
    import lnlab.papers.claims
    from lnlab.analysis.statistics import ends

    there = {entry["id"]: entry for entry in lnlab.papers.claims.entries()}
    if id not in there:
        like = [name for name in there if id in name] or get_close_matches(id, there, MOST)
        more = f" and {len(like) - MOST} more" if len(like) > MOST else ""
        said = f"Like it: {', '.join(like[:MOST])}{more}. " if like else ""
        raise ValueError(f"There is no claim {id!r}. {said}`lnlab claims` lists all.")
    for name, value in there[id].items():
        if isinstance(value, dict):
            for inner, said in value.items():
                click.echo(f"{name}.{inner}: {said}")
        elif value not in (None, "", []):
            click.echo(f"{name}: {ends(value) if name == 'interval' else value}")


@claims.command()
def judge() -> None:
    """Judge every claim anew, by the runs that are there; nothing is trained."""
    import lnlab.papers.claims

    click.echo(lnlab.papers.claims.judge())


@claims.command()
def docs() -> None:
    """Write the whole table to docs/ledger.md."""
    import lnlab.papers.claims
    from lnlab import paths

    path: Path = paths.root() / "docs" / "ledger.md"
    path.parent.mkdir(exist_ok=True)
    path.write_text(lnlab.papers.claims.table(), encoding="utf-8")
    click.echo(path)


def write_table(table: str) -> None:
    """Replace what stands between the marks in README.md.

    Raises:
        ValueError: The marks are not there.
    """
    from lnlab import paths

    path = paths.root() / "README.md"
    text, marks = BETWEEN.subn(lambda _: f"\n{table}\n\n", path.read_text(encoding="utf-8"))
    if marks != 1:
        raise ValueError(f"{path} needs <!-- claims --> and <!-- /claims -->, once each.")
    path.write_text(text, encoding="utf-8")
    click.echo(path)
