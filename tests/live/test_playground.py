"""The playground as a page."""

import gzip
import math

import nbformat
import pytest
from axe_playwright_python.sync_playwright import Axe
from click.testing import CliRunner

import lnlab
from lnlab.book.html import write_notebook_pages
from lnlab.cli import app
from lnlab.live.bundle import MIME, playground_module_source

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


@pytest.fixture
def playground(browser):
    """A page with a playground, ``window.playground``, and its module, ``window.live``."""
    page = browser.new_page(reduced_motion="reduce")
    names = "Playground, EXPERIMENTS, measure, settingsInWords"
    script = f"{playground_module_source()}\nwindow.live = {{ {names} }};"
    page.add_script_tag(content=script, type="module")
    page.wait_for_function("window.live")  # a module runs later than a script
    page.evaluate("""() => {
      const root = document.body.appendChild(document.createElement("div"));
      window.playground = new live.Playground(root, {}, () => {});
    }""")
    yield page
    page.close()


def test_it_learns_pauses_and_makes_one_step(opened):
    page = opened()
    page.wait_for_function(f"{UPDATE} > 3")
    page.get_by_role("button", name="Pause").click()
    before = updates(page)
    page.get_by_role("button", name="One step").click()
    assert updates(page) == before + 1
    page.get_by_role("button", name="Reset").click()
    assert updates(page) == 0
    page.get_by_label("Batch size").select_option("1")
    page.get_by_label("Hidden layers").select_option("3")
    assert "went back to update 0. Press Play to train." in said(page)
    page.wait_for_timeout(200)
    assert updates(page) == 0, "it was paused"
    page.get_by_role("button", name="Play").click()
    page.wait_for_function(f"{UPDATE} > 3")
    page.get_by_label("Hidden layers").select_option("2")
    assert "went back to update 0 and started again." in said(page)
    page.wait_for_function(f"{UPDATE} > 3")
    assert page.evaluate("document.documentElement.scrollWidth") == 1280


def test_a_pause_shows_the_losses_of_the_last_update(playground):
    newest, update, shown, loss = playground.evaluate("""() => {
      const it = window.playground;
      it.run.set({ playing: true });
      for (let k = 0; k < 7; k++) it.run.step(); // as a frame does without drawing
      it.set({ playing: false });
      const moment = live.measure(it.run);
      const shown = it.find(".column .note").textContent;
      return [it.history.at(-1).update, it.run.updates, shown, moment.losses[0]];
    }""")
    assert newest == update == 7
    mean = sum(loss) / len(loss)
    assert float(shown.removeprefix("mean loss ")) == pytest.approx(mean, rel=0.01)


def test_weights_that_grow_are_noticed_by_the_networks_without_a_norm_alone(opened):
    page = opened(playing=False, scale=2, width=390)
    for _ in range(30):
        page.get_by_role("button", name="One step").click()
    page.get_by_role("button", name="Weights of hidden layer 2 × ×10").click()
    assert "no norm" in said(page).split("not with")[0]
    assert "not with batch norm and layer norm" in said(page)
    words = (
        "this makes the effective learning rate of batch norm and layer norm 100 times lower"
    )
    assert words in said(page)
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
    page.get_by_text("5 of 6 predicted correctly").wait_for()
    assert "→" in page.locator(".experiment .right").first.text_content()


def test_a_jump_is_drawn_from_its_lower_to_its_upper_end(playground):
    ends = """() => playground.history.filter(({ update }) => update === 150)
      .map(({ losses }) => losses[0].reduce((a, b) => a + b) / 5)"""
    playground.evaluate("() => playground.begin(live.EXPERIMENTS[0])")
    assert len(playground.evaluate(ends)) == 1
    playground.evaluate("() => playground.perform(live.EXPERIMENTS[0])")
    before, after = playground.evaluate(ends)
    assert after > 5 * before
    playground.evaluate("() => { for (let k = 0; k < 3; k++) playground.thinOut(); }")
    assert playground.evaluate(ends) == [before, after]
    # updates that no picture showed, as on a fast machine: the change measures its own start
    # (in one call, as the page itself goes on between two)
    after_change = """() => {
      playground.until = Infinity;
      playground.run.step();
      playground.set({ scale: 100 });
      const newest = playground.history.slice(-2).map(({ update }) => update);
      return [newest, playground.run.updates];
    }"""
    newest, updates = playground.evaluate(after_change)
    assert newest == [updates, updates]


