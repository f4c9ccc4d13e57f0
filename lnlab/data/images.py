"""Images with labels: digits, MNIST, your own IDX files, shapes, CIFAR-10, and binary digits.

torch and scikit-learn are imported when images are loaded: listing sources needs neither.
"""

import gzip
import hashlib
import io
import pickle
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from importlib.util import find_spec
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from lnlab.data import shapes
from lnlab.data.cache import hash_file_stats
from lnlab.data.dataset import Dataset, Note, Source, Split, require_files, sources_offering
from lnlab.data.downloads import unpack_into_data_folder
from lnlab.data.shapes import Pixels

SOURCES = sources_offering("images")
DIGITS, MNIST, IDX, SHAPES, CIFAR10, DIGITS_BINARY, MNIST_BINARY = SOURCES


GreyOrRGBShape = tuple[int, ...]  # (height, width), or (3, height, width)


class LoadedImages(NamedTuple):
    """Images that were read, and what is known of them."""

    splits: dict[str, Split]
    note: Note
    shape: GreyOrRGBShape
    classes: int
    digest: bytes


class Images(Dataset[Split]):
    """Images as vectors: ``x`` (N, D) float32 in 0..1, ``y`` (N,) int64.

    The checksum is over every pixel and label, split by split.

    Labels count from the smallest one: those of EMNIST's letters are 1 to 26.

    Args:
        source, key, noted: as for :class:`Dataset`.
        read_pixels: reads the images and their labels, and a note.
        white: the value of white.
        names: the words for the classes, from label 0; else their numbers.
    """

    def __init__(
        self,
        source: Source,
        read_pixels: Callable[[], tuple[Pixels, Note]],
        key: Callable[[], str],
        *,
        white: int,
        names: Sequence[str] = (),
        noted: bool = False,
    ) -> None:
        super().__init__(source, lambda: self._loaded[:2], key, noted=noted)
        self._read_pixels, self._white, self._names = read_pixels, white, names

    @property
    def shape(self) -> GreyOrRGBShape:
        """The shape of a row of ``x`` as a picture: (height, width), or (3, height, width)."""
        return self._loaded.shape

    @property
    def class_names(self) -> tuple[str, ...]:
        """The words for the classes."""
        return tuple(self._names) or tuple(map(str, range(self.classes)))

    @property
    def classes(self) -> int:
        """The number of classes; every ``y`` is below it."""
        return self._loaded.classes

    @cached_property
    def _loaded(self) -> LoadedImages:
        import torch

        pixels, note = self._read_pixels()
        total = hashlib.sha256()
        for name, (x, y) in pixels.items():
            total.update(f"{name} {x.shape} {self._white}".encode())
            total.update(x.data)
            total.update(y.data)
        labels = np.concatenate([y for _, y in pixels.values()])
        first, last = (0, len(self._names) - 1) if self._names else (labels.min(), labels.max())
        note = f"labels {first} to {last}" if first else note
        splits = {}
        for name, (x, y) in pixels.items():
            scaled = np.divide(x.reshape(len(x), -1), self._white, dtype=np.float32)
            y = torch.from_numpy(y - np.uint8(first)).long()
            splits[name] = Split(torch.from_numpy(scaled), y)
        shape = pixels["train"][0].shape[1:]
        return LoadedImages(splits, note, shape, int(last) - int(first) + 1, total.digest())

    def _digest(self) -> bytes:
        return self._loaded.digest


