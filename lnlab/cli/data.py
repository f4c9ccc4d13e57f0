"""``lnlab data``: what can be learned from, fetching it, and vectors of words."""

import textwrap
from pathlib import Path
from typing import TYPE_CHECKING

import click

from lnlab.cli.shown import WIDTH

if TYPE_CHECKING:
    from lnlab.data import Source


@click.group()
def data() -> None:
    """List the data sets, fetch one, count vectors of words."""


@data.command("list")
def list_sources() -> None:
    """List the sources of data: their kind, their size, where they lie, what they offer."""
    from lnlab.data import data_folder, sources

    room = max(len(source.name) for source in sources())
    for source in sources():
        head = f"{source.name:<{room}}  {source.kind:<10} "
        options = f"; options: {', '.join(source.options)}" if source.options else ""
        indent = " " * len(head)
        click.echo(within(head, source.title))
        click.echo(indent + whereabouts(source, data_folder() / source.name))
        click.echo(within(indent, f"licence: {source.licence}"))
        click.echo(within(indent, f"offers {source.offers}{options}"))


@data.command()
@click.argument("name")
@click.option("--folder", type=click.Path(path_type=Path), help="Where it goes.")
def fetch(name: str, folder: Path | None) -> None:
    """Download a data set, verified; one that was interrupted goes on."""
    from lnlab.data import data_folder, fetch, sources

    for source in sources():
        if source.name == name and not source.files:
            where = whereabouts(source, data_folder() / name)
            raise ValueError(f"{name} has no files to download; {where}.")
    click.echo(fetch(name, folder))


@data.command()
@click.argument("out", type=click.Path(path_type=Path, dir_okay=False))
@click.option(
    "--books", default="stories", show_default=True, help="Their source: novels=PATH."
)
@click.option("--lambada", type=click.Path(path_type=Path, exists=True), help="Its folder.")
@click.option("--imdb", type=click.Path(path_type=Path, exists=True), help="Its folder.")
@click.option(
    "--width",
    type=click.IntRange(1),
    default=300,
    show_default=True,
    help="Numbers of a vector.",
)
def vectors(out: Path, books: str, lambada: Path | None, imdb: Path | None, width: int) -> None:
    """Count vectors of words in texts and write them to OUT in word2vec's binary layout."""
    from lnlab.data import load, wordvectors
    from lnlab.data.lambada import passages

    if not out.parent.is_dir():
        raise FileNotFoundError(f"{out.parent} is no folder: make it first.")
    texts = load(books, "books").sentences
    texts += passages(lambada) if lambada else []
    texts += wordvectors.imdb_training(imdb) if imdb else []
    found = wordvectors.counted(texts, width)
    wordvectors.write(out, found)
    click.echo(
        f"{out}: {len(found):,} words, {width} numbers each, of {len(texts):,} sentences"
    )


def within(head: str, words: str) -> str:
    """Words behind a head, in lines of ``WIDTH`` letters that begin below each other."""
    return textwrap.fill(words, WIDTH, initial_indent=head, subsequent_indent=" " * len(head))


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
