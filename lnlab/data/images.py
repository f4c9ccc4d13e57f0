"""Images with labels: digits, MNIST, a user's own IDX files; coloured: shapes, CIFAR-10; and
black and white ones to be drawn, whose pixels are 0 or 1.

torch and scikit-learn are imported when cases are loaded: to list or to download sources
takes neither.
"""

import hashlib
import os
import pickletools
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from importlib.util import find_spec
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

import numpy as np

from lnlab.data import shapes
from lnlab.data.archive import unpacked
from lnlab.data.cache import code, stamp
from lnlab.data.dataset import Dataset
from lnlab.data.shapes import SHAPES, Pixels
from lnlab.data.source import File, Source, data_folder

if TYPE_CHECKING:
    import torch


# The IDX format of MNIST: an array of unsigned bytes, plain or gzipped.
#
# A file is two zero bytes, a type byte (0x08, unsigned byte), the number of dimensions,
# each dimension as a big-endian uint32, and then exactly as many bytes as they say
# (LeCun and Cortes, http://yann.lecun.com/exdb/mnist/). Nothing else is accepted, and no
# more memory is used than the header asks for, which must be possible for the file's size.


CHUNK = 1 << 20
LARGEST_IDX = 1 << 30  # bytes, twenty times MNIST: above it a file is a mistake or a bomb
DEFLATE_RATIO = 1032  # no deflate stream unpacks to more than this times its own size


def parse_idx(content: bytes | bytearray, ndim: int, name: str) -> np.ndarray:
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


def read_idx(path: Path, ndim: int, sha256: str = "") -> np.ndarray:
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
        content = _gather(chunks, ndim, min(size, LARGEST_IDX), name)
    array = parse_idx(content, ndim, name)
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


# MNIST, and images of one's own in its format: four IDX files, each checked, and together.


MNIST = Source(
    name="mnist",
    title="MNIST handwritten digits, 28 x 28",
    kind="official",
    licence="copyright Y. LeCun and C. Cortes; CC BY-SA 3.0 according to Keras",
    citation="LeCun, Bottou, Bengio and Haffner (1998), http://yann.lecun.com/exdb/mnist/",
    offers="images",
    # Mirrors first: the official server has answered 403 or 503 for years.
    urls=(
        "https://ossci-datasets.s3.amazonaws.com/mnist/",
        "https://storage.googleapis.com/cvdf-datasets/mnist/",
        "http://yann.lecun.com/exdb/mnist/",
    ),
    files=(
        File(
            "train-images-idx3-ubyte.gz",
            9_912_422,
            "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
            "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
        ),
        File(
            "train-labels-idx1-ubyte.gz",
            28_881,
            "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
            "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
        ),
        File(
            "t10k-images-idx3-ubyte.gz",
            1_648_877,
            "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
            "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
        ),
        File(
            "t10k-labels-idx1-ubyte.gz",
            4_542,
            "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
            "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
        ),
    ),
    checksum="edcbea302fcfe28ca238bea820bb3693439ceda34468873ee14ed12129f43368",
)

IDX = Source(
    name="idx",
    title="your own images: four IDX files, named as those of MNIST",
    kind="own",
    licence="yours to know",
    citation="",
    offers="images",
    options={"classes": "how many there are, where some have no training image"},
)

MNIST_TRAIN = 55_000
FILES = {
    "train": ("train-images-idx3-ubyte", "train-labels-idx1-ubyte"),
    "test": ("t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"),
}
"""Images and labels, as MNIST's files are called."""


def mnist_files(folder: Path, source: Source) -> dict[str, Path]:
    """The four files by name, each gzipped or unpacked.

    Raises:
        FileNotFoundError: where one is not; names it.
    """
    return {name: _find_mnist(folder, name, source) for pair in FILES.values() for name in pair}


