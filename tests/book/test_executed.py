"""Pages as ``lnlab run`` has made them: every control shows what its figure is there.

``pytest tests/book/test_executed.py --pages build``, as ``.ci/run`` does after the notebooks.
"""

import json
from pathlib import Path
from typing import Any

import nbformat
import pytest

from tests.unpacked import unpacked

pytestmark = pytest.mark.browser

COVERED = "document.querySelectorAll('details').forEach((each) => { each.open = true; })"
CONTROLS = ".choices input, .choices select"


def pytest_generate_tests(metafunc):
    folder = metafunc.config.getoption("--pages")
    pages = sorted(Path(folder).resolve().glob("[0-9][0-9]_*.html")) if folder else []
    absent = pytest.param(None, marks=pytest.mark.skip(reason="needs --pages, of `lnlab run`"))
    metafunc.parametrize("path", pages or [absent], ids=lambda path: path and path.stem)


def alone(figure: dict[str, Any], name: str) -> dict[str, Any]:
    """A figure at the stops of a name, with nothing to choose."""
    frame = unpacked(figure)[name]
    data = [trace | frame["traces"].get(i, {}) for i, trace in enumerate(figure["data"])]
    layout = figure["layout"] | frame["layout"]
    kept = {k: v for k, v in figure["layout"]["meta"].items() if k not in ("choices", "frames")}
    return {"data": data, "layout": layout | {"meta": kept | frame["layout"]["meta"]}}


def some_places(choices: list[dict[str, Any]]) -> set[tuple[int, ...]]:
    """The ends and the middle of every choice, the others as they are."""
    at = tuple(choice["at"] for choice in choices)
    return {at} | {
        (*at[:position], stop, *at[position + 1 :])
        for position, choice in enumerate(choices)
        for stop in (0, len(choice["stops"]) // 2, len(choice["stops"]) - 1)
    }


def opened(page, path: Path):
    page.goto(path.as_uri())
    page.wait_for_selector("body[data-drawn]", timeout=120_000)
    page.evaluate(COVERED)


PAINTED = """async (cell) => {
  await Promise.all([...cell.querySelectorAll("image")].map((image) => image.decode()));
  await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
}"""
"""Waits until the maps of a cell, which a browser decodes when it comes to it, are painted."""


def seen(page, cell):
    """Pictures and words of a cell; without its controls, above which it would stand lower."""
    page.add_style_tag(content=".choices { display: none !important }")
    cell.evaluate(PAINTED)
    pictures = [each.screenshot() for each in cell.locator(".picture").all()]
    words = cell.locator(".title, figcaption").all_text_contents()
    page.evaluate("document.head.lastElementChild.remove()")
    return pictures, words


def move(page, cell, choices, place):
    """Set every control of a cell, as a reader does by the keyboard."""
    for number, (choice, stop) in enumerate(zip(choices, place, strict=True)):
        control = cell.locator(CONTROLS).nth(number)
        if not choice["slides"]:
            control.select_option(str(stop))
        elif int(control.input_value()) != stop:
            control.press("Home")
            for _ in range(stop):
                control.press("ArrowRight")
    name = ",".join(map(str, place))
    figure = cell.locator("figure[data-stops]").element_handle()
    page.wait_for_function(
        "([figure, name]) => figure.dataset.stops === name", arg=[figure, name], timeout=60_000
    )


AFRESH = """async ([number, figures]) => {
  const cell = document.querySelectorAll(".cell:has(.choices)")[number];
  const places = [...cell.querySelectorAll("figure.plot")];
  for (const [index, figure] of figures.entries()) {
    const { data, layout, title, caption } = unpacked(figure);
    const plot = places[index].querySelector(".picture");
    Plotly.purge(plot);
    await Plotly.newPlot(plot, data, layout, { responsive: true, displayModeBar: false });
    // as a page does: drawn again, a colour bar may move by a pixel, and then stays
    if (plot.querySelector(".colorbar") && !layout.scene) await Plotly.redraw(plot);
    places[index].querySelector(".title").textContent = title;
    places[index].querySelector("figcaption").textContent = plain(caption);
  }
}"""
"""Draws figures of one cell anew, by plotly alone, where they stood."""


def test_no_warning_is_printed(path):
    notebook = nbformat.read(path.with_suffix(".ipynb"), as_version=4)
    printed = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    assert [each.text for each in printed if each.get("name") == "stderr"] == []


def test_every_control_shows_what_is_drawn_afresh(path, browser):
    problems: list[str] = []
    page, other = (browser.new_page(viewport={"width": 1280, "height": 900}) for _ in range(2))
    page.on("pageerror", lambda error: problems.append(str(error)))
    opened(page, path)
    opened(other, path)
    for number in range(page.locator(".cell:has(.choices)").count()):
        cell, beside = (
            each.locator(".cell:has(.choices)").nth(number) for each in (page, other)
        )
        specs = cell.locator("figure.plot script").all_text_contents()
        figures = [json.loads(spec) for spec in specs]
        choices = figures[0]["layout"]["meta"]["choices"]
        assert cell.locator(CONTROLS).count() == len(choices)
        for place in sorted(some_places(choices)):
            move(page, cell, choices, place)
            name = ",".join(map(str, place))
            fresh = [alone(figure, name) for figure in figures]
            other.evaluate(AFRESH, [number, fresh])
            pictures, words = seen(page, cell)
            there, said = seen(other, beside)
            assert words == said
            for which, (moved, drawn) in enumerate(zip(pictures, there, strict=True)):
                assert moved == drawn, f"cell {number}, figure {which}, at {place}"
    assert not problems
    page.close()
    other.close()
