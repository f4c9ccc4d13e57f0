"""The 16 configurations: each in its cell, and those without a number grey."""

import re
from itertools import product

import numpy as np
from plotly.colors import sample_colorscale

from lnlab.book.html import line_width, width
from lnlab.figures.style import SIZES, upon
from lnlab.figures.tables import configurations

LETTERS = ["".join(letters) for letters in product("TF", repeat=4)]


def plain(text):
    """A text of a cell without its colour."""
    return re.sub("</?span[^>]*>", "", text)


def drawn(values, **settings):
    means = np.asarray(values, float)
    return configurations(
        {"validation": (means, means - 0.1, means + 0.1), "test": (means, means, means)},
        value="accuracy", made_on="synthetic data", **settings,
    )  # fmt: skip


def test_every_configuration_stands_in_its_cell():
    heat = drawn(np.arange(16.0)).data[0]
    for place, letters in enumerate(LETTERS):
        row, column = divmod(place, 4)
        assert heat.z[row][column] == place
        assert list(heat.customdata[row][column]) == [letters, place - 0.1, place + 0.1]


def test_its_note_has_room_where_it_has_one_square():
    means = np.arange(16.0)
    made_on = "synthetic data: " + "some words " * 12
    figure = configurations(
        {"test": (means, means, means)}, value="accuracy", made_on=made_on
    ).to_dict()
    (note,) = (n for n in figure["layout"]["annotations"] if n["text"].startswith("synthetic"))
    layout = figure["layout"]
    assert width(figure) >= line_width(note["text"]) + layout["margin"]["l"]


def test_impossible_configurations_say_so():
    values = np.where([letters[1] == letters[3] == "F" for letters in LETTERS], 0.5, np.nan)
    figure = drawn(values)
    notes = [note.text for note in figure.layout.annotations if note.xref == "x"]
    assert notes.count("impossible") == 12
    said = [plain(text) for row in figure.data[0].text for text in row]
    assert said.count("<b>0.500</b><br>0.400<br>to 0.600") == 4
    assert said.count("") == 12
    assert np.isnan(np.array(figure.data[0].z)).sum() == 12


def test_a_chosen_cell_is_outlined():
    (shape,) = drawn(np.arange(16.0), outlined={"test": 6}).layout.shapes  # TFFT
    assert (shape.x0 + shape.x1, shape.y0 + shape.y1) == (4, 2)
    assert shape.xref == "x2"


def test_a_frame_covers_no_sign_in_jupyterlab():
    figure = drawn(np.full(16, -0.111), outlined={"validation": 0})
    (shape,), heat = figure.layout.shapes, figure.data[0]
    low, high = figure.layout.xaxis.domain
    inside = (shape.x1 - shape.x0) / 4 * (high - low) * (848 - 150) - shape.line.width
    letters = max(
        map(len, plain(heat.text[0][0]).replace("<b>", "").replace("</b>", "").split("<br>"))
    )
    assert letters * 0.6 * heat.textfont.size <= inside


def test_all_impossible_is_a_figure_too():
    figure = drawn(np.full(16, np.nan))
    assert len(figure.data) == 2


def test_numbers_are_black_or_white_as_their_cells_ask_for():
    values = np.linspace(0.0, 1.0, 16)
    heat = drawn(values).data[0]
    grounds = sample_colorscale(SIZES, values)
    said = [text for row in heat.text for text in row]
    assert all(
        f"color:{upon(ground)}" in text for ground, text in zip(grounds, said, strict=True)
    )


def test_its_note_speaks_of_intervals_only_where_there_are_some():
    means, none = np.arange(16.0), np.full(16, np.nan)
    for low, told in ((means - 1, True), (none, False)):
        figure = configurations(
            {"test": (means, low, low)}, value="accuracy", made_on="synthetic data"
        )
        (note,) = (n.text for n in figure.layout.annotations if n.text.startswith("synthetic"))
        assert ("interval" in note) == told
