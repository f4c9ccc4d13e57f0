"""Figures in a window of 390 pixels: they are scrolled, and no word covers another."""

import json

import nbformat
import numpy as np
import pandas as pd
import plotly.graph_objects as go
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from lnlab import panels
from lnlab.book.html import PLOTLY, Readable, publish
from lnlab.figures import tables
from lnlab.figures.curves import learning_curves
from lnlab.figures.tables import matrices

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
def test_tables_have_room_for_their_sentences(tmp_path, browser):
    sentence = "what it does to the rest of the net, in some twenty words, " * 2
    wide = pd.DataFrame({name: [sentence] for name in ("where", "seen", "means", "do")})
    narrow = pd.DataFrame({"command": ["lnlab train mnist --set norm=layer " * 3]}, index=["a"])
    readable = Readable(narrow.rename_axis("id"), under=["command"])
    outputs = [
        new_output("display_data", {"text/html": source})
        for source in (wide.to_html(), readable._repr_html_())
    ]
    notebook = new_notebook(cells=[new_markdown_cell("# N\n\nWhy?")])
    notebook.cells.append(new_code_cell("frame", outputs=outputs))
    page = phone(notebook, tmp_path, browser)
    assert page.locator("tbody tr").first.bounding_box()["height"] < 250
    assert page.locator(".under div").bounding_box()["width"] > 250, "as wide as the page"
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
    drawings = [tables.timeline([12, 12]), tables.lstm_step()]
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


CAMERA = """() => {
  const { eye } = document.querySelector(".picture")._fullLayout.scene._scene.getCamera();
  return [eye.x, eye.y, eye.z].map((place) => place.toFixed(3));
}"""


def swipe(page, x, y, dy):
    """Move a finger over the page by ``dy`` pixels."""
    session = page.context.new_cdp_session(page)
    finger = [{"x": x, "y": y + dy * part / 10} for part in range(11)]
    for place, kind in zip(finger, ["touchStart", *["touchMove"] * 10], strict=True):
        session.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": [place]})
        page.wait_for_timeout(20)
    session.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})


@pytest.mark.browser
def test_over_a_surface_the_page_scrolls_and_a_mouse_turns_it(tmp_path, browser):
    surface = go.Figure(go.Surface(z=np.eye(3)), {"height": 600})
    page = drawn([json.loads(str(surface.to_json()))] * 2, tmp_path, browser)
    before = page.evaluate(CAMERA)
    page.locator(".picture").first.scroll_into_view_if_needed()
    box = page.locator(".picture").first.bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(x, y)
    for scroll in (lambda: page.mouse.wheel(0, 90), lambda: swipe(page, x, y, -90)):
        top = page.evaluate("scrollY")
        scroll()
        page.wait_for_function("top => scrollY > top + 40", arg=top)
        assert page.evaluate(CAMERA) == before
    page.evaluate("scrollTo(0, 0)")
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x + 60, y + 20, steps=5)
    page.mouse.up()
    assert page.evaluate(CAMERA) != before
    page.get_by_role("button", name="Reset view").first.click()
    page.wait_for_function(f"before => String(({CAMERA})()) === String(before)", arg=before)
    page.close()


@pytest.mark.browser
def test_what_goes_on_fades_until_one_is_at_its_end(tmp_path, browser):
    page = drawn([json.loads(str(tables.lstm_step().to_json()))], tmp_path, browser)
    faded = """(part) => parseFloat(
      getComputedStyle(document.querySelector(part)).getPropertyValue("--right"))"""
    assert page.evaluate(faded, ".scrolled") > 0
    assert page.evaluate(faded, "pre") == 0, "the one word of the cell fits"
    page.evaluate("document.querySelector('.scrolled').scrollLeft = 9999")
    page.wait_for_function(f"({faded})('.scrolled') === 0")
    page.close()


@pytest.mark.browser
def test_a_formula_that_overhangs_its_line_by_a_pixel_does_not_fade(tmp_path, browser):
    formula = r"$$h = \max\Big(0,\ \frac{g}{\sigma} \odot (W x - \mu) + b\Big),$$"
    page = phone(
        new_notebook(cells=[new_markdown_cell(f"# N\n\nWhy?\n\n{formula}")]), tmp_path, browser
    )
    formula = page.locator("math")
    assert formula.evaluate("each => each.scrollHeight > each.clientHeight"), "as it was found"
    faded = "each => getComputedStyle(each).getPropertyValue('--below')"
    assert formula.evaluate(faded) == "0px"
    page.close()


@pytest.mark.browser
def test_what_a_figure_was_made_on_stands_below_it_in_words(tmp_path, browser):
    made_on = "embedded data: digits; 3 seeds; a processor with a long name"
    panel = {"layer": (np.arange(1, 9), np.ones((3, 8)))}
    figure = learning_curves({"": panel}, x="updates", y="loss", made_on=made_on)
    page = drawn([json.loads(str(figure.to_json()))], tmp_path, browser)
    assert made_on in page.locator(".note").inner_text()
    assert made_on not in page.locator(".picture").inner_text()
    assert page.locator(".note").bounding_box()["width"] < 390
    assert page.locator(".picture").bounding_box()["width"] <= 420, "no wider for its note"
    with page.expect_download() as saving:
        page.get_by_role("button", name="Save as SVG").press("Enter")
    saved = saving.value.path().read_text()
    assert made_on in saved, "alone, it says so itself"
    page.close()


@pytest.mark.browser
def test_numbers_in_cells_are_black_or_white(tmp_path, browser):
    figure = matrices({"a": np.linspace(-1, 1, 24).reshape(4, 6)})
    page = drawn([json.loads(str(figure.to_json()))], tmp_path, browser)
    fills = page.evaluate(
        """() => [...document.querySelectorAll(".heatmap-label text")].map(
          (number) => getComputedStyle(number).fill)"""
    )
    assert len(fills) == 24
    assert {*fills} == {"rgb(0, 0, 0)", "rgb(255, 255, 255)"}
    page.close()
