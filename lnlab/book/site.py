"""The published site: the pages of a run, and a first page that says what they are about."""

import re
import shutil
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import nbformat

from lnlab.book import claims_page
from lnlab.book.html import (
    OWN,
    PAGES_OF_A_RUN,
    PLOTLY,
    Chapter,
    figure_html,
    is_footnote,
    markdown_to_html,
    read_chapter,
    write_page,
    write_shared_files,
)
from lnlab.live.bundle import (
    playground_module_source,
    playground_page_html,
    playground_placeholder_html,
)
from lnlab.training.runs import write_file


def build_site(
    sources: Sequence[Path], notebook_run_folder: Path, out: Path, **content: Any
) -> Path:
    """Make the folder that a static host serves, and return its first page.

    Args:
        sources: every notebook of the workbook.
        notebook_run_folder: where ``lnlab run`` left notebooks and pages.
        out: the folder; what is in it of these names is replaced.
        content: as :func:`write_index_claims_and_playground` takes it.
    """
    known, ran = read_all_and_finished_chapters(sources, notebook_run_folder)
    if not ran:
        raise ValueError(
            f"{notebook_run_folder} has no page of a run that came to its end: `lnlab run` "
            "makes them."
        )
    if any((out / f"{one.name}.ipynb").exists() for one in known):
        raise ValueError(f"--out {out}: a run is there, whose pages a site would replace.")
    out.mkdir(parents=True, exist_ok=True)
    for one in ran:
        shutil.copyfile(notebook_run_folder / f"{one.page_file}", out / f"{one.page_file}")
    write_shared_files(out)
    write_file(out / ".nojekyll", b"")  # GitHub Pages serves files as they are
    return write_index_claims_and_playground(sources, notebook_run_folder, out, **content)


def explain_omitted_pages(sources: Sequence[Path], notebook_run_folder: Path) -> list[str]:
    """Return what of a folder of runs is not in a site of it, and why."""
    known, ran = read_all_and_finished_chapters(sources, notebook_run_folder)
    without_page = [one for one in known if one not in ran]
    omitted = [f"{one.name} (it failed)" for one in without_page if one.page_file]
    if not_run := [one.name[:2] for one in without_page if not one.page_file]:
        omitted.append(f"what was not run ({', '.join(not_run)})")
    if (handout := notebook_run_folder / "handout").exists():
        omitted.append(f"{handout} (pages to hand out as files; the site has the same pages)")
    return omitted


def read_all_and_finished_chapters(
    sources: Sequence[Path], notebook_run_folder: Path
) -> tuple[list[Chapter], list[Chapter]]:
    """Return all notebooks, and those that were run into a folder without a mistake."""
    known = [read_chapter(source, notebook_run_folder)[0] for source in sources]
    return known, [
        one
        for one in known
        if one.page_file and one.run_outcome and not one.run_outcome.get("error")
    ]


def fold_findings(text: str) -> str:
    """Return HTML of the findings, each folded to its first sentence, which is bold."""
    found = re.findall(r"(?s)<li>(<strong>.*?</strong>) *(.*?)</li>", text)
    return "\n".join(
        f"<details><summary>{first}</summary>\n<p>{rest}</p></details>" for first, rest in found
    )


