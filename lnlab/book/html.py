"""Executed notebooks in, a folder of pages out."""

import base64
import html
import json
import math
import os
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from html import escape
from importlib.metadata import distribution
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import nbformat
from jinja2 import Environment, PackageLoader
from math_core import LatexError, LatexToMathML
from nbconvert.filters.ansi import ansi2html
from nbconvert.filters.highlight import Highlight2HTML
from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath
from nbconvert.preprocessors.sanitize import SanitizeHTML
from plotly.offline import get_plotlyjs

import lnlab
from lnlab.book.notebooks import opening
from lnlab.live.bundle import MIME as PLAYGROUND
from lnlab.live.bundle import element, module

if TYPE_CHECKING:
    import pandas as pd


# Markdown with its formulas as MathML, which browsers draw without a download.


# Chrome draws a stretched tilde over its neighbours
TEX = LatexToMathML(fancy_error=False, macros={"widetilde": r"\tilde{#1}"})


def mathml(tex: str, *, display: bool) -> str:
    r"""A formula of LaTeX as MathML.

    As in JupyterLab nothing is numbered but what carries a ``\tag``.

    Raises:
        ValueError: The formula has a command or a structure that is not understood.
    """
    tex = re.sub(r"\\(begin|end)\{(equation|align|gather)\}", r"\\\1{\2*}", tex)
    if r"\tag" in tex and not re.match(r"\s*\\begin\{(equation|align|gather)\*\}", tex):
        tex = rf"\begin{{equation*}}{tex}\end{{equation*}}"
    try:
        return overlined(TEX.convert_with_local_state(tex, displaystyle=display))
    except LatexError as error:
        raise ValueError(f"{error} (at that character of {tex!r})") from None


def overlined(formula: str) -> str:
    """A formula of MathML whose lines over terms lie over them.

    math-core makes them of the character for a line under a letter, as an accent: a browser
    draws that through the letter.
    """
    lone = r'<mover accent="true">((?:(?!<mover).)*)<mo stretchy="true">\u0332</mo>'
    formula = re.sub(lone, r'<mover>\1<mo stretchy="true">‾</mo>', formula)
    return formula.replace("\u0332", "‾")


class Renderer(IPythonRenderer):
    """Markdown to HTML; a formula that is not understood stays readable as LaTeX."""

    def formula(self, tex: str, *, display: bool) -> str:
        try:
            return mathml(tex, display=display)
        except ValueError as error:
            reason = html.escape(str(error))
            return f'<code class="unread" title="{reason}">{html.escape(tex)}</code>'

    def block_math(self, body: str) -> str:
        return self.formula(body, display=True)

    def inline_math(self, body: str) -> str:
        return self.formula(body, display=False)

    def latex_environment(self, name: str, body: str) -> str:
        return self.formula(rf"\begin{{{name}}}{body}\end{{{name}}}", display=True)

    def link(self, text: str, url: str, title: str | None = None) -> str:
        page = re.sub(r"^([\w-]+)\.ipynb(?=$|#)", r"\1.html", url)
        return super().link(text, page, title)


def markdown(source: str, *, trusted: bool, **cell: Any) -> str:
    """The HTML of a Markdown text, with formulas between dollars or in a LaTeX environment.

    Args:
        source: The text.
        trusted: Whether HTML in it is kept (our own prose) or shown as text (outputs).
        cell: The ``attachments`` of its cell, if it has any.
    """
    renderer = Renderer(escape=not trusted, allow_harmful_protocols=False, **cell)
    return together(MarkdownWithMath(renderer=renderer).render(source))


