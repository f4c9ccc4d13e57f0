"""An archive is unpacked whole; a hostile one is refused, and nothing of it is left."""

import gzip
import io
import os
import random
import resource
import subprocess
import sys
import tarfile
import time

import pytest

from lnlab.data.archive import unpacked

FILES = {"set/a.bin": random.Random(0).randbytes(3000), "set/in/b.txt": b"text\n" * 100}


def member(name: str, content: bytes = b"", kind: bytes = tarfile.REGTYPE, link: str = ""):
    info = tarfile.TarInfo(name)
    info.size, info.type, info.linkname = len(content), kind, link
    return info, content


GOOD = [member(name, content) for name, content in FILES.items()]


def tar(entries) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for info, content in entries:
            archive.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


def packed(*entries) -> bytes:
    return gzip.compress(tar(entries))


def tree(folder) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def promised(size: int) -> bytes:
    """A head that promises so many bytes of extended names."""
    info = tarfile.TarInfo("x")
    info.type, info.size = tarfile.XHDTYPE, size
    return info.tobuf()


LINK = member("set/a.bin", kind=tarfile.SYMTYPE, link="/etc")
HOSTILE = {
    "above": lambda _: packed(*GOOD, member("../outside", b"x")),
    "above, from within": lambda _: packed(*GOOD, member("set/in/../../../outside", b"x")),
    "absolute": lambda outside: packed(*GOOD, member(str(outside / "outside"), b"x")),
    "of another system": lambda _: packed(*GOOD, member("..\\outside", b"x")),
    "of a drive": lambda _: packed(*GOOD, member("C:outside", b"x")),
    "symbolic link": lambda _: packed(LINK),
    "through a link": lambda outside: packed(
        member("set", kind=tarfile.SYMTYPE, link=str(outside)), member("set/outside", b"x")
    ),
    "hard link": lambda _: packed(*GOOD, member("c", kind=tarfile.LNKTYPE, link="/etc/passwd")),
    "device": lambda _: packed(*GOOD, member("set/null", kind=tarfile.CHRTYPE)),
    "pipe": lambda _: packed(*GOOD, member("set/pipe", kind=tarfile.FIFOTYPE)),
    "twice": lambda _: packed(*GOOD, GOOD[0]),
    "a file as a folder": lambda _: packed(*GOOD, member("set/a.bin/c", b"x")),
    "no letters": lambda _: packed(*GOOD, member("set/\x1b[2J", b"x")),
    "a name too long": lambda _: packed(*GOOD, member("n" * 300, b"x")),
    "bomb": lambda _: packed(member("set/a.bin", bytes(300_000_000))),
    "bomb of a name": lambda _: gzip.compress(promised(2**33) + bytes(100_000_000)),
    "too many": lambda _: packed(*(member(f"set/{index}") for index in range(10_000))),
    "cut off": lambda _: packed(*GOOD)[:-900],
    "another checksum": lambda _: packed(*GOOD)[:-8] + bytes(8),
    "no archive": lambda _: b"<html>log in</html>",
}


def test_archive_is_unpacked_once(tmp_path):
    path = tmp_path / "a.tar.gz"
    path.write_bytes(packed(member("set", kind=tarfile.DIRTYPE), *GOOD, member("./c", b"c")))
    folder = unpacked(path, tmp_path / "data")
    assert tree(folder) == FILES | {"c": b"c"}
    (folder / "c").write_bytes(b"its own")
    assert unpacked(path, tmp_path / "data") == folder
    assert tree(folder)["c"] == b"its own"
    path.write_bytes(packed(*GOOD))
    assert tree(unpacked(path, tmp_path / "data")) == FILES


@pytest.mark.stress
@pytest.mark.parametrize("kind", HOSTILE)
def test_hostile_archive_is_refused_and_nothing_is_left(kind, tmp_path):
    path, outside = tmp_path / "hostile.tar.gz", tmp_path / "elsewhere"
    outside.mkdir()
    path.write_bytes(HOSTILE[kind](outside))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    began = time.process_time()
    with pytest.raises(ValueError, match=r"hostile\.tar\.gz(:| is damaged)"):
        unpacked(path, tmp_path / "data")
    assert time.process_time() - began < 5
    # kilobytes; making the bomb took more than reading it may
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200_000
    assert tree(tmp_path).keys() - {path.name} <= {f"data/{lock}" for lock in locks(tmp_path)}
    assert not os.listdir(outside)


def locks(folder) -> list[str]:
    return [path.name for path in (folder / "data").glob("*.lock")]


@pytest.mark.stress
def test_no_mutation_crashes_or_passes_for_the_archive(full, tmp_path):
    """What is in the archive is known by gzip's checksum, wherever the bytes change."""
    chance, whole, path = random.Random(0), packed(*GOOD), tmp_path / "a.tar.gz"
    refused, tries = 0, 2000 if full else 200
    for _ in range(tries):
        place = chance.randrange(len(whole))
        damaged = bytearray(whole)
        damaged[place : place + chance.randrange(1, 9)] = chance.randbytes(chance.randrange(9))
        path.write_bytes(damaged)
        try:
            folder = unpacked(path, tmp_path / "data")
        except ValueError:
            refused += 1
        else:
            assert tree(folder) == FILES
    assert refused > tries * 0.9


@pytest.mark.stress
def test_no_mutated_tar_crashes_or_reaches_out(full, tmp_path):
    """A head is changed and all packed again, so that no checksum of gzip's tells."""
    chance, whole = random.Random(0), tar(GOOD)
    path, refused, tries = tmp_path / "a.tar.gz", 0, 2000 if full else 200
    for _ in range(tries):
        damaged = bytearray(whole)
        place = whole.index(chance.choice([*FILES]).encode()) + chance.randrange(512)
        damaged[place : place + chance.randrange(1, 9)] = chance.randbytes(chance.randrange(9))
        path.write_bytes(gzip.compress(damaged, 1))
        try:
            unpacked(path, tmp_path / "data")
        except ValueError:
            refused += 1
        assert {*os.listdir(tmp_path)} == {"a.tar.gz", "data"}
    assert refused > tries / 10


PROGRAM = """
import sys
from pathlib import Path
from lnlab.data.archive import unpacked
print(unpacked(Path(sys.argv[1]), Path(sys.argv[2])))
"""


@pytest.mark.stress
def test_killed_on_the_way_or_asked_for_by_three_it_is_whole(full, tmp_path):
    path = tmp_path / "a.tar.gz"
    many = {f"set/{i}.bin": random.Random(i).randbytes(2000) for i in range(2000)}
    path.write_bytes(packed(*(member(name, content) for name, content in many.items())))
    command = [sys.executable, "-c", PROGRAM, str(path), str(tmp_path / "data")]
    for _ in range(10 if full else 2):
        child = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        while child.poll() is None and not list((tmp_path / "data").glob("*.part/set/1*.bin")):
            time.sleep(0.001)
        child.kill()
        child.wait()
        assert not [f for f in (tmp_path / "data").iterdir() if not f.suffix]
    three = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    (folder,) = {child.communicate()[0].strip() for child in three}
    assert tree(tmp_path / "data").keys() == {
        *(f"{os.path.basename(folder)}/{name}" for name in many),
        *locks(tmp_path),
    }


def test_folder_that_cannot_be_written_is_named(tmp_path):
    path = tmp_path / "a.tar.gz"
    path.write_bytes(packed(*GOOD))
    (tmp_path / "data").write_bytes(b"a file")
    with pytest.raises(OSError, match="data"):
        unpacked(path, tmp_path / "data")
