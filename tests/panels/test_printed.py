"""What a cell prints is broken between its words, which JupyterLab breaks anywhere."""

from pathlib import Path

import pytest

from lnlab.panels import live_plot

SHEET = Path(live_plot.__file__).with_suffix(".css")
JUPYTERLABS = ".jp-OutputArea-output pre {word-break: break-all; white-space: pre-wrap}"
LINES = """words => { const text = document.querySelector("pre").firstChild;
  return words.map((word) => {
    const range = document.createRange(), at = text.data.indexOf(word);
    range.setStart(text, at), range.setEnd(text, at + word.length);
    return range.getClientRects().length; }); }"""


@pytest.mark.browser
@pytest.mark.parametrize(("ours", "lines"), [(False, [1, 2, 3]), (True, [1, 1, 3])])
def test_words_are_not_broken_if_they_fit(browser, ours, lines):
    page = browser.new_page()
    page.set_content(
        f"<style>{JUPYTERLABS} {SHEET.read_text() * ours} pre {{width: 8ch}}</style>"
        "<div class='jp-RenderedText jp-OutputArea-output'>"
        "<pre>five sixsix andtwentyletterslong</pre></div>"
    )
    found = page.evaluate(LINES, ["five", "sixsix", "andtwentyletterslong"])
    page.close()
    assert found == lines
