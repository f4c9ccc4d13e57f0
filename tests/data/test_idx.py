"""The IDX reader accepts exactly the format, and says what it found instead."""

import gzip
import hashlib
import os
import random
import resource
import struct
import subprocess
import sys
import zlib
from pathlib import Path

import numpy as np
import pytest

from lnlab.data import images

IMAGES = np.random.default_rng(1).integers(0, 256, (20, 6, 5), dtype=np.uint8)
LABELS = np.arange(20, dtype=np.uint8) % 10
HEADER = struct.pack(">BBBBIII", 0, 0, 8, 3, 20, 6, 5)
CONTENT = HEADER + IMAGES.tobytes()
LABEL_CONTENT = struct.pack(">BBBBI", 0, 0, 8, 1, 20) + LABELS.tobytes()


def test_parse_gives_the_array():
    assert np.array_equal(images.parse_idx(CONTENT, 3, "images"), IMAGES)
    assert np.array_equal(images.parse_idx(LABEL_CONTENT, 1, "labels"), LABELS)


@pytest.mark.parametrize("packed", [False, True])
def test_read_tells_gzip_by_its_first_bytes_and_not_by_its_name(tmp_path, packed):
    path = tmp_path / ("images" if packed else "images.gz")
    path.write_bytes(gzip.compress(CONTENT, mtime=0) if packed else CONTENT)
    assert np.array_equal(images.read_idx(path, 3), IMAGES)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "images: starts with nothing, expected 00 00 08 03"),
        (b"<!DOCTYPE html>", "images: starts with 3c 21 44 4f, expected 00 00 08 03"),
        (LABEL_CONTENT, "starts with 00 00 08 01, expected 00 00 08 03"),
        (b"\x00\x00\x0d\x03" + CONTENT[4:], "starts with 00 00 0d 03"),
        (b"\x00\x01\x08\x03" + CONTENT[4:], "starts with 00 01 08 03"),
        (CONTENT[:10], "10 bytes, expected a header of 16"),
        (CONTENT[:16], "16 bytes, expected 616 for 20 x 6 x 5"),
        (CONTENT[:-1], "615 bytes, expected 616 for 20 x 6 x 5"),
        (CONTENT + b"\x00", "more than 616 bytes, expected 616"),
        (struct.pack(">BBBBIII", 0, 0, 8, 3, 20, 0, 5), "20 x 0 x 5, a dimension of 0"),
    ],
)
def test_parse_refuses_and_says_what_it_found(content, message):
    with pytest.raises(ValueError, match=message):
        images.parse_idx(content, 3, "images")


@pytest.mark.parametrize(
    ("packed", "message"),
    [
        (gzip.compress(CONTENT, mtime=0)[:-1], "truncated gzip"),
        (gzip.compress(CONTENT, mtime=0)[:40], "truncated gzip"),
        (gzip.compress(CONTENT, mtime=0) + b"\x00", "bytes after the end"),
        (gzip.compress(CONTENT, mtime=0) + gzip.compress(b"", mtime=0), "bytes after the end"),
        (gzip.compress(CONTENT, mtime=0)[:-8] + bytes(8), "damaged gzip.*incorrect data check"),
        (gzip.compress(CONTENT + b"x", mtime=0), "more than 616 bytes, expected 616"),
        (gzip.compress(CONTENT[:-1], mtime=0), "615 bytes, expected 616"),
        (b"\x1f\x8b", "truncated gzip"),
    ],
)
def test_read_refuses_damaged_gzip(tmp_path, packed, message):
    path = tmp_path / "images.gz"
    path.write_bytes(packed)
    with pytest.raises(ValueError, match=rf"{path}.*{message}"):
        images.read_idx(path, 3)


@pytest.mark.parametrize("chunk", [1, 7, 100])
def test_pieces_of_any_size_give_the_same(tmp_path, monkeypatch, chunk):
    content = CONTENT[:16] + bytes(600)  # packs well: more to unpack than a piece may hold
    packed = gzip.compress(content, mtime=0)
    path = tmp_path / "images.gz"
    monkeypatch.setattr(images, "CHUNK", chunk)
    path.write_bytes(packed)
    assert not images.read_idx(path, 3).any()
    path.write_bytes(packed[:-1])
    with pytest.raises(ValueError, match="truncated gzip"):
        images.read_idx(path, 3)
    monkeypatch.setattr(images, "CHUNK", len(packed))
    path.write_bytes(packed + b"\x00")
    with pytest.raises(ValueError, match="bytes after the end"):
        images.read_idx(path, 3)


def test_hash_of_the_unpacked_bytes_must_be_the_expected_one(tmp_path):
    path = tmp_path / "images.gz"
    path.write_bytes(gzip.compress(CONTENT, mtime=0))
    right = hashlib.sha256(CONTENT).hexdigest()
    assert np.array_equal(images.read_idx(path, 3, right), IMAGES)
    with pytest.raises(ValueError, match=rf"images\.gz: not the official.*{right}.*{'0' * 64}"):
        images.read_idx(path, 3, "0" * 64)


