"""Images with labels: scikit-learn's digits, MNIST, and a user's own IDX files.

torch and scikit-learn are imported when cases are loaded: to list or to download sources
takes neither.
"""

import hashlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from lnlab.data import idx
from lnlab.data.source import File, Kind, Source, data_folder, find, split_spec

if TYPE_CHECKING:
    import torch

DIGITS = Source(
    name="digits",
    title="UCI optical recognition of handwritten digits, test part, 8 x 8",
    kind="embedded",
    licence="CC BY 4.0 (UCI), as packaged by scikit-learn (BSD-3-Clause)",
    citation="Alpaydin and Kaynak (1998), UCI, https://doi.org/10.24432/C50P49",
    checksum="9e7bc1c2d48e638b2afca1828a5433ed47f524252fa9ca967e64ccf99c1bac0a",
)

MNIST = Source(
    name="mnist",
    title="MNIST handwritten digits, 28 x 28",
    kind="official",
    licence="copyright Y. LeCun and C. Cortes; CC BY-SA 3.0 according to Keras",
    citation="LeCun, Bottou, Bengio and Haffner (1998), http://yann.lecun.com/exdb/mnist/",
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
)

SOURCES = (DIGITS, MNIST, IDX)
CLASSES = 10
DIGITS_TRAIN = 1_200
MNIST_TRAIN = 55_000

Pixels = dict[str, tuple[np.ndarray, np.ndarray]]
"""Images `(N, height, width)` and labels `(N,)`, uint8, by split."""


@dataclass(frozen=True, eq=False)
class Split:
    """Cases of one part of a data set: `x` float32 `(N, D)` in 0..1, `y` int64 `(N,)`."""

    x: "torch.Tensor"
    y: "torch.Tensor"

    def __len__(self) -> int:
        return len(self.y)


@dataclass(frozen=True, eq=False)
class Dataset:
    """Images as vectors, with what has to be said about them wherever they are used.

    `kind`, `licence` and `name` are those of the `Source`. `checksum` is a sha256 over
    every pixel and label, split by split: two data sets with the same checksum are the
    same cases in the same splits. `shape` gives a row of `x` back its picture. `valid` is
    None where the source has no split for it.
    """

    name: str
    kind: Kind
    licence: str
    checksum: str
    shape: tuple[int, int]
    classes: int
    train: Split = field(repr=False)
    test: Split = field(repr=False)
    valid: Split | None = field(default=None, repr=False)


def load(spec: str) -> Dataset:
    """The images that `spec` names, as vectors for a permutation-invariant task.

    - `embedded` or `digits`: scikit-learn's digits, D = 64, pixels / 16; train is the first
      1,200, test the last 597. They are split by index and never shuffled across: 13 people
      wrote them, the file does not say who wrote which, and neighbours are often by one hand.
    - `mnist`: MNIST as `lnlab data fetch mnist` left it, D = 784, pixels / 255; train is the
      first 55,000 as in Ba et al. (2016), 6.6, valid the other 5,000, test the official
      10,000.
    - `mnist=PATH`: the same from the folder PATH, its files gzipped or unpacked.
    - `idx=PATH`: your own four files in MNIST's format and names, pixels / 255, labels 0 to
      9; train and test as the files have them.

    Raises:
        ValueError: if the spec is none of these, or a file is damaged or, for MNIST, not
            the official one.
        FileNotFoundError: if the folder or one of its files is not there.
    """
    name, folder = split_spec(spec)
    source = DIGITS if name == "embedded" else find(name, SOURCES)
    if source is DIGITS:
        if folder:
            raise ValueError(f"data {spec!r}: {name} comes with scikit-learn, give no path")
        return _dataset(source, _digits(), top=16)
    if source is IDX and not folder:
        raise ValueError("data 'idx': name the folder of your files: idx=PATH")
    if not folder:
        folder = data_folder() / name
        if not folder.is_dir():
            raise FileNotFoundError(
                f"{name} has not been fetched into {folder}: run `lnlab data fetch {name}`, "
                f"or name a folder that holds its files: {name}=PATH"
            )
    pixels = _idx_folder(folder, source)
    if source is MNIST:
        x, y = pixels["train"]
        pixels["train"] = x[:MNIST_TRAIN], y[:MNIST_TRAIN]
        pixels["valid"] = x[MNIST_TRAIN:], y[MNIST_TRAIN:]
    return _dataset(source, pixels, top=255)


def _digits() -> Pixels:
    from sklearn.datasets import load_digits

    rows, labels = load_digits(return_X_y=True)
    x, y = np.asarray(rows, np.uint8).reshape(-1, 8, 8), np.asarray(labels, np.uint8)
    n = DIGITS_TRAIN
    return {"train": (x[:n], y[:n]), "test": (x[n:], y[n:])}


def _idx_folder(folder: Path, source: Source) -> Pixels:
    """The four IDX files in `folder`, each checked, and against one another."""
    hashes = {file.name: file.content_sha256 for file in source.files}
    pixels = {}
    for split, prefix in ("train", "train"), ("test", "t10k"):
        images, labels = f"{prefix}-images-idx3-ubyte", f"{prefix}-labels-idx1-ubyte"
        x = idx.read(_file(folder, images, source), 3, hashes.get(f"{images}.gz", ""))
        y = idx.read_labels(
            _file(folder, labels, source), hashes.get(f"{labels}.gz", ""), CLASSES
        )
        if len(x) != len(y):
            raise ValueError(
                f"{folder}: {len(x):,} images in {images}, {len(y):,} labels in {labels}, "
                "expected as many"
            )
        pixels[split] = x, y
    train, test = pixels["train"][0].shape[1:], pixels["test"][0].shape[1:]
    if train != test:
        raise ValueError(f"{folder}: training images are {train}, test images {test}")
    return pixels


def _file(folder: Path, name: str, source: Source) -> Path:
    for path in folder / f"{name}.gz", folder / name:
        if path.is_file():
            return path
    raise FileNotFoundError(f"{source.name}: no {name}.gz and no {name} in {folder}")


def _dataset(source: Source, pixels: Pixels, top: int) -> Dataset:
    import torch

    checksum = hashlib.sha256()
    splits = {}
    for name, (x, y) in pixels.items():
        checksum.update(f"{name} {x.shape} {top}".encode())
        checksum.update(x.data)
        checksum.update(y.data)
        cases = np.divide(x.reshape(len(x), -1), top, dtype=np.float32)
        splits[name] = Split(torch.from_numpy(cases), torch.from_numpy(y).long())
    found = checksum.hexdigest()
    if source.checksum not in ("", found):
        raise ValueError(
            f"{source.name}: its cases have checksum {found}, expected {source.checksum}"
        )
    height, width = pixels["train"][0].shape[1:]
    return Dataset(
        name=source.name,
        kind=source.kind,
        licence=source.licence,
        checksum=found,
        shape=(height, width),
        classes=CLASSES,
        **splits,
    )
