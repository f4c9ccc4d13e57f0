"""Pictures with captions in files, in two layouts of COCO."""

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from tokenize import TokenError
from typing import Any

import numpy as np

from lnlab.data.boxes import Boxes, vector

SPLITS = ("train", "val", "test")
"""The names that the authors' files have; ours are train, valid, test."""
CAPTIONS = 5
"""Captions of a picture that are read, the first."""
ROWS = 4096
"""Rows of vectors that are looked at together."""
DAMAGED = (
    ValueError, KeyError, TypeError, EOFError, SyntaxError, OverflowError, NotImplementedError,
    RuntimeError, OSError, MemoryError, TokenError,
)  # fmt: skip
"""The errors that the reader of arrays raises of damaged ones."""
HELD = 1000
"""Pictures of COCO's boxes that validate, and that test."""


@dataclass(frozen=True, eq=False)
class Pictures:
    """Pictures by their vectors, each with as many captions.

    Attributes:
        names: of the pictures (N,).
        vectors: (N, D), float32; of large sets a part of a file, read when it is used.
        captions: (5 N,), those of a picture one after the other, words between spaces.
        boxes: what stands where in each, where that is known.
    """

    names: tuple[str, ...]
    vectors: np.ndarray
    captions: tuple[str, ...]
    boxes: tuple[Boxes, ...] = ()

    def __post_init__(self) -> None:
        if len(self.captions) != CAPTIONS * len(self.vectors):
            raise ValueError(
                f"{len(self.vectors)} pictures have {len(self.captions)} captions: give "
                f"{CAPTIONS} of each."
            )
        for start in range(0, len(self.vectors), ROWS):
            broken = ~np.isfinite(self.vectors[start : start + ROWS]).all(axis=1)
            if broken.any():
                place = start + int(np.flatnonzero(broken)[0])
                raise ValueError(
                    f"the vector of picture {place} ({self.names[place]}) holds a number that "
                    "is not finite: make it again."
                )
        for place, caption in enumerate(self.captions):
            if not caption:
                picture, which = divmod(place, CAPTIONS)
                raise ValueError(
                    f"caption {which + 1} of picture {picture} ({self.names[picture]}) has no "
                    "words: mend it in its file, or leave the picture out."
                )

    def __len__(self) -> int:
        return len(self.names)

    def of(self, place: int) -> tuple[str, ...]:
        """The captions of a picture."""
        return self.captions[CAPTIONS * place : CAPTIONS * (place + 1)]

    @property
    def alike(self) -> int:
        """The number of pictures with the vector of another: nobody can tell these apart."""
        _, counts = np.unique(np.asarray(self.vectors), axis=0, return_counts=True)
        return int(counts[counts > 1].sum())


def words(text: str) -> str:
    """A caption in small letters, its words and numbers with spaces between them."""
    return " ".join(re.findall(r"[a-z0-9]+(?:'[a-z]+)?", text.lower()))


# --- COCO as the authors of order embeddings lay it out ------------------------------------


def coco(folder: Path) -> dict[str, Pictures]:
    """``{train,val,test}.txt``, a caption a line, and ``images/10crop/{train,val,test}.npy``.

    The captions were cut into words by the authors and are taken as they are.
    """
    found = {}
    for ours, theirs in zip(("train", "valid", "test"), SPLITS, strict=True):
        text, array = folder / f"{theirs}.txt", folder / "images" / "10crop" / f"{theirs}.npy"
        captions = tuple(" ".join(line.split()) for line in _lines(text))
        vectors = _array(array)
        names = tuple(f"{theirs} {place}" for place in range(len(vectors)))
        found[ours] = _named(f"{text} and {array}", names, vectors, captions)
    return found


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not UTF-8 text: {error}") from error


def _array(path: Path) -> np.ndarray:
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except DAMAGED as error:
        raise ValueError(f"{path} is damaged, or no .npy file of numbers: {error}") from error
    if array.ndim != 2 or array.dtype.kind != "f":
        raise ValueError(f"{path} holds {array.dtype} {array.shape}: give floats (N, D).")
    return array


def _named(where: str, *parts: Any) -> Pictures:
    """Pictures whose faults are said with the names of their files."""
    try:
        return Pictures(*parts)
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from error


