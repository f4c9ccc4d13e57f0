"""A file is whole or not there."""

import pytest

from lnlab.training.runs import write


def test_write_replaces_and_leaves_nothing_beside(tmp_path):
    path = tmp_path / "a.txt"
    write(path, b"old")
    write(path, b"new")
    assert path.read_bytes() == b"new"
    assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]


def test_failed_write_keeps_the_old_file_and_names_it(tmp_path):
    path = tmp_path / "a.txt"
    write(path, b"old")
    (tmp_path / "a.txt.part").mkdir()
    with pytest.raises(IsADirectoryError) as raised:
        write(path, b"new")
    assert raised.value.filename == str(path)
    assert path.read_bytes() == b"old"


def test_a_write_that_fails_at_the_last_step_leaves_no_part(tmp_path):
    (tmp_path / "a.txt").mkdir()
    with pytest.raises(IsADirectoryError):
        write(tmp_path / "a.txt", b"new")
    assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]
