"""Pages of executed notebooks: what they say of a run, and their figures in a browser."""

import json
import re
from pathlib import Path
from typing import Any

import nbformat
import numpy as np
import plotly.graph_objects as go
import pytest
from axe_playwright_python.sync_playwright import Axe
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output
from plotly.subplots import make_subplots

from lnlab.book.html import PLOTLY, write_notebook_pages
from lnlab.panels.playable import PageControl, TitledFigure, figure_with_page_controls
from tests.book.conftest import RUN


def output(figure) -> nbformat.NotebookNode:
    """A figure as a cell displays it."""
    return new_output("display_data", {PLOTLY: json.loads(str(figure.to_json()))})


def figure():
    """A heat map with two choices, whose title, caption and colours follow them."""
    choices = [
        PageControl("<b>", ["1", "5"], 0),
        PageControl("of", ["a", "b"], 0, is_slider=False),
    ]
    heat = {"type": "heatmap", "name": "map", "zmin": 0, "zmax": 9, "showscale": False}
    layout = {"height": 300, "margin": {"t": 30, "b": 40}}
    frames = {
        (i, k): TitledFigure(
            {"data": [heat | {"z": np.full((1, 2), float(z))}], "layout": layout},
            f"z is {z}{name}", f"now {z} <i>",
        )
        for i, z in enumerate((1, 5))
        for k, name in enumerate("ab")
    }  # fmt: skip
    return output(figure_with_page_controls(choices, frames))


def executed(out: Path, name: str, *outputs, suffix=".ipynb", text="", **run):
    """Write a notebook as a run leaves it."""
    question = "*What is $\\sigma$?* 1 minute to run, 5 to read."
    cells = [
        new_markdown_cell(f"# {name[:2]} · Of $\\mu$ & <sigma>\n\n{question}"),
        new_code_cell("x = '<script>'", outputs=list(outputs)),
        new_markdown_cell("## Claim\n\n$$\\mu = \\frac{1}{H}\\sum_i a_i$$"),
        new_markdown_cell(text),
        new_markdown_cell("## Exercises\n\n1. In the panel, find one."),
    ]
    notebook = new_notebook(cells=cells)
    notebook.metadata["lnlab"] = {"name": name, "parameters": {}} | RUN | run
    nbformat.write(notebook, out / (name + suffix))


@pytest.fixture
def site(tmp_path):
    """Three notebooks: one ran and has a figure, one failed, one was not run."""
    sources = [tmp_path / f"{name}.ipynb" for name in ("00_first", "01_second", "02_third")]
    for source in sources:
        executed(tmp_path, source.stem)
    out = tmp_path / "pages"
    out.mkdir()
    executed(out, "00_first", figure(), parameters={"data": "<b>mnist"})
    executed(out, "01_second", suffix=".failed.ipynb", error="E: <i>", place="in cell 3 (x<y)")
    write_notebook_pages(sources, out)
    return out


def test_page_escapes_what_is_not_ours_and_loads_what_it_needs(site):
    page, failed = ((site / f"{name}.html").read_text() for name in ("00_first", "01_second"))
    assert "data: &lt;b&gt;mnist" in page
    assert "&lt;script&gt;" in page
    assert "in cell 3 (x&lt;y)" in failed
    assert "E: &lt;i&gt;" in failed
    assert "plotly.min.js" in page
    assert "plotly.min.js" not in failed, "it has no figure"
    heading = r'<h2 id="([^"]+)">[^\n]*?</h2>(<p class="live">Do the exercises)?'
    marks = re.findall(heading, page)
    assert marks == [("Claim", ""), ("Exercises", '<p class="live">Do the exercises')]
    for path in (site / "page.css", site / "figures.js", *site.glob("*.html")):
        assert not re.search(r"https?:|//[a-z]", re.sub(r"// .*", "", path.read_text())), path


def test_pages_follow_each_other_by_track(tmp_path):
    names = ["02_b", "03_c", "04_d", "17_q", "19_s"]
    (out := tmp_path / "pages").mkdir()
    for name in names:
        executed(out, name)
    write_notebook_pages([tmp_path / f"{name}.ipynb" for name in names], out)
    link = r'rel="next" href="(.*?)\.html"'
    after = {name: re.search(link, (out / f"{name}.html").read_text()) for name in names}
    order = ["02_b", "04_d", "17_q", "03_c", "19_s"]
    assert [after[name] and after[name][1] for name in order] == [*order[1:], None]
    assert "for beginners ·" in (out / "04_d.html").read_text()
    assert "advanced ·" in (out / "03_c.html").read_text()


