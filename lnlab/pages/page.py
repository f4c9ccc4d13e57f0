"""Executed notebooks in, a folder of pages out."""

import os
import re
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
from lnlab.pages.formulas import markdown
from lnlab.pages.outputs import PLOTLY, rendered

FAILED = ".failed.ipynb"
FONT = "STIXTwoMath-Regular.ttf"
HIGHLIGHT = Highlight2HTML(pygments_lexer="ipython3")

# what a template does not mark as safe is escaped
TEMPLATES = Environment(
    loader=PackageLoader("lnlab.pages"), autoescape=True, trim_blocks=True, lstrip_blocks=True
)


@dataclass(frozen=True)
class Chapter:
    """One line of the table of contents."""

    name: str
    title: str
    question: str
    run: dict[str, Any] | None

    @property
    def number(self) -> str:
        return self.name.split("_")[0]

    @property
    def page(self) -> str | None:
        return f"{self.name}.html" if self.run else None


def opening(notebook: nbformat.NotebookNode) -> tuple[str, str]:
    """Title and first sentences of a notebook: the heading of its first cell, what follows."""
    source = next((c.source for c in notebook.cells if c.cell_type == "markdown"), "")
    heading, _, rest = source.strip().partition("\n")
    title = re.sub(r"^#*\s*(\d+\s*[·.:–-]\s*)?", "", heading)
    return title, rest.strip().split("\n\n")[0]


def chapter(source: Path, out: Path) -> tuple[Chapter, nbformat.NotebookNode]:
    """What is known of a notebook: its opening, and how its last run in ``out`` ended."""
    attempts = [out / (source.stem + FAILED), out / source.name, source]
    path = next(attempt for attempt in attempts if attempt.exists())
    notebook = nbformat.read(path, as_version=4)
    title, question = opening(notebook)
    run = notebook.metadata.get("lnlab") if path != source else None
    return Chapter(source.stem, title, markdown(question, trusted=True), run), notebook


def cells(notebook: nbformat.NotebookNode) -> list[dict[str, Any]]:
    """What the template shows of each cell."""
    shown = []
    for position, cell in enumerate(notebook.cells):
        if cell.cell_type == "markdown":
            attachments = cell.get("attachments", {})
            prose = markdown(cell.source, trusted=True, attachments=attachments)
            shown.append({"prose": prose})
        elif cell.cell_type == "code" and cell.source.strip():
            outputs = list(rendered(cell.outputs, f"output-{position}"))
            shown.append({"code": HIGHLIGHT(cell.source), "outputs": outputs})
    return shown


def plots(notebook: nbformat.NotebookNode) -> bool:
    return any(
        PLOTLY in o.get("data", {}) for c in notebook.cells for o in c.get("outputs", [])
    )


def publish(sources: list[Path], out: Path) -> Path:
    """Write the pages of all notebooks that were run into ``out``, and the contents.

    Args:
        sources: Every notebook of the workbook, in reading order.
        out: Where the executed notebooks lie; one that failed as ``NAME.failed.ipynb``.

    Returns:
        The table of contents.
    """
    known = [chapter(source, out) for source in sources]
    ran = [chapter for chapter, _ in known if chapter.page]
    for this, notebook in known:
        if this.page is None:
            continue
        place = ran.index(this)
        write(
            out / this.page,
            "notebook.html",
            chapter=this,
            cells=cells(notebook),
            plots=plots(notebook),
            before=ran[place - 1] if place else None,
            after=ran[place + 1] if place + 1 < len(ran) else None,
        )
    share(out)
    contents = out / "index.html"
    chapters = [chapter for chapter, _ in known]
    write(contents, "contents.html", chapters=chapters, today=datetime.now().astimezone())
    return contents


def write(path: Path, template: str, **values: Any) -> None:
    page = TEMPLATES.get_template(template).render(version=lnlab.__version__, **values)
    put(path, page.encode())


def put(path: Path, content: bytes) -> None:
    """Make ``content`` the file: a reader, or a kill, finds the old one or the new one."""
    # like the draft of a notebook: the next run sweeps away what a killed one leaves
    draft = path.with_name(f".{path.stem}.{os.getpid()}{path.suffix}")
    draft.write_bytes(content)
    os.replace(draft, path)


def share(out: Path) -> None:
    """Put beside the pages what all of them use."""
    put(out / "plotly.min.js", get_plotlyjs().encode())
    own = Path(__file__).parent / "templates"
    # found without an import, which would load the package that happens to carry the font
    font = Path(str(distribution("ziamath").locate_file(f"ziamath/fonts/{FONT}")))
    for path in (own / "page.css", own / "figures.js", font):
        put(out / path.name, path.read_bytes())
