"""What is kept on disk: found again, made again where it is damaged, never half there."""

import os

import numpy as np
import pytest
from filelock import FileLock

from lnlab import data
from lnlab.data.cache import code, kept, stamp
from lnlab.papers.las import synthesizer
from tests.data.test_images import write_idx


def arrays():
    return {
        "a": np.arange(6.0).reshape(2, 3),
        "none": np.zeros(0),
        "text": np.frombuffer(b"ab", "u1"),
    }


def never():
    raise AssertionError("it is made again")


def same(found, expected):
    return found.keys() == expected.keys() and all(
        np.array_equal(found[name], expected[name])
        and found[name].dtype == expected[name].dtype
        for name in expected
    )


def test_what_was_made_once_is_found_again_by_what_it_was_made_of():
    assert same(kept("found", "one", arrays), arrays())
    assert same(kept("found", "one", never), arrays())
    with pytest.raises(AssertionError):
        kept("found", "another", never)


DAMAGES = {
    "cut off": lambda content: content[: len(content) // 2],
    "emptied": lambda content: b"",
    "a bit": lambda content: content[:-1] + bytes([content[-1] ^ 1]),
    "its hash": lambda content: content.replace(b'"sha256":"', b'"sha256":"0', 1)[:-1],
    "no safetensors": lambda content: b"<html>" * 100,
    "a huge head": lambda content: b"\xff" * 8 + content[8:],
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_what_is_damaged_is_made_again(damage, data_of_the_tests, request):
    name = f"damaged-{request.node.callspec.id.replace(' ', '-')}"
    kept(name, "", arrays)
    (path,) = (data_of_the_tests / "kept").glob(f"{name}-*.safetensors")
    path.write_bytes(damage(path.read_bytes()))
    assert same(kept(name, "", arrays), arrays())
    assert same(kept(name, "", never), arrays())
    assert not list(path.parent.glob("*.part"))


def test_where_nothing_can_be_kept_it_is_made_each_time(monkeypatch, tmp_path):
    (tmp_path / "file").touch()
    monkeypatch.setenv("LNLAB_DATA", str(tmp_path / "file"))
    for _ in range(2):
        assert same(kept("nowhere", "", arrays), arrays())
    assert os.listdir(tmp_path) == ["file"]


def test_what_fails_is_not_kept():
    failures = []  # whoever holds on to an error, as IPython does, holds on to no lock
    for _ in range(2):
        with pytest.raises(AssertionError, match="it is made again") as failed:
            kept("fails", "", never)
        failures.append(failed)
    (lock,) = (data.data_folder() / "kept").glob("fails-*.lock")
    FileLock(lock).acquire(timeout=0).lock.release()


def test_a_stamp_is_of_names_sizes_and_times(tmp_path):
    path = tmp_path / "é"
    stamps = [stamp([path])]
    for text, at in (("a", 1), ("a", 2), ("ab", 2)):
        path.write_text(text)
        os.utime(path, ns=(0, at))
        stamps.append(stamp([path]))
    assert len({*stamps, stamp([path, path]), stamp([])}) == 6
    assert stamps[-1] == stamp([path])


def test_code_is_of_what_is_in_the_files(tmp_path):
    one, other = tmp_path / "one.py", tmp_path / "other.py"
    one.write_text("a = 1")
    other.write_text("a = 2")
    assert len({code(one), code(other), code(one, other)}) == 3


def test_a_file_that_changed_unnoticed_is_noticed_when_it_is_read(tmp_path):
    """Other bytes under the same size and time: no stamp can tell, the checksum does."""
    spec = f"idx={write_idx(tmp_path)}"
    data.load(spec).checksum  # noqa: B018
    path = tmp_path / "t10k-images-idx3-ubyte"
    before = path.stat()
    path.write_bytes(path.read_bytes()[:-1] + b"\x07")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    with pytest.raises(
        ValueError, match=r"idx: its cases have checksum .* of this size and time"
    ):
        _ = data.load(spec).test


def test_speech_is_synthesised_by_the_first_process_alone(monkeypatch):
    monkeypatch.setattr(synthesizer, "SIZES", {"train": 5, "valid": 1, "test": 2})
    first = data.load("embedded", "speech", most=4)
    sounds = [said.sound for said in first.train]
    monkeypatch.setattr(synthesizer, "utterance", never)
    again = data.load("embedded", "speech", most=4)
    assert all(
        np.array_equal(u.sound, sound) for u, sound in zip(again.train, sounds, strict=True)
    )
    assert again.checksum == first.checksum
