"""Pictures with captions: scenes made here, COCO in two layouts.

A picture is a vector that is given, never pixels: outputs of a net, or what stands in it and
where (:mod:`lnlab.papers.order_embeddings.data`).
"""

import hashlib
import json
import random
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
from itertools import permutations
from pathlib import Path
from tokenize import TokenError
from typing import Any

import numpy as np

from lnlab.data.cache import stamp
from lnlab.data.dataset import Dataset
from lnlab.data.source import Source, data_folder, require_files
from lnlab.data.vocabulary import Vocabulary

# The things in a picture and their places, as boxes; and the vector that stands for it.


PARTS = ("how many", "how large", "across", "down")
"""The four numbers that a picture's vector has of every kind of thing."""


@dataclass(frozen=True, eq=False)
class Boxes:
    """The things in a picture, each with the rectangle around it.

    Attributes:
        kinds: the number of each thing's kind (n,).
        places: left, top, right, bottom of each (n, 4), as fractions of width and height.
    """

    kinds: np.ndarray
    places: np.ndarray

    @property
    def centres(self) -> np.ndarray:
        """The middle of each box (n, 2), across and down."""
        return (self.places[:, :2] + self.places[:, 2:]) / 2

    @property
    def areas(self) -> np.ndarray:
        """The part of the picture that each box covers (n,)."""
        return np.prod(self.places[:, 2:] - self.places[:, :2], axis=1)


def vector(boxes: Boxes, kinds: int) -> np.ndarray:
    """The numbers of a picture (4 kinds,), float32, :data:`PARTS` of each kind in turn.

    log(1 + count), the root of the area of all of its boxes, and where the middle of them is,
    from the centre of the picture (-1 to 1); zeros for a kind that is not there.
    """
    count = np.bincount(boxes.kinds, minlength=kinds)
    area = np.bincount(boxes.kinds, boxes.areas, minlength=kinds)
    across, down = (
        np.bincount(boxes.kinds, 2 * centre - 1, minlength=kinds) / np.maximum(count, 1)
        for centre in boxes.centres.T
    )
    parts = np.log1p(count), np.sqrt(area), across, down
    return np.concatenate(parts).astype(np.float32)


# Pictures with captions in files, in two layouts of COCO.


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


# Scenes of two or three things, and captions of which it is known what they are true of.
#
# A caption names one thing or two, each by its shape and, if it likes, by its colour and size,
# or
# by a more general word, and may say how they stand to each other. So captions are ordered: "a
# red heart left of a square" says more than "a heart and a square", which says more than "a
# curve"; and of every scene it can be decided whether a caption is true of it.


SHAPES = {
    "circle": "curve", "ring": "curve", "heart": "curve",
    "triangle": "polygon", "square": "polygon", "star": "polygon",
}  # fmt: skip
"""Every shape, and the more general word for it; "thing" is the word for all."""
COLOURS = {
    "red": "warm", "pink": "warm", "yellow": "warm",
    "green": "cool", "blue": "cool", "purple": "cool",
}  # fmt: skip
SIZES = {"small": (0.12, 0.18), "large": (0.24, 0.3)}
"""Sides of a thing, least and greatest, as fractions of the picture's."""
LARGE = 0.2
"""The side from which on a thing is large."""
RELATIONS = {"left of": (0, -1), "right of": (0, 1), "above": (1, -1), "below": (1, 1)}
"""The axis along which two things are compared, and the sign of the difference."""
OPPOSITE = {"left of": "right of", "right of": "left of", "above": "below", "below": "above"}
APART = 0.2
"""The least distance along the axis at which a relation holds."""
KINDS = tuple(f"{colour} {shape}" for colour in COLOURS for shape in SHAPES)
SCENE_CAPTIONS = 5
SCENE_PARTS = {"train": 4000, "valid": 300, "test": 500}


@dataclass(frozen=True)
class Noun:
    """One thing as a caption names it: "a small red heart", "a warm thing"; "" is not said."""

    shape: str = "thing"
    colour: str = ""
    size: str = ""

    def __str__(self) -> str:
        return " ".join(filter(None, ["a", self.size, self.colour, self.shape]))

    def of(self, other: "Noun") -> bool:
        """True if all that ``other`` is called, this may be called too: it says no more."""
        return (
            self.shape in ("thing", other.shape, SHAPES.get(other.shape))
            and self.colour in ("", other.colour, COLOURS.get(other.colour))
            and self.size in ("", other.size)
        )

    def wider(self) -> Iterator["Noun"]:
        """The nouns that say one step less."""
        if self.shape != "thing":
            yield replace(self, shape=SHAPES.get(self.shape, "thing"))
        if self.colour:
            yield replace(self, colour=COLOURS.get(self.colour, ""))
        if self.size:
            yield replace(self, size="")


