"""Every panel in a real JupyterLab: each of its controls moves it, and Reset brings it back."""

import pytest

from benchmarks._jupyterlab import opened, plotted, write_notebook
from tests.panels.test_every_panel import FUNCTIONS

SOURCE = "from tests.panels.test_every_panel import made\nmade({!r})"
DRAWN = """() => {
  const plain = (value) => (value?.length && typeof value !== 'string'
    ? [...value].map(plain) : value);
  const plots = [...document.querySelectorAll('.lnlab-plot')];
  return document.querySelector('.lnlab-sentence').textContent + JSON.stringify(plots.map(
    ({ _fullData }) => _fullData.filter(({ visible }) => visible).map(
      ({ name, z, x, y, text }) => [name, ...[z, x, y, text].map(plain)])));
}"""
"""The sentence, and all that is drawn, by the name of its trace; arrays of any type."""
COMMAND = "document.querySelector('.lnlab-command').textContent"


def press(control):
    first = control.get_attribute("aria-valuenow") == control.get_attribute("aria-valuemin")
    control.press("End" if first else "Home")


def choose_another(control):
    index, count = control.evaluate("list => [list.selectedIndex, list.options.length]")
    control.select_option(index=(index + 1) % count)


def type_text(control):
    control.fill("a ring")
    control.press("Enter")


MOVES = {
    "[role=slider]": press,
    ".widget-toggle-buttons button:not(.mod-active)": lambda button: button.click(),
    ".lnlab-chips button": lambda button: button.click(),
    "input[type=text]:not(.widget-readout)": type_text,
    "select": choose_another,
}
"""How each kind of control is moved; the lists last, as they lock others."""


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_control_moves_its_panel(name, browser, address, folder):
    notebook = f"{name}.ipynb"
    write_notebook(folder / notebook, [SOURCE.format(name)])
    with opened(browser, address, notebook) as page:
        errors = []
        page.on("pageerror", lambda error: errors.append(error))
        plotted(page)
        controls, count = page.locator(".lnlab-controls"), 0
        start = page.evaluate(f"[{COMMAND}, ({DRAWN})()]")
        for kind, move in MOVES.items():
            every = controls.locator(kind).all()
            # a button that is pressed twice leaves something to be seen
            for control in [each for each in every for _ in range(1 + ("chips" in kind))]:
                if control.evaluate("each => each.closest('[disabled]') !== null"):
                    continue  # it says why it has no effect
                before = page.evaluate(f"[{COMMAND}, ({DRAWN})()]")
                move(control)
                page.wait_for_function(
                    f"([command, drawn]) => {COMMAND} !== command && ({DRAWN})() !== drawn",
                    arg=before,
                )
                assert not page.locator(".lnlab-error").is_visible()
                count += 1
        assert count >= 2
        page.get_by_role("button", name="Reset", exact=True).click()
        page.wait_for_function(
            f"([command, drawn]) => {COMMAND} === command && ({DRAWN})() === drawn", arg=start
        )
        labels = page.locator(".lnlab-plot").evaluate_all("all => all.map(p => p.ariaLabel)")
        assert all(len(label) > 40 for label in labels)
        assert errors == []
