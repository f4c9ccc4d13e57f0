"""Pictures in black and white, to be drawn: each pixel is 0 or 1, and stays what it is.

``mnist-binary`` is what Larochelle and Murray (2011) made of MNIST: each pixel drawn once, 1
with the probability of its grey, so that all who use it model the same pictures. Its files
are lines of digits, a picture a line. ``digits-binary`` is made here in the same way, of the
digits that come with scikit-learn.
"""

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from lnlab.data.idx import CHUNK, gunzip
from lnlab.data.pixels import Pixels
from lnlab.data.source import File, Source

DIGITS_BINARY = Source(
    name="digits-binary",
    title="UCI handwritten digits, enlarged to 16 x 16, moved a little, in black and white",
    kind="embedded",
    licence="CC BY 4.0 (UCI), as packaged by scikit-learn (BSD-3-Clause)",
    citation="Alpaydin and Kaynak (1998), UCI, https://doi.org/10.24432/C50P49",
    offers="images",
    options={
        "most": "how many pictures to train on at most",
        "grey": "the grey levels of which black and white are drawn",
    },
)

MNIST_BINARY = Source(
    name="mnist-binary",
    title="MNIST in black and white, binarized once and for all, 28 x 28, without labels",
    kind="official",
    licence="none stated with it; made from MNIST",
    citation="Larochelle and Murray (2011), The neural autoregressive distribution estimator",
    offers="images",
    options={"most": "how many pictures to train on at most"},
    urls=("http://www.cs.toronto.edu/~larocheh/public/datasets/binarized_mnist/",),
    files=tuple(
        File(f"binarized_mnist_{split}.amat", size, sha256, sha256)
        for split, size, sha256 in (
            ("train", 78_400_000,
             "ad693b29f94c14277b095f5238ddefbbdaaae0939789dd2f4f0205278cee3e4d"),
            ("valid", 15_680_000,
             "1de3d397c40fe8eeb33dafd4099a1f665ec01e96d9be234aaeeac8a34930e2e2"),
            ("test", 15_680_000,
             "e6687bfea3f820c174f33b7865140b2a2dd2930ef786f35d45795fc193b5ab2c"),
        )
    ),
)  # fmt: skip

SIDE = 28
SPLITS = ("train", "valid", "test")
PARTS = {"train": (0, 1_000, 5), "valid": (1_000, 1_200, 2), "test": (1_200, 1_797, 1)}
"""Bounds of the digits, the first and the one behind the last, and how often each is moved."""
ENLARGED = 16
TURN, STRETCH, SHIFT = 0.12, 0.1, 1.0
"""The most that a digit is turned (radians), stretched (parts) and shifted (pixels)."""
DARK, STEEP = 0.33, 3.0
"""The ink at which grey begins, and how fast it gets lighter: edges of half a pixel."""


def files(folder: Path) -> dict[str, Path]:
    """The three files of MNIST in black and white by split, each gzipped or unpacked.

    Raises:
        FileNotFoundError: where one is not; names it.
    """
    return {split: _found(folder, f"binarized_mnist_{split}.amat") for split in SPLITS}


def _found(folder: Path, name: str) -> Path:
    for path in folder / name, folder / f"{name}.gz":
        if path.is_file():
            return path
    raise FileNotFoundError(f"{MNIST_BINARY.name}: no {name} and no {name}.gz in {folder}")


def read(paths: Mapping[str, Path], most: int | None = None) -> tuple[Pixels, str]:
    """The pictures of the three files, labelled 0, each file the official one.

    Args:
        most: how many to train on at most: the first ones.

    Returns:
        What they hold, and a note of how many there are to train on where not all.

    Raises:
        ValueError: if one is damaged, is no text of pictures, or is not the official one.
    """
    known = {file.name: file.content_sha256 for file in MNIST_BINARY.files}
    pixels = {}
    for split, path in paths.items():
        content = unpacked(path, {f.name: f.size for f in MNIST_BINARY.files}[_plain(path)])
        x = parse(content, str(path))
        sha256 = hashlib.sha256(content).hexdigest()
        if sha256 != known[_plain(path)]:
            raise ValueError(
                f"{path}: not the official file: its unpacked bytes have sha256 {sha256}, "
                f"expected {known[_plain(path)]}"
            )
        x = x[:most] if split == "train" else x
        pixels[split] = x, np.zeros(len(x), np.uint8)
    return pixels, f"{most} pictures to train on" if most else ""


