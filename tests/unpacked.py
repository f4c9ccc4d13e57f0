"""What a figure keeps for a page, read as ``figures.js`` reads it."""

import base64
import gzip
import json
from pathlib import Path
from typing import Any

from lnlab.book.html import figure_html as on_page


def unpacked(figure: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The frames of a figure (plotly's JSON) by name: ``traces`` by index, and ``layout``."""
    whole = json.loads(gzip.decompress(base64.b64decode(figure["layout"]["meta"]["frames"])))
    parts = whole["parts"]

    def values(numbers):
        return {name: parts[number] for name, number in numbers.items()}

    return {
        name: {
            "traces": {int(i): values(new) for i, new in frame["traces"].items()},
            "layout": values(frame["layout"]),
        }
        for name, frame in whole["frames"].items()
    }


def write_page(folder: Path, name: str, figures: list[dict[str, Any]]) -> Path:
    """A page of figures in one cell; what pages share lies beside it."""
    cells = "".join(on_page(spec, f"figure-{i}") for i, spec in enumerate(figures))
    page = folder / name
    page.write_text(
        '<!doctype html><meta charset="utf-8"><link rel="stylesheet" href="page.css">'
        f'<main><div class="cell">{cells}</div></main>'
        '<script src="plotly.min.js"></script><script src="figures.js"></script>'
    )
    return page