def load(
    source: Source,
    path: Path | None = None,
    *,
    max_train: int | None = None,
    grey: bool = False,
) -> Images:
    """Return the images of a source, each a vector; ``shape`` makes a picture of it.

    - ``digits``: scikit-learn's digits, D = 64, pixels / 16; the first 1,200 train, the last
      597 test. They are split by index and not shuffled: 13 people wrote them, the file does
      not say who wrote which, and neighbours are often by one person.
    - ``mnist``: D = 784, pixels / 255; train is the first 55,000 as in Ba et al. (2016), 6.6,
      valid the other 5,000, test the official 10,000. Files may be gzipped or not.
    - ``idx``: your own four files in MNIST's format and names, pixels / 255.
    - ``shapes``: D = 3,072, ten shapes in colours, made here: :mod:`lnlab.data.shapes`.
    - ``cifar10``: D = 3,072, pixels / 255; train is the first 45,000, valid the other 5,000,
      test the official 10,000. The path is the archive, its folder, or the folder of either.
    - ``digits-binary``: D = 256, the digits enlarged; and ``mnist-binary``: D = 784, without
      labels: every y is 0. Each pixel is 0 or 1.

    Args:
        max_train: how many to train on at most: the first ones.
        grey: of ``digits-binary``, the grey levels of which black and white were drawn.
    """
    # the checksum of a source is that of all its examples
    described = replace(source, checksum="") if max_train else source
    if source is DIGITS:
        return Images(
            described,
            lambda: (keep_first_training_images(read_digits(), max_train), ""),
            lambda: str(max_train or ""),
            white=16,
        )
    if source is SHAPES:
        return Images(
            source,
            lambda: (shapes.make_shapes(max_train), ""),
            lambda: f"{max_train} {shapes.SIZES}",
            white=255,
            names=shapes.NAMES,
        )
    if source is DIGITS_BINARY:
        return Images(
            source,
            lambda: (
                enlarge_and_augment_digits(read_digits(), max_train, keep_grey_levels=grey),
                "grey" * grey,
            ),
            lambda: f"{max_train} {grey} {BINARY_PARTS}",
            white=255 if grey else 1,
            noted=True,
        )
    if source is IDX and path is None:
        raise ValueError("data 'idx': name the folder of your files: idx=PATH")
    path = source.locate(path)
    names, white = (), 255
    if source is CIFAR10:
        files, names = find_or_unpack_cifar10(path), CIFAR10_NAMES
        read = partial(read_cifar10, files, max_train)
    elif source is MNIST_BINARY:
        files = find_files(source, path, (file.name for file in source.files))
        read, names, white = partial(read_binarized_mnist, files, max_train), ("digit",), 1
    else:
        files = find_files(source, path, MNIST_FILES["train"] + MNIST_FILES["test"])
        read = partial(read_and_check_idx_files, files, source, max_train)
    return Images(
        described,
        read,
        lambda: f"{max_train} {hash_file_stats(files.values())}",
        white=white,
        names=names,
        noted=source is not MNIST,
    )


def keep_first_training_images(pixels: Pixels, max_train: int | None) -> Pixels:
    """Return the pixels with the first ``max_train`` images to train on; None: all."""
    x, y = pixels["train"]
    return pixels | {"train": (x[:max_train], y[:max_train])}


def find_files(source: Source, folder: Path, names: Iterable[str]) -> dict[str, Path]:
    """Return the paths of files by name; each may be gzipped."""
    files = {}
    for name in names:
        packed, plain = folder / f"{name}.gz", folder / name
        if not packed.is_file() and not plain.is_file():
            fetch = (
                f": run `lnlab data fetch {source.name}`" if source.mirror_folder_urls else ""
            )
            raise FileNotFoundError(
                f"{source.name}: there is no {name}.gz and no {name} in {folder}{fetch}"
            )
        files[name] = packed if packed.is_file() else plain
    return files


def read_digits() -> Pixels:
    """Read scikit-learn's digits, without importing it, which takes a second."""
    package = find_spec("sklearn")
    assert package is not None
    assert package.origin is not None
    path = Path(package.origin).with_name("datasets") / "data/digits.csv.gz"
    table = np.loadtxt(path, np.float32, delimiter=",")
    x, y = table[:, :-1].astype(np.uint8).reshape(-1, 8, 8), table[:, -1].astype(np.uint8)
    return {"train": (x[:1200], y[:1200]), "test": (x[1200:], y[1200:])}


