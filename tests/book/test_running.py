"""Notebooks begin in a good order, and while they run nobody writes them again and again."""

from pathlib import Path

import nbformat
import papermill.engines
import pytest
import torch
from nbformat.v4 import new_code_cell, new_notebook

from lnlab.book.run import run, turns, with_gpu

SECONDS = {
    Path(name): float(seconds) for name, seconds in zip("abcd", (40, 275, 8, 20), strict=True)
}


def begun(jobs):
    return "".join(map(str, turns(SECONDS, jobs)))


def test_quick_notebooks_are_first():
    assert begun(1) == "cdab"


def test_the_longest_begins_beside_the_quickest():
    assert begun(2) == "cbda"
    assert begun(3) == "cdba"


def test_as_many_at_a_time_as_there_are_begin_at_once():
    assert begun(4) == begun(9) == "cdab"


def test_a_gpu_stands_before_the_processor(monkeypatch):
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: f"A GPU at {device}")
    assert with_gpu("cuda:1", "A Chip, 2 cores") == "A GPU at cuda:1; A Chip, 2 cores"
    assert with_gpu("cpu", "A Chip, 2 cores") == "A Chip, 2 cores"


@pytest.mark.slow
def test_a_notebook_is_written_at_its_start_and_end_alone(tmp_path, monkeypatch):
    written, write = [], papermill.engines.write_ipynb
    monkeypatch.setattr(
        papermill.engines, "write_ipynb", lambda nb, at: (written.append(at), write(nb, at))
    )
    path = tmp_path / "three.ipynb"
    nbformat.write(new_notebook(cells=[new_code_cell(code) for code in "123"]), path)
    out = tmp_path / "build"
    out.mkdir()
    (outcome,) = run({path: {}}, out, jobs=1, timeout=60)  # in a thread of its own
    assert outcome.error is None
    assert len(written) == 2
    cells = nbformat.read(out / "three.ipynb", as_version=4).cells
    assert [cell.outputs[0].data["text/plain"] for cell in cells] == ["1", "2", "3"]
