"""Executed notebooks in, a folder of pages out."""

import base64
import os
import re
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

import nbformat
from jinja2 import Environment, PackageLoader
from nbconvert.filters.highlight import Highlight2HTML
from plotly.offline import get_plotlyjs

import lnlab
from lnlab.live.bundle import module
from lnlab.pages.formulas import markdown
from lnlab.pages.heading import opening
from lnlab.pages.outputs import MIME as PLAYGROUND
from lnlab.pages.outputs import PLOTLY, rendered

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
    loader=PackageLoader("lnlab.pages"), autoescape=True, trim_blocks=True, lstrip_blocks=True
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


def parts(*, math: bool = True) -> dict[str, str]:
    """The parts within a page in one file: style sheet, plotly.js, our scripts, and the font of
    its mathematics, if it has any."""
    font = base64.b64encode(FONT_FILE.read_bytes()).decode() if math else ""
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