def read_mnist(folder: Path, paths: Mapping[str, Path], source: Source) -> tuple[Pixels, str]:
    """Four IDX files, each checked, and against one another; MNIST's with its validation.

    Returns:
        What they hold, and an empty note.

    Raises:
        ValueError: if one is damaged, does not fit another, or is no official one of MNIST.
    """
    hashes = {file.name: file.content_sha256 for file in source.files}
    pixels = {}
    for split, (images, labels) in FILES.items():
        x = read_idx(paths[images], 3, hashes.get(f"{images}.gz", ""))
        y = read_idx(paths[labels], 1, hashes.get(f"{labels}.gz", ""))
        if len(x) != len(y):
            raise ValueError(
                f"{folder}: {len(x):,} images in {images}, {len(y):,} labels in {labels}, "
                "expected as many"
            )
        pixels[split] = x, y
    train, test = pixels["train"][0].shape[1:], pixels["test"][0].shape[1:]
    if train != test:
        raise ValueError(f"{folder}: training images are {train}, test images {test}")
    if source is MNIST:
        x, y = pixels["train"]
        pixels["train"] = x[:MNIST_TRAIN], y[:MNIST_TRAIN]
        pixels["valid"] = x[MNIST_TRAIN:], y[MNIST_TRAIN:]
    return pixels, ""


def _find_mnist(folder: Path, name: str, source: Source) -> Path:
    for path in folder / f"{name}.gz", folder / name:
        if path.is_file():
            return path
    raise FileNotFoundError(f"{source.name}: no {name}.gz and no {name} in {folder}")


# CIFAR-10 in its official layout for Python: six pickles, which are read and never run.
#
# A pickle is a program, and unpickling runs it. These hold three things: what the batch is
# called, a list of labels, and the bytes of an array. ``pickletools.genops`` goes through the
# instructions of a pickle without following any of them, and the three are taken from there.


CIFAR10 = Source(
    name="cifar10",
    title="CIFAR-10, 32 x 32, coloured, ten kinds of things",
    kind="official",
    licence="none stated; its authors ask to be cited",
    citation="Krizhevsky (2009), https://www.cs.toronto.edu/~kriz/cifar.html",
    offers="images",
    options={"most": "how many pictures to train on at most"},
    urls=(
        "https://www.cs.toronto.edu/~kriz/",
        "https://storage.googleapis.com/tensorflow/tf-keras-datasets/",
    ),
    files=(
        File(
            "cifar-10-python.tar.gz",
            170_498_071,
            "6d958be074577803d12ecdefd02955f39262c83c16fe9348329d7fe0b5c001ce",
        ),
    ),
)

NAMES = (
    "airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck",
)  # fmt: skip
FOLDER = "cifar-10-batches-py"
MEMBERS = {
    "data_batch_1": "c99cafc152244af753f735de768cd75f",
    "data_batch_2": "d4bba439e000b95fd0a9bffe97cbabec",
    "data_batch_3": "54ebc095f3ab1f0389bbae665268c751",
    "data_batch_4": "634d18415352ddfa80567beed471001a",
    "data_batch_5": "482c414d41f54cd18b22e5b47cb7c3cb",
    "test_batch": "40351d587109b95175f43aff81a1287e",
}
"""The files, and the MD5 that each has in the official archive."""
BATCH, SHAPE = 10_000, (3, 32, 32)
VALID = 5_000
"""The number of training pictures, the last ones, that validate."""
LARGEST_BATCH = 2**26
"""Bytes of a file, twice those of an official one."""
INTEGERS = ("BININT", "BININT1", "BININT2", "INT")
UNOFFICIAL = "not the official files"


def cifar_files(path: Path) -> dict[str, Path]:
    """The six files by name, at ``path``: the archive, its folder, or the folder of either.

    Raises:
        FileNotFoundError: where one is not; names it.
        ValueError: if the archive is damaged or holds anything strange.
    """
    archive = path / CIFAR10.files[0].name
    if not path.is_file() and archive.is_file() and not (path / FOLDER).is_dir():
        path = archive
    if path.is_file():
        path = unpacked(path, data_folder() / "unpacked")
    folder = path / FOLDER if (path / FOLDER).is_dir() else path
    for name in MEMBERS:
        if not (folder / name).is_file():
            raise FileNotFoundError(
                f"cifar10: no {name} in {folder}: it needs {', '.join(MEMBERS)}, as "
                f"{archive.name} has them."
            )
    return {name: folder / name for name in MEMBERS}