def test_a_page_says_what_it_is_a_run_of(site, tmp_path):
    settings = {"budget": "smoke", "seeds": [], "seed": 0, "data": "", "sources": ""}
    settings["panel"] = {"delta": 3}
    outcome: dict[str, Any] = {"hardware": "A Chip, 2 cores", "data": "digits (embedded)"}
    executed(site, "00_first", figure(), parameters=settings, **outcome)
    executed(site, "00_first", suffix=".failed.ipynb", error="KeyError: x", place="here")
    write_notebook_pages([tmp_path / "00_first.ipynb"], site)
    page = (site / "00_first.html").read_text()
    (banner,) = re.findall(r'<p class="run">(.*?)</p>', page)
    assert "budget: smoke · data: digits (embedded) ·" in banner
    assert "· seed: 0 · seeds: default ·" in banner
    assert "sources" not in banner, "empty, and nothing that a budget has"
    assert "A Chip, 2 cores · 1.2 s" in banner
    assert "delta" in banner, "the settings of its panel"
    assert "A smoke run" in page
    assert '<figure class="plot">' in page, "one that failed takes no good run's place"


def test_a_page_says_which_parameters_its_text_describes(site, tmp_path):
    seeds, text = {"seeds": [3]}, "In our run it fell; in our runs, too. (In our run.)"
    executed(site, "00_first", text=text, parameters={**seeds, "panel": {}, "device": "cpu"})
    notebook = nbformat.read(site / "00_first.ipynb", as_version=4)
    source = "seeds = [0]\npanel = {}\ndevice = 'auto'"
    cell = new_code_cell(source, metadata={"tags": ["parameters"]})
    notebook.cells.insert(1, cell)
    nbformat.write(notebook, site / "00_first.ipynb")
    write_notebook_pages([tmp_path / "00_first.ipynb"], site)
    page = (site / "00_first.html").read_text()
    assert "The text describes the default parameters (seeds = [0])." in page
    mark = " <small>(not the run of this page)</small>"
    assert f"In our run{mark} it fell; in our runs, too. (In our run{mark}.)" in page
    executed(site, "01_second", text=text)
    write_notebook_pages([tmp_path / "01_second.ipynb"], site)
    assert text in (site / "01_second.html").read_text(), "it is the run of this page"


def test_a_notebook_without_a_page_is_named_and_not_linked(site, tmp_path):
    text = "[the second](01_second.ipynb#Claim) and [the third](02_third.ipynb)"
    executed(site, "00_first", new_output("display_data", {"text/markdown": text}))
    sources = [tmp_path / f"{name}.ipynb" for name in ("00_first", "01_second", "02_third")]
    write_notebook_pages(sources, site)
    page = (site / "00_first.html").read_text()
    assert 'href="01_second.html#Claim"' in page
    assert "02_third.html" not in page
    assert "and the third" in page


def test_a_page_in_one_file_links_no_page_beside_it(site, tmp_path):
    text = "[**A claim**](claims.html#one) and [the first](00_first.ipynb)"
    executed(site, "00_first", new_output("display_data", {"text/markdown": text}))
    write_notebook_pages([tmp_path / "00_first.ipynb"], site, ["00_first"])
    assert 'href="claims.html#one"' in (site / "00_first.html").read_text()
    alone = (site / "handout/00_first.html").read_text()
    assert "A claim" in alone
    assert not re.search(r'href="[^"]*\.html', alone)


@pytest.mark.browser
def test_a_page_in_one_file_opens_alone(open_page, tmp_path):
    page = open_page(figure(), handout=True)
    alone = tmp_path / "elsewhere.html"
    (tmp_path / "pages/handout/00_n.html").rename(alone)
    requests = []
    page.on("request", lambda request: requests.append(request.url))
    page.goto(alone.as_uri())
    page.wait_for_selector("body[data-drawn]")
    page.get_by_role("slider").press("ArrowRight")
    page.wait_for_selector("figure[data-stops='1,0']")
    assert {url for url in requests if not url.startswith(("data:", "blob:"))} == {
        alone.as_uri()
    }
    assert page.locator("a[href$='.html']").count() == 0


