"""Notebooks are read as the JSON that they are."""

import re

import papermill
import pytest
import torch

from lnlab import paths
from lnlab.book.notebooks import list_notebooks, read_parameter_defaults_as_text
from lnlab.book.run import check_data, describe_data, describe_hardware

NOTEBOOKS = list_notebooks(paths.checkout_folder() / "notebooks")
WITH_DATA = [path for path in NOTEBOOKS if "data" in read_parameter_defaults_as_text(path)]


@pytest.mark.parametrize("path", WITH_DATA, ids=lambda p: p.stem)
def test_data_that_a_notebook_cannot_have_are_refused_and_those_it_has_named(path):
    name, kind = describe_data(path, {"data": "", "budget": "smoke"}).split()
    assert kind in ("(embedded)", "(synthetic)")
    with pytest.raises(ValueError, match=f"{path.stem}: unknown data 'cifar': .*{name}") as no:
        check_data(path, "cifar")
    known = {*re.split(r"[:, ]+", str(no.value))}
    of_each_kind = {"digits", "spoken", "tales", "scenes", "stories", "cloze", "pen"}
    assert len(of_each_kind & known) == 1
    check_data(path, name)


@pytest.mark.parametrize(
    ("chapter", "data", "message"),
    [
        ("05", "digits", "digits has images of 8 x 8: give images of at least 20 x 20"),
        ("11", "shapes", "shapes lacks a height and a width alone"),
        ("14", "digits", "digits has images of 8 x 8: give images of at least 12 x 12"),
    ],
)
def test_images_that_an_experiment_cannot_learn_are_refused(chapter, data, message):
    (path,) = (one for one in WITH_DATA if one.stem.startswith(chapter))
    with pytest.raises(ValueError, match=message):
        check_data(path, data, "smoke")


def test_a_gpu_is_named_before_the_processor(monkeypatch):
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: f"A GPU at {device}")
    processor = describe_hardware("cpu")
    assert describe_hardware("cuda:1") == f"A GPU at cuda:1; {processor}"


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_parameters_are_those_that_papermill_sees(path):
    seen = papermill.inspect_notebook(path)
    defaults = {name: one["default"] for name, one in seen.items()}
    assert read_parameter_defaults_as_text(path) == defaults
