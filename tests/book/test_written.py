"""Notebooks read as the JSON that they are."""

import papermill
import pytest
from nbformat import write
from nbformat.v4 import new_code_cell, new_notebook

from lnlab import paths
from lnlab.book import notebooks, parameters, read
from lnlab.book.run import opened


@pytest.mark.parametrize("path", notebooks(paths.root() / "notebooks"), ids=lambda p: p.stem)
def test_parameters_are_those_that_papermill_sees(path):
    seen = papermill.inspect_notebook(opened(path))
    assert parameters(path) == {name: one["default"] for name, one in seen.items()}


def put(path, source):
    cell = new_code_cell(source, metadata={"tags": ["parameters"]})
    write(new_notebook(cells=[cell]), path)
    return path


def test_parameters_may_have_types_and_several_lines(tmp_path):
    path = put(tmp_path / "a.ipynb", "import os\nseeds: list[int] = [\n    1,\n]\nname = 'é'")
    assert parameters(path) == {"seeds": "[\n    1,\n]", "name": "'é'"}


def test_what_cannot_be_read_is_named(tmp_path):
    with pytest.raises(ValueError, match=r"b\.ipynb: the cell of its parameters is no Python"):
        parameters(put(tmp_path / "b.ipynb", "seeds ="))
    for text in ("", "[]", '{"cells": 1}', "\0"):
        (tmp_path / "c.ipynb").write_text(text)
        with pytest.raises(ValueError, match=r"c\.ipynb is no notebook"):
            read(tmp_path / "c.ipynb")