@pytest.mark.browser
@pytest.mark.parametrize("width", [390, 1280])
def test_page_in_a_browser(open_page, width):
    formula = "$$\\mu = \\frac{1}{H}\\sum_i a_i$$"
    page = open_page(figure(), text=formula, viewport={"width": width, "height": 800})
    assert page.evaluate("document.fonts.check('20px \"STIX Two Math\"')")
    height = page.locator("math[display=block]").bounding_box()["height"]
    assert height > 30, "a fraction is taller than a line"
    plot = page.locator(".picture")
    title, caption = page.locator(".plot .title"), page.locator("figcaption")
    slider, choice = page.get_by_role("slider", name="<b>"), page.get_by_label("of")
    assert (title.inner_text(), caption.inner_text()) == ("z is 1a", "now 1 <i>")
    before = plot.screenshot()
    choice.focus()
    page.keyboard.press("Shift+Tab")
    assert slider.evaluate("control => control === document.activeElement")
    page.keyboard.press("ArrowRight")
    page.wait_for_selector("figure[data-stops='1,0']")
    assert (title.inner_text(), caption.inner_text()) == ("z is 5a", "now 5 <i>")
    assert slider.get_attribute("aria-valuetext") == "5"
    assert plot.get_attribute("aria-label") == "z is 5a: now 5 <i>"
    assert plot.screenshot() != before, "a heat map has to be drawn anew"
    choice.select_option("b")
    page.wait_for_selector("figure[data-stops='1,1']")
    assert title.inner_text() == "z is 5b"
    assert page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.browser
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_has_contrast(open_page, scheme):
    page = open_page(figure(), color_scheme=scheme)
    found = Axe().run(page, options={"runOnly": ["color-contrast"]})
    assert found.violations_count == 0, found.generate_report()


@pytest.mark.browser
@pytest.mark.parametrize("format", ["SVG", "PNG"])
def test_a_figure_is_saved_as_it_is_with_its_title(open_page, format):
    page = open_page(figure())
    page.get_by_role("slider").press("ArrowRight")
    page.wait_for_selector("figure[data-stops='1,0']")
    with page.expect_download() as saving:
        page.get_by_role("button", name=f"Save as {format}").press("Enter")
    saved = saving.value.path().read_bytes()
    assert saving.value.suggested_filename == f"output-1-0_z_is_5a.{format.lower()}"
    if format == "SVG":
        assert "z is 5a" in saved.decode()
        assert "now 5" in saved.decode(), "the caption stands below the title"
    else:
        assert saved.startswith(b"\x89PNG")


WIDTHS = """() => [...document.querySelectorAll(".picture > .plot-container")].map(
  (plot) => Math.round(plot.querySelector("svg").getBoundingClientRect().width)
)"""


@pytest.mark.browser
def test_figures_are_as_wide_as_the_sheet_while_they_are_printed(open_page, tmp_path):
    two = make_subplots(1, 2, subplot_titles=["left", "right"])
    two.add_scatter(y=[0, 1], row=1, col=1).add_scatter(y=[1, 0], row=1, col=2)
    surface = go.Figure(go.Surface(z=np.eye(2)), {"height": 300, "meta": {"width": 900}})
    wide = go.Figure(go.Scatter(y=[0, 1]), {"height": 300, "meta": {"width": 900}})
    page = open_page(
        *map(output, (two, surface, wide)), viewport={"width": 1280, "height": 800}
    )
    before = page.evaluate(WIDTHS)
    assert min(before) > 794, "wider than A4"
    page.evaluate(f"addEventListener('beforeprint', () => {{ printed = ({WIDTHS})() }})")
    page.pdf(path=tmp_path / "a4.pdf", format="A4")
    assert page.evaluate("printed") == [650, 650, 650]
    assert page.evaluate(WIDTHS) == before


@pytest.mark.browser
def test_what_is_closed_is_not_printed_and_says_so(open_page):
    solution = "<details>\n<summary>Solution</summary>\n\nIt is 1.\n</details>"
    page = open_page(figure(), text=solution, covered=True)
    note = "summary => getComputedStyle(summary, '::after').content"
    summaries = page.locator("summary")
    assert summaries.evaluate_all(f"all => all.map({note})") == ["none", "none"]
    page.emulate_media(media="print")
    for said in summaries.evaluate_all(f"all => all.map({note})"):
        assert "it is printed if you open it" in said
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert not page.locator(".picture").is_visible()
    page.emulate_media(media="screen")
    page.get_by_role("button", name="Open all results and solutions").click()
    page.emulate_media(media="print")
    assert summaries.evaluate_all(f"all => all.map({note})") == ["none", "none"]
    assert page.locator(".picture").is_visible()
    assert page.get_by_text("It is 1.").is_visible()