@dataclass(frozen=True)
class Said:
    """The meaning of a caption: one or two things, and how they stand, if it says so."""

    things: tuple[Noun, ...]
    relation: str = ""

    def __str__(self) -> str:
        between = self.relation or "and"
        return f" {between} ".join(map(str, self.things))

    def below(self, other: "Said") -> bool:
        """True if ``other`` is true of every scene that this is true of."""
        if len(other.things) > len(self.things):
            return False
        places = permutations(range(len(self.things)), len(other.things))
        return any(
            all(noun.of(self.things[at]) for noun, at in zip(other.things, chosen, strict=True))
            and other.relation in ("", self._between(chosen))
            for chosen in places
        )

    def _between(self, chosen: Sequence[int]) -> str:
        """The relation of its things in the order in which they are ``chosen``."""
        return OPPOSITE.get(self.relation, "") if chosen[0] > chosen[-1] else self.relation

    def above(self) -> Iterator["Said"]:
        """The meanings that say one step less."""
        if self.relation:
            yield replace(self, relation="")
        elif len(self.things) > 1:
            yield from (Said((noun,)) for noun in self.things)
        for place, noun in enumerate(self.things):
            for wider in noun.wider():
                things = (*self.things[:place], wider, *self.things[place + 1 :])
                yield replace(self, things=things)


class Gallery:
    """Scenes that hang side by side, to be asked what is true of each.

    Args:
        scenes: with three things at most.
    """

    def __init__(self, scenes: Sequence[Boxes]) -> None:
        self.nouns = [[_seen(boxes, at) for at in range(len(boxes.kinds))] for boxes in scenes]
        most = max(map(len, self.nouns))
        centres = np.full((len(scenes), most, 2), np.nan)
        for place, boxes in zip(centres, scenes, strict=True):
            place[: len(boxes.kinds)] = boxes.centres
        self.away = centres[:, :, None] - centres[:, None]  # (N, things, things, 2)
        self._called: dict[Noun, np.ndarray] = {}

    def true(self, said: Said) -> np.ndarray:
        """True if it is true of each scene (N,)."""
        one: Any = self.called(said.things[0])
        if len(said.things) == 1:
            return one.any(1)
        pairs: Any = one[:, :, None] & self.called(said.things[1])[:, None]
        pairs[:, np.arange(one.shape[1]), np.arange(one.shape[1])] = False  # two things
        if said.relation:
            axis, sign = RELATIONS[said.relation]
            pairs &= sign * self.away[..., axis] > APART
        return pairs.any((1, 2))

    def called(self, noun: Noun) -> np.ndarray:
        """The things of each scene that may be called that, a mask (N, things)."""
        if noun not in self._called:
            found = np.zeros(self.away.shape[:2], bool)
            for place, there in zip(found, self.nouns, strict=True):
                place[: len(there)] = [noun.of(seen) for seen in there]
            self._called[noun] = found
        return self._called[noun]


def parsed(caption: str) -> Said:
    """The meaning of a caption.

    Raises:
        ValueError: if it is not of the form "a small red heart left of a square"; says what
            may stand there.
    """
    words = [word for word in caption.lower().split() if word not in ("a", "an", "of")]
    relations = {relation.removesuffix(" of"): relation for relation in RELATIONS}
    cuts = [place for place, word in enumerate(words) if word in (*relations, "and")]
    if len(cuts) > 1:
        raise ValueError(f"{caption!r} names more than two things: name one or two.")
    parts = [words[: cuts[0]], words[cuts[0] + 1 :]] if cuts else [words]
    relation = relations.get(words[cuts[0]], "") if cuts else ""
    return Said(tuple(_noun(part, caption) for part in parts), relation)


def _noun(words: Sequence[str], caption: str) -> Noun:
    shapes = ("thing", *dict.fromkeys(SHAPES.values()), *SHAPES)
    left, said = list(words), {}
    for name, known in (
        ("size", tuple(SIZES)),
        ("colour", (*dict.fromkeys(COLOURS.values()), *COLOURS)),
        ("shape", shapes),
    ):
        if left and left[0] in known:
            said[name] = left.pop(0)
    if left or "shape" not in said:
        colours = ", ".join((*COLOURS, *dict.fromkeys(COLOURS.values())))
        raise ValueError(
            f"{caption!r} is not understood: say it like 'a small red heart left of a square', "
            f"each thing by its size ({', '.join(SIZES)}) or none, its colour ({colours}) or "
            f"none, and one of {', '.join(shapes)}; between two {', '.join(RELATIONS)} or and."
        )
    return Noun(**said)


