"""The IDX format of MNIST: an array of unsigned bytes, plain or gzipped.

A file is two zero bytes, a type byte (0x08, unsigned byte), the number of dimensions,
each dimension as a big-endian uint32, and then exactly as many bytes as they say
(LeCun and Cortes, http://yann.lecun.com/exdb/mnist/). Nothing else is accepted, and no
more memory is used than the header asks for, which must be possible for the file's size.
"""

import hashlib
import os
import zlib
from collections.abc import Iterator
from math import prod
from pathlib import Path
from typing import BinaryIO

import numpy as np

CHUNK = 1 << 20
LARGEST = 1 << 30  # bytes, twenty times MNIST: above it a file is a mistake or a bomb
DEFLATE_RATIO = 1032  # no deflate stream unpacks to more than this times its own size


def parse(content: bytes | bytearray, ndim: int, name: str) -> np.ndarray:
    """The array in the bytes of an unpacked IDX file, without a copy.

    Args:
        content: the whole file.
        ndim: the number of dimensions that it must have: 1 for labels, 3 for images.
        name: the file, for messages.

    Returns:
        uint8 array of the shape that the header states.

    Raises:
        ValueError: if the header is not that of unsigned bytes in ``ndim`` dimensions, a
            dimension is 0, or the length is not what the dimensions say.
    """
    shape = _shape(content, ndim, name)
    expected = _length(shape)
    if len(content) != expected:
        found = f"more than {expected:,}" if len(content) > expected else f"{len(content):,}"
        raise ValueError(f"{name}: {found} bytes, expected {expected:,} for {_by(shape)}")
    return np.frombuffer(content, np.uint8, offset=4 + 4 * ndim).reshape(shape)


def read(path: Path, ndim: int, sha256: str = "") -> np.ndarray:
    """The array in the IDX file at ``path``, gzipped or plain (its first bytes tell which).

    Args:
        path: the file.
        ndim: the number of dimensions that it must have.
        sha256: what the unpacked bytes must hash to; empty where that is not known.

    Raises:
        ValueError: as ``parse``; or if the gzip stream is truncated, damaged or followed by
            other bytes, the header asks for more than the file can hold, or the hash is
            another.
        OSError: if the file cannot be read.
    """
    name = str(path)
    with path.open("rb") as file:
        packed = file.read(2) == b"\x1f\x8b"
        file.seek(0)
        size = os.fstat(file.fileno()).st_size * (DEFLATE_RATIO if packed else 1)
        chunks = gunzip(file, name) if packed else iter(lambda: file.read(CHUNK), b"")
        content = _gather(chunks, ndim, min(size, LARGEST), name)
    array = parse(content, ndim, name)
    found = hashlib.sha256(content).hexdigest() if sha256 else ""
    if found != sha256:
        raise ValueError(
            f"{name}: not the official file: its unpacked bytes have sha256 {found}, "
            f"expected {sha256}"
        )
    return array


def _by(shape: tuple[int, ...]) -> str:
    return " x ".join(f"{n:,}" for n in shape)


def _length(shape: tuple[int, ...]) -> int:
    return 4 + 4 * len(shape) + prod(shape)


def _shape(content: bytes | bytearray, ndim: int, name: str) -> tuple[int, ...]:
    """The dimensions that an IDX header states."""
    magic = bytes([0, 0, 8, ndim])
    end = 4 + 4 * ndim
    if content[:4] != magic:
        raise ValueError(
            f"{name}: starts with {content[:4].hex(' ') or 'nothing'}, expected "
            f"{magic.hex(' ')} (IDX, unsigned bytes, dimensions: {ndim})"
        )
    if len(content) < end:
        raise ValueError(f"{name}: {len(content)} bytes, expected a header of {end}")
    shape = tuple(int(n) for n in np.frombuffer(content[4:end], ">u4"))
    if 0 in shape:
        raise ValueError(f"{name}: its header states {_by(shape)}, a dimension of 0")
    return shape


def _gather(chunks: Iterator[bytes], ndim: int, possible: int, name: str) -> bytearray:
    """The unpacked file, read no further than one chunk beyond what its header states."""
    content = bytearray()
    expected = None
    for chunk in chunks:
        content += chunk
        if expected is None and len(content) >= 4 + 4 * ndim:
            shape = _shape(content, ndim, name)
            expected = _length(shape)
            if expected > possible:
                raise ValueError(
                    f"{name}: its header states {_by(shape)}, that is {expected:,} bytes, "
                    f"expected at most {possible:,} from a file of this size"
                )
        if expected is not None and len(content) > expected:
            break
    return content


def gunzip(file: BinaryIO, name: str) -> Iterator[bytes]:
    """The unpacked bytes of a file that is one gzip member and nothing more, in chunks.

    ``gzip.open`` would pass over zeros after the member and read on into further members.

    Raises:
        ValueError: if it is truncated, damaged, or followed by other bytes.
    """
    inflate = zlib.decompressobj(wbits=31)
    while not inflate.eof:
        packed = inflate.unconsumed_tail or file.read(CHUNK)
        if not packed:
            raise ValueError(f"{name}: truncated gzip file")
        try:
            yield inflate.decompress(packed, CHUNK)
        except zlib.error as error:
            raise ValueError(f"{name}: damaged gzip file: {error}") from None
    if inflate.unused_data or file.read(1):
        raise ValueError(f"{name}: bytes after the end of the gzip stream")
