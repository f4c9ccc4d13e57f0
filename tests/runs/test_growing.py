"""A file that is added to: its writer knows every byte of it."""

import pytest

from lnlab.runs.growing import Growing


def test_it_goes_on_from_where_it_was(tmp_path):
    file = Growing(tmp_path / "rows")
    assert not file
    file.add(b"1\n")
    seen = file.summary()
    file.add(b"2\n")
    file.sync()
    file.check()
    again = Growing(file.path)
    again.cut(seen)
    assert file.path.read_bytes() == b"1\n"
    again.add(b"3\n")
    assert again
    assert file.path.read_bytes() == b"1\n3\n"


def test_nothing_is_cut_to_nothing(tmp_path):
    file = Growing(tmp_path / "rows")
    file.cut(Growing(tmp_path / "other").summary())
    assert not file.path.exists()
    file.add(b"1\n")
    file.cut(Growing(tmp_path / "other").summary())
    assert file.path.read_bytes() == b""


@pytest.mark.parametrize("content", [b"", b"1", b"2\n3\n", b"3\n1\n2\n"])
def test_another_beginning_is_refused_and_left(content, tmp_path):
    file = Growing(tmp_path / "rows")
    file.add(b"1\n2\n")
    seen = file.summary()
    file.path.write_bytes(content)
    with pytest.raises(ValueError, match="rows is not what"):
        Growing(file.path).cut(seen)
    assert file.path.read_bytes() == content


@pytest.mark.parametrize("seen", [None, [], {}, {"size": -1}, {"size": True}, {"size": 10**9}])
def test_a_summary_that_is_none_is_refused(seen, tmp_path):
    with pytest.raises(ValueError, match="rows is not what"):
        Growing(tmp_path / "rows").cut(seen)


def test_a_failure_names_the_file(tmp_path):
    with pytest.raises(FileNotFoundError) as raised:
        Growing(tmp_path / "none" / "rows").add(b"1\n")
    assert raised.value.filename == str(tmp_path / "none" / "rows")
