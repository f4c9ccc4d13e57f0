"""The outputs of a cell as HTML: figures live, everything else escaped or cleaned."""

import html
import json
import re
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any

from nbconvert.filters.ansi import ansi2html
from nbconvert.preprocessors.sanitize import SanitizeHTML

from lnlab.live.bundle import MIME as PLAYGROUND
from lnlab.live.bundle import element
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
    layout = spec.get("layout", {})
    meta = layout.get("meta") or {}
    if "frames" in meta:  # all of them; plotly's own are those along one choice
        spec = {key: value for key, value in spec.items() if key != "frames"}
    data = json.dumps(spec).replace("<", "\\u003c")
    taken = sum(meta.get(part, 0) for part in ("above", "below", "signature"))
    height = int(layout.get("height") or 450) - taken
    least = width(spec)
    return (
        f'<figure class="plot{" light" if meta.get("light") else ""}">'
        '<p class="title" hidden></p>'
        '<figcaption aria-live="polite" hidden></figcaption>'
        f'<div class="scrolled" style="--least:{least}px">'
        f'<div id="{number}" class="picture" role="img" '
        f'style="min-height:{height}px;min-width:{least}px" '
        f'aria-label="{html.escape(seen(spec))}"></div></div>'
        f"{signature(layout)}"
        f'<script type="application/json">{data}</script></figure>'
    )


def signature(layout: dict[str, Any]) -> str:
    """The paragraph of what a figure says below itself of data and seeds; "" if nothing."""
    notes = [unmarked(n["text"]) for n in layout.get("annotations", ()) if signs(n)]
    return "".join(f'<p class="note">{html.escape(note)}</p>' for note in notes)


def signs(note: dict[str, Any]) -> bool:
    """True of the annotation that is a figure's signature."""
    return note.get("name") == "signature"


def width(spec: dict[str, Any]) -> int:
    """The least width of a figure in pixels: in less its words overlap, so it is scrolled."""
    layout = spec.get("layout", {})
    said = (layout.get("meta") or {}).get("width")
    if said:
        return said
    axes = [v for name, v in layout.items() if re.fullmatch(r"(xaxis|scene)\d*", name)]
    beside = len({first(axis.get("domain", (0, 1))) for axis in axes})
    margin = {"l": 80, "r": 80} | (layout.get("margin") or {})
    left = max(margin["l"], labels(spec) + 30)
    notes = [note for note in layout.get("annotations", ()) if not signs(note)]
    over = [n["text"] for n in notes if n.get("xanchor") == "center" and n.get("text")]
    under = [(axis.get("title") or {}).get("text") or "" for axis in axes]
    along = [note.get("text", "") for note in notes if note.get("text") not in over]
    own = max((20 + line_width(text) for text in over + under), default=0)
    longest = max(map(line_width, along), default=0)
    least = 420 if beside < 2 else min(760, 320 * beside)
    return max(least, left + margin["r"] + max(beside * own, longest))


def first(domain: Any) -> float:
    """The left end of a plot, 0 to 1 across the figure, given what its axis or scene spans."""
    return (domain["x"] if isinstance(domain, dict) else domain)[0]


def labels(spec: dict[str, Any]) -> int:
    """The width in pixels of the longest label at the left of a figure."""
    layout = spec.get("layout", {})
    words = [
        t
        for name, axis in layout.items()
        if re.fullmatch(r"yaxis\d*", name)
        for t in axis.get("ticktext") or ()
    ]
    values = (trace.get("y") for trace in spec.get("data", ()))
    words += [y for each in values if isinstance(each, list) for y in each]
    return max((line_width(word) for word in words if isinstance(word, str)), default=0)


def line_width(text: str) -> int:
    """Pixels that the longest line of a text of plotly takes, in its usual size of notes."""
    # a letter of 12 pixels is some 6.5 wide
    return max(round(6.5 * len(unmarked(line))) for line in re.split(r"<br */?>", text))


def seen(spec: dict[str, Any]) -> str:
    """The contents of a figure in words: titles, axes, the names of its lines."""
    layout = spec.get("layout", {})
    axes = [value for name, value in layout.items() if re.match("[xyz]axis", name)]
    axes += [
        axis for name, scene in layout.items() if "scene" in name for axis in scene.values()
    ]
    titles = [titled.get("title") for titled in (layout, *axes) if isinstance(titled, dict)]
    texts = [title.get("text") if isinstance(title, dict) else title for title in titles]
    texts += [note.get("text") for note in layout.get("annotations", ())]
    # plotly has a legend where there is more than one trace, unless it is told otherwise
    legend = layout.get("showlegend", len(spec["data"]) > 1)
    names = [t.get("name") for t in spec["data"] if legend and t.get("showlegend", True)]
    words = [unmarked(text) for text in texts + names if isinstance(text, str) and text]
    return "; ".join(dict.fromkeys(filter(None, words))) or "a figure"


def unmarked(text: str) -> str:
    """A text of plotly without its tags and entities."""
    return " ".join(html.unescape(re.sub(r"<[a-z/][^>]*>", " ", text)).split())


def table(source: str) -> str:
    """HTML from an output: plain markup stays; scripts, style sheets and handlers go."""
    plain = re.sub(r"(?is)<(style|script)\b.*?</\1\s*>", "", source)
    plain = re.sub(r"(?s)<thead>.*?</thead>", headed, plain)
    return f'<div class="wide">{TABLES.sanitize_html_tags(plain)}</div>'


def headed(head: re.Match[str]) -> str:
    """The head of a table of pandas without the line that has the names of its index alone.

    The names stand over the index then, where pandas has nothing or the name of its columns.
    """
    lines = re.findall(r"(?s)<tr.*?</tr>", head[0])
    below = [th.strip() for th in re.findall(r"(?s)<th[^>]*>(.*?)</th>", lines[-1])]
    names = [th for th in below if th not in ("", "&nbsp;")]
    if len(lines) != 2 or names == below or names != below[: len(names)]:
        return head[0]
    over = iter(names)
    line = re.sub(
        r"(?s)(<th[^>]*>)(.*?)(</th>)",
        lambda th: f"{th[1]}{next(over, th[2])}{th[3]}",
        lines[0],
    )
    return head[0].replace(lines[0], line).replace(lines[1], "")


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
    if PLAYGROUND in data:
        return element(data[PLAYGROUND])
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
