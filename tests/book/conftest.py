"""The page of a notebook, open in a browser."""

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from lnlab.book.html import write_notebook_pages

RUN = {"error": None, "place": None, "seconds": 1.2, "at": "now", "version": "0"}


@pytest.fixture
def open_page(tmp_path, browser):
    """Open the page of a notebook whose one cell has some outputs; no script on it may fail."""
    pages, problems = [], []

    def open_page(*outputs, text="Why?", drawn=True, handout=False, covered=False, **window):
        metadata = {"jupyter": {"outputs_hidden": covered}}
        code = new_code_cell("x", outputs=list(outputs), metadata=metadata)
        cells = [new_markdown_cell(f"# N\n\n{text}"), code]
        run = {"name": "00_n", "parameters": {}} | RUN
        out = tmp_path / "pages"
        out.mkdir(exist_ok=True)
        nbformat.write(new_notebook(cells=cells, metadata={"lnlab": run}), out / "00_n.ipynb")
        names = ["00_n"] if handout else []
        write_notebook_pages([tmp_path / "00_n.ipynb"], out, self_contained_names=names)
        page = browser.new_page(**window)
        pages.append(page)
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.goto((out / ("handout" if handout else "") / "00_n.html").as_uri())
        if drawn:
            page.wait_for_selector("body[data-drawn]")
        return page

    yield open_page
    for page in pages:
        page.close()
    assert not problems