def read_cifar(paths: dict[str, Path], most: int | None = None) -> tuple[Pixels, str]:
    """Pictures (N, 3, 32, 32) and classes (N,) by split, uint8, and a note.

    Args:
        paths: as :func:`files` gives them.
        most: how many to train on at most: the first ones.

    Raises:
        ValueError: if a file is damaged, is another one's, or holds other pictures or labels.
    """
    contents = {name: _content(path) for name, path in paths.items()}
    official = {name: hashlib.md5(content).hexdigest() for name, content in contents.items()}
    batches = {
        name: parsed(contents.pop(name), name, str(path)) for name, path in paths.items()
    }
    test = batches.pop("test_batch")
    x, y = (np.concatenate(parts) for parts in zip(*batches.values(), strict=True))
    train = len(y) - VALID
    kept = min(train, most or train)
    pixels = {"train": (x[:kept], y[:kept]), "valid": (x[train:], y[train:]), "test": test}
    return pixels, "" if official == MEMBERS else UNOFFICIAL


def _content(path: Path) -> bytes:
    if path.stat().st_size > LARGEST_BATCH:
        raise ValueError(f"{path} is larger than any file of CIFAR-10.")
    return path.read_bytes()


def parsed(content: bytes, name: str, where: str) -> tuple[np.ndarray, np.ndarray]:
    """Pictures (10000, 3, 32, 32) and classes (10000,), uint8, in the bytes of a pickle.

    Args:
        content: the whole file.
        name: the file that it should be; what the batch calls itself must agree.
        where: the file, for messages.

    Raises:
        ValueError: if it is damaged, another file, or holds other pictures or labels.
    """
    label, labels, data = _said(content, where)
    part = "testing batch 1 of 1" if name == "test_batch" else f"training batch {name[-1]} of 5"
    if label != part:
        raise ValueError(f"{where} calls itself {label!r}, expected {part!r}: is it renamed?")
    wrong = [n for n, label in enumerate(labels) if not 0 <= label < len(NAMES)]
    if wrong:
        raise ValueError(
            f"{where}: label {wrong[0]} is {labels[wrong[0]]}, expected 0 to {len(NAMES) - 1}"
        )
    size = BATCH * int(np.prod(SHAPE))
    if len(labels) != BATCH or len(data) != size:
        raise ValueError(
            f"{where}: {len(labels):,} labels and {len(data):,} bytes of pictures, expected "
            f"{BATCH:,} and {size:,}: {' x '.join(map(str, SHAPE))} bytes a picture"
        )
    pictures = np.frombuffer(data, np.uint8).reshape(BATCH, *SHAPE)
    return pictures, np.array(labels, np.uint8)


def _said(content: bytes, where: str) -> tuple[str, list[int], bytes]:
    """The ``batch_label``, the ``labels`` and the ``data``, a C array of bytes, in a pickle."""
    texts: dict[str, list[str]] = {key: [] for key in ("batch_label", "labels", "data")}
    labels, key, rows = [], "", False
    try:
        for op, value, _ in pickletools.genops(content):
            if isinstance(value, bytes):
                value = value.decode("latin-1")
            if value in (*texts, "filenames"):
                key = value
            elif isinstance(value, str) and key in texts:
                texts[key].append(value)
            elif key == "labels" and op.name in INTEGERS:
                labels.append(value)
            elif key == "data" and op.name in ("NEWFALSE", "NEWTRUE"):
                # (version, shape, type, whether column by column, bytes): the last one counts
                rows = op.name == "NEWFALSE"
    except ValueError as error:
        raise ValueError(f"{where} is damaged, or no pickle: {error}") from error
    if not (texts["batch_label"] and labels and rows and "u1" in texts["data"]):
        raise ValueError(
            f"{where} has no batch_label, no labels, or no data of unsigned bytes, row by row."
        )
    # what an instruction needs besides, as the name of an encoding, is shorter
    label, data = (max(texts[key], key=len) for key in ("batch_label", "data"))
    return label, labels, data.encode("latin-1")


