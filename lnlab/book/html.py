"""Executed notebooks in, a folder of pages out."""

import base64
import html
import json
import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from importlib.metadata import distribution
from itertools import groupby
from pathlib import Path
from typing import Any, Literal

import nbformat
from math_core import LatexError, LatexToMathML
from nbconvert.filters.ansi import ansi2html
from nbconvert.filters.highlight import Highlight2HTML
from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath
from nbconvert.preprocessors.sanitize import SanitizeHTML
from plotly.offline import get_plotlyjs

import lnlab
from lnlab.book.claims_page import MIME as CLAIMS
from lnlab.book.claims_page import TEMPLATES, claims_html
from lnlab.book.notebooks import (
    is_for_beginners,
    read_parameter_defaults,
    read_title_and_first_paragraph,
    sort_beginners_first,
)
from lnlab.figures.style import side_by_side_domains
from lnlab.live.bundle import MIME as PLAYGROUND
from lnlab.live.bundle import playground_module_source, playground_placeholder_html
from lnlab.training.runs import write_file

# Markdown with its formulas as MathML, which browsers draw without a download.


TEX = LatexToMathML(fancy_error=False)


def latex_to_mathml(tex: str, *, display: bool) -> str:
    """Return a formula of LaTeX as MathML."""
    try:
        formula = TEX.convert_with_local_state(tex, displaystyle=display)
    except LatexError as error:
        raise ValueError(f"{error} (at that character of {tex!r})") from None
    # math-core makes a line over a term of the character for one under a letter, as an accent:
    # a browser draws that through the letter
    lone = r'<mover accent="true">((?:(?!<mover).)*)<mo stretchy="true">\u0332</mo>'
    formula = re.sub(lone, r'<mover>\1<mo stretchy="true">‾</mo>', formula)
    return formula.replace("\u0332", "‾")


class MarkdownWithMathMLRenderer(IPythonRenderer):
    """Markdown to HTML; a formula that is not understood stays readable as LaTeX."""

    def render_formula(self, tex: str, *, display: bool) -> str:
        try:
            return latex_to_mathml(tex, display=display)
        except ValueError as error:
            reason = html.escape(str(error))
            return f'<code class="unread" title="{reason}">{html.escape(tex)}</code>'

    def block_math(self, body: str) -> str:
        return self.render_formula(body, display=True)

    def inline_math(self, body: str) -> str:
        return self.render_formula(body, display=False)

    def link(self, text: str, url: str, title: str | None = None) -> str:
        page = re.sub(r"^([\w-]+)\.ipynb(?=$|#)", r"\1.html", url)
        return super().link(text, page, title)


def markdown_to_html(source: str, *, trusted: bool) -> str:
    """Return the HTML of a Markdown text, with formulas in dollars.

    HTML in it is kept if it is ``trusted`` (our own prose), else shown as text (outputs).
    """
    renderer = MarkdownWithMathMLRenderer(escape=not trusted, allow_harmful_protocols=False)
    return _keep_punctuation_with_formulas(MarkdownWithMath(renderer=renderer).render(source))


def _keep_punctuation_with_formulas(page: str) -> str:
    """Return HTML in which no line ends between a formula and the bracket or comma at it."""
    formula = r'<math(?![^>]*display="block")[^>]*>(?:(?!</math>).)*</math>'
    marks = r"(?:[,.;:!?)”]|&quot;)"
    joined = rf"(?s)\({formula}{marks}*|{formula}{marks}+"
    return re.sub(joined, r'<span class="together">\g<0></span>', page)


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


def terminal_text_to_html(lines: str) -> str:
    """Return text as a terminal shows it: colours kept, overwritten lines gone."""
    shown = re.sub(r"[^\n]*\r(?!\n|$)", "", lines.replace("\r\n", "\n"))
    return f"<pre>{ansi2html(shown)}</pre>"


