"""What the tests keep on disk lies in a folder of their own."""

import pytest


@pytest.fixture(autouse=True)
def data_of_the_tests(monkeypatch, tmp_path_factory):
    """The data folder: one for all tests of a process, `data/` of the checkout for none."""
    folder = tmp_path_factory.getbasetemp() / "data"
    monkeypatch.setenv("LNLAB_DATA", str(folder))
    return folder
