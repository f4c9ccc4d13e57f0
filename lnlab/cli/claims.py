"""``lnlab claims``: the statements of the papers and what became of them."""

import json
from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path
from shutil import get_terminal_size
from typing import Any

import click

WIDTH, MOST = 100, 8
"""Letters of a line where there is no terminal, and the most ids that an error names."""


@click.group(invoke_without_command=True)
@click.option("--paper", default="", help="Only statements of papers with this in their name.")
@click.option("--word", default="", help="Only this word: supported, contradicted, mixed, ...")
@click.option("--json", "as_json", is_flag=True, help="Print a list of objects.")
@click.pass_context
def claims(context: click.Context, paper: str, word: str, as_json: bool) -> None:
    """List the statements of the papers: word, effect; `claims show ID` has the rest."""
    if context.invoked_subcommand:
        return
    from lnlab.papers.claims import Claims
    from lnlab.papers.claims import claims as all_claims

    chosen = choose(choose(all_claims(), "paper", paper), "word", word)
    if as_json:
        records = Claims(chosen).to_frame().reset_index().to_dict("records")
        click.echo(json.dumps(records, indent=2, ensure_ascii=False))
    else:
        click.echo(Claims(chosen).text(get_terminal_size((WIDTH, 24)).columns))


def choose(records: Sequence[dict[str, Any]], field: str, wanted: str) -> list[dict[str, Any]]:
    """Return the records whose field has ``wanted`` in it, in large letters or small.

    Raises:
        ValueError: if none has; the message lists what there is.
    """
    found = [one for one in records if wanted.casefold() in one[field].casefold()]
    if not found:
        known = ", ".join(dict.fromkeys(one[field] for one in records))
        raise ValueError(f"no statement has {field} {wanted!r}: {known}.")
    return found


@claims.command()
@click.argument("id")
def show(id: str) -> None:
    """One statement in sentences: quotation, effect, other settings, command."""
    from lnlab.papers.claims import claims as all_claims
    from lnlab.papers.claims.table import paragraph

    records = {one["id"]: one for one in all_claims()}
    if id not in records:
        like = [name for name in records if id in name] or get_close_matches(id, records, MOST)
        more = f" and {len(like) - MOST} more" if len(like) > MOST else ""
        hint = f"Like it: {', '.join(like[:MOST])}{more}. " if like else ""
        raise ValueError(f"There is no claim {id!r}. {hint}`lnlab claims` lists all.")
    click.echo(paragraph(records[id], get_terminal_size((WIDTH, 24)).columns))


@claims.command()
def judge() -> None:
    """Judge all statements by the kept runs, and keep that beside them; nothing is trained."""
    from lnlab.papers.claims import results

    click.echo(results.keep())


@claims.command()
@click.argument("path", type=click.Path(path_type=Path), default=Path("claims.html"))
def page(path: Path) -> None:
    """Write the page of the claims in one file; .csv and .json make a table."""
    from lnlab.papers.claims import claims as all_claims

    click.echo(all_claims().save(path))
