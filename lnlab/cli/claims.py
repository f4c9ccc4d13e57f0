"""``lnlab claims``: the statements of the papers and what became of them."""

import json
import re

import click

BETWEEN = re.compile(r"(?s)(?<=<!-- claims -->\n).*?(?=<!-- /claims -->)")


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print a list of objects.")
@click.option("--readme", is_flag=True, help="Write the table into README.md.")
def claims(as_json: bool, readme: bool) -> None:
    """Judge every claim by the runs that are there: verdict, interval, data, command."""
    from lnlab import ledger

    if as_json:
        click.echo(json.dumps(ledger.entries(), indent=2, ensure_ascii=False))
    elif readme:
        write_table(ledger.markdown())
    else:
        for entry in ledger.entries():
            click.echo(f"{entry['id']:<24} {entry['verdict']:<16} {entry['statement']}")


def write_table(table: str) -> None:
    """Replace what stands between the marks in README.md.

    Raises:
        ValueError: The marks are not there.
    """
    from lnlab import checkout

    path = checkout.root() / "README.md"
    text, marks = BETWEEN.subn(lambda _: f"\n{table}\n\n", path.read_text(encoding="utf-8"))
    if marks != 1:
        raise ValueError(f"{path} needs <!-- claims --> and <!-- /claims -->, once each.")
    path.write_text(text, encoding="utf-8")
    click.echo(path)
