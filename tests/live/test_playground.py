"""The playground as a page."""

import gzip

import nbformat
import pytest
from axe_playwright_python.sync_playwright import Axe
from click.testing import CliRunner

import lnlab
from lnlab.book.html import write_notebook_pages
from lnlab.cli import app
from lnlab.live.bundle import MIME

pytestmark = pytest.mark.browser

UPDATE = "+document.querySelector('.counter').textContent.slice(7)"


@pytest.fixture
def opened(browser, tmp_path):
    """Opens the playground of some settings, in a window of some width."""
    pages, errors = [], []

    def show(fragment="", width=1280, before="", reduced_motion=None, **state):
        path = lnlab.playground(**state).save(tmp_path / "playground.html")
        page = browser.new_page(
            viewport={"width": width, "height": 900}, reduced_motion=reduced_motion
        )
        page.add_init_script(before)
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.goto(path.as_uri() + fragment)
        pages.append(page)
        return page

    yield show
    for page in pages:
        page.close()
    assert errors == []


def updates(page):
    return int(page.locator(".counter").text_content().split()[1])


def said(page):
    return page.locator(".sentence").text_content()


def test_it_learns_pauses_and_makes_one_step(opened):
    page = opened()
    page.wait_for_function(f"{UPDATE} > 3")
    page.get_by_role("button", name="Pause").click()
    before = updates(page)
    page.get_by_role("button", name="One step").click()
    assert updates(page) == before + 1
    page.get_by_role("button", name="Reset").click()
    assert updates(page) == 0
    assert page.evaluate("document.documentElement.scrollWidth") == 1280


def test_weights_that_grow_are_noticed_by_the_networks_without_a_norm_alone(opened):
    page = opened(playing=False, scale=2, width=390)
    for _ in range(30):
        page.get_by_role("button", name="One step").click()
    page.get_by_role("button", name="Weights of hidden layer 2 × ×10").click()
    assert "no norm" in said(page).split("not with")[0]
    assert "not with batch norm and layer norm" in said(page)
    assert "this makes its effective learning rate 100 times lower" in said(page)
    page.get_by_text("All layers, in numbers").click()
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    times, divided = page.locator("[data-control=weights] button").all()[::-1]
    divided.click()
    assert "are back to normal (× 1)" in said(page)
    for _ in range(4):
        times.click()
    assert "already at the limit, 1000" in said(page)


def test_divergence_is_shown(opened):
    page = opened(playing=False, activation="relu", rate=10, scale=1000, momentum=0, depth=3)
    for _ in range(40):
        page.get_by_role("button", name="One step").click()
    note = page.locator(".column .note").first
    assert "diverged at update" in note.text_content()
    assert "learning rate 10" in note.text_content()
    page.get_by_label("Momentum (SGD only)").press("ArrowRight")
    assert "the momentum (SGD only) is 0.01" in said(page)
    assert "diverged before: no norm" in said(page)
    assert "→" not in said(page).split("no norm")[-1]


def test_an_experiment_asks_runs_and_answers(opened):
    page = opened(reduced_motion="reduce")
    page.wait_for_timeout(300)
    assert updates(page) == 0, "motion is to be reduced"
    page.get_by_role("button", name="Larger inputs").click()
    page.get_by_label("weight norm").first.check()
    page.get_by_label("Batch size").select_option("1")  # is undone when the experiment is run
    page.get_by_role("button", name="This is my prediction").click()
    page.get_by_text("5 of 6 predicted").wait_for()
    assert "→" in page.locator(".experiment .right").first.text_content()


@pytest.mark.parametrize(
    ("fragment", "rate", "words"),
    [
        ('#playground={"rate":0.5}', "0.5", "start from the same weights"),
        ('#playground={"rate":50}', "0.1", "could not be read (rate)"),
        ("#playground=%E0%A4%A", "0.1", "all settings are back to the defaults"),
    ],
)
def test_the_address_holds_the_settings(opened, fragment, rate, words):
    page = opened(fragment, playing=False)
    assert page.locator("[data-control=rate] output").text_content() == rate
    assert words in said(page)
    page.get_by_label("Batch size").select_option("4")
    assert "%22batch%22%3A4" in page.url


@pytest.mark.parametrize("width", [1280, 390])
def test_axe_finds_nothing(opened, width):
    page = opened(width=width, reduced_motion="reduce")
    page.get_by_role("button", name="Weight decay").click()
    page.get_by_role("button", name="This is my prediction").click()
    page.get_by_text("of 3 predicted").wait_for()
    page.get_by_text("All layers, in numbers").click()
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        found = Axe().run(page)
        assert found.violations_count == 0, found.generate_report()
    page.evaluate("document.querySelector('.lnlab-playground').className += ' simple'")
    assert Axe().run(page).violations_count == 0


def test_an_executed_page_has_it_without_a_kernel(browser, tmp_path, monkeypatch):
    monkeypatch.setenv("LNLAB_HEADLESS", "1")
    bundle = lnlab.playground(simple=True, dataset="xor")._repr_mimebundle_()
    assert bundle[MIME] == {"dataset": "xor", "simple": True}
    cells = [
        nbformat.v4.new_markdown_cell("# 00 · N\n\nWhy?"),
        nbformat.v4.new_code_cell(
            "p", outputs=[nbformat.v4.new_output("display_data", bundle)]
        ),
    ]
    notebook = nbformat.v4.new_notebook(cells=cells)
    notebook.metadata["lnlab"] = {"name": "00_n", "parameters": {}, "error": None}
    notebook.metadata["lnlab"] |= {"seconds": 1, "at": "now", "version": "0"}
    nbformat.write(notebook, tmp_path / "00_n.ipynb")
    (tmp_path / "out").mkdir()
    nbformat.write(notebook, tmp_path / "out/00_n.ipynb")
    write_notebook_pages([tmp_path / "00_n.ipynb"], tmp_path / "out")
    page = browser.new_page()
    page.goto((tmp_path / "out/00_n.html").as_uri())
    page.wait_for_function(f"{UPDATE} > 3")
    assert page.get_by_role("slider").count() == 2
    page.close()


def test_the_command_writes_a_page_that_is_small(tmp_path):
    out = tmp_path / "page.html"
    told = ["playground", "--out", str(out), "-p", "dataset", "digits"]
    run = CliRunner().invoke(app, told)
    assert run.exit_code == 0, run.output
    assert len(gzip.compress(out.read_bytes())) <= 60_000
    run = CliRunner().invoke(app, [*told[:3], "-p", "dataset", "mnist"])
    assert run.exit_code == 1
    assert "one of spirals, circles, xor, digits" in run.output


def test_a_setting_that_does_not_exist_is_refused():
    with pytest.raises(ValueError, match="no setting is called 'speeed'"):
        lnlab.playground(speeed=1)
