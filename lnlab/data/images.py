"""Images with labels: scikit-learn's digits, MNIST, and a user's own IDX files.

torch and scikit-learn are imported when cases are loaded: to list or to download sources
takes neither.
"""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from lnlab.data import idx
from lnlab.data.dataset import Dataset
from lnlab.data.kept import code, stamp
from lnlab.data.source import File, Source, data_folder

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

SOURCES = (DIGITS, MNIST, IDX)
DIGITS_TRAIN = 1_200
MNIST_TRAIN = 55_000
FILES = {
    "train": ("train-images-idx3-ubyte", "train-labels-idx1-ubyte"),
    "test": ("t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"),
}
"""Images and labels, as MNIST's files are called."""

Pixels = dict[str, tuple[np.ndarray, np.ndarray]]
"""Images ``(N, height, width)`` and labels ``(N,)``, uint8, by split."""


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
        pixels: reads the images and their labels.
        top: the value of white.
        classes: how many there are; None: the training images have all of them.
    """

    def __init__(
        self,
        source: Source,
        pixels: Callable[[], Pixels],
        of: Callable[[], str],
        *,
        top: int,
        classes: int | None = None,
        noted: bool = False,
    ) -> None:
        super().__init__(source, self._splits, of, noted=noted)
        self._pixels, self._top, self._said = pixels, top, classes

    @property
    def shape(self) -> tuple[int, int]:
        """Height and width, which give a row of ``x`` back its picture."""
        return self._seen.shape

    @property
    def classes(self) -> int:
        """The number of classes; every ``y`` is below it."""
        return self._seen.classes

    @cached_property
    def _seen(self) -> "_Seen":
        pixels = self._pixels()
        total = hashlib.sha256()
        for name, (x, y) in pixels.items():
            total.update(f"{name} {x.shape} {self._top}".encode())
            total.update(x.data)
            total.update(y.data)
        first, classes = counted({name: y for name, (_, y) in pixels.items()}, self._said)
        height, width = pixels["train"][0].shape[1:]
        splits = {
            name: _split(x, y - np.uint8(first), self._top) for name, (x, y) in pixels.items()
        }
        return _Seen(splits, (height, width), first, classes, total.digest())

    def _splits(self) -> tuple[Mapping[str, Split], str]:
        seen = self._seen
        return seen.splits, f"labels 1 to {seen.classes}" if seen.first else ""

    def _digest(self) -> bytes:
        return self._seen.digest


class _Seen(NamedTuple):
    splits: dict[str, Split]
    shape: tuple[int, int]
    first: int
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


def load(source: Source, folder: Path | None = None, *, classes: int | None = None) -> Images:
    """The images of a source, as vectors for a permutation-invariant task.

    - ``digits``: scikit-learn's digits, D = 64, pixels / 16; train is the first 1,200, test the
      last 597. They are split by index and never shuffled across: 13 people wrote them, the
      file does not say who wrote which, and neighbours are often by one hand.
    - ``mnist``: D = 784, pixels / 255; train is the first 55,000 as in Ba et al. (2016), 6.6,
      valid the other 5,000, test the official 10,000. Without a folder it is MNIST as
      ``lnlab data fetch mnist`` left it; files are gzipped or unpacked.
    - ``idx``: your own four files in MNIST's format and names, pixels / 255; train and test as
      the files have them. Labels count from 0, or from 1 (EMNIST's letters), which the name
      then says; how many classes there are is read from them, see :func:`counted`.

    They are read when a split is first used: a damaged file is noticed then.

    Args:
        classes: of ``idx``, how many classes there are, where some have no training image.

    Raises:
        ValueError: if a folder is given or lacks against the above, or there cannot be so many
            classes; later, if a file is damaged or, for MNIST, not the official one.
        FileNotFoundError: if the folder or one of its files is not there.
    """
    if source is DIGITS:
        if folder:
            raise ValueError(f"digits={folder}: they come with scikit-learn, give no path.")
        return Images(source, _digits, str, top=16)
    if source is IDX and not folder:
        raise ValueError("data 'idx': name the folder of your files: idx=PATH")
    if classes is not None and not 1 <= classes <= 256:
        raise ValueError(f"classes is {classes}: give 1 to 256, labels are bytes.")
    if not folder:
        folder = data_folder() / source.name
        if not folder.is_dir():
            raise FileNotFoundError(
                f"{source.name} has not been fetched into {folder}: run `lnlab data fetch "
                f"{source.name}`, or name a folder that holds its files: {source.name}=PATH"
            )
    paths = {file: _file(folder, file, source) for pair in FILES.values() for file in pair}
    return Images(
        source,
        partial(_idx_files, folder, paths, source),
        lambda: f"{classes} {stamp(paths.values())} {code(idx.__file__, __file__)}",
        top=255,
        classes=classes,
        noted=source is IDX,
    )


def _digits() -> Pixels:
    from sklearn.datasets import load_digits

    rows, labels = load_digits(return_X_y=True)
    x, y = np.asarray(rows, np.uint8).reshape(-1, 8, 8), np.asarray(labels, np.uint8)
    n = DIGITS_TRAIN
    return {"train": (x[:n], y[:n]), "test": (x[n:], y[n:])}


def _idx_files(folder: Path, paths: Mapping[str, Path], source: Source) -> Pixels:
    """Four IDX files, each checked, and against one another; MNIST's with its validation."""
    hashes = {file.name: file.content_sha256 for file in source.files}
    pixels = {}
    for split, (images, labels) in FILES.items():
        x = idx.read(paths[images], 3, hashes.get(f"{images}.gz", ""))
        y = idx.read(paths[labels], 1, hashes.get(f"{labels}.gz", ""))
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
    return pixels


def _file(folder: Path, name: str, source: Source) -> Path:
    for path in folder / f"{name}.gz", folder / name:
        if path.is_file():
            return path
    raise FileNotFoundError(f"{source.name}: no {name}.gz and no {name} in {folder}")