# Pictures in black and white, to be drawn: each pixel is 0 or 1, and stays what it is.
#
# ``mnist-binary`` is what Larochelle and Murray (2011) made of MNIST: each pixel drawn once, 1
# with the probability of its grey, so that all who use it model the same pictures. Its files
# are lines of digits, a picture a line. ``digits-binary`` is made here in the same way, of the
# digits that come with scikit-learn.


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


def binarized_files(folder: Path) -> dict[str, Path]:
    """The three files of MNIST in black and white by split, each gzipped or unpacked.

    Raises:
        FileNotFoundError: where one is not; names it.
    """
    return {split: _find_binarized(folder, f"binarized_mnist_{split}.amat") for split in SPLITS}


def _find_binarized(folder: Path, name: str) -> Path:
    for path in folder / name, folder / f"{name}.gz":
        if path.is_file():
            return path
    raise FileNotFoundError(f"{MNIST_BINARY.name}: no {name} and no {name}.gz in {folder}")


def read_binarized(paths: Mapping[str, Path], most: int | None = None) -> tuple[Pixels, str]:
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
        content = unpack_bits(path, {f.name: f.size for f in MNIST_BINARY.files}[_plain(path)])
        x = parse_binarized(content, str(path))
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


def unpack_bits(path: Path, size: int) -> bytearray:
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


def parse_binarized(content: bytes | bytearray, name: str) -> np.ndarray:
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


DIGITS = Source(
    name="digits",
    title="UCI optical recognition of handwritten digits, test part, 8 x 8",
    kind="embedded",
    licence="CC BY 4.0 (UCI), as packaged by scikit-learn (BSD-3-Clause)",
    citation="Alpaydin and Kaynak (1998), UCI, https://doi.org/10.24432/C50P49",
    offers="images",
    checksum="9e7bc1c2d48e638b2afca1828a5433ed47f524252fa9ca967e64ccf99c1bac0a",
)

SOURCES = (DIGITS, MNIST, IDX, SHAPES, CIFAR10, DIGITS_BINARY, MNIST_BINARY)
DIGITS_TRAIN = 1_200
DIGITS_FILE = "data/digits.csv.gz"
"""The digits in scikit-learn's data sets: pixels 0 to 16 and the digit, a row a picture."""


@dataclass(frozen=True, eq=False)
class Split:
    """Cases of one part of a data set: ``x`` (N, D) float32 in 0..1, ``y`` (N,) int64."""

    x: "torch.Tensor"
    y: "torch.Tensor"

    def __len__(self) -> int:
        return len(self.y)


class Images(Dataset[Split]):
    """Images as vectors. The checksum is over every pixel and label, split by split.

    Args:
        source, of, noted: as of :class:`Dataset`.
        pixels: reads the images and their labels, and says what has to be noted of them.
        top: the value of white.
        classes: how many there are; None: the training images have all of them.
        names: the words for the classes, which says how many there are; else their numbers.
    """

    def __init__(
        self,
        source: Source,
        pixels: Callable[[], tuple[Pixels, str]],
        of: Callable[[], str],
        *,
        top: int,
        classes: int | None = None,
        names: Sequence[str] = (),
        noted: bool = False,
    ) -> None:
        super().__init__(source, self._splits, of, noted=noted)
        self._pixels, self._top, self._names = pixels, top, names
        self._said = len(names) or classes

    @property
    def shape(self) -> tuple[int, ...]:
        """Height and width, or 3, height and width, which give a row of ``x`` back its
        picture."""
        return self._seen.shape

    @property
    def names(self) -> tuple[str, ...]:
        """The words for the classes."""
        return tuple(self._names) or tuple(map(str, range(self.classes)))

    @property
    def classes(self) -> int:
        """The number of classes; every ``y`` is below it."""
        return self._seen.classes

    @cached_property
    def _seen(self) -> "_Seen":
        pixels, note = self._pixels()
        total = hashlib.sha256()
        for name, (x, y) in pixels.items():
            total.update(f"{name} {x.shape} {self._top}".encode())
            total.update(x.data)
            total.update(y.data)
        first, classes = counted({name: y for name, (_, y) in pixels.items()}, self._said)
        shape = pixels["train"][0].shape[1:]
        note = f"labels 1 to {classes}" if first else note
        splits = {
            name: _split(x, y - np.uint8(first), self._top) for name, (x, y) in pixels.items()
        }
        return _Seen(splits, shape, note, classes, total.digest())

    def _splits(self) -> tuple[Mapping[str, Split], str]:
        seen = self._seen
        return seen.splits, seen.note

    def _digest(self) -> bytes:
        return self._seen.digest