def test_many_changes_do_not_keep_every_moment(playground):
    playground.evaluate("""() => {
      for (let k = 0; k < 100; k++) {
        playground.set({ rate: 0.1 + k / 1000 });
        playground.update();
      }
      for (let k = 0; k < 9; k++) playground.thinOut();
    }""")
    assert playground.evaluate("() => playground.history.length") <= 45


def test_an_experiment_says_what_it_sets(opened, playground):
    texts = playground.evaluate("""() => live.EXPERIMENTS.map((experiment) => {
      return live.settingsInWords(experiment, ["none", "batch", "rms"]);
    })""")
    weights, inputs, shift, single, decay = texts
    assert "no norm, batch norm and layer norm (layer norm in place of RMS norm)" in weights
    assert "(layer norm and weight norm in place of no norm and RMS norm)" in inputs
    assert "batch norm, layer norm and RMS norm (layer norm in place of no norm)" in shift
    assert "learning rate 0.03; momentum (SGD only) 0; the defaults otherwise" in single
    assert "learning rate 0.3; momentum (SGD only) 0; the defaults otherwise" in decay
    page = opened(playing=False, rate=5)
    page.get_by_role("button", name="Weight decay").click()
    assert "learning rate 0.3" in page.locator(".experiment .set").text_content()
    assert "%22rate%22%3A0.3" in page.url


def test_only_where_a_normalizer_cancels_the_length_there_is_an_effective_rate(playground):
    rates = """(mode) => {
      playground.set({ mode });
      return live.measure(playground.run).layers.map((layers) =>
        layers.map(({ rate }) => rate > 0));
    }"""
    none, normalized = [False, False, False], [True, True, False]  # the last layer is linear
    assert playground.evaluate(rates, "training") == [none, normalized, normalized]
    assert playground.evaluate(rates, "evaluation") == [none, none, normalized]


def test_captions_and_key_are_of_the_normalizers_drawn(opened):
    page = opened(playing=False, norms=["none", "rms", "layer"], units=1)
    first, second, third = page.locator(".column").all()
    assert "norm" not in " ".join(first.locator("figcaption").all_text_contents())
    assert "norm" not in first.locator("[data-part=z]").get_attribute("aria-label")
    assert "after the norm, with gain" in second.locator("figcaption").all_text_contents()
    assert "with gain and bias" in third.text_content()
    assert page.locator(".key span").all_text_contents() == [
        "no norm",
        "RMS norm",
        "layer norm",
    ]
    page.get_by_label("Hidden layers").select_option("1")
    assert "With one unit in a layer, layer norm outputs only its bias." in said(page)
    second.locator("select").select_option("batch")
    assert page.locator(".key span").nth(1).text_content() == "batch norm"


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
    run = CliRunner().invoke(app, [*told[:3], "-p", "norms", "none, rms,layer"])
    assert run.exit_code == 0, run.output


def test_a_setting_that_does_not_exist_is_refused():
    with pytest.raises(ValueError, match="no setting is called 'speeed'"):
        lnlab.playground(speeed=1)


@pytest.mark.parametrize("value", ["abc", True, None, math.nan, [1]])
def test_a_number_must_be_one(value):
    with pytest.raises(ValueError, match=r"rate is .*: give a number from 0\.0001 to 10"):
        lnlab.playground(rate=value)


@pytest.mark.parametrize("value", ["rms", 3, [[1], 2, 3], ["rms", "rms", "layer"]])
def test_normalizers_must_be_three(value):
    with pytest.raises(ValueError, match=r"norms is .*: give three of none, batch"):
        lnlab.playground(norms=value)
