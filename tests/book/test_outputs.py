"""What a cell displayed, on a page: figures, tables, sounds and text, and nothing hostile."""

import base64
import html
import json
import re

import numpy as np
import pandas as pd
import plotly.graph_objects as go
import pytest
from IPython.display import Audio

from lnlab.book.html import (
    PLOTLY,
    WIDGET,
    render_display,
    render_outputs,
    smallest_readable_width,
    stack_subplots_on_phones,
    terminal_text_to_html,
)
from lnlab.book.html import figure_html as on_page
from lnlab.figures.curves import line_chart, paired_differences

HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(1)>"


def figure_json():
    figure = go.Figure(go.Scatter(x=[0, 1], y=[0, 1], name=HOSTILE))
    figure.frames = [go.Frame(data=[go.Scatter(y=[k, 1])], name=str(k)) for k in range(3)]
    figure.layout.title = "<b>Defect</b> &lt;/script> against delta"
    return json.loads(str(figure.to_json()))


def test_figure_keeps_its_data_and_cannot_end_its_script_or_label():
    html = render_display({PLOTLY: figure_json(), "text/plain": "Figure()"}, {}, "output-1-0")
    (data,) = re.findall(r"(?s)<script type=\"application/json\">(.*?)</script>", html)
    assert json.loads(data) == figure_json()
    assert html.count("<script") == html.count("</script>") == 1
    assert "<img" not in html
    assert 'aria-label="Defect &lt;/script&gt; against delta"' in html


@pytest.mark.parametrize("kind", ["text/html", "text/markdown", "text/latex", "text/plain"])
@pytest.mark.parametrize(
    "text",
    [HOSTILE, "[x](javascript:alert(1))", f"$\\text{{{HOSTILE}}}$", f"$\\no{{{HOSTILE}}}$"],
)
def test_no_output_brings_scripts_or_handlers(kind, text):
    html = render_display({kind: text}, {}, "output-1-0")
    assert not re.search(r"<script|<img|<[^>\"]*onerror|href=\"javascript", html)


def test_a_table_of_pandas_is_kept_without_its_style():
    frame = pd.DataFrame({"x": [HOSTILE, 2]}, index=pd.Index(["a", "b"], name="row"))
    for source in (frame.style.to_html(), frame._repr_html_()):
        html = render_display({"text/html": source}, {}, "o")
        assert "<th" in html
        assert "<script" not in html
        assert "dataframe tbody tr th" not in html, "the style sheet has gone with its content"


def test_widget_falls_back_to_its_picture_then_to_words():
    view = {WIDGET: {"model_id": "1"}, "text/plain": "VBox(children=(...))"}
    assert render_display(view | {PLOTLY: figure_json()}, {}, "o").startswith("<figure")
    image = render_display(view | {"image/png": "AA\nAA"}, {}, "o")
    assert 'src="data:image/png;base64,AAAA"' in image
    alone = render_display(view, {}, "o")
    assert "make lab" in alone
    assert "VBox" not in alone


def test_svg_is_shown_as_a_picture_that_cannot_run():
    html = render_display({"image/svg+xml": f'<svg width="9">{HOSTILE}</svg>'}, {}, "o")
    assert '<img src="data:image/svg+xml;utf8,%3Csvg width=&quot;9&quot;' in html
    assert html.count("<") == 3


def test_sounds_can_be_heard_and_bring_nothing_else():
    sound = Audio(np.sin(np.arange(800.0)), rate=8000)._repr_html_()
    html = render_display({"text/html": f"{HOSTILE}{sound}{HOSTILE}"}, {}, "o")
    (data,) = re.findall(r'^<audio controls src="data:audio/wav;base64,(.*)"></audio>$', html)
    assert base64.b64decode(data)[:4] == b"RIFF"
    assert render_display({"text/html": f"<audio src=x {HOSTILE}>"}, {}, "o") == ""


def test_text_shows_what_a_terminal_would_and_pieces_of_a_stream_are_joined():
    assert terminal_text_to_html("0 %\r50 %\r100 %\ndone\r\n") == "<pre>100 %\ndone\n</pre>"
    assert "ansi-red" in terminal_text_to_html("\x1b[31mred\x1b[0m")
    printed = [("stdout", "1 of 2\r"), ("stdout", "2 of 2"), ("stderr", "oh")]
    outputs = [{"output_type": "stream", "name": n, "text": t} for n, t in printed]
    outputs.append({"output_type": "error", "traceback": ["\x1b[31mValueError\x1b[0m: <b>"]})
    kinds, html = zip(*render_outputs(outputs, "output-3"), strict=True)
    assert kinds == ("stream", "stream", "error")
    assert html[0] == "<pre>2 of 2</pre>"
    assert html[2].endswith(": &lt;b&gt;</pre>")