def together(page: str) -> str:
    """HTML in which no line ends between a formula and the bracket, quote or comma at it, nor
    between a number and its per cent or within the "--data" of a command."""
    page = re.sub(
        r"(<(code|pre)\b.*?</\2>)|(?<=\d) (?=%)",
        lambda m: m[1] or "\xa0",
        page,
        flags=re.DOTALL,
    )
    command = r"(?<![^\s>])--[\w-]+(?=[^<]*</code>)"
    page = re.sub(command, lambda m: f'<span class="together">{m[0]}</span>', page)
    formula = r'<math(?![^>]*display="block")[^>]*>(?:(?!</math>).)*</math>'
    at = rf"(\(?)({formula})((?:[,.;:!?)”]|&quot;)*)"
    return re.sub(at, _joined, page, flags=re.DOTALL)


def _joined(found: re.Match[str]) -> str:
    opening, formula, closing = found.groups()
    return f'<span class="together">{found[0]}</span>' if opening or closing else formula


# The outputs of a cell as HTML: figures live, everything else escaped or cleaned.


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


FAILED = ".failed.ipynb"
FONT = "STIXTwoMath-Regular.ttf"
# found without an import, which would load the package that happens to carry the font
FONT_FILE = Path(str(distribution("ziamath").locate_file(f"ziamath/fonts/{FONT}")))
OWN = Path(__file__).parent / "templates"
HIGHLIGHT = Highlight2HTML(pygments_lexer="ipython3")

EXERCISES = '<h2 id="Exercises">'
WANTED = (
    '</h2><p class="live">They want the notebook itself, in JupyterLab: a page has no kernel, '
    "and of a panel it has what could be taken along.</p>"
)

# what a template does not mark as safe is escaped
TEMPLATES = Environment(
    loader=PackageLoader("lnlab.book"), autoescape=True, trim_blocks=True, lstrip_blocks=True
)


@dataclass(frozen=True)
class Chapter:
    """One line of the table of contents.

    Attributes:
        name: of the notebook.
        title: its own.
        question: the first sentences.
        run: how the run ended that its page shows.
        trouble: how the last run ended, if it failed and the page shows an older one.
    """

    name: str
    title: str
    question: str
    run: dict[str, Any] | None
    trouble: dict[str, Any] | None = None

    @property
    def number(self) -> str:
        return self.name.split("_")[0]

    @property
    def settings(self) -> list[tuple[str, Any]]:
        """The parameters of the run: what matters most first, without the panel's and
        those that say nothing."""
        first = ("budget", "seeds", "data", "device")
        known = self.run["parameters"] if self.run else {}
        names = [*first, *(name for name in known if name not in (*first, "panel"))]
        own = ("seeds", "data")  # where they are empty, the budget has them
        return [
            (name, known[name])
            for name in names
            if name in known and (name in own or known[name] not in ("", [], {}, None))
        ]

    @property
    def other(self) -> bool:
        """True where a run may show other numbers than its text, which speaks of the budget
        ``notebook``; of a smoke run the page says more."""
        known = self.run["parameters"] if self.run else {}
        told = known.get("seeds") or known.get("data")
        return known.get("budget") in (("notebook", "paper") if told else ("paper",))

    @property
    def page(self) -> str | None:
        return f"{self.name}.html" if self.run else None


def chapter(source: Path, out: Path) -> tuple[Chapter, nbformat.NotebookNode]:
    """The facts about a notebook: its opening, and how its last runs in ``out`` ended.

    A run that failed does not take the place of one that did not.
    """
    good, failed = out / source.name, out / (source.stem + FAILED)
    path = next(attempt for attempt in (good, failed, source) if attempt.exists())
    notebook = nbformat.read(path, as_version=4)
    title, question = opening(notebook)
    run = notebook.metadata.get("lnlab") if path != source else None
    trouble = None
    if path == good and failed.exists():
        trouble = nbformat.read(failed, as_version=4).metadata.get("lnlab")
    return Chapter(source.stem, title, markdown(question, trusted=True), run, trouble), notebook


