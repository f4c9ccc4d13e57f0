"""The published site: the files of a static host, and its first page."""

import re
import shutil
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook, new_output
from plotly.subplots import make_subplots

from lnlab.auditing.norm_survey import read_stored_norm_survey
from lnlab.book.html import PLOTLY, write_notebook_pages
from lnlab.book.site import (
    build_site,
    explain_omitted_pages,
    first_figure,
    norms_page_html,
    write_index_claims_and_playground,
)
from lnlab.papers.claims import claims
from tests.book.test_page import executed, figure

CLAIMS = claims("ba2016-table1", "ba2016-6.5").records
FINDINGS = "- **One $\\sigma$ is found.** For sure ([here](claims.html#ba2016-6.5-faster))."
CONTENT: dict[str, Any] = {"claims": CLAIMS, "findings": FINDINGS}


@pytest.fixture
def ran(tmp_path) -> tuple[list[Path], Path]:
    """Four notebooks and where two of them ran; one failed, one was not run."""
    names = ("00_first", "01_words", "18_second", "19_third")
    sources = [tmp_path / f"{name}.ipynb" for name in names]
    for source in sources:
        executed(tmp_path, source.stem)
    build = tmp_path / "build"
    build.mkdir()
    executed(build, "00_first", figure())
    executed(build, "01_words")
    executed(build, "18_second", suffix=".failed.ipynb", error="E", place="here")
    write_notebook_pages(sources, build)
    return sources, build


def test_the_picture_of_a_question_does_not_show_the_answer(tmp_path):
    figure = make_subplots(1, 2, subplot_titles=["question", "answer"])
    figure.add_scatter(y=[0, 1], name="question", row=1, col=1)
    figure.add_scatter(y=[1, 0], name="answer", row=1, col=2)
    shown = new_output("display_data", {PLOTLY: figure.to_plotly_json()})
    for tags, names in (([], ["question", "answer"]), (["question"], ["question"])):
        cell = new_code_cell("panel", outputs=[shown], metadata={"tags": tags})
        nbformat.write(new_notebook(cells=[cell]), tmp_path / "00.ipynb")
        picture = first_figure(tmp_path / "00.ipynb") or {}
        assert [note["text"] for note in picture["layout"]["annotations"]] == names
        assert [trace["name"] for trace in picture["data"]] == names


def test_it_has_the_pages_of_runs_without_a_mistake_and_what_they_use(ran, tmp_path):
    index = build_site(*ran, tmp_path / "site", **CONTENT)
    files = {path.name for path in index.parent.iterdir()}
    assert {"00_first.html", "plotly.min.js", "figures.js", "site.js", "page.css"} <= files
    assert not {"18_second.html", "19_third.html"} & files
    page = index.read_text()
    links = {*re.findall(r'href="([^"#]+\.html)"', page)}
    assert links == {"00_first.html", "01_words.html", "playground.html", "claims.html"}
    for target in re.findall(r'(?:src|href)="([^"#]+)"', page):
        assert (index.parent / target).is_file(), target


def test_the_first_page_has_playground_findings_and_tracks_with_pictures(ran, tmp_path):
    page = build_site(*ran, tmp_path / "site", **CONTENT).read_text()
    (picture,) = re.findall(r'<script type="application/json">(.*?)</script>', page)
    assert "data-playground=" in page
    assert '"choices"' not in picture
    thumbnails = re.findall(r'class="thumbnail[^>]*>(<\w+)', page)
    assert thumbnails == ["<figure", "<span"], "without a figure it shows its title"
    assert re.findall(r"<h3>([^<]+)</h3>", page) == ["For beginners"], "no empty track"
    assert "for beginners · 1 minute to run, 5 to read</p>" in page
    correct = sum(record["word"] == "correct" for record in CLAIMS)
    assert f"<strong>{correct}</strong> correct" in page
    assert "<math>" in page
    assert 'href="claims.html#ba2016-6.5-faster"' in page
    assert 'id="ba2016-6.5-faster"' in (tmp_path / "site/claims.html").read_text()


def test_a_claim_links_the_pages_that_show_a_choice_with_it(ran, tmp_path):
    of_table, of_all = claims("ba2016-table1"), claims()
    for name, table in (("00_first", of_table), ("01_words", of_all)):
        executed(ran[1], name, new_output("display_data", table._repr_mimebundle_()))
    build_site(*ran, tmp_path / "site", **CONTENT)
    page = (tmp_path / "site/claims.html").read_text()
    links = re.findall(r'More about it: <a href="(.*?)">', page)
    assert links == ["00_first.html"] * len(of_table.records)