def _seen(boxes: Boxes, place: int) -> Noun:
    """A thing of a scene by its most special name."""
    colour, shape = KINDS[boxes.kinds[place]].split()
    left, top, right, bottom = boxes.places[place]
    return Noun(shape, colour, "large" if max(right - left, bottom - top) > LARGE else "small")


def _stand(boxes: Boxes, one: int, other: int, relation: str) -> bool:
    axis, sign = RELATIONS[relation]
    return sign * (boxes.centres[one, axis] - boxes.centres[other, axis]) > APART


def corpus(
    most: int | None, parts: Mapping[str, int]
) -> dict[str, tuple[list[Boxes], list[str]]]:
    """Scenes and the captions of each, one after the other, of every split.

    Args:
        most: how many scenes to train on at most.
        parts: how many there are to train, validate and test.
    """
    found = {}
    for split, count in parts.items():
        chance = random.Random(f"scenes to {split}")
        if most is not None and split == "train":
            count = min(count, most)
        scenes = [_scene(chance) for _ in range(count)]
        found[split] = (
            scenes,
            [
                str(_caption(scene, chance, place))
                for scene in scenes
                for place in range(SCENE_CAPTIONS)
            ],
        )
    return found


def _scene(chance: random.Random) -> Boxes:
    count = chance.choice([2, 3])
    kinds = [chance.randrange(len(KINDS)) for _ in range(count)]
    places = []
    for cell in chance.sample(range(9), count):
        side = chance.uniform(*SIZES[chance.choice([*SIZES])])
        x, y = ((at + 0.5 + chance.uniform(-0.04, 0.04)) / 3 for at in (cell % 3, cell // 3))
        places.append([x - side / 2, y - side / 2, x + side / 2, y + side / 2])
    return Boxes(np.array(kinds), np.array(places))


def _caption(scene: Boxes, chance: random.Random, place: int) -> Said:
    """A true caption: the later its place among those of a scene, the less it says."""
    chosen = chance.sample(range(len(scene.kinds)), 2)
    relations = [r for r in RELATIONS if _stand(scene, chosen[0], chosen[1], r)]
    said = Said(
        tuple(_seen(scene, at) for at in chosen), chance.choice(relations) if relations else ""
    )
    for _ in range(chance.randrange(2 * place + 1)):
        said = chance.choice([*said.above()] or [said])
    return said


SCENES = Source(
    name="scenes",
    title="Scenes of two or three things, captions whose truth is known",
    kind="synthetic",
    licence="made on this machine",
    citation="lnlab.papers.order_embeddings.data",
    offers="captions",
    options={"most": "how many scenes to train on at most"},
)
COCO = Source(
    name="coco",
    title="COCO as order embeddings had it: Karpathy's split, VGG19 features of 10 crops",
    kind="official",
    licence="captions CC BY 4.0; pictures under the terms of Flickr",
    citation="Vendrov et al. (2016), https://github.com/ivendrov/order-embedding",
    offers="captions",
)
COCO_BOXES = Source(
    name="coco-boxes",
    title="COCO val2017: all captions, pictures as the boxes of 80 kinds of things, no pixels",
    kind="official",
    licence="annotations CC BY 4.0",
    citation="Lin et al. (2014), https://cocodataset.org",
    offers="captions",
    options={"split": "which pictures train, validate and test: a whole number"},
)
SOURCES = (SCENES, COCO, COCO_BOXES)

FILES = {
    "coco": (
        *(f"{split}.txt" for split in SPLITS),
        *(f"images/10crop/{split}.npy" for split in SPLITS),
    ),
    "coco-boxes": (
        "annotations/captions_val2017.json", "boxes/coco_val2017.txt", "boxes/coco_name.txt",
    ),
}  # fmt: skip
"""The files of each source, below its folder."""

WIDER = {
    "an animal": "bird cat dog horse sheep cow elephant bear zebra giraffe",
    "a vehicle": "bicycle car motorcycle airplane bus train truck boat",
    "food": "banana apple sandwich orange broccoli carrot pizza donut cake",
    "furniture": "chair couch bed table",
    "a person": "man woman boy girl child",
}
"""More general words, and what they are said of: most of it after COCO's own groups."""


TAKEN = 100
"""Captions of scenes from which pairs are made."""


class Captions(Dataset[Pictures]):
    """A set of pictures with captions; as :class:`lnlab.data.Images`.

    Args:
        source, read, of: as of :class:`Dataset`.
        kinds: the names of the kinds of things that stand in the pictures, where that is known.
    """

    def __init__(
        self,
        source: Source,
        read: Callable[[], Mapping[str, Pictures]],
        of: Callable[[], str],
        kinds: Callable[[], tuple[str, ...]] = tuple,
    ) -> None:
        super().__init__(source, lambda: (read(), ""), of)
        self._kinds = kinds
        self._galleries: dict[str, Gallery] = {}

    @cached_property
    def kinds(self) -> tuple[str, ...]:
        """The names of the kinds of things in the pictures; empty where nobody knows."""
        return self._kinds()

    @property
    def width(self) -> int:
        """D, how many numbers a picture is."""
        return self.train.vectors.shape[1]

    @cached_property
    def vocabulary(self) -> Vocabulary:
        """The words of the training and validation captions, as the authors have it."""
        assert self.valid is not None  # every source of captions has them
        return Vocabulary.of([*self.train.captions, *self.valid.captions])

    @cached_property
    def entailments(self) -> tuple[tuple[str, str], ...]:
        """Pairs of captions of which the second is true wherever the first is.

        Of scenes what the first test captions say, and one step less; of photographs words and
        the more general word for them; only of words that are all in the vocabulary.
        """
        if self.source is SCENES:
            said = [parsed(text) for text in self.test.captions[:TAKEN]]
            pairs = dict.fromkeys((str(one), str(up)) for one in said for up in one.above())
        else:
            pairs = dict.fromkeys(
                (f"a {word}", wider) for wider, words in WIDER.items() for word in words.split()
            )
        known = self.vocabulary
        return tuple(
            pair
            for pair in pairs
            if all(word in known for text in pair for word in text.split())
        )

    def true(self, captions: Sequence[str], split: str = "test") -> np.ndarray | None:
        """True if each caption is true of each picture (captions, N); None where nobody knows.

        Raises:
            ValueError: of scenes, if a caption is not understood; says how to say it.
        """
        if self.source is not SCENES:
            return None
        if split not in self._galleries:
            self._galleries[split] = Gallery(getattr(self, split).boxes)
        return np.stack([self._galleries[split].true(parsed(c)) for c in captions])

    def _digest(self) -> bytes:
        return digest(self._parts[0])

    def __str__(self) -> str:
        counts = ", ".join(f"{len(part)} {split}" for split, part in self._parts[0].items())
        return (
            f"{self.kind} data: {self.name}, pictures: {counts}, {CAPTIONS} captions "
            f"each; {len(self.vocabulary)} words; a picture is {self.width} numbers"
        )


def load(
    source: Source,
    place: Path | None = None,
    *,
    split: int | None = None,
    most: int | None = None,
) -> Captions:
    """The pictures and captions of a source, for :func:`lnlab.data.load`.

    Args:
        place: the folder of its files. None: the source's own place in the data folder.
        split: which pictures train, validate and test; None is 0.
        most: how many scenes to train on at most; None: all.

    Raises:
        ValueError: for a split that there is not; later, for damaged files, captions without
            words, vectors that are not finite or as many as there are captions for.
        FileNotFoundError: where files are not; names them.
    """
    split = split or 0
    if split < 0:
        raise ValueError(f"split is {split}: {source.options['split']}, from 0.")
    if most is not None and most < 1:
        raise ValueError(f"most is {most}: give at least 1, or None for all.")
    if source is SCENES:
        return Captions(source, partial(_made, most), lambda: f"{most}", lambda: KINDS)
    place = place or data_folder() / source.name
    files = require_files(source, place, FILES[source.name])
    read = {
        "coco": lambda: coco(place),
        "coco-boxes": lambda: coco_boxes(place, split),
    }[source.name]
    names = (lambda: kinds(place)) if source is COCO_BOXES else tuple
    return Captions(source, read, lambda: f"{split} {stamp(files)}", names)


def _made(most: int | None) -> dict[str, Pictures]:
    return _scenes(most, tuple(SCENE_PARTS.items()))


@cache
def _scenes(most: int | None, parts: tuple[tuple[str, int], ...]) -> dict[str, Pictures]:
    """The scenes, made once in a process: arms of a comparison have the same."""
    return {
        split: Pictures(
            tuple(f"scene {place}" for place in range(len(there))),
            np.stack([vector(boxes, len(KINDS)) for boxes in there]),
            tuple(said),
            tuple(there),
        )
        for split, (there, said) in corpus(most, dict(parts)).items()
    }
