"""The published site: what a static host serves."""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import plotly.graph_objects as go
import pytest
from click.testing import CliRunner
from nbformat.v4 import new_output

from lnlab import paths
from lnlab.book.html import PLOTLY, publish
from lnlab.book.site import first_page, site
from lnlab.cli.notebooks import site as site_of
from lnlab.papers.claims import claims
from tests.book.test_page import executed, figure

CLAIMS = claims("ba2016-table1", "ba2016-6.5").records
FINDINGS = "- $\\sigma$ is found ([here](claims.html#ba2016-6.5-faster))"
GIVEN: dict[str, Any] = {"claims": CLAIMS, "findings": FINDINGS}


@pytest.fixture
def ran(tmp_path) -> tuple[list[Path], Path]:
    """Three notebooks and where two of them were run, one without a mistake."""
    sources = [tmp_path / f"{name}.ipynb" for name in ("00_first", "18_second", "19_third")]
    for source in sources:
        executed(tmp_path, source.stem)
    build = tmp_path / "build"
    build.mkdir()
    executed(build, "00_first", figure())
    executed(build, "18_second", suffix=".failed.ipynb", error="E", place="here")
    publish(sources, build)
    return sources, build


def test_it_has_the_pages_of_runs_without_a_mistake_and_what_they_use(ran, tmp_path):
    index = site(ran[0], ran[1], tmp_path / "site", **GIVEN)
    files = {path.name for path in index.parent.iterdir()}
    assert {"00_first.html", "plotly.min.js", "figures.js", "site.js", "page.css"} <= files
    assert not {"18_second.html", "19_third.html"} & files
    page = index.read_text()
    links = set(re.findall(r'href="([^"#]+\.html)"', page))
    assert links == {"00_first.html", "playground.html", "claims.html"}
    for used in re.findall(r'(?:src|href)="([^"#]+)"', page):
        assert (index.parent / used).is_file(), used


def test_the_first_page_has_playground_findings_and_a_picture_of_each_notebook(ran, tmp_path):
    page = site(ran[0], ran[1], tmp_path / "site", **GIVEN).read_text()
    (picture,) = re.findall(r'<script type="application/json">(.*?)</script>', page)
    assert "data-playground=" in page
    assert '"choices"' not in picture
    assert "<strong>2</strong> correct" in page
    assert "<math>" in page
    assert 'href="claims.html#ba2016-6.5-faster"' in page
    assert 'id="ba2016-6.5-faster"' in (tmp_path / "site/claims.html").read_text()


def test_the_one_link_to_another_host_is_of_a_setting(ran, tmp_path):
    page = site(ran[0], ran[1], tmp_path / "site", **GIVEN).read_text()
    assert not re.search(r"https?:", page)
    address = "https://a.forge/x/y"
    page = site(ran[0], ran[1], tmp_path / "site", **GIVEN, repository=address).read_text()
    assert re.findall(r'href="(https?:[^"]+)"', page) == [address]


def test_the_setting_of_pyproject_is_what_the_site_links_to(ran, tmp_path, monkeypatch):
    sources, build = ran
    there, own = paths.root(), tmp_path / "checkout"
    (own / "notebooks").mkdir(parents=True)
    for source in sources:
        source.rename(own / "notebooks" / source.name)
    for name in ("results", "docs"):
        (own / name).symlink_to(there / name)
    text = (there / "pyproject.toml").read_text()
    address = "https://github.com/somebody/lnlab"
    setting = re.sub(r'(?m)^repository = ".*"', f'repository = "{address}"', text)
    (own / "pyproject.toml").write_text(setting)
    monkeypatch.setattr(paths, "root", lambda: own)
    at = ["--pages", str(build), "--out", str(tmp_path / "site")]
    assert CliRunner().invoke(site_of, at).exit_code == 0
    page = (tmp_path / "site/index.html").read_text()
    assert re.findall(r'href="(https:[^"]+)"', page) == [address]


def test_a_run_ends_at_the_first_page_of_a_site(ran, tmp_path):
    sources, build = ran
    page = first_page(sources, build, build, **GIVEN).read_text()
    own = site(sources, build, tmp_path / "site", **GIVEN).read_text()
    others = re.findall(r"(?s)<p>Not here: .*?</p>\n", page)
    assert page.replace(others[0], "") == own
    assert re.findall(r'href="(.*?)"', others[0]) == ["18_second.html"]
    assert "<code>make lab</code>" in own
    for used in re.findall(r'(?:src|href)="([^"#]+)"', page):
        assert (build / used).is_file(), used


def test_where_every_notebook_failed_the_list_of_them_stays(tmp_path):
    executed(tmp_path, "00_first")
    (build := tmp_path / "build").mkdir()
    executed(build, "00_first", suffix=".failed.ipynb", error="E", place="here")
    listed = publish([tmp_path / "00_first.ipynb"], build).read_text()
    assert (
        first_page([tmp_path / "00_first.ipynb"], build, build, **GIVEN).read_text() == listed
    )


def test_without_a_run_there_is_no_site(ran, tmp_path):
    sources, _ = ran
    with pytest.raises(ValueError, match="lnlab run"):
        site(sources, tmp_path / "nothing", tmp_path / "site", **GIVEN)


def test_the_folder_of_a_run_is_not_written_over(ran, tmp_path):
    sources, build = ran
    page = (build / "00_first.html").read_text()
    other = shutil.copytree(build, tmp_path / "other")
    for out in (build, other):
        with pytest.raises(ValueError, match="whose pages a site would replace"):
            site(sources, build, out, **GIVEN)
        assert (out / "00_first.html").read_text() == page


@pytest.mark.browser
def test_the_playground_is_played_and_pictures_are_drawn(ran, tmp_path, browser):
    index = site(ran[0], ran[1], tmp_path / "site", **GIVEN)
    page = browser.new_page(viewport={"width": 390, "height": 844})
    problems = []
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.goto(index.as_uri())
    page.wait_for_selector("body[data-drawn]")
    page.get_by_role("slider").first.press("ArrowRight")
    page.get_by_text("the weights of layer 2 are 1.12 times as large").wait_for()
    page.locator(".thumbnail").scroll_into_view_if_needed()
    page.wait_for_selector(".thumbnail .main-svg")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert not problems
    page.close()


@pytest.mark.browser
@pytest.mark.parametrize(
    ("trace", "meta", "filters"),
    [
        (go.Heatmap(z=np.eye(2)), {}, ["invert(0.9)", "invert(1)"]),
        (go.Scatter(y=[1, 2]), {}, ["invert(0.9) hue-rotate(180deg)"]),
        (go.Scatter(y=[1, 2]), {"light": True}, ["none"]),
    ],
)
def test_small_pictures_keep_their_colours_in_the_dark(trace, meta, filters, tmp_path, browser):
    source = tmp_path / "04_first.ipynb"
    executed(tmp_path, source.stem)
    (build := tmp_path / "build").mkdir()
    shown = json.loads(str(go.Figure(trace, layout={"meta": meta}).to_json()))
    executed(build, source.stem, new_output("display_data", {PLOTLY: shown}))
    publish([source], build)
    page = browser.new_page(color_scheme="dark")
    page.goto(site([source], build, tmp_path / "site", **GIVEN).as_uri())
    page.locator(".thumbnail").scroll_into_view_if_needed()
    page.wait_for_selector(".thumbnail .main-svg")
    found = page.evaluate(
        """() => [...document.querySelectorAll(".thumbnail, .thumbnail .heatmaplayer:has(.hm)")]
          .map((part) => getComputedStyle(part).filter)"""
    )
    assert found == filters
    page.close()