def figure_html(spec: dict[str, Any], element_id: str) -> str:
    """Return a plotly figure as its data and a place in which ``figures.js`` draws them."""
    spec = stack_subplots_on_phones(spec)
    layout = spec.get("layout", {})
    meta = layout.get("meta") or {}
    # inside a script only "</script" and "<!--" mean something: no "<" is left
    data = json.dumps(spec).replace("<", "\\u003c")
    outside = sum(meta.get(part, 0) for part in ("above", "signature"))
    height = int(layout.get("height") or 450) - outside
    # what a figure says below itself of data and seeds is a paragraph
    notes = (
        plotly_text_to_plain(n["text"]) for n in layout.get("annotations", ()) if is_footnote(n)
    )
    return TEMPLATES.get_template("figure.html").render(
        element_id=element_id, data=data, height=height,
        least=smallest_readable_width(spec),
        label=describe_figure(spec), light=meta.get("light"), signatures=[*notes],
        elsewhere=", ".join(meta.get("elsewhere", ())),
    )  # fmt: skip


def is_footnote(annotation: dict[str, Any]) -> bool:
    """Return True for the annotation that is a figure's footnote."""
    return annotation.get("name") == "signature"


def stack_subplots_on_phones(spec: dict[str, Any]) -> dict[str, Any]:
    """Return a figure whose row of subplots is a column where the page is narrow.

    A figure stays as it is if it has a layout for phones, if it states its width, or if its
    subplots are not one row of curves or bars.
    """
    layout = spec.get("layout", {})
    meta = layout.get("meta") or {}
    suffixes = [name.removeprefix("xaxis") for name in layout if re.match(r"xaxis\d*$", name)]
    x_axes = [layout[f"xaxis{suffix}"] for suffix in suffixes]
    y_axes = [axis for name, axis in layout.items() if re.match(r"yaxis\d*$", name)]
    has_pairs = all(f"yaxis{suffix}" in layout for suffix in suffixes)
    has_pairs = has_pairs and len(y_axes) == len({tuple(x.get("domain", ())) for x in x_axes})
    is_row = has_pairs and {tuple(y.get("domain", (0, 1))) for y in y_axes} == {(0, 1)}
    is_plain = {trace.get("type") for trace in spec.get("data", ())} <= {None, "scatter", "bar"}
    if len(suffixes) < 2 or not (is_row and is_plain) or meta.keys() & {"narrow", "width"}:
        return spec
    height, count = int(layout.get("height") or 450), len(suffixes)
    margin = {"t": 100, "b": 80} | (layout.get("margin") or {})
    axes_height = height - margin["t"] - margin["b"]
    lines = [
        1 + note["text"].count("<br>")
        for note in layout.get("annotations", ())
        if _is_subplot_title(note)
    ]
    stacked_height = 0.85 * count * axes_height
    # the numbers of one subplot and the lines of the title of the next stand between them
    gap = max(0.25 / count * stacked_height, 30 + 24 * max(lines, default=0))
    stacked_height += (count - 1) * (gap - 0.25 / count * stacked_height)
    added = round(stacked_height - axes_height)
    outside = sum(meta.get(part, 0) for part in ("above", "signature"))
    rows = side_by_side_domains(count, gap / stacked_height)[::-1]
    narrow: dict[str, Any] = {"height": height + added - outside}
    for suffix, row in zip(suffixes, rows, strict=True):
        no_title = {} if suffix == suffixes[-1] else {"title": {"text": ""}}
        narrow[f"xaxis{suffix}"] = {"domain": (0, 1)} | no_title
        # a row has the title and the numbers of the first alone, if all have the same axis
        title = layout[f"yaxis{suffix}"].get("title") or layout["yaxis"].get("title", {})
        title = title | {"font": {"size": 14}}
        row_height = (row[1] - row[0]) * (axes_height + added)
        if _text_width_in_pixels(title) > row_height and suffix != suffixes[count // 2]:
            title = {"text": ""}  # it is as long as several subplots: only in their middle
        narrow[f"yaxis{suffix}"] = {"domain": row, "showticklabels": True, "title": title}
    narrow["annotations"] = [
        note | {"x": 0.5, "y": rows[_subplot_below(note, layout, suffixes)][1]}
        if _is_subplot_title(note)
        else note
        for note in layout.get("annotations", ())
        if not is_footnote(note)
    ]
    legend = layout.get("legend") or {}
    if "y" in legend:  # as many pixels above the first subplot
        shrunk = axes_height / (axes_height + added)
        narrow["legend"] = legend | {"y": 1 + (legend["y"] - 1) * shrunk}
    width = smallest_readable_width(spec | {"layout": layout | narrow})
    narrow_meta = {"below": smallest_readable_width(spec), "layout": narrow}
    return spec | {"layout": layout | {"meta": meta | {"narrow": narrow_meta, "width": width}}}


def _is_subplot_title(note: dict[str, Any]) -> bool:
    """Return True for an annotation in the middle above a subplot, as make_subplots puts it."""
    place = [note.get(part) for part in ("xref", "yref", "y", "yanchor", "xanchor")]
    return place == ["paper", "paper", 1, "bottom", "center"]


def _subplot_below(note: dict[str, Any], layout: dict[str, Any], suffixes: list[str]) -> int:
    """Return the index of the subplot whose middle is nearest to an annotation."""
    middles = [sum(layout[f"xaxis{suffix}"]["domain"]) / 2 for suffix in suffixes]
    return min(range(len(middles)), key=lambda index: abs(middles[index] - note["x"]))


def smallest_readable_width(spec: dict[str, Any]) -> int:
    """Return the least width of a figure in pixels: in less, its words overlap."""
    layout = spec.get("layout", {})
    stated = (layout.get("meta") or {}).get("width")
    if stated:
        return stated
    axes = [v for name, v in layout.items() if re.fullmatch(r"(xaxis|scene)\d*", name)]
    domains = [axis.get("domain", (0, 1)) for axis in axes]
    # plots beside each other have other left ends; a scene has domains of both directions
    columns = len({(d["x"] if isinstance(d, dict) else d)[0] for d in domains})
    margin = {"l": 80, "r": 80} | (layout.get("margin") or {})
    left = max(margin["l"], _longest_left_label_pixels(spec) + 30)
    notes = [note for note in layout.get("annotations", ()) if not is_footnote(note)]
    over = [note for note in notes if note.get("xanchor") == "center" and note.get("text")]
    along = [note for note in notes if note not in over]
    under = [axis.get("title") or {} for axis in axes]
    column = max((20 + _text_width_in_pixels(each) for each in [*over, *under]), default=0)
    longest = max(map(_text_width_in_pixels, along), default=0)
    # a phone has 350 pixels for a figure
    least = 350 if columns < 2 else min(760, 320 * columns)
    return max(least, left + margin["r"] + max(columns * column, longest))


def _text_width_in_pixels(note: dict[str, Any]) -> int:
    """Return the width in pixels of an annotation or a title of an axis."""
    size = (note.get("font") or {}).get("size") or 12
    return round(longest_line_pixels(note.get("text") or "") * size / 12)


def _longest_left_label_pixels(spec: dict[str, Any]) -> int:
    """Return the width in pixels of the longest label at the left of a figure."""
    axes = (a for k, a in spec.get("layout", {}).items() if re.fullmatch(r"yaxis\d*", k))
    labels = [label for axis in axes for label in axis.get("ticktext") or ()]
    values = (trace.get("y") for trace in spec.get("data", ()))
    labels += [y for each in values if isinstance(each, list) for y in each]
    return max(
        (longest_line_pixels(label) for label in labels if isinstance(label, str)), default=0
    )


def longest_line_pixels(text: str) -> int:
    """Return the pixels of the longest line of a text of plotly, in its usual size of notes."""
    # a letter of 12 pixels is some 6.5 wide
    return max(
        round(6.5 * len(plotly_text_to_plain(line))) for line in re.split(r"<br */?>", text)
    )


def describe_figure(spec: dict[str, Any]) -> str:
    """Return the contents of a figure in words: titles, axes, the names of its lines."""
    layout = spec.get("layout", {})
    axes = [value for name, value in layout.items() if re.match("[xyz]axis", name)]
    scenes = [value for name, value in layout.items() if "scene" in name]
    axes += [axis for scene in scenes for axis in scene.values()]
    titles = [each.get("title") for each in (layout, *axes) if isinstance(each, dict)]
    texts = [title.get("text") if isinstance(title, dict) else title for title in titles]
    texts += [note.get("text") for note in layout.get("annotations", ())]
    # plotly has a legend where there is more than one trace, unless it is told otherwise
    if layout.get("showlegend", len(spec["data"]) > 1):
        texts += [t.get("name") for t in spec["data"] if t.get("showlegend", True)]
    words = [plotly_text_to_plain(text) for text in texts if isinstance(text, str) and text]
    return "; ".join(dict.fromkeys(filter(None, words))) or "a figure"


def plotly_text_to_plain(text: str) -> str:
    """Return a text of plotly without its tags and entities."""
    return " ".join(html.unescape(re.sub(r"<[a-z/][^>]*>", " ", text)).split())


def sanitize_html(source: str) -> str:
    """Return HTML of an output: plain markup stays; scripts, styles and handlers go."""
    plain = re.sub(r"(?is)<(style|script)\b.*?</\1\s*>", "", source)
    return f'<div class="wide">{TABLES.sanitize_html_tags(plain)}</div>'


def extract_audio_tags(source: str) -> str:
    """Return the sounds in HTML of an output, as ``IPython.display.Audio`` puts them there."""
    sound = r'src="data:audio/(wav|mpeg|ogg|flac);base64,([A-Za-z0-9+/=\s]+)"'
    return "".join(
        f'<audio controls src="data:audio/{kind};base64,{"".join(data.split())}"></audio>'
        for kind, data in re.findall(sound, source)
    )


def image_html(kind: str, data: str, alt: str) -> str:
    """Return an image of an output."""
    if kind == "image/svg+xml":
        if title := re.search("<title>(.*?)</title>", data):
            alt = html.unescape(title[1])
        # as an image, not as part of the page, an SVG cannot run scripts
        data = "utf8," + html.escape(re.sub(r"[%#<>]", lambda m: f"%{ord(m[0]):02X}", data))
    else:
        data = "base64," + html.escape(data.replace("\n", ""))
    picture = f'<img src="data:{kind};{data}" alt="{html.escape(alt)}">'
    # a drawing keeps its size: made smaller, its words could not be read
    return f'<div class="scrolled">{picture}</div>' if "svg" in kind else picture


def render_display(data: dict[str, Any], metadata: dict[str, Any], element_id: str) -> str:
    """Return the best a page can do with what a cell displayed, in an order of preference."""
    if PLOTLY in data:
        return figure_html(data[PLOTLY], element_id)
    if PLAYGROUND in data:
        return playground_placeholder_html(data[PLAYGROUND])
    if CLAIMS in data:
        return claims_html(**data[CLAIMS])
    for kind in ("image/svg+xml", "image/png", "image/jpeg"):
        if kind in data:
            alt = metadata.get("alt") or data.get("text/plain", "")
            return image_html(kind, data[kind], alt)
    if "text/html" in data:
        source = data["text/html"]
        return extract_audio_tags(source) if "<audio" in source else sanitize_html(source)
    for kind in ("text/markdown", "text/latex"):
        if kind in data:
            # a page that is handed out has no documents of the checkout beside it
            source = re.sub(r"\[([^\]]+)\]\(\.\./docs/[^)]*\)", r"\1", data[kind])
            return f'<div class="wide">{markdown_to_html(source, trusted=False)}</div>'
    if WIDGET in data:
        return LIVE
    return terminal_text_to_html(data.get("text/plain", ""))


OutputKind = Literal["stream", "error", "display"]


def render_outputs(
    outputs: Iterable[dict[str, Any]], cell_id: str
) -> Iterator[tuple[OutputKind, str]]:
    """Yield kind and HTML of each output of a cell."""
    position = 0
    for stream, group in groupby(outputs, lambda output: output.get("name")):
        if stream is not None:  # neighbouring pieces of one stream are joined
            yield "stream", terminal_text_to_html("".join(piece["text"] for piece in group))
            position += 1
            continue
        for output in group:
            if output["output_type"] == "error":
                yield "error", terminal_text_to_html("\n".join(output["traceback"]))
            else:
                where = output.get("metadata", {}), f"{cell_id}-{position}"
                yield "display", render_display(output["data"], *where)
            position += 1


# Pages: one for each notebook, and the table of contents.

FAILED = ".failed.ipynb"
FONT = "STIXTwoMath-Regular.ttf"
# found without an import, which would load the package that happens to carry the font
FONT_FILE = Path(str(distribution("ziamath").locate_file(f"ziamath/fonts/{FONT}")))
OWN = Path(__file__).parent / "templates"
HIGHLIGHT = Highlight2HTML(pygments_lexer="ipython3")

NEEDS_KERNEL = (
    '<p class="live">Do the exercises in JupyterLab: this page cannot run code, and '
    "a panel has only some of its controls here.</p>"
)


@dataclass(frozen=True)
class Chapter:
    """One line of the table of contents.

    Attributes:
        question: what the notebook asks, as HTML.
        time_to_run_and_read: how long it takes to run and to read, in words.
        for_beginners: whether it is of the first track.
        run_outcome: how the run ended that its page shows.
        defaults_of_overridden_parameters: the default of each parameter that the run set
            otherwise.
    """

    name: str
    title: str
    question: str
    time_to_run_and_read: str
    for_beginners: bool
    run_outcome: dict[str, Any] | None
    defaults_of_overridden_parameters: dict[str, Any]

    @property
    def number(self) -> str:
        return self.name.split("_")[0]

    @property
    def page_file(self) -> str | None:
        return f"{self.name}.html" if self.run_outcome else None

    @property
    def run_parameters(self) -> dict[str, Any]:
        return self.run_outcome["parameters"] if self.run_outcome else {}

    @property
    def nonempty_run_parameters(self) -> list[tuple[str, Any]]:
        """The parameters of the run that are not empty; seeds and data always, as the budget
        sets them then."""
        of_budget = ("seeds", "data")
        used = {"data": self.run_outcome.get("data")} if self.run_outcome else {}
        return [
            (name, used.get(name) or value)
            for name, value in self.run_parameters.items()
            if name in of_budget or value not in ("", [], {}, None)
        ]


def read_chapter(source: Path, runs: Path) -> tuple[Chapter, nbformat.NotebookNode]:
    """Return what is known of a notebook: its opening, and how its runs in ``runs`` ended.

    A run that failed does not take the place of one that did not.
    """
    good, failed = runs / source.name, runs / (source.stem + FAILED)
    path = next(attempt for attempt in (good, failed, source) if attempt.exists())
    notebook = nbformat.read(path, as_version=4)
    title, paragraph = read_title_and_first_paragraph(notebook)
    question, minutes = split_question_and_minutes(paragraph)
    run = notebook.metadata.get("lnlab") if path != source else None
    question = markdown_to_html(question, trusted=True)
    values = read_parameter_defaults(path) if run else {}
    described = {
        name: default
        for name, default in values.items()
        if name != "device" and run and run["parameters"].get(name, default) != default
    }
    level = is_for_beginners(source)
    known = Chapter(source.stem, title, question, minutes, level, run, described)
    return known, notebook


def split_question_and_minutes(paragraph: str) -> tuple[str, str]:
    """Return the question with which a notebook opens, and its minutes to run and to read."""
    parts = re.fullmatch(r"(?s)\*(.+)\*\s+(.*\bread)\.", paragraph)
    if parts is None:
        return paragraph, ""
    minutes = re.sub(r" on \w+ CPU cores?", "", parts[2])
    return parts[1], minutes[0].lower() + minutes[1:]


NOT_OUR_RUN = r"\g<0> <small>(not the run of this page)</small>"


def render_cells(
    notebook: nbformat.NotebookNode, *, as_described: bool
) -> list[dict[str, Any]]:
    """Return the parts of each cell that the template shows.

    Args:
        as_described: whether the parameters of the run are those that the text describes; if
            not, what the text says of our run is marked.
    """
    shown = []
    for position, cell in enumerate(notebook.cells):
        if cell.cell_type == "markdown":
            prose = markdown_to_html(cell.source, trusted=True)
            if not as_described:
                prose = re.sub(r"\b[Ii]n our run\b", NOT_OUR_RUN, prose)
            before, exercises, after = prose.partition('<h2 id="Exercises">')
            if exercises:
                prose = before + exercises + after.replace("</h2>", f"</h2>{NEEDS_KERNEL}", 1)
            shown.append({"prose": prose})
        elif cell.cell_type == "code" and cell.source.strip():
            outputs = list(render_outputs(cell.outputs, f"output-{position}"))
            # JupyterLab's own mark: what comes out is covered until it is clicked
            covered = cell.metadata.get("jupyter", {}).get("outputs_hidden", False)
            code = HIGHLIGHT(cell.source)
            shown.append({"code": code, "outputs": outputs, "covered": covered})
    return shown


def has_output_of_type(notebook: nbformat.NotebookNode, mime_type: str) -> bool:
    """Return True if a cell displayed something of a MIME type."""
    return any(
        mime_type in o.get("data", {}) for c in notebook.cells for o in c.get("outputs", [])
    )


def write_notebook_pages(
    sources: list[Path], out: Path, self_contained_names: Collection[str] = ()
) -> None:
    """Write the pages of all notebooks that were run into ``out``, and what they share.

    Args:
        sources: Every notebook of the workbook; the pages lead from one to the next by track.
        out: Where the executed notebooks lie; one that failed as ``NAME.failed.ipynb``.
        self_contained_names: The names of those that also get a page in one file, in
            ``out/handout``.
    """
    known = [read_chapter(source, out) for source in sort_beginners_first(sources)]
    ran = [chapter for chapter, _ in known if chapter.page_file]
    names = {chapter.name for chapter in ran}
    for this, notebook in known:
        if this.page_file is None:
            continue
        as_described = not this.defaults_of_overridden_parameters
        shown = render_cells(notebook, as_described=as_described)
        prose = "".join(cell.get("prose", "") for cell in shown)
        plays = has_output_of_type(notebook, PLAYGROUND)
        values = {
            "chapter": this,
            "cells": shown,
            "headings": re.findall(r'(?s)<h2 id="([^"]+)">(.*?)<a class="anchor-link"', prose),
            "folds": "<details" in prose or any(cell.get("covered") for cell in shown),
            "plots": has_output_of_type(notebook, PLOTLY),
            "playground": playground_module_source() if plays else "",
        }
        index = ran.index(this)
        before, after = [None, *ran][index], [*ran, None][index + 1]
        write_page(
            out / this.page_file,
            "notebook.html",
            names | PAGES_OF_A_RUN,
            **values,
            before=before,
            after=after,
        )
        if this.name in self_contained_names:
            (out / "handout").mkdir(exist_ok=True)
            write_page(
                out / "handout" / this.page_file,
                "notebook.html",
                **values,
                parts=read_embedded_assets(),
            )
    write_shared_files(out)


PAGES_OF_A_RUN = {"index", "claims", "playground", "norms"}
"""The pages beside those of notebooks."""


def write_page(
    page_path: Path, template_name: str, published: Collection[str] = (), **values: Any
) -> None:
    """Make a page of a template; pages that are not beside it are named in it, not linked.

    Args:
        published: the names of the pages beside it.
    """
    page = TEMPLATES.get_template(template_name).render(version=lnlab.__version__, **values)
    page = re.sub(
        r'<a href="(\w+)\.html[^"]*"[^>]*>(.*?)</a>',
        lambda link: link[0] if link[1] in published else link[2],
        page,
    )
    write_file(page_path, page.encode())


def read_embedded_assets() -> dict[str, str]:
    """Return what a page in one file has within: style, plotly.js, our scripts, and the font of
    its mathematics."""
    font = base64.b64encode(FONT_FILE.read_bytes()).decode()
    style = (OWN / "page.css").read_text(encoding="utf-8")
    return {
        "style": style.replace(f'url("{FONT}")', f'url("data:font/ttf;base64,{font}")'),
        "plotly": get_plotlyjs().replace("</script", r"<\/script"),
        "figures": (OWN / "figures.js").read_text(encoding="utf-8"),
    }


def write_shared_files(out: Path) -> None:
    """Put beside the pages what all of them use."""
    write_file(out / "plotly.min.js", get_plotlyjs().encode())
    for path in (OWN / "page.css", OWN / "figures.js", FONT_FILE):
        write_file(out / path.name, path.read_bytes())