# MNIST's format, IDX: two zero bytes, the type (8: unsigned bytes), the number of dimensions,
# each dimension as a big-endian uint32, and the bytes (http://yann.lecun.com/exdb/mnist/).

MNIST_FILES = {
    "train": ("train-images-idx3-ubyte", "train-labels-idx1-ubyte"),
    "test": ("t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"),
}
"""Images and labels, as MNIST's files are called."""
MNIST_TRAIN = 55_000


def read_bytes(path: Path, sha256: str = "") -> bytes:
    """Return the bytes of a file, unpacked if it is gzipped (its first bytes tell)."""
    content = path.read_bytes()
    if content[:2] == b"\x1f\x8b":
        try:
            content = gzip.decompress(content)
        except (OSError, EOFError, zlib.error) as error:
            raise ValueError(f"{path}: damaged gzip file: {error}") from error
    digest = hashlib.sha256(content).hexdigest() if sha256 else ""
    if digest != sha256:
        raise ValueError(
            f"{path}: not the official file: its unpacked bytes have sha256 {digest}, "
            f"expected {sha256}"
        )
    return content


def read_idx(path: Path, ndim: int, sha256: str = "") -> np.ndarray:
    """Return the array in an IDX file of unsigned bytes.

    Args:
        path: the file, gzipped or not.
        ndim: the number of dimensions that it must have: 1 for labels, 3 for images.
        sha256: what the unpacked bytes must hash to; empty if that is not known.
    """
    content = read_bytes(path, sha256)
    magic, start = bytes([0, 0, 8, ndim]), 4 + 4 * ndim
    if content[:4] != magic or len(content) < start:
        raise ValueError(
            f"{path}: starts with {content[:start].hex(' ') or 'nothing'}, expected "
            f"{magic.hex(' ')} (IDX, unsigned bytes, dimensions: {ndim}) and the dimensions"
        )
    shape = np.frombuffer(content, ">u4", ndim, offset=4).tolist()
    if 0 in shape or len(content) != start + prod(shape):
        raise ValueError(
            f"{path}: {len(content):,} bytes, expected {start + prod(shape):,} for "
            f"{' x '.join(map(str, shape))}"
        )
    return np.frombuffer(content, np.uint8, offset=start).reshape(shape)


def read_and_check_idx_files(
    files: Mapping[str, Path], source: Source, max_train: int | None = None
) -> tuple[Pixels, Note]:
    """Read four IDX files and compare them; MNIST's must be the official ones."""
    hashes = {file.name.removesuffix(".gz"): file.content_sha256 for file in source.files}
    pixels = {}
    for split, (images, labels) in MNIST_FILES.items():
        x = read_idx(files[images], 3, hashes.get(images, ""))
        y = read_idx(files[labels], 1, hashes.get(labels, ""))
        if len(x) != len(y):
            raise ValueError(f"{len(x):,} images in {images}, {len(y):,} labels in {labels}")
        pixels[split] = x, y
    train, test = pixels["train"][0].shape[1:], pixels["test"][0].shape[1:]
    if train != test:
        raise ValueError(f"training images are {train}, test images {test}")
    if source is MNIST:
        x, y = pixels["train"]
        pixels["train"] = x[:MNIST_TRAIN], y[:MNIST_TRAIN]
        pixels["valid"] = x[MNIST_TRAIN:], y[MNIST_TRAIN:]
    return keep_first_training_images(pixels, max_train), ""


# CIFAR-10: six pickles, each a dictionary with a batch_label, labels and data.

