"""A figure as a web page: dark where the reader's screen is, its footnote as a paragraph."""

from pathlib import Path
from typing import Any

import plotly.graph_objects as go

HEAD = """<meta name="viewport" content="width=device-width, initial-scale=1">
<style>
  :root { color-scheme: light dark; }
  body { font: 15px/1.5 system-ui, sans-serif; max-width: 72rem; margin: auto; padding: 1rem; }
  .wide { overflow-x: auto; }
  table { border-collapse: collapse; font-size: 14px; }
  th, td { text-align: left; vertical-align: top; padding: .1rem .8rem .1rem 0; }
  th, td { border-bottom: 1px solid #8884; }
  @media screen and (prefers-color-scheme: dark) {
    .plotly-graph-div { filter: invert(0.9) hue-rotate(180deg); }
    .plotly-graph-div:has(.hm, .contour, .im, canvas) { filter: none; }
  }
</style>
"""


def write_page_and_plotly_js(figure: go.Figure, path: Path, html_above: str = "") -> None:
    """Write a figure as a page; ``plotly.min.js`` beside it serves all pages of the folder.

    Args:
        figure: one that :func:`lnlab.figures.style.add_footnote` may have a text below.
        path: of the page.
        html_above: HTML that stands above the figure.
    """
    figure = go.Figure(figure)
    layout: Any = figure.layout
    notes = [note for note in layout.annotations if note.name == "signature"]
    if notes:
        room = layout.meta["signature"]
        layout.annotations = [note for note in layout.annotations if note not in notes]
        layout.margin.b -= room
        layout.height = layout.height and layout.height - room
    below = "".join(f"<p>{note.text.replace('<br>', ' ')}</p>" for note in notes)
    figure.write_html(path, include_plotlyjs="directory")
    page = path.read_text(encoding="utf-8")
    for tag, more in (("<head>", f"<head>{HEAD}"), ("<body>", f"<body>{html_above}")):
        page = page.replace(tag, more, 1)
    page = page.replace("</body>", f"{below}</body>")
    path.write_text(f"<!doctype html>\n{page}", encoding="utf-8")
