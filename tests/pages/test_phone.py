"""Figures in a window of 390 pixels: they are scrolled, and no word covers another."""

import json

import nbformat
import pandas as pd
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from lnlab import panels
from lnlab.figures import fusion
from lnlab.pages.outputs import PLOTLY
from lnlab.pages.page import publish

OVERPRINTED = """() => [...document.querySelectorAll(".picture")].flatMap((plot) => {
  const frame = plot.getBoundingClientRect();
  const words = [...plot.querySelectorAll("svg text")]
    .map((text) => [text.textContent, text.getBoundingClientRect()])
    .filter(([text, box]) => text.trim() && box.width > 0);
  const cut = words.filter(
    ([, box]) => box.left < frame.left - 1 || box.right > frame.right + 1
  );
  const over = words.flatMap(([text, a], i) => words.slice(i + 1).filter(([, b]) =>
    Math.min(a.right, b.right) - Math.max(a.left, b.left) > 3 &&
    Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 5
  ).map(([other]) => `${text} over ${other}`));
  return [...cut.map(([text]) => `cut: ${text}`), ...over];
})"""


@pytest.mark.browser
def test_sentences_in_a_table_have_room(tmp_path, browser):
    sentence = "what it does to the rest of the net, in some twenty words, " * 2
    frame = pd.DataFrame({name: [sentence] for name in ("where", "seen", "means", "do")})
    output = new_output("display_data", {"text/html": frame.to_html()})
    notebook = new_notebook(cells=[new_markdown_cell("# N\n\nWhy?")])
    notebook.cells.append(new_code_cell("frame", outputs=[output]))
    page = phone(notebook, tmp_path, browser)
    assert page.locator("tbody tr").bounding_box()["height"] < 250
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.close()


def phone(notebook, folder, browser):
    """The page of a notebook, in a window of a phone."""
    notebook.metadata["lnlab"] = {"name": "00_n", "parameters": {}, "error": None}
    notebook.metadata["lnlab"] |= {"seconds": 1, "at": "now", "version": "0"}
    (out := folder / "pages").mkdir()
    nbformat.write(notebook, out / "00_n.ipynb")
    publish([folder / "00_n.ipynb"], out)
    page = browser.new_page(viewport={"width": 390, "height": 844})
    page.goto((out / "00_n.html").as_uri())
    return page


def drawn(figures, folder, browser):
    """The page of a notebook whose one cell has these figures, in a window of a phone."""
    outputs = [new_output("display_data", {PLOTLY: figure}) for figure in figures]
    notebook = new_notebook(cells=[new_markdown_cell("# N\n\nWhy?")])
    notebook.cells.append(new_code_cell("panel", outputs=outputs))
    page = phone(notebook, folder, browser)
    page.wait_for_selector("body[data-drawn]")
    return page


@pytest.mark.browser
def test_no_word_of_a_drawing_is_cut(tmp_path, browser):
    drawings = [fusion.timeline([12, 12]), fusion.step()]
    page = drawn([json.loads(str(each.to_json())) for each in drawings], tmp_path, browser)
    assert page.evaluate(OVERPRINTED) == []
    page.close()


@pytest.mark.browser
@pytest.mark.parametrize(
    ("panel", "settings"),
    [(panels.invariance, {"eps": 0.0}), (panels.invariance, {}), (panels.recurrence, {})],
)
def test_no_word_covers_another(panel, settings, tmp_path, browser):
    figures = [json.loads(str(f.to_json())) for f in panel(**settings).stills(False)]
    page = drawn(figures, tmp_path, browser)
    assert page.locator(".picture .main-svg").count() >= len(figures)
    assert page.evaluate(OVERPRINTED) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.close()