CIFAR10_NAMES = tuple("airplane automobile bird cat deer dog frog horse ship truck".split())  # noqa: SIM905
CIFAR10_FOLDER = "cifar-10-batches-py"
CIFAR10_MD5 = {
    "data_batch_1": "c99cafc152244af753f735de768cd75f",
    "data_batch_2": "d4bba439e000b95fd0a9bffe97cbabec",
    "data_batch_3": "54ebc095f3ab1f0389bbae665268c751",
    "data_batch_4": "634d18415352ddfa80567beed471001a",
    "data_batch_5": "482c414d41f54cd18b22e5b47cb7c3cb",
    "test_batch": "40351d587109b95175f43aff81a1287e",
}
"""The files, and the MD5 that each has in the official archive."""
BATCH, VALID = 10_000, 5_000
"""Pictures in a file, and how many training pictures, the last ones, validate."""


def find_or_unpack_cifar10(path: Path) -> dict[str, Path]:
    """Return the six files; ``path`` is the archive, its folder, or the folder of either."""
    archive = path / CIFAR10.files[0].name
    if archive.is_file() and not (path / CIFAR10_FOLDER).is_dir():
        path = archive
    if path.is_file():
        path = unpack_into_data_folder(path)
    folder = path / CIFAR10_FOLDER if (path / CIFAR10_FOLDER).is_dir() else path
    require_files(CIFAR10, folder, [*CIFAR10_MD5])
    return {name: folder / name for name in CIFAR10_MD5}


def read_cifar10(
    files: Mapping[str, Path], max_train: int | None = None
) -> tuple[Pixels, Note]:
    """Read pictures (N, 3, 32, 32) and classes (N,) by split, and note unofficial files."""
    official, batches = True, {}
    for name, path in files.items():
        content = path.read_bytes()
        official = official and hashlib.md5(content).hexdigest() == CIFAR10_MD5[name]
        batches[name] = parse_cifar10(content, path)
    test = batches.pop("test_batch")
    x, y = (np.concatenate(arrays) for arrays in zip(*batches.values(), strict=True))
    (x, x_valid), (y, y_valid) = np.split(x, [-VALID]), np.split(y, [-VALID])
    pixels = {"train": (x, y), "valid": (x_valid, y_valid), "test": test}
    pixels = keep_first_training_images(pixels, max_train)
    return pixels, "" if official else "not the official files"


def parse_cifar10(content: bytes, path: Path) -> tuple[np.ndarray, np.ndarray]:
    """Return the pictures and classes in a file of CIFAR-10."""
    try:
        entries = ArrayUnpickler(io.BytesIO(content), encoding="latin1").load()
        data, labels = np.asarray(entries["data"]), np.array(entries["labels"], np.int64)
        wanted = (BATCH, 3072), np.uint8, (BATCH,)
        if (data.shape, data.dtype, labels.shape) != wanted or not {*labels} <= {*range(10)}:
            raise ValueError(
                f"{data.shape} {data.dtype} pixels and {labels.shape} labels, expected "
                f"{BATCH:,} x 3072 bytes and {BATCH:,} labels from 0 to 9"
            )
    except Exception as error:  # a damaged pickle raises almost anything
        raise ValueError(f"{path} is damaged, or no pickle of CIFAR-10: {error!r}") from error
    return data.reshape(BATCH, 3, 32, 32), labels.astype(np.uint8)


def _make_array_for_unpickling(*args: Any) -> np.ndarray:
    return np.ndarray.__new__(np.ndarray, (0,), "b")  # its __setstate__ fills it


class ArrayUnpickler(pickle.Unpickler):
    """Reads pickles of lists, text and arrays; refuses those that ask for anything else."""

    ALLOWED: Mapping[tuple[str, str], Any] = {
        ("numpy.core.multiarray", "_reconstruct"): _make_array_for_unpickling,
        ("numpy._core.multiarray", "_reconstruct"): _make_array_for_unpickling,
        ("numpy", "ndarray"): np.ndarray,
        ("numpy", "dtype"): np.dtype,
        ("_codecs", "encode"): lambda text, _: text.encode("latin-1"),
    }

    def find_class(self, module: str, name: str) -> Any:
        """Return what a pickle wants to import."""
        if (module, name) not in self.ALLOWED:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}, which is no array")
        return self.ALLOWED[module, name]


