"""The outputs of a cell as HTML: figures live, everything else escaped or cleaned."""

import html
import json
import re
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any

from nbconvert.filters.ansi import ansi2html
from nbconvert.preprocessors.sanitize import SanitizeHTML

from lnlab.pages.formulas import markdown

PLOTLY = "application/vnd.plotly.v1+json"
WIDGET = "application/vnd.jupyter.widget-view+json"
LIVE = """<p class="live">In JupyterLab (<code>make lab</code>) controls stand here.</p>"""

TAGS = """a b br caption code div em h2 h3 h4 hr i li ol p pre s small span strong sub sup
table tbody td tfoot th thead tr ul"""
TABLES = SanitizeHTML(
    tags=TAGS.split(),
    attributes={
        "*": ["class", "style", "title"],
        "a": ["href"],
        "td": ["colspan", "rowspan"],
        "th": ["colspan", "rowspan", "scope"],
    },
    strip=True,
)


def text(lines: str) -> str:
    """Text as it would stand in a terminal: colours kept, overwritten lines gone."""
    shown = re.sub(r"[^\n]*\r(?!\n|$)", "", lines.replace("\r\n", "\n"))
    return f"<pre>{ansi2html(shown)}</pre>"


def figure(spec: dict[str, Any], number: str) -> str:
    """A place for a plotly figure and its data; ``figures.js`` draws the one from the other."""
    # inside a script only "</script" and "<!--" mean something: no "<" is left
    data = json.dumps(spec).replace("<", "\\u003c")
    layout = spec.get("layout", {})
    title = layout.get("title") or {}
    label = title.get("text", "") if isinstance(title, dict) else str(title)
    style = f"min-height:{int(layout.get('height') or 450)}px"
    return (
        f'<figure class="plot"><div id="{number}" style="{style}" role="group" '
        f'aria-label="{html.escape(label)}"></div>'
        f'<script type="application/json">{data}</script></figure>'
    )


def table(source: str) -> str:
    """HTML from an output: plain markup stays; scripts, style sheets and handlers go."""
    plain = re.sub(r"(?is)<(style|script)\b.*?</\1\s*>", "", source)
    return f'<div class="wide">{TABLES.sanitize_html_tags(plain)}</div>'


def sounds(source: str) -> str:
    """The sounds in HTML from an output, as ``IPython.display.Audio`` puts them there."""
    found = re.findall(
        r'src="data:audio/(wav|mpeg|ogg|flac);base64,([A-Za-z0-9+/=\s]+)"', source
    )
    return "".join(
        f'<audio controls src="data:audio/{kind};base64,{"".join(data.split())}"></audio>'
        for kind, data in found
    )


def image(kind: str, data: str, alt: str) -> str:
    if kind == "image/svg+xml":
        # as an image, not as part of the page, an SVG cannot run scripts
        data = "utf8," + html.escape(re.sub(r"[%#<>]", lambda m: f"%{ord(m[0]):02X}", data))
    else:
        data = "base64," + html.escape(data.replace("\n", ""))
    return f'<img src="data:{kind};{data}" alt="{html.escape(alt)}">'


def displayed(data: dict[str, Any], metadata: dict[str, Any], number: str) -> str:
    """The best a page can do with what a cell displayed, in a fixed order of preference."""
    if PLOTLY in data:
        return figure(data[PLOTLY], number)
    for kind in ("image/svg+xml", "image/png", "image/jpeg"):
        if kind in data:
            alt = metadata.get("alt") or data.get("text/plain", "")
            return image(kind, data[kind], alt)
    if "text/html" in data:
        source = data["text/html"]
        return sounds(source) if "<audio" in source else table(source)
    for kind in ("text/markdown", "text/latex"):
        if kind in data:
            return f'<div class="wide">{markdown(data[kind], trusted=False)}</div>'
    if WIDGET in data:
        return LIVE
    return text(data.get("text/plain", ""))


def merged(outputs: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """The outputs with neighbouring pieces of one stream joined."""
    for stream, group in groupby(outputs, lambda output: output.get("name")):
        if stream is None:
            yield from group
        else:
            yield {"output_type": "stream", "text": "".join(piece["text"] for piece in group)}


def rendered(outputs: Iterable[dict[str, Any]], cell: str) -> Iterator[tuple[str, str]]:
    """Kind (``stream``, ``error`` or ``display``) and HTML of each output of a cell."""
    for position, output in enumerate(merged(outputs)):
        if output["output_type"] == "stream":
            yield "stream", text(output["text"])
        elif output["output_type"] == "error":
            yield "error", text("\n".join(output["traceback"]))
        else:
            number = f"{cell}-{position}"
            yield "display", displayed(output["data"], output.get("metadata", {}), number)