def test_a_narrow_window_scrolls_a_figure_before_its_words_are_cut():
    margin = {"l": 60, "r": 20}
    two = {"xaxis": {"domain": [0, 0.4]}, "xaxis2": {"domain": [0.6, 1]}}
    with_title = {"title": {"text": "x" * 60}}
    for layout, least in (
        ({"xaxis": {}, "annotations": [{"text": "<b>seeds</b>"}]}, 350),
        ({"margin": margin, "annotations": [{"text": "x" * 100 + "<br>y"}]}, 80 + 650),
        ({"meta": {"width": 860}}, 860),
        (two, 640),
        ({"xaxis": with_title, "margin": margin}, 80 + 390 + 20),
        ({"xaxis": with_title | {"domain": [0, 1]}, "margin": margin}, 80 + 390 + 20),
        (two | {"xaxis2": two["xaxis2"] | with_title}, 80 + 2 * (390 + 20) + 80),
    ):
        assert smallest_readable_width({"layout": layout}) == least
    named = {"margin": margin, "xaxis": {}, "annotations": [{"text": "x" * 60}]}
    assert (
        smallest_readable_width({"data": [{"y": ["x" * 40]}], "layout": named})
        == 40 * 6.5 + 30 + 20 + 390
    )


def test_on_a_phone_a_row_of_subplots_is_a_column():
    curves = {"none": (np.arange(1, 9), np.arange(1, 9))}
    figure = line_chart({"batch 128": curves, "batch 4": curves}, x="updates", y="loss" * 12)
    spec = json.loads(str(figure.to_json()))
    layout = stack_subplots_on_phones(spec)["layout"]
    narrow = layout["meta"]["narrow"]["layout"]
    assert narrow["xaxis"]["domain"] == narrow["xaxis2"]["domain"] == (0, 1)
    (low, high), (low_2, high_2) = narrow["yaxis"]["domain"], narrow["yaxis2"]["domain"]
    assert 0 <= low_2 < high_2 < low < high <= 1
    titles = {note["text"]: note["y"] for note in narrow["annotations"]}
    assert titles == {"batch 128": high, "batch 4": high_2}
    assert narrow["yaxis"]["title"]["text"] == "" != narrow["yaxis2"]["title"]["text"]
    assert narrow["height"] > layout["height"]
    assert layout["meta"]["width"] < 390 <= layout["meta"]["narrow"]["below"]
    one = json.loads(str(line_chart({"": curves}, x="updates", y="loss").to_json()))
    assert stack_subplots_on_phones(one) == one
    for second in ({"overlaying": "x"}, {"domain": [0.5, 1]}):  # without a y axis of its own
        two = one | {"layout": one["layout"] | {"xaxis2": second}}
        assert stack_subplots_on_phones(two) == two


def test_what_stands_below_a_figure_is_a_paragraph_and_makes_it_no_wider():
    rows = {"batch 128: layer − batch hidden": ([0.1, 0.2], (-0.1, 0.3))}
    made_on = "official data: mnist; 3 seeds; Intel(R) Xeon(R) Processor @ 2.70GHz"
    figure = paired_differences(rows, x="difference", made_on=made_on)
    spec = json.loads(str(figure.to_json()))
    assert smallest_readable_width(spec) <= 500
    words = (
        f"{made_on}. Dots: seeds; bar: 95 % confidence interval of the mean (t distribution)."
    )
    assert f'<p class="note">{html.escape(words)}</p>' in on_page(spec, "output-1")
    notes = " ".join(note.text.replace("<br>", " ") for note in figure.layout.annotations)
    assert words in notes, "where figures are not on a page"


def test_a_link_to_a_document_of_the_checkout_is_its_words():
    text = "see [errata](../docs/errata.md#one) and [the claims](claims.html)"
    page = render_display({"text/markdown": text}, {}, "a")
    assert "see errata and" in page
    assert 'href="claims.html"' in page
