"""Tables to be read: what they hold, and in a browser what one can do with them."""

import numpy as np
import pandas as pd
import pytest
from nbformat.v4 import new_output

from lnlab.book.html import Readable, displayed, written

FRAME = pd.DataFrame(
    {
        "verdict": ["holds", "fails", "holds"],
        "worst": [1.991546e-01, 0.0, np.nan],
        "note": ["", "<b>slip</b>\nof the pen", ""],
    },
    index=pd.Index(["ten", "two", "six"], name="id"),
)


def test_a_text_is_below_its_row_where_there_is_one():
    html = Readable(FRAME, under=["note"])._repr_html_()
    assert html.count("<tbody>") == 3
    assert html.count('class="under"') == 1
    assert "&lt;b&gt;slip" in html
    assert "<td>0.2</td>" in html
    assert "nan" not in html
    page = displayed({"text/html": html}, {}, "o")
    assert '<table class="lnlab-table">' in page
    assert "addEventListener" not in page, "a page has the script"
    with pytest.raises(KeyError, match="no column 'notes': choose from verdict"):
        Readable(FRAME, under=["notes"])


def test_values_are_written_as_they_are_read():
    values = [None, np.nan, 0.0, [1, "a"], {"v": "open", "r": ""}]
    assert list(map(written, values)) == ["", "", "0", "1; a", "open"]


@pytest.mark.browser
@pytest.mark.parametrize("handout", [False, True])
def test_rows_are_filtered_and_sorted_with_what_is_below_them(handout, open_page):
    html = Readable(FRAME, under=["note"])._repr_html_()
    output = new_output("display_data", {"text/html": html})
    page = open_page(output, drawn=False, handout=handout)
    page.get_by_role("button", name="worst").click()
    names = page.locator("tbody:visible th")
    assert names.all_text_contents() == ["two", "ten", "six"]
    page.get_by_role("button", name="worst").click()
    assert page.locator("[aria-sort]").get_attribute("aria-sort") == "descending"
    page.get_by_label("only rows with").fill("Slip")
    assert names.all_text_contents() == ["two"]
    assert page.locator(".under:visible").inner_text() == "note: <b>slip</b>\nof the pen"
    assert page.locator(".lnlab-filter output").text_content() == "1 of 3"


@pytest.mark.browser
def test_a_command_has_no_line_that_ends_within_an_option(browser):
    command = "lnlab train draw --budget paper --set seeds=1,2 --set 'norm=batch layer' && done"
    frame = pd.DataFrame({"verdict": ["open"], "run": [command * 3]})
    page = browser.new_page(viewport={"width": 240, "height": 600})
    page.set_content(Readable(frame, under=["run"])._repr_html_())
    options = page.locator(".option")
    wanted = ["--budget paper", "--set seeds=1,2", "--set 'norm=batch"]
    assert options.all_text_contents() == wanted * 3
    lines = options.evaluate_all("all => all.map(each => each.getClientRects().length)")
    assert lines == [1] * 9
    page.close()
