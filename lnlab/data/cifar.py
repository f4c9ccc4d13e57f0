"""CIFAR-10 in its official layout for Python: six pickles, which are read and never run.

A pickle is a program, and unpickling runs it. These hold three things: what the batch is
called, a list of labels, and the bytes of an array. ``pickletools.genops`` goes through the
instructions of a pickle without following any of them, and the three are taken from there.
"""

import hashlib
import pickletools
from pathlib import Path

import numpy as np

from lnlab.data.archive import unpacked
from lnlab.data.pixels import Pixels
from lnlab.data.source import File, Source, data_folder

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
LARGEST = 2**26
"""Bytes of a file, twice those of an official one."""
INTEGERS = ("BININT", "BININT1", "BININT2", "INT")
UNOFFICIAL = "not the official files"


def files(path: Path) -> dict[str, Path]:
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


def read(paths: dict[str, Path], most: int | None = None) -> tuple[Pixels, str]:
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
    if path.stat().st_size > LARGEST:
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
