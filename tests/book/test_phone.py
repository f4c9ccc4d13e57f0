"""Figures in a window of 390 pixels: they are scrolled, and no word covers another."""

import numpy as np
import pandas as pd
import plotly.graph_objects as go
import pytest
from nbformat.v4 import new_output

from lnlab import panels
from tests.book.test_page import output

pytestmark = pytest.mark.browser

PHONE = {"viewport": {"width": 390, "height": 844}}
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
SCROLL_WIDTH = "document.documentElement.scrollWidth"


def test_tables_have_room_for_their_sentences(open_page):
    sentence = "what it does to the rest of the net, in some twenty words, " * 2
    wide = pd.DataFrame({name: [sentence] for name in ("where", "seen", "means", "do")})
    output = new_output("display_data", {"text/html": wide.to_html()})
    page = open_page(output, drawn=False, **PHONE)
    assert page.locator("tbody tr").first.bounding_box()["height"] < 250
    assert page.evaluate(SCROLL_WIDTH) <= 390


@pytest.mark.parametrize(
    "figures",
    [
        lambda: panels.invariance(eps=0.0).static_figures(with_controls=False),
        lambda: panels.recurrence().static_figures(with_controls=False),
    ],
    ids=["invariance", "recurrence"],
)
def test_no_word_is_cut_or_covers_another(figures, open_page):
    page = open_page(*map(output, figures()), **PHONE)
    assert page.evaluate(OVERPRINTED) == []
    assert page.evaluate(SCROLL_WIDTH) <= 390


DOMAINS = """() => {
  const { xaxis, xaxis2, xaxis3 } = document.querySelector(".picture")._fullLayout;
  return [xaxis, xaxis2, xaxis3].map(({ domain }) => domain[0]);
}"""


@pytest.mark.parametrize("make", [panels.invariance, panels.recurrence])
def test_a_panel_fits_whatever_is_chosen_and_stands_in_a_row_where_there_is_room(
    make, open_page, monkeypatch
):
    panel = make()
    field, ends = panel._on_page[0], {"small": 0.1, "large": 10.0}
    start = getattr(panel.settings, field)
    monkeypatch.setattr(
        panel, "page_values_by_field_and_label", lambda _: {field: ends | {"start": start}}
    )
    page = open_page(output(panel.static_figures(with_controls=True)[0]), **PHONE)

    fits = (
        "(({ scrollWidth: all, clientWidth: seen }) => all <= seen)("
        "document.querySelector('.scrolled'))"
    )
    assert page.evaluate(fits)
    stacked = page.evaluate(DOMAINS)
    page.locator(".choices input").fill("0")
    page.wait_for_selector("figure[data-stops='0']")
    assert page.evaluate(DOMAINS) == stacked
    assert page.evaluate(OVERPRINTED) == []
    page.set_viewport_size({"width": 1100, "height": 800})
    page.wait_for_function(f"new Set(({DOMAINS})()).size === 3")
    page.wait_for_function(f"({OVERPRINTED})().length === 0")  # once it is drawn so
    page.set_viewport_size(PHONE["viewport"])
    page.wait_for_function(f"String(({DOMAINS})()) === '{','.join(map(str, stacked))}'")
    page.wait_for_function(fits)


def test_a_panel_is_printed_as_it_was_on_the_screen(open_page, tmp_path):
    figures = panels.invariance(normalizers=("layer", "batch", "weight", "rms"))
    shown = output(figures.static_figures(with_controls=False)[0])
    page = open_page(shown, viewport={"width": 1280, "height": 800})
    before = page.evaluate(DOMAINS)
    width = "document.querySelector('.picture')._fullLayout.width"
    page.evaluate(f"addEventListener('beforeprint', () => {{ printed = {width} }})")
    page.pdf(path=tmp_path / "a4.pdf", format="A4")
    assert page.evaluate("printed") == 700, "in less, words of one row may overlap"
    page.wait_for_timeout(300)
    assert page.evaluate(DOMAINS) == before


CAMERA = """() => {
  const { eye } = document.querySelector(".picture")._fullLayout.scene._scene.getCamera();
  return [eye.x, eye.y, eye.z].map((place) => place.toFixed(3));
}"""


def swipe(page, x, y, dy):
    """Move a finger over the page by ``dy`` pixels."""
    session = page.context.new_cdp_session(page)
    finger = [{"x": x, "y": y + dy * part / 10} for part in range(11)]
    for point, kind in zip(finger, ["touchStart", *["touchMove"] * 10], strict=True):
        session.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": [point]})
        page.wait_for_timeout(20)
    session.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})


def test_over_a_surface_the_page_scrolls_and_a_mouse_turns_it(open_page):
    surface = output(go.Figure(go.Surface(z=np.eye(3)), {"height": 600}))
    page = open_page(surface, surface, **PHONE)
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
