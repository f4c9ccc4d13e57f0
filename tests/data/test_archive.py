"""An archive gives the files that are known and is refused for anything else."""

import gzip
import io
import os
import random
import resource
import tarfile
import time
from collections.abc import Callable

import pytest

from lnlab.data.archive import members

FILES = {"set/a.bin": random.Random(0).randbytes(3000), "set/b.txt": b"text\n" * 100}
WANTED = {name: len(content) for name, content in FILES.items()}


def member(name: str, content: bytes = b"", kind: bytes = tarfile.REGTYPE, link: str = ""):
    info = tarfile.TarInfo(name)
    info.size, info.type, info.linkname = len(content), kind, link
    return info, content


GOOD = [member(name, content) for name, content in FILES.items()]


def packed(entries, compress: Callable[[bytes], bytes] = gzip.compress) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for info, content in entries:
            archive.addfile(info, io.BytesIO(content))
    return compress(buffer.getvalue())


def many(full: bool):
    return packed([member(f"set/{index}") for index in range(100_000 if full else 10_000)])


HOSTILE = {
    "above": lambda: packed([*GOOD, member("../../outside", b"x")]),
    "absolute": lambda: packed([*GOOD, member("/tmp/outside", b"x")]),
    "symbolic link": lambda: packed([member("set/a.bin", kind=tarfile.SYMTYPE, link="/etc")]),
    "hard link": lambda: packed([*GOOD, member("c", kind=tarfile.LNKTYPE, link="/etc/passwd")]),
    "device": lambda: packed([*GOOD, member("set/null", kind=tarfile.CHRTYPE)]),
    "twice": lambda: packed([*GOOD, GOOD[0]]),
    "another size": lambda: packed([member("set/a.bin", b"x" * 2999), GOOD[1]]),
    "bomb": lambda: packed([member("set/a.bin", bytes(300_000_000)), GOOD[1]]),
    "too many": bytes,
    "truncated": lambda: packed(GOOD)[:-900],
    "one is missing": lambda: packed(GOOD[:1]),
    "no archive": lambda: b"<html>log in</html>",
}


@pytest.mark.parametrize("compress", [gzip.compress, bytes])
def test_what_is_wanted_is_given(compress, tmp_path):
    path = tmp_path / "a.tar"
    path.write_bytes(packed([member("set", kind=tarfile.DIRTYPE), *GOOD], compress))
    assert dict(members(path, WANTED)) == FILES


@pytest.mark.stress
@pytest.mark.parametrize("kind", HOSTILE)
def test_hostile_archive_is_refused_and_nothing_is_written(kind, full, tmp_path):
    path = tmp_path / "hostile.tar.gz"
    path.write_bytes(many(full) if kind == "too many" else HOSTILE[kind]())
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    began = time.process_time()
    with pytest.raises(ValueError, match=r"hostile\.tar\.gz(:| is damaged| lacks)"):
        dict(members(path, WANTED))
    assert time.process_time() - began < 5
    # kilobytes; making the bomb took more than reading it may
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200_000
    assert os.listdir(tmp_path) == ["hostile.tar.gz"]


@pytest.mark.stress
def test_no_mutation_crashes_or_gives_other_names(full, tmp_path):
    chance, whole, path = random.Random(0), packed(GOOD, bytes), tmp_path / "a.tar"
    refused, tries = 0, 2000 if full else 200
    for _ in range(tries):
        place = chance.randrange(len(whole))
        damaged = bytearray(whole)
        damaged[place : place + chance.randrange(1, 9)] = chance.randbytes(chance.randrange(9))
        path.write_bytes(damaged)
        try:
            found = dict(members(path, WANTED))
        except ValueError:
            refused += 1
            continue
        assert {name: len(content) for name, content in found.items()} == WANTED
    assert refused > tries / 4