class _Seen(NamedTuple):
    splits: dict[str, Split]
    shape: tuple[int, ...]
    note: str
    classes: int
    digest: bytes


def _split(x: np.ndarray, y: np.ndarray, top: int) -> Split:
    import torch

    cases = np.divide(x.reshape(len(x), -1), top, dtype=np.float32)
    return Split(torch.from_numpy(cases), torch.from_numpy(y).long())


def counted(labels: Mapping[str, np.ndarray], classes: int | None = None) -> tuple[int, int]:
    """The label of the first class, and how many classes there are.

    Labels count from 0, or, where nothing is labelled 0, from 1, as those of EMNIST's letters
    do; every class has a training image.

    Args:
        labels: uint8 (N,) by split.
        classes: how many there are, counted from 0; then some may have no image.

    Raises:
        ValueError: for classes without a training image, or labels of none; names them.
    """
    train = np.unique(labels["train"])
    if classes is not None:
        known, first = np.arange(classes), 0
    else:
        first = 0 if any((y == 0).any() for y in labels.values()) else 1
        known = np.arange(first, int(train[-1]) + 1)
        missing = np.setdiff1d(known, train)
        if missing.size:
            raise ValueError(
                f"{FILES['train'][1]}: labels go from {first} to {train[-1]}, but no image has "
                f"{', '.join(map(str, missing))}: say how many classes there are, counted "
                "from 0, with classes=N."
            )
    for split, y in labels.items():
        wrong = np.flatnonzero(~np.isin(y, known))
        if wrong.size:
            n = wrong[0]
            raise ValueError(
                f"{FILES[split][1]}: label {n} is {y[n]}, expected {known[0]} to {known[-1]}"
            )
    return first, len(known)