def _plain(path: Path) -> str:
    return path.name.removesuffix(".gz")


def unpacked(path: Path, size: int) -> bytearray:
    """The bytes of a file, gzipped or plain, read no further than a chunk beyond ``size``.

    Raises:
        ValueError: if its gzip stream is damaged.
    """
    content = bytearray()
    with path.open("rb") as file:
        packed = file.read(2) == b"\x1f\x8b"
        file.seek(0)
        chunks = gunzip(file, str(path)) if packed else iter(lambda: file.read(CHUNK), b"")
        for chunk in chunks:
            content += chunk
            if len(content) > size:
                break
    return content


def parse(content: bytes | bytearray, name: str) -> np.ndarray:
    """The pictures (N, 28, 28) uint8 in lines of 784 digits 0 or 1, a space after each.

    Args:
        content: the whole file.
        name: the file, for messages.

    Raises:
        ValueError: if a line has another length, or a pixel is not 0 or 1; names them.
    """
    wide = 2 * SIDE * SIDE  # a digit and what is behind it: a space, or the end of the line
    if not content or len(content) % wide:
        raise ValueError(
            f"{name}: {len(content):,} bytes, expected lines of {SIDE * SIDE} digits 0 or 1 "
            f"with a space between, {wide:,} bytes each"
        )
    letters = np.frombuffer(content, np.uint8).reshape(-1, wide)
    x, between = letters[:, ::2] - np.uint8(ord("0")), letters[:, 1::2]
    grey = np.argwhere(x > 1)
    if len(grey):
        line, pixel = grey[0]
        found = chr(letters[line, 2 * pixel])
        raise ValueError(
            f"{name}: pixel {pixel} of picture {line} is {found!r}, expected 0 or 1"
        )
    gaps = np.full(SIDE * SIDE, ord(" "), np.uint8)
    gaps[-1] = ord("\n")
    torn = np.flatnonzero((between != gaps).any(1))
    if torn.size:
        raise ValueError(
            f"{name}: line {torn[0]} is not {SIDE * SIDE} digits with a space between"
        )
    return x.reshape(-1, SIDE, SIDE)


def enlarged(digits: Pixels, most: int | None = None, *, grey: bool = False) -> Pixels:
    """The digits of 8 x 8 pixels at 16 x 16, each turned, stretched and shifted a little.

    They are parted first and moved then: no digit is in two splits. Black and white is drawn
    with the probability of the grey, by a seed that is always the same.

    Args:
        digits: as scikit-learn has them, train and test behind one another, 0 to 16.
        most: how many to train on at most: the first ones.
        grey: the grey levels 0 to 255 instead of 0 and 1.
    """
    x, y = (np.concatenate([digits[part][k] for part in ("train", "test")]) for k in (0, 1))
    pixels = {}
    for number, (split, (first, behind, views)) in enumerate(PARTS.items()):
        random = np.random.default_rng([6, 4, number])
        of = random.permuted(np.tile(np.arange(first, behind), views))
        of = of[:most] if split == "train" else of
        levels = np.stack([_moved(x[k] / 16, random) for k in of])
        levels = np.rint(255 * (STEEP * (levels - DARK)).clip(0, 1)).astype(np.uint8)
        drawn = random.integers(255, size=levels.shape) < levels
        pixels[split] = levels if grey else drawn.astype(np.uint8), y[of]
    return pixels


def _moved(digit: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """A digit at twice its size, turned about its middle, stretched and shifted."""
    from scipy import ndimage

    turn, stretch = TURN * random.uniform(-1, 1), 1 + STRETCH * random.uniform(-1, 1)
    shift = SHIFT * random.uniform(-1, 1, 2)
    cos, sin = np.cos(turn), np.sin(turn)
    step = np.array([[cos, -sin], [sin, cos]]) * len(digit) / ENLARGED / stretch
    middle = (ENLARGED - 1) / 2 + shift
    offset: Any = (len(digit) - 1) / 2 - step @ middle
    size = (ENLARGED, ENLARGED)
    return ndimage.affine_transform(digit, step, offset, output_shape=size, order=3)