def test_a_run_ends_at_the_first_page_of_a_site(ran, tmp_path):
    sources, build = ran
    page = write_index_claims_and_playground(sources, build, build, **CONTENT).read_text()
    of_site = build_site(sources, build, tmp_path / "site", **CONTENT).read_text()
    (others,) = re.findall(r"(?s)<p>Not here: .*?</p>\n", page)
    assert page.replace(others, "") == of_site
    assert re.findall(r'href="(.*?)"', others) == ["18_second.html"]
    for target in re.findall(r'(?:src|href)="([^"#]+)"', page):
        assert (build / target).is_file(), target


def test_it_is_said_what_of_a_run_a_site_leaves_out(ran):
    sources, build = ran
    assert explain_omitted_pages(sources, build) == [
        "18_second (it failed)",
        "what was not run (19)",
    ]
    (build / "handout").mkdir()
    assert str(build / "handout") in explain_omitted_pages(sources, build)[-1]


def test_the_first_page_says_where_to_begin_and_which_runs_are_only_tests(ran, tmp_path):
    sources, build = ran
    page = build_site(sources, build, tmp_path / "site", **CONTENT).read_text()
    above, _, _ = page.partition("data-playground=")
    assert 'Start with <a href="00_first.html">00 ' in above
    assert "Smoke run" not in page
    executed(build, "01_words", parameters={"budget": "smoke"})
    page = build_site(sources, build, tmp_path / "site", **CONTENT).read_text()
    above, _, _ = page.partition("data-playground=")
    assert "1 of the 2 notebooks here ran with tiny networks" in above


def test_the_first_page_leads_to_the_table_of_normalizers_and_the_repository(ran, tmp_path):
    norms = [
        {"name": f"p.{status}", "status": status, "package": "p 1"}
        for status in ("identified", "not a normalizer")
    ]
    address = "https://github.com/somebody/lnlab"
    page = build_site(
        *ran, tmp_path / "site", **CONTENT, norms=norms, repository=address
    ).read_text()
    assert re.findall(r'href="(https?:[^"]+)"', page) == [address]
    assert ": 1 normalizers of 1 packages, searchable" in page
    for name in ("claims.html", "norms.html"):
        assert 'href="index.html"' in (tmp_path / "site" / name).read_text()


@pytest.mark.browser
@pytest.mark.parametrize("width", [390, 1280])
def test_the_table_of_normalizers_fits(browser, tmp_path, width):
    path = tmp_path / "norms.html"
    path.write_text(norms_page_html(read_stored_norm_survey()))
    page = browser.new_page(viewport={"width": width, "height": 900})
    page.goto(path.as_uri())
    hidden = page.evaluate(
        "(e => e.scrollWidth - e.clientWidth)(document.querySelector('.wide'))"
    )
    page.close()
    assert hidden == 0


def test_without_a_run_or_over_one_there_is_no_site(ran, tmp_path):
    sources, build = ran
    with pytest.raises(ValueError, match="lnlab run"):
        build_site(sources, tmp_path / "nothing", tmp_path / "site", **CONTENT)
    page = (build / "00_first.html").read_text()
    for out in (build, shutil.copytree(build, tmp_path / "other")):
        with pytest.raises(ValueError, match="whose pages a site would replace"):
            build_site(sources, build, out, **CONTENT)
        assert (out / "00_first.html").read_text() == page


@pytest.mark.browser
def test_the_playground_is_played_and_pictures_are_whole(ran, tmp_path, browser):
    page = browser.new_page(viewport={"width": 390, "height": 844})
    problems = []
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.goto(build_site(*ran, tmp_path / "site", **CONTENT).as_uri())
    page.wait_for_selector("body[data-drawn]")
    page.get_by_role("slider").first.press("ArrowRight")
    page.get_by_text("the weights of layer 2 are 1.12 times as large").wait_for()
    page.locator(".thumbnail").first.scroll_into_view_if_needed()
    page.wait_for_selector(".thumbnail .main-svg")
    frame, picture = (
        page.locator(part).first.bounding_box() for part in (".thumbnail", ".thumbnail > div")
    )
    assert picture["width"] > 0.4 * frame["width"]
    assert frame["y"] + frame["height"] >= picture["y"] + picture["height"] - 1
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert not problems
    page.close()
