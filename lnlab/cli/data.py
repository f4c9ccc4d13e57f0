"""``lnlab data``: what can be learned from, and fetching it."""

from pathlib import Path

import click


@click.group()
def data() -> None:
    """List the data sets, fetch one."""


@data.command("list")
def list_sources() -> None:
    """List the sources of data: their kind, their size, where they lie, their licence."""
    from lnlab.data import data_folder, sources

    for source in sources():
        folder = data_folder() / source.name
        place = str(folder) if folder.is_dir() else "not fetched"
        where = f"{source.size / 1e6:.0f} MB, {place}" if source.files else source.kind
        click.echo(f"{source.name:<8} {source.kind:<10} {source.title}\n{'':<19} {where}")
        click.echo(f"{'':<19} licence: {source.licence}")


@data.command()
@click.argument("name")
@click.option("--folder", type=click.Path(path_type=Path), help="Where it goes.")
def fetch(name: str, folder: Path | None) -> None:
    """Download a data set, verified; one that was interrupted goes on."""
    from lnlab.data import fetch

    click.echo(fetch(name, folder))
