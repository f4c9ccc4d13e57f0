"""The run that is meant is found, also where its data's checksum was of another thing."""

import json

import pytest

from lnlab.runs import Run, key, place

CONFIG = {"norm": "layer", "units": (8, 8)}
OLD = {"name": "digits", "kind": "embedded", "checksum": "of features", "licence": "BSD"}
NEW = OLD | {"checksum": "of files", "checksum_of": "source"}


@pytest.fixture
def old(tmp_path) -> Run:
    """A finished run of before checksums were of the source."""
    with Run.open("mnist", CONFIG, OLD, tmp_path) as run:
        run.finish({"seconds": 2.0}, {})
    return run


def test_a_run_that_was_recorded_before_is_the_one_that_is_meant(old, tmp_path):
    assert place(tmp_path, "mnist", CONFIG, NEW) == old.folder
    assert Run.open("mnist", CONFIG, NEW, tmp_path).result == {"seconds": 2.0}


@pytest.mark.parametrize(
    ("task", "config", "data"),
    [
        ("mnist", CONFIG | {"norm": "batch"}, NEW),
        ("mnist", CONFIG, NEW | {"name": "mnist"}),
        ("mnist", CONFIG, NEW | {"kind": "own"}),
        ("sequences", CONFIG, NEW),
        ("mnist", CONFIG, OLD | {"checksum": "of other features"}),
    ],
)
def test_another_configuration_or_other_data_are_another_run(task, config, data, old, tmp_path):
    expected = tmp_path / task / key(config, data["checksum"])
    assert place(tmp_path, task, config, data) == expected != old.folder


def test_of_runs_recorded_since_only_the_same_checksum_counts(tmp_path):
    with Run.open("mnist", CONFIG, NEW, tmp_path) as run:
        run.finish({}, {})
    assert place(tmp_path, "mnist", CONFIG, NEW) == run.folder
    assert place(tmp_path, "mnist", CONFIG, NEW | {"checksum": "1"}) != run.folder


def test_what_was_not_finished_is_begun_anew(old, tmp_path):
    (old.folder / "result.json").unlink()
    assert place(tmp_path, "mnist", CONFIG, NEW) != old.folder


def test_a_damaged_neighbour_is_not_in_the_way(old, tmp_path):
    for name, content in (("0", b"{"), ("1", b"[]"), ("2", json.dumps({"data": 1}).encode())):
        folder = tmp_path / "mnist" / name
        folder.mkdir()
        (folder / "config.json").write_bytes(content)
        (folder / "result.json").write_bytes(b"{}")
    assert place(tmp_path, "mnist", CONFIG, NEW) == old.folder
