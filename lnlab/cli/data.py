"""``lnlab data``: what can be learned from, and fetching it."""

import textwrap
from pathlib import Path
from typing import TYPE_CHECKING

import click

from lnlab.cli.tables import WIDTH

if TYPE_CHECKING:
    from lnlab.data import Source


@click.group()
def data() -> None:
    """List and fetch data sets."""


@data.command("list")
def list_sources() -> None:
    """List the data sets.

    Their kind and size, where they lie, and their options.
    """
    from lnlab.data import data_folder, sources

    for source in sources():
        options = f"; options: {', '.join(source.options)}" if source.options else ""
        click.echo(f"{source.name} ({source.kind})")
        for text in (
            source.title,
            describe_location(source, data_folder() / source.name),
            f"licence: {source.licence}",
            f"offers {source.offers}{options}",
        ):
            click.echo(textwrap.indent(textwrap.fill(text, WIDTH - 4), "    "))


@data.command("fetch")
@click.argument("name")
def fetch_dataset(name: str) -> None:
    """Download a data set and verify it.

    It goes to a folder of its name in $LNLAB_DATA, or else in data/ of the checkout. A
    download that was interrupted starts again.
    """
    from lnlab.data import data_folder, fetch, sources

    for source in sources():
        if source.name == name and not source.files:
            location = describe_location(source, data_folder() / name)
            raise ValueError(f"{name} has no files to download; {location}.")
    click.echo(fetch(name))


def describe_location(source: "Source", folder: Path) -> str:
    """Return where a source is on this machine and its size, or what would bring it here."""
    size = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
    if size:
        return f"here: {folder}, {size / 1e6:.1f} MB"
    if source.files:
        return f"not here: lnlab data fetch {source.name} brings {source.size / 1e6:.1f} MB"
    if source.kind in ("embedded", "synthetic"):
        return f"{source.kind}: here, nothing to fetch"
    return f"not here: get it from its authors, then name it, {source.name}=PATH"