def cells(notebook: nbformat.NotebookNode) -> list[dict[str, Any]]:
    """The parts of each cell that the template shows."""
    shown = []
    for position, cell in enumerate(notebook.cells):
        if cell.cell_type == "markdown":
            attachments = cell.get("attachments", {})
            prose = markdown(cell.source, trusted=True, attachments=attachments)
            if EXERCISES in prose:
                before, after = prose.split(EXERCISES, 1)
                prose = before + EXERCISES + after.replace("</h2>", WANTED, 1)
            shown.append({"prose": prose})
        elif cell.cell_type == "code" and cell.source.strip():
            outputs = list(rendered(cell.outputs, f"output-{position}"))
            # JupyterLab's own mark: what comes out is covered until it is clicked
            covered = cell.metadata.get("jupyter", {}).get("outputs_hidden", False)
            shown.append(
                {"code": HIGHLIGHT(cell.source), "outputs": outputs, "covered": covered}
            )
    return shown


def headings(shown: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """The headings of the second level, as ``cells`` has them: anchor and words of each."""
    prose = "".join(cell.get("prose", "") for cell in shown)
    return re.findall(r'(?s)<h2 id="([^"]+)">(.*?)<a class="anchor-link"', prose)


def displays(notebook: nbformat.NotebookNode, kind: str) -> bool:
    """Return True if a cell displayed something of a MIME type."""
    return any(kind in o.get("data", {}) for c in notebook.cells for o in c.get("outputs", []))


def publish(
    sources: list[Path], out: Path, *, only: Collection[str] = (), embed: Collection[str] = ()
) -> Path:
    """Write the pages of all notebooks that were run into ``out``, and the contents.

    Args:
        sources: Every notebook of the workbook, in reading order.
        out: Where the executed notebooks lie; one that failed as ``NAME.failed.ipynb``.
        only: The names of those whose pages are written; none: of all.
        embed: The names of those that also get a page in one file, in ``out/handout``.

    Returns:
        The table of contents.
    """
    known = [chapter(source, out) for source in sources]
    ran = [chapter for chapter, _ in known if chapter.page]
    names = {chapter.name for chapter in ran}
    for this, notebook in known:
        if this.page is None or (only and this.name not in only):
            continue
        place = ran.index(this)
        written = cells(notebook)
        shown = {"chapter": this, "cells": written, "plots": displays(notebook, PLOTLY)}
        shown["headings"] = headings(written)
        shown["playground"] = module() if displays(notebook, PLAYGROUND) else ""
        shown["tables"] = any(
            'class="lnlab-table"' in html
            for cell in written
            for _, html in cell.get("outputs", ())
        )
        write(
            out / this.page,
            "notebook.html",
            names,
            **shown,
            before=ran[place - 1] if place else None,
            after=ran[place + 1] if place + 1 < len(ran) else None,
        )
        if this.name in embed:
            (out / "handout").mkdir(exist_ok=True)
            write(out / "handout" / this.page, "notebook.html", **shown, parts=parts())
    share(out)
    contents = out / "index.html"
    chapters = [chapter for chapter, _ in known]
    write(
        contents, "contents.html", names, chapters=chapters, today=datetime.now().astimezone()
    )
    return contents


def write(path: Path, template: str, there: Collection[str] = (), **values: Any) -> None:
    """Make a page of a template; notebooks without a page are named in it, not linked.

    Args:
        there: the names of the notebooks that have a page beside it.
    """
    page = TEMPLATES.get_template(template).render(version=lnlab.__version__, **values)
    page = re.sub(
        r'<a href="(\d\d_\w+)\.html[^"]*"[^>]*>(.*?)</a>',
        lambda link: link[0] if link[1] in there else link[2],
        page,
    )
    put(path, page.encode())


def parts() -> dict[str, str]:
    """The parts within a page in one file: style sheet, plotly.js, our scripts, and the font of
    its mathematics."""
    font = base64.b64encode(FONT_FILE.read_bytes()).decode()
    style = (OWN / "page.css").read_text(encoding="utf-8")
    return {
        "style": style.replace(f'url("{FONT}")', f'url("data:font/ttf;base64,{font}")'),
        "plotly": get_plotlyjs().replace("</script", r"<\/script"),
        "figures": (OWN / "figures.js").read_text(encoding="utf-8"),
        "tables": (OWN / "tables.js").read_text(encoding="utf-8"),
    }


def put(path: Path, content: bytes) -> None:
    """Make ``content`` the file: a reader, or a kill, finds the old one or the new one."""
    # like the draft of a notebook: the next run sweeps away what a killed one leaves
    draft = path.with_name(f".{path.stem}.{os.getpid()}{path.suffix}")
    draft.write_bytes(content)
    os.replace(draft, path)


def share(out: Path) -> None:
    """Put beside the pages what all of them use."""
    put(out / "plotly.min.js", get_plotlyjs().encode())
    for path in (OWN / "page.css", OWN / "figures.js", OWN / "tables.js", FONT_FILE):
        put(out / path.name, path.read_bytes())


# Tables of many rows that can be read: filtered, sorted, long texts below their rows.


SCRIPT = Path(__file__).parent / "templates" / "tables.js"


class Readable:
    """A table of a frame, as JupyterLab and the pages show it.

    Its rows can be filtered by words and sorted by a column. A page has the script for that of
    its own and takes none from an output.

    Args:
        frame: a row each, named by its index.
        under: columns whose texts stand below their row, where there are any.

    Raises:
        KeyError: a column that the frame does not have.
    """

    def __init__(self, frame: "pd.DataFrame", under: Sequence[str] = ()) -> None:
        if missing := [name for name in under if name not in frame]:
            raise KeyError(f"no column {missing[0]!r}: choose from {', '.join(frame)}.")
        self.frame, self.under = frame, tuple(under)

    def __repr__(self) -> str:
        return repr(self.frame)

    def _repr_html_(self) -> str:
        beside = self.frame.drop(columns=[*self.under])
        names = [str(beside.index.name or ""), *map(str, beside)]
        head = "".join(f'<th scope="col">{escape(name)}</th>' for name in names)
        below = self.frame[[*self.under]].itertuples(index=False, name=None)
        bodies = "".join(
            self._body(row, texts, len(names))
            for row, texts in zip(beside.itertuples(name=None), below, strict=True)
        )
        table = f'<table class="lnlab-table"><thead><tr>{head}</tr></thead>{bodies}</table>'
        rows = f'<div class="lnlab-rows">{table}</div>'
        return f"{rows}<script>{SCRIPT.read_text(encoding='utf-8')}</script>"

    def _body(self, row: Sequence[Any], texts: Sequence[Any], width: int) -> str:
        """A row and what stands below it: one tbody, so that they stay together."""
        name, *values = map(written, row)
        cells = "".join(f"<td>{escape(value)}</td>" for value in values)
        below = "".join(
            f'<tr class="under"><td colspan="{width}"><div><em>{escape(column)}:</em> '
            f"{options_whole(escape(written(text)))}</div></td></tr>"
            for column, text in zip(self.under, texts, strict=True)
            if written(text)
        )
        return f'<tbody><tr><th scope="row">{escape(name)}</th>{cells}</tr>{below}</tbody>'


def options_whole(html: str) -> str:
    """HTML in which no line ends within an option of a command or before its value."""
    return re.sub(r"--\w[\w-]*( [^\s-]\S*)?", r'<span class="option">\g<0></span>', html)


def written(value: Any) -> str:
    """A value in a table: numbers in two digits, lists joined, nothing where nothing is."""
    if isinstance(value, list | tuple):
        return "; ".join(map(written, value))
    if isinstance(value, dict):
        return ": ".join(filter(None, map(written, value.values())))
    if isinstance(value, float):
        return "" if math.isnan(value) else f"{value:.2g}"
    return "" if value is None else str(value)