def test_a_header_that_the_file_cannot_hold_is_refused_at_once(tmp_path):
    path = tmp_path / "images"
    lying = struct.pack(">BBBBIII", 0, 0, 8, 3, 2**32 - 1, 2**32 - 1, 2**32 - 1)
    path.write_bytes(lying + bytes(100))
    with pytest.raises(ValueError, match="at most 116 from a file of this size"):
        images.read_idx(path, 3)
    path.write_bytes(gzip.compress(lying + bytes(100), mtime=0))
    with pytest.raises(ValueError, match="expected at most"):
        images.read_idx(path, 3)


def write_bomb(path: Path, header: bytes, megabytes: int) -> None:
    deflate = zlib.compressobj(9, wbits=31)
    with path.open("wb") as file:
        file.write(deflate.compress(header))
        for _ in range(megabytes):
            file.write(deflate.compress(bytes(1 << 20)))
        file.write(deflate.flush())


def test_a_gzip_bomb_is_refused_in_little_memory(tmp_path):
    """300 MB in a file of 300 kB, under an address space too small to hold them."""
    path = tmp_path / "bomb.gz"
    write_bomb(path, HEADER, megabytes=300)
    code = (
        "import resource, sys, pathlib\n"
        "from lnlab.data.images import read_idx\n"
        "used = int(open('/proc/self/statm').read().split()[0]) * resource.getpagesize()\n"
        "resource.setrlimit(resource.RLIMIT_AS, (used + 2**26, used + 2**26))\n"
        "try:\n"
        "    read_idx(pathlib.Path(sys.argv[1]), 3)\n"
        "except ValueError as error:\n"
        "    sys.exit(str(error))\n"
    )
    child = subprocess.run(
        [sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=False
    )
    assert "bomb.gz: more than 616 bytes" in child.stderr
    assert "Traceback" not in child.stderr


def test_a_bomb_with_an_honest_header_is_still_too_large(tmp_path):
    path = tmp_path / "bomb.gz"
    write_bomb(path, struct.pack(">BBBBIII", 0, 0, 8, 3, 2048, 1024, 1024), megabytes=4)
    os.truncate(path, 3 << 20)  # large enough to hold the 2 GB, were it all of it gzip
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(ValueError, match="expected at most 1,073,741,824"):
        images.read_idx(path, 3)
    # 32 MB: one chunk and what numpy and the allocator take beside it.
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 32 << 10


def outcome(path: Path, sha256: str = "") -> tuple[np.ndarray | None, str]:
    """What reading gives: the array, or the complaint; any other exception passes through."""
    try:
        return images.read_idx(path, 3, sha256), ""
    except ValueError as error:
        return None, str(error)


def mutate(content: bytes, rng: random.Random) -> bytes:
    """`content` with one to three random faults: a bit, a byte, a cut, a gap or a repeat."""
    damaged = bytearray(content)
    for _ in range(rng.randint(1, 3)):
        at = rng.randrange(len(damaged) + 1)
        match rng.randrange(5):
            case 0 if at < len(damaged):
                damaged[at] ^= 1 << rng.randrange(8)
            case 1 if at < min(len(damaged), 24):  # the header, where it matters most
                damaged[at] = rng.randrange(256)
            case 2:
                del damaged[at:]
            case 3:
                del damaged[at : at + rng.randint(1, 9)]
            case _:
                damaged[at:at] = rng.randbytes(rng.randint(1, 9))
    return bytes(damaged)


@pytest.mark.parametrize("packed", [False, True])
def test_no_mutation_crashes_or_is_taken_for_the_original(tmp_path, packed, full):
    """600 seeded mutations: an error that names the file, or the structure is whole.

    With the hash known, only the original's own bytes are accepted. Without it, plain
    files may differ in pixels only; gzipped ones not even there, for they have a CRC.
    """
    rng = random.Random(20)
    path = tmp_path / "images"
    right = hashlib.sha256(CONTENT).hexdigest()
    original = gzip.compress(CONTENT, mtime=0) if packed else CONTENT
    accepted = 0
    tries = 2000 if full else 600
    for _ in range(tries):
        damaged = mutate(original, rng)
        path.write_bytes(damaged)
        array, complaint = outcome(path)
        if array is None:
            assert complaint.startswith(str(path))
            continue
        accepted += 1
        assert array.size == len(CONTENT) - 16
        unchanged = np.array_equal(array, IMAGES)
        assert unchanged or not packed
        known, complaint = outcome(path, right)
        assert (known is not None) == unchanged
        assert unchanged or "not the official file" in complaint
    assert accepted < tries / 2
    # A plain file with a flipped pixel is whole, only the hash can tell: some must get here.
    assert packed or accepted > 0
