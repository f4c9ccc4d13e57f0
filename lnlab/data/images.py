"""Images with labels: digits, MNIST, a user's own IDX files; coloured: shapes, CIFAR-10; and
black and white ones to be drawn, whose pixels are 0 or 1.

torch and scikit-learn are imported when cases are loaded: to list or to download sources
takes neither.
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from lnlab.data import binary, cifar, idx, mnist, shapes
from lnlab.data.binary import DIGITS_BINARY, MNIST_BINARY
from lnlab.data.cifar import CIFAR10
from lnlab.data.dataset import Dataset
from lnlab.data.kept import code, stamp
from lnlab.data.mnist import FILES, IDX, MNIST
from lnlab.data.pixels import Pixels
from lnlab.data.shapes import SHAPES
from lnlab.data.source import Source, data_folder

if TYPE_CHECKING:
    import torch

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
      pixel is 0 or 1. See :mod:`lnlab.data.binary`.

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
        drawn, how = partial(_drawn, most, grey), f"{most} {grey} {code(binary.__file__)}"
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
    paths = mnist.files(folder, source)
    return Images(
        source,
        partial(mnist.read, folder, paths, source),
        lambda: (
            f"{classes} {stamp(paths.values())} {code(idx.__file__, mnist.__file__, __file__)}"
        ),
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
    paths = cifar.files(place)
    return Images(
        CIFAR10,
        partial(cifar.read, paths, most),
        lambda: f"{most} {stamp(paths.values())} {code(cifar.__file__)}",
        top=255,
        names=cifar.NAMES,
        noted=True,
    )


def _binarized(folder: Path, most: int | None) -> Images:
    paths = binary.files(folder)
    return Images(
        MNIST_BINARY,
        partial(binary.read, paths, most),
        lambda: f"{most} {stamp(paths.values())} {code(binary.__file__, idx.__file__)}",
        top=1,
        names=("digit",),
        noted=True,
    )


def _shapes(most: int | None) -> tuple[Pixels, str]:
    return shapes.made(most), ""


def _drawn(most: int | None, grey: bool) -> tuple[Pixels, str]:
    return binary.enlarged(_digits()[0], most, grey=grey), "grey" if grey else ""


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
