"""``lnlab playground``: networks that learn in the browser, as a page in one file."""

from pathlib import Path

import click


@click.command("playground")
@click.option(
    "--out",
    type=click.Path(path_type=Path, dir_okay=False),
    default=Path("playground.html"),
    show_default=True,
    help="The file.",
)
@click.option(
    "-p", "settings", nargs=2, multiple=True, metavar="NAME VALUE",
    help="Begin with a setting, as in -p dataset digits -p rate 0.1 -p norms none,batch,layer; "
    "may be repeated.",
)  # fmt: skip
def write_playground(out: Path, settings: tuple[tuple[str, str], ...]) -> None:
    """Write the playground as a page in one file.

    The page opens in any browser, without a network.
    """
    from lnlab.book.notebooks import parse_literal_or_text
    from lnlab.live.bundle import check_settings, playground_page_html

    state = {name: parse_literal_or_text(text) for name, text in settings}
    if isinstance(state.get("norms"), str):
        state["norms"] = [norm.strip() for norm in state["norms"].split(",")]
    check_settings(state)
    out.write_text(playground_page_html(state), encoding="utf-8")
    click.echo(f"playground: {out}")