# Binary images. ``mnist-binary`` is what Larochelle and Murray (2011) made of MNIST: each pixel
# drawn once, 1 with the probability of its grey, so that all model the same pictures; a line of
# digits a picture. ``digits-binary`` is made in the same way of scikit-learn's digits.

BINARY_PARTS = {"train": (0, 1_000, 5), "valid": (1_000, 1_200, 2), "test": (1_200, 1_797, 1)}
"""First and last (exclusive) of the digits, and how often each is moved."""
ENLARGED = 16
TURN, STRETCH, SHIFT = 0.12, 0.1, 1.0
"""The most that a digit is turned (radians), stretched (share) and shifted (pixels)."""
DARK, STEEP = 0.33, 3.0
"""The ink at which grey begins, and how fast it gets lighter: edges of half a pixel."""


def read_binarized_mnist(
    files: Mapping[str, Path], max_train: int | None
) -> tuple[Pixels, Note]:
    """Read the official pictures, all labelled 0; the note says how many train if not all."""
    pixels = {}
    for split, file in zip(("train", "valid", "test"), MNIST_BINARY.files, strict=True):
        content = read_bytes(files[file.name], file.content_sha256)
        digits = np.frombuffer(content, np.uint8)[::2]  # a space or the end of a line follows
        x = (digits - np.uint8(ord("0"))).reshape(-1, 28, 28)
        x = x[:max_train] if split == "train" else x
        pixels[split] = x, np.zeros(len(x), np.uint8)
    return pixels, f"{max_train} pictures to train on" if max_train else ""


def enlarge_and_augment_digits(
    digits: Pixels, max_train: int | None = None, *, keep_grey_levels: bool = False
) -> Pixels:
    """Return the digits enlarged to 16 x 16, each turned, stretched and shifted a little.

    They are split first and moved then: no digit is in two splits. Black and white is drawn
    with the probability of the grey, by a seed that is always the same.

    Args:
        digits: as :func:`read_digits` gives them.
        max_train: how many to train on at most: the first ones.
        keep_grey_levels: return the grey levels 0 to 255 instead of 0 and 1.
    """
    x, y = (np.concatenate([digits[split][k] for split in ("train", "test")]) for k in (0, 1))
    pixels = {}
    for number, (split, (first, end, views)) in enumerate(BINARY_PARTS.items()):
        random = np.random.default_rng([6, 4, number])
        chosen = random.permuted(np.tile(np.arange(first, end), views))
        chosen = chosen[:max_train] if split == "train" else chosen
        levels = np.stack(
            [_enlarge_with_random_affine(x[index] / 16, random) for index in chosen]
        )
        levels = np.rint(255 * (STEEP * (levels - DARK)).clip(0, 1)).astype(np.uint8)
        binary = random.integers(255, size=levels.shape) < levels
        pixels[split] = levels if keep_grey_levels else binary.astype(np.uint8), y[chosen]
    return pixels


def _enlarge_with_random_affine(
    digit: np.ndarray, generator: np.random.Generator
) -> np.ndarray:
    """Return a digit at twice its size, turned about its middle, stretched and shifted."""
    from scipy import ndimage

    turn, stretch = TURN * generator.uniform(-1, 1), 1 + STRETCH * generator.uniform(-1, 1)
    shift = SHIFT * generator.uniform(-1, 1, 2)
    cos, sin = np.cos(turn), np.sin(turn)
    matrix = np.array([[cos, -sin], [sin, cos]]) * len(digit) / ENLARGED / stretch
    middle = (ENLARGED - 1) / 2 + shift
    offset: Any = (len(digit) - 1) / 2 - matrix @ middle
    size = (ENLARGED, ENLARGED)
    return ndimage.affine_transform(digit, matrix, offset, output_shape=size, order=3)