def write_index_claims_and_playground(
    sources: Sequence[Path],
    notebook_run_folder: Path,
    out: Path,
    *,
    claims: Sequence[Mapping[str, Any]],
    findings: str,
    norms: Sequence[Mapping[str, str]] = (),
    repository: str = "",
) -> Path:
    """Write the first page of a site, or of the folder of a run, and return it.

    It has the playground, the findings, and both tracks of notebooks with a picture of each.
    In the folder of a run it also names the notebooks that failed or were not run.

    Args:
        sources: every notebook of the workbook.
        notebook_run_folder: where ``lnlab run`` left notebooks and pages.
        out: the folder of the page.
        claims: records of the statements of the papers; the page of the claims links each to
            the pages that show it.
        findings: what was found, in Markdown, with links to ``claims.html``.
        norms: rows of the table of popular normalizers; none: no page of them.
        repository: its address; empty: nothing links to it.
    """
    known, ran = read_all_and_finished_chapters(sources, notebook_run_folder)
    index = out / "index.html"
    others = [one for one in known if one not in ran] if out == notebook_run_folder else []
    write_file(out / "site.js", (OWN / "site.js").read_bytes())
    write_file(out / "playground.html", playground_page_html({}).encode())
    text = fold_findings(markdown_to_html(findings, trusted=True))
    before = (
        '<p><a href="index.html">lnlab</a></p>\n<h1>What became of the claims</h1>\n'
        "<h2>Ten findings</h2>\n"
        "<p>Open a finding to see its numbers, intervals and seeds.</p>\n"
        f"{text}\n<h2>All statements</h2>"
    )
    of_claims = chapters_by_claim(ran, notebook_run_folder)
    linked = [{**one, "chapters": of_claims.get(one["id"], [])} for one in claims]
    page = claims_page.claims_page_html(linked, before)
    write_file(out / "claims.html", page.encode())
    if norms:
        write_file(out / "norms.html", norms_page_html(norms).encode())
    pictures = {
        one.name: first_figure(notebook_run_folder / f"{one.name}.ipynb") for one in ran
    }
    beginners = [one for one in ran if one.for_beginners]
    write_page(
        index,
        "site.html",
        {one.name for one in (*ran, *others) if one.page_file} | PAGES_OF_A_RUN,
        tracks=[
            ("For beginners", beginners),
            (
                "Experiments of the papers, and tools",
                [one for one in ran if not one.for_beginners],
            ),
        ],
        first=beginners[0] if beginners else None,
        others=others,
        smoke=sum(one.run_parameters.get("budget") == "smoke" for one in ran),
        count=len(ran),
        playground=playground_placeholder_html({"simple": True}),
        module=playground_module_source(),
        pictures={name: spec and figure_html(spec, name) for name, spec in pictures.items()},
        words=Counter(claim["word"] for claim in claims).most_common(),
        findings=text,
        norms=describe_norm_and_package_counts(norms),
        repository=repository,
    )
    return index


def chapters_by_claim(
    chapters: Sequence[Chapter], notebook_run_folder: Path
) -> dict[str, list[Chapter]]:
    """Return the chapters that show a choice of the claims, by the ids of these claims."""
    found: dict[str, list[Chapter]] = {}
    for chapter in chapters:
        cells = nbformat.read(notebook_run_folder / f"{chapter.name}.ipynb", as_version=4).cells
        outputs = [output for cell in cells for output in cell.get("outputs", ())]
        shown = [
            o.data[claims_page.MIME] for o in outputs if claims_page.MIME in o.get("data", {})
        ]
        # a table with controls is that of all claims
        chosen = [one for each in shown if not each["controls"] for one in each["records"]]
        for claim in {one["id"] for one in chosen}:
            found.setdefault(claim, []).append(chapter)
    return found


def describe_norm_and_package_counts(rows: Sequence[Mapping[str, str]]) -> str:
    """Return how many normalizers of how many packages there are, in words."""
    norms = [row for row in rows if row["status"] != "not a normalizer"]
    packages = {row["package"] for row in rows}
    return f"{len(norms)} normalizers of {len(packages)} packages" if norms else ""


def norms_page_html(rows: Sequence[Mapping[str, str]]) -> str:
    """Return the searchable table of what the normalizers of popular packages compute."""
    norms = [row for row in rows if row["status"] != "not a normalizer"]
    return claims_page.TEMPLATES.get_template("norms.html").render(
        rows=sorted(rows, key=lambda row: row["name"].split(".")[-1].lower()),
        packages=sorted({row["package"] for row in rows}),
        norms=len(norms),
        identified=sum(row["status"] == "identified" for row in norms),
    )


def first_figure(path: Path) -> dict[str, Any] | None:
    """Return the first figure of an executed notebook as it is, with nothing to choose.

    Of a cell with the tag "question" only the first subplot is drawn: all of them would be the
    answer.
    """
    cells = nbformat.read(path, as_version=4).cells
    outputs = ((cell, output) for cell in cells for output in cell.get("outputs", ()))
    figures = ((c, o.data[PLOTLY]) for c, o in outputs if PLOTLY in o.get("data", {}))
    found = next(figures, None)
    if found is None:
        return None
    cell, spec = found
    data, layout = spec["data"], {**spec["layout"]}
    meta = layout.get("meta") or {}
    layout["meta"] = {
        k: meta[k] for k in meta if k not in ("choices", "frames", "caption", "elsewhere")
    }
    notes = [note for note in layout.get("annotations", ()) if not is_footnote(note)]
    if "question" in cell.metadata.get("tags", ()):
        data = [trace for trace in data if trace.get("xaxis", "x") == "x"]
        axes = {name: layout[name] | {"domain": [0, 1]} for name in ("xaxis", "yaxis")}
        others = [key for key in layout if "axis" in key or key == "shapes"]
        layout = {key: layout[key] for key in layout if key not in others} | axes
        titles = [note for note in notes if note["xref"] == "paper"]
        notes = [note | {"x": 0.5, "xanchor": "center"} for note in titles[:1]]
    return {"data": data, "layout": layout | {"annotations": notes}}