# --- COCO's captions with the boxes of what stands in the pictures -------------------------


def kinds(folder: Path) -> tuple[str, ...]:
    """The names of the kinds of things, from ``boxes/coco_name.txt``."""
    names = _lines(folder / "boxes" / "coco_name.txt")
    return tuple(name.strip() for name in names if name.strip() not in ("", "background"))


def coco_boxes(folder: Path, split: int) -> dict[str, Pictures]:
    """``annotations/captions_val2017.json`` and ``boxes/coco_val2017.txt``: 4,952 pictures.

    A thousand validate, a thousand test, the others train; which ones depends on ``split``
    alone.

    Raises:
        ValueError: if a picture has boxes and no captions.
    """
    path = folder / "annotations" / "captions_val2017.json"
    captions, sizes = _captions(path)
    names = kinds(folder)
    boxes = _boxes(folder / "boxes" / "coco_val2017.txt", sizes, len(names))
    unsaid = sorted(boxes.keys() - captions.keys())
    if unsaid:
        raise ValueError(
            f"{path}: {len(unsaid)} pictures have no captions, {unsaid[0]}: add them."
        )
    order = sorted(boxes, key=lambda name: hashlib.sha256(f"{split} {name}".encode()).digest())
    if len(order) <= 2 * HELD:
        raise ValueError(f"{folder}: {len(order)} pictures, {2 * HELD} of them are held out.")
    parts = {"train": order[2 * HELD :], "valid": order[:HELD], "test": order[HELD : 2 * HELD]}
    return {
        part: _named(
            str(path),
            tuple(chosen),
            np.stack([vector(boxes[name], len(names)) for name in chosen]),
            tuple(text for name in chosen for text in captions[name][:CAPTIONS]),
            tuple(boxes[name] for name in chosen),
        )
        for part, chosen in parts.items()
    }


def _captions(path: Path) -> tuple[dict[str, list[str]], dict[str, tuple[int, int]]]:
    """The captions of each picture by the name of its file, and its width and height."""
    try:
        whole = json.loads(path.read_text(encoding="utf-8"))
        pictures = {one["id"]: one for one in whole["images"]}
        sizes = {p["file_name"]: (int(p["width"]), int(p["height"])) for p in pictures.values()}
        said: dict[str, list[str]] = {name: [] for name in sizes}
        for one in sorted(whole["annotations"], key=lambda one: one["id"]):
            said[pictures[one["image_id"]]["file_name"]].append(words(one["caption"]))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(
            f"{path} is damaged, or no file of COCO captions: {error!r}"
        ) from error
    return said, sizes


def _boxes(path: Path, sizes: Mapping[str, tuple[int, int]], count: int) -> dict[str, Boxes]:
    """The boxes of each picture that has any: lines of a name and five numbers a thing."""
    found = {}
    for number, line in enumerate(_lines(path), start=1):
        name, *rest = line.split() or [""]
        if not rest:
            continue
        if len(rest) % 5 or not all(part.isdecimal() for part in rest) or name not in sizes:
            raise ValueError(
                f"{path}, line {number}: expected the name of a picture with captions and five "
                f"whole numbers a thing, found {line[:60]!r}."
            )
        rows = np.array(rest, int).reshape(-1, 5)
        if not ((rows[:, 4] >= 1) & (rows[:, 4] <= count)).all():
            raise ValueError(f"{path}, line {number}: kinds go from 1 to {count}.")
        width, height = sizes[name]
        places = rows[:, [1, 0, 3, 2]] / np.array([width, height] * 2)
        found[name] = Boxes(rows[:, 4] - 1, places)
    return found


def digest(parts: Mapping[str, Pictures]) -> bytes:
    """The SHA-256 of pictures, split by split."""
    total = hashlib.sha256()
    for split, part in parts.items():
        total.update(f"{split} {part.vectors.dtype} {part.vectors.shape}\n".encode())
        for text in _texts(part):
            total.update(text.encode() + b"\n")
        for start in range(0, len(part), ROWS):
            total.update(np.ascontiguousarray(part.vectors[start : start + ROWS]).data)
    return total.digest()


def _texts(part: Pictures) -> Iterable[str]:
    yield from part.names
    yield from part.captions
