"""``lnlab claims``: the statements of the papers and what became of them."""

import json
from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path
from shutil import get_terminal_size
from typing import Any

import click

from lnlab.cli.tables import WIDTH

MOST_IDS = 8
"""The most ids that an error names."""


class GroupWithGlossary(click.Group):
    """Commands whose help ends with the meaning of the words."""

    def resolve_command(self, context: click.Context, args: list[str]) -> Any:
        """Return the command that is called; for an id or a paper, say where it goes."""
        if args[0] not in self.commands:
            context.fail(
                f"No such command {args[0]!r}. For a claim: `lnlab claims show ID`; for a "
                f"paper: `lnlab claims --paper {args[0]}`."
            )
        return super().resolve_command(context, args)

    def format_epilog(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        """Write what the words, sizes and settings mean."""
        from lnlab.book import claims_page as page

        for title, meanings in (
            ("Words", page.MEANINGS),
            ("Size, after the word", page.SIZES),
            ("How the numbers are made", page.CONVENTIONS),
        ):
            with formatter.section(title):
                formatter.write_dl([*meanings.items()], col_max=16)


@click.group(cls=GroupWithGlossary, invoke_without_command=True)
@click.option(
    "--paper", default="", help="Only papers with this in their name or ids, as ba2016."
)
@click.option(
    "--word",
    "verdict_word",
    default="",
    help="Only this result: supported, contradicted, mixed, ...",
)
@click.option("--json", "as_json", is_flag=True, help="Print a list of objects.")
@click.pass_context
def claims(context: click.Context, paper: str, verdict_word: str, as_json: bool) -> None:
    """List the statements of the papers, a word and an effect each.

    `lnlab claims show ID` has the rest.
    """
    if context.invoked_subcommand:
        return
    from lnlab.book.claims_page import COLUMNS
    from lnlab.papers import claims

    of_paper = select_records_containing(claims.claims(), ("paper", "id"), paper)
    chosen = claims.Claims(select_records_containing(of_paper, ("word",), verdict_word))
    if as_json:
        records = [{name: one.get(name) for name in COLUMNS} for one in chosen]
        click.echo(json.dumps(records, indent=2, ensure_ascii=False, allow_nan=False))
    else:
        click.echo(chosen.text(get_terminal_size((WIDTH, 24)).columns))


def select_records_containing(
    records: Sequence[dict[str, Any]], fields: Sequence[str], text: str
) -> list[dict[str, Any]]:
    """Return the records with a text in one of the fields, whatever its case."""
    field = fields[0]
    wanted = text.casefold()
    selected = [r for r in records if any(wanted in r[name].casefold() for name in fields)]
    if not selected:
        known = ", ".join(dict.fromkeys(record[field] for record in records))
        raise ValueError(f"no statement has {field} {text!r}: {known}.")
    return selected


@claims.command("show")
@click.argument("id")
@click.option("--all", "every", is_flag=True, help="Also settings that ask another question.")
def show_claim(id: str, every: bool) -> None:
    """Show one statement in sentences.

    Its quotation, effect, other settings and the command that trains the networks again.
    """
    from lnlab.papers import claims
    from lnlab.papers.claims.table import explain_record

    records = {record["id"]: record for record in claims.claims()}
    if id not in records:
        similar = [name for name in records if id in name]
        similar = similar or get_close_matches(id, records, MOST_IDS)
        more = f" and {len(similar) - MOST_IDS} more" if len(similar) > MOST_IDS else ""
        hint = f"Like it: {', '.join(similar[:MOST_IDS])}{more}. " if similar else ""
        raise ValueError(f"There is no claim {id!r}. {hint}`lnlab claims` lists all.")
    width = get_terminal_size((WIDTH, 24)).columns
    click.echo(explain_record(records[id], width, other_questions=every))


@claims.command("judge")
def judge_claims() -> None:
    """Judge all statements by the kept runs; nothing is trained.

    What comes out is kept beside the runs.
    """
    from lnlab.papers import claims
    from lnlab.papers.claims import results

    click.echo(path := results.judge_and_save_records())
    page = path.parents[1] / "docs" / "claims.md"
    if page.exists():  # in a checkout
        click.echo(claims.claims().save(page))


@claims.command("page")
@click.argument("path", type=click.Path(path_type=Path), default=Path("claims.html"))
def write_claims_page(path: Path) -> None:
    """Write the page of the claims in one file.

    A file that ends in .md is a list, in .csv or .json a table.
    """
    from lnlab.papers import claims

    click.echo(claims.claims().save(path))
