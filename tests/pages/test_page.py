import re
from pathlib import Path

import nbformat
import plotly.graph_objects as go
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from lnlab.pages import opening, publish
from lnlab.pages.outputs import PLOTLY

RUN = {"error": None, "place": None, "seconds": 1.2, "at": "now", "version": "0"}


def figure():
    made = go.Figure(go.Scatter(x=[0, 1], y=[0, 1]))
    made.frames = [go.Frame(data=[go.Scatter(x=[0, 1], y=[0, k])], name=str(k)) for k in (1, 5)]
    steps = [
        {"method": "animate", "label": k, "args": [[k], {"mode": "immediate"}]} for k in "15"
    ]
    made.layout.sliders = [{"steps": steps}]
    return new_output("display_data", {PLOTLY: made.to_plotly_json()})


def executed(out: Path, name: str, *outputs, suffix=".ipynb", **run):
    notebook = new_notebook()
    number = name[:2]
    notebook.cells.append(
        new_markdown_cell(
            f"# {number} · Of $\\mu$ & <sigma>\n\nWhat is $\\sigma$?\n\n5 minutes"
        )
    )
    notebook.cells.append(new_code_cell("x = '<script>'", outputs=list(outputs)))
    notebook.cells.append(new_markdown_cell("## Claim\n\n$$\\mu = \\frac{1}{H}\\sum_i a_i$$"))
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
    publish(sources, out)
    return out


def test_contents_show_every_notebook_and_what_became_of_it(site):
    page = (site / "index.html").read_text()
    entries = re.findall(r"(?s)<li[ >].*?</li>", page)
    assert [re.findall(r'href="(.*?)"', e) for e in entries] == [
        ["00_first.html"],
        ["01_second.html"],
        [],
    ]
    for entry, status in zip(entries, ("1.2 s", "failed", "not run"), strict=True):
        assert status in entry
        assert "<math>" in entry


def test_page_escapes_what_is_not_ours(site):
    page = (site / "00_first.html").read_text()
    assert "data &lt;b&gt;mnist" in page
    assert "&lt;script&gt;" in page
    failed = (site / "01_second.html").read_text()
    assert "in cell 3 (x&lt;y)" in failed
    assert "E: &lt;i&gt;" in failed


def test_only_pages_with_figures_load_plotly(site):
    assert "plotly.min.js" in (site / "00_first.html").read_text()
    assert "plotly.min.js" not in (site / "01_second.html").read_text()


def test_no_page_knows_another_host(site):
    own = [site / "page.css", site / "figures.js", *site.glob("*.html")]
    for path in own:
        assert not re.search(r"https?:|//[a-z]", re.sub(r"// .*", "", path.read_text())), path


def test_opening_of_a_notebook():
    notebook = new_notebook(
        cells=[new_markdown_cell("# 02 · What stays\n\nDoes it?\n\n2 minutes")]
    )
    assert opening(notebook) == ("What stays", "Does it?")


@pytest.mark.browser
@pytest.mark.parametrize("width", [390, 1280])
def test_page_in_a_browser(site, browser, width):
    page = browser.new_page(viewport={"width": width, "height": 800})
    asked, problems = [], []
    page.on("request", lambda request: asked.append(request.url))
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.goto((site / "00_first.html").as_uri())
    page.wait_for_selector("figure.plot .main-svg")
    assert not problems
    assert all(url.startswith(("file:", "blob:", "data:")) for url in asked)
    assert page.evaluate("document.fonts.check('20px \"STIX Two Math\"')")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    formula = page.locator("math[display=block]").bounding_box()
    assert formula is not None
    assert formula["height"] > 30, "a fraction is taller than a line"
    shown = "document.querySelector('figure.plot div').data[0].y[1]"
    assert page.evaluate(shown) == 1
    page.locator(".slider-rail-touch-rect").click(position={"x": 10, "y": 5}, force=True)
    rail = page.locator(".slider-rail-touch-rect").bounding_box()
    assert rail is not None
    page.mouse.click(rail["x"] + rail["width"] - 2, rail["y"] + rail["height"] / 2)
    page.wait_for_function(f"{shown} === 5")
    page.close()
