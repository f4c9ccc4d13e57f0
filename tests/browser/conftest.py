"""A JupyterLab server for all tests of this folder; a page for each module."""

import pytest

from benchmarks._jupyterlab import find_chromium, jupyterlab


def pytest_collection_modifyitems(items):
    missing = find_chromium() is None
    for item in items:
        if "browser" in item.path.parts:
            item.add_marker(pytest.mark.browser)
            item.add_marker(pytest.mark.slow)
            if missing:
                item.add_marker(pytest.mark.skip(reason="no Chromium or Chrome on PATH"))


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    """Where the server finds its notebooks."""
    return tmp_path_factory.mktemp("notebooks")


@pytest.fixture(scope="session")
def address(folder):
    with jupyterlab(folder) as address:
        yield address
