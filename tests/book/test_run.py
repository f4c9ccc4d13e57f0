"""Notebooks are read as the JSON that they are."""

import papermill
import pytest
import torch

from lnlab import paths
from lnlab.book.notebooks import list_notebooks, read_parameter_texts
from lnlab.book.run import describe_hardware


def test_a_gpu_is_named_before_the_processor(monkeypatch):
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: f"A GPU at {device}")
    processor = describe_hardware("cpu")
    assert describe_hardware("cuda:1") == f"A GPU at cuda:1; {processor}"


@pytest.mark.parametrize(
    "path", list_notebooks(paths.checkout_folder() / "notebooks"), ids=lambda p: p.stem
)
def test_parameters_are_those_that_papermill_sees(path):
    seen = papermill.inspect_notebook(path)
    assert read_parameter_texts(path) == {name: one["default"] for name, one in seen.items()}
