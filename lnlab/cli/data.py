"""``lnlab data``: what can be learned from, and fetching it."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from lnlab.data import Source


@click.group()
def data() -> None:
    """List the data sets, fetch one."""


@data.command("list")
def list_sources() -> None:
    """List the sources of data: their kind, their size, where they lie, what they offer."""
    from lnlab.data import data_folder, sources

    for source in sources():
        folder = data_folder() / source.name
        where = whereabouts(source, folder)
        click.echo(f"{source.name:<11} {source.kind:<10} {source.title}\n{'':<22} {where}")
        click.echo(f"{'':<22} licence: {source.licence}")
        options = f"; options: {', '.join(source.options)}" if source.options else ""
        click.echo(f"{'':<22} offers {source.offers}{options}")


@data.command()
@click.argument("name")
@click.option("--folder", type=click.Path(path_type=Path), help="Where it goes.")
def fetch(name: str, folder: Path | None) -> None:
    """Download a data set, verified; one that was interrupted goes on."""
    from lnlab.data import fetch

    click.echo(fetch(name, folder))


def whereabouts(source: "Source", folder: Path) -> str:
    """The place of a source on this machine and its size, or what would bring it here."""
    size = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
    if size:
        return f"here: {folder}, {size / 1e6:.1f} MB"
    if source.files:
        return f"not here: lnlab data fetch {source.name} brings {source.size / 1e6:.1f} MB"
    if source.kind in ("embedded", "synthetic"):
        return f"{source.kind}: here, nothing to fetch"
    return f"not here: get it from its authors, then name it, {source.name}=PATH"
