"""A file is whole or not there."""

import pytest

from lnlab.runs.files import read_json, whole_lines, write, write_json


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


def test_whole_lines_leaves_a_torn_one_out():
    assert whole_lines(b"") == []
    assert whole_lines(b"1\n2") == [b"1\n"]
    assert whole_lines(b"1\n2\n") == [b"1\n", b"2\n"]


def test_json_keeps_text_and_refuses_what_it_cannot_hold(tmp_path):
    path = tmp_path / "a.json"
    write_json(path, {"licence": "données ✓"})
    assert read_json(path) == {"licence": "données ✓"}
    with pytest.raises(TypeError, match="function cannot be written as JSON"):
        write_json(path, lambda: 1)
    path.write_text("{")
    with pytest.raises(ValueError, match=r"a\.json is damaged"):
        read_json(path)
    path.write_text("[" * 9999)
    with pytest.raises(ValueError, match=r"a\.json is damaged: maximum recursion"):
        read_json(path)