def load(
    source: Source,
    folder: Path | None = None,
    *,
    classes: int | None = None,
    most: int | None = None,
    grey: bool = False,
) -> Images:
    """The images of a source, each a vector; ``shape`` gives it back its picture.

    - ``digits``: scikit-learn's digits, D = 64, pixels / 16; train is the first 1,200, test the
      last 597. They are split by index and never shuffled across: 13 people wrote them, the
      file does not say who wrote which, and neighbours are often by one hand.
    - ``mnist``: D = 784, pixels / 255; train is the first 55,000 as in Ba et al. (2016), 6.6,
      valid the other 5,000, test the official 10,000. Without a folder it is MNIST as
      ``lnlab data fetch mnist`` left it; files are gzipped or unpacked.
    - ``idx``: your own four files in MNIST's format and names, pixels / 255; train and test as
      the files have them. Labels count from 0, or from 1 (EMNIST's letters), which the name
      then says; how many classes there are is read from them, see :func:`counted`.

    - ``shapes``: D = 3,072, ten shapes in colours, made here; 20,000 train, 1,000 validate,
      2,000 test. See :mod:`lnlab.data.shapes`.
    - ``cifar10``: D = 3,072, pixels / 255; train is the first 45,000, valid the other 5,000,
      test the official 10,000. The folder may be that of its archive, or the archive.
    - ``digits-binary``: D = 256, the digits enlarged, 5,000 train, 400 validate, 597 test; and
      ``mnist-binary``: D = 784, 50,000, 10,000 and 10,000, without labels: every y is 0. Each
      pixel is 0 or 1. See :mod:`lnlab.data.images`.

    They are read when a split is first used: a damaged file is noticed then.

    Args:
        classes: of ``idx``, how many classes there are, where some have no training image.
        most: of ``shapes``, ``cifar10`` and those in black and white, how many images to train
            on at most.
        grey: of ``digits-binary``, the grey levels of which black and white were drawn.

    Raises:
        ValueError: if a folder is given or lacks against the above, or there cannot be so many
            classes; later, if a file is damaged or, for MNIST, not the official one.
        FileNotFoundError: if the folder or one of its files is not there.
    """
    if source is DIGITS:
        if folder:
            raise ValueError(f"digits={folder}: they come with scikit-learn, give no path.")
        return Images(source, _digits, str, top=16)
    if most is not None and most < 1:
        raise ValueError(f"most is {most}: give at least 1, or None for all.")
    if source is SHAPES:
        if folder:
            raise ValueError(f"shapes={folder}: they are made here, give no path.")
        made, of = partial(_shapes, most), f"{most} {shapes.SIZES} {code(shapes.__file__)}"
        return Images(source, made, lambda: of, top=255, names=shapes.NAMES)
    if source is DIGITS_BINARY:
        if folder:
            raise ValueError(f"digits-binary={folder}: they are made here, give no path.")
        drawn, how = partial(_drawn, most, grey), f"{most} {grey} {code(__file__)}"
        top = 255 if grey else 1
        return Images(source, drawn, lambda: how, top=top, classes=10, noted=True)
    if source is IDX and not folder:
        raise ValueError("data 'idx': name the folder of your files: idx=PATH")
    if classes is not None and not 1 <= classes <= 256:
        raise ValueError(f"classes is {classes}: give 1 to 256, labels are bytes.")
    folder = folder or _fetched(source)
    if source is CIFAR10:
        return _cifar10(folder, most)
    if source is MNIST_BINARY:
        return _binarized(folder, most)
    paths = mnist_files(folder, source)
    return Images(
        source,
        partial(read_mnist, folder, paths, source),
        lambda: f"{classes} {stamp(paths.values())} {code(__file__, __file__, __file__)}",
        top=255,
        classes=classes,
        noted=source is IDX,
    )


def _fetched(source: Source) -> Path:
    folder = data_folder() / source.name
    if not folder.is_dir():
        raise FileNotFoundError(
            f"{source.name} has not been fetched into {folder}: run `lnlab data fetch "
            f"{source.name}`, or name a folder that holds its files: {source.name}=PATH"
        )
    return folder


def _cifar10(place: Path, most: int | None) -> Images:
    paths = cifar_files(place)
    return Images(
        CIFAR10,
        partial(read_cifar, paths, most),
        lambda: f"{most} {stamp(paths.values())} {code(__file__)}",
        top=255,
        names=NAMES,
        noted=True,
    )


def _binarized(folder: Path, most: int | None) -> Images:
    paths = binarized_files(folder)
    return Images(
        MNIST_BINARY,
        partial(read_binarized, paths, most),
        lambda: f"{most} {stamp(paths.values())} {code(__file__, __file__)}",
        top=1,
        names=("digit",),
        noted=True,
    )


def _shapes(most: int | None) -> tuple[Pixels, str]:
    return shapes.made(most), ""


def _drawn(most: int | None, grey: bool) -> tuple[Pixels, str]:
    return enlarged(_digits()[0], most, grey=grey), "grey" if grey else ""


def _digits() -> tuple[Pixels, str]:
    # as load_digits of scikit-learn, which to import takes a second
    package = find_spec("sklearn")
    assert package is not None
    assert package.origin is not None
    path = Path(package.origin).with_name("datasets") / DIGITS_FILE
    table = np.loadtxt(path, np.float32, delimiter=",")
    x, y = table[:, :-1].astype(np.uint8).reshape(-1, 8, 8), table[:, -1].astype(np.uint8)
    n = DIGITS_TRAIN
    return {"train": (x[:n], y[:n]), "test": (x[n:], y[n:])}, ""
