"""Notebooks are read as the JSON that they are."""

import nbformat
import papermill
import pytest
import torch
from nbformat.v4 import new_code_cell, new_notebook

from lnlab import paths
from lnlab.book import notebooks, parameters, read
from lnlab.book.run import describe_hardware


def test_a_gpu_is_named_before_the_processor(monkeypatch):
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: f"A GPU at {device}")
    processor = describe_hardware("cpu")
    assert describe_hardware("cuda:1") == f"A GPU at cuda:1; {processor}"


@pytest.mark.parametrize("path", notebooks(paths.root() / "notebooks"), ids=lambda p: p.stem)
def test_parameters_are_those_that_papermill_sees(path):
    seen = papermill.inspect_notebook(path)
    assert parameters(path) == {name: one["default"] for name, one in seen.items()}


def test_parameters_may_have_types_and_several_lines_or_are_named(tmp_path):
    path = tmp_path / "a.ipynb"

    def write(source):
        cell = new_code_cell(source, metadata={"tags": ["parameters"]})
        nbformat.write(new_notebook(cells=[cell]), path)

    write("import os\nseeds: list[int] = [\n    1,\n]\nname = 'é'")
    assert parameters(path) == {"seeds": "[\n    1,\n]", "name": "'é'"}
    write("seeds =")
    with pytest.raises(ValueError, match=r"a\.ipynb: the cell of its parameters is no Python"):
        parameters(path)
    path.write_text('{"cells": 1}')
    with pytest.raises(ValueError, match=r"a\.ipynb is no notebook"):
        read(path)
