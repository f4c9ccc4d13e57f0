"""Images with captions: scenes generated here, and COCO in two layouts.

An image is a vector of features, never pixels: outputs of a network, or the categories and
places of the things in it (:func:`image_features_from_boxes`).
"""

import hashlib
import json
import random
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
from itertools import permutations
from pathlib import Path

import numpy as np

from lnlab.data.cache import hash_file_stats
from lnlab.data.dataset import (
    Dataset,
    Source,
    read_text,
    require_files,
    sort_by_hash,
    sources_offering,
)
from lnlab.data.vocabulary import Vocabulary, frequent_words
from lnlab.paths import data_folder

SCENES, COCO, COCO_BOXES = SOURCES = sources_offering("captions")

PER_IMAGE = 5  # captions of an image; more are left out
CHUNK = 4096  # rows of features that are hashed at once: large files stay on disk

FractionsOfImageSize = np.ndarray
"""Positions in an image, as fractions of its width and height."""


@dataclass(frozen=True, eq=False)
class CategoriesAndBoxes:
    """The things in an image, each with the rectangle around it."""

    categories: np.ndarray  # the number of each thing's category (n,)
    left_top_right_bottom: FractionsOfImageSize  # of each box (n, 4)

    @property
    def centres(self) -> np.ndarray:
        """The middle of each box (n, 2), across and down."""
        return (self.left_top_right_bottom[:, :2] + self.left_top_right_bottom[:, 2:]) / 2


def image_features_from_boxes(boxes: CategoriesAndBoxes, num_categories: int) -> np.ndarray:
    """Return the features of an image (4 * num_categories,), float32.

    Of each category log(1 + count), the root of the area of all boxes, and their mean centre,
    from the centre of the image (-1 to 1); zeros for a category without boxes.
    """
    areas = np.prod(
        boxes.left_top_right_bottom[:, 2:] - boxes.left_top_right_bottom[:, :2], axis=1
    )
    count = np.bincount(boxes.categories, minlength=num_categories)
    area = np.bincount(boxes.categories, areas, minlength=num_categories)
    middle = [
        np.bincount(boxes.categories, 2 * centre - 1, minlength=num_categories)
        / np.maximum(count, 1)
        for centre in boxes.centres.T
    ]
    return np.concatenate([np.log1p(count), np.sqrt(area), *middle]).astype(np.float32)


@dataclass(frozen=True, eq=False)
class CaptionedImages:
    """Images by their features, each with five captions."""

    image_names: tuple[str, ...]  # of the images (N,)
    features: np.ndarray  # (N, D), float32; of large sets part of a file, read when it is used
    captions_in_image_order: tuple[
        str, ...
    ]  # (5 N,), image by image, words separated by spaces
    boxes: tuple[CategoriesAndBoxes, ...] = ()  # the things in each image, where they are known

    def __len__(self) -> int:
        return len(self.image_names)

    def captions_of_image(self, index: int) -> tuple[str, ...]:
        """Return the captions of an image."""
        return self.captions_in_image_order[PER_IMAGE * index : PER_IMAGE * (index + 1)]


Splits = dict[str, CaptionedImages]

# COCO in two layouts.

COCO_SPLITS = {"train": "train", "valid": "val", "test": "test"}
"""The names of the splits in the authors' files."""
HELD_OUT = 1000  # images of COCO's boxes to validate on, and to test on
FILES = {
    "coco": (
        *(f"{split}.txt" for split in COCO_SPLITS.values()),
        *(f"images/10crop/{split}.npy" for split in COCO_SPLITS.values()),
    ),
    "coco-boxes": (
        "annotations/captions_val2017.json",
        "boxes/coco_val2017.txt",
        "boxes/coco_name.txt",
    ),
}
"""The files of each source, below its folder."""


def read_coco_with_stored_features(folder: Path) -> Splits:
    """Read ``{train,val,test}.txt``, a caption a line, and their features in ``.npy`` files.

    The authors have cut the captions into words.
    """
    splits = {}
    for split, name in COCO_SPLITS.items():
        text, array = folder / f"{name}.txt", folder / "images" / "10crop" / f"{name}.npy"
        captions = tuple(" ".join(line.split()) for line in read_text(text).splitlines())
        features = _read_feature_array(array)
        names = tuple(f"{name} {index}" for index in range(len(features)))
        if len(captions) != PER_IMAGE * len(features):
            raise ValueError(
                f"{text} and {array}: {len(features)} images have {len(captions)} captions, "
                f"expected {PER_IMAGE} of each."
            )
        splits[split] = CaptionedImages(names, features, captions)
    return splits


def _read_feature_array(path: Path) -> np.ndarray:
    try:
        return np.load(path, mmap_mode="r", allow_pickle=False)
    except Exception as error:  # of a damaged file numpy raises a dozen kinds
        raise ValueError(f"{path} is damaged, or no .npy file of numbers: {error}") from error


def read_coco_with_box_features(folder: Path, split_number: int) -> Splits:
    """Read ``captions_val2017.json`` and ``coco_val2017.txt``: 4,952 images.

    A thousand validate, a thousand test, the others train; ``split_number`` decides which.
    """
    captions, sizes = _read_coco_captions_and_sizes(
        folder / "annotations" / "captions_val2017.json"
    )
    categories = read_coco_categories(folder)
    boxes = _read_boxes_by_image(folder / "boxes" / "coco_val2017.txt", sizes, len(categories))
    order = sort_by_hash(boxes, split_number)
    if len(order) <= 2 * HELD_OUT:
        raise ValueError(f"{folder}: {len(order)} images, {2 * HELD_OUT} of them held out.")
    splits = {
        "train": order[2 * HELD_OUT :],
        "valid": order[:HELD_OUT],
        "test": order[HELD_OUT : 2 * HELD_OUT],
    }
    return {
        name: CaptionedImages(
            tuple(chosen),
            np.stack(
                [image_features_from_boxes(boxes[image], len(categories)) for image in chosen]
            ),
            tuple(text for image in chosen for text in captions[image][:PER_IMAGE]),
            tuple(boxes[image] for image in chosen),
        )
        for name, chosen in splits.items()
    }


def read_coco_categories(folder: Path) -> tuple[str, ...]:
    """Return the names of the categories of things, from ``boxes/coco_name.txt``."""
    lines = read_text(folder / "boxes" / "coco_name.txt").splitlines()
    return tuple(line.strip() for line in lines if line.strip() not in ("", "background"))


def _read_coco_captions_and_sizes(
    path: Path,
) -> tuple[dict[str, list[str]], dict[str, tuple[int, int]]]:
    """Return the captions of each image by the name of its file, and its width and height."""
    try:
        content = json.loads(read_text(path))
        images = {image["id"]: image for image in content["images"]}
        sizes = {i["file_name"]: (int(i["width"]), int(i["height"])) for i in images.values()}
        captions: dict[str, list[str]] = {name: [] for name in sizes}
        for entry in sorted(content["annotations"], key=lambda entry: entry["id"]):
            # in small letters, words and numbers with spaces between them
            words = re.findall(r"[a-z0-9]+(?:'[a-z]+)?", entry["caption"].lower())
            captions[images[entry["image_id"]]["file_name"]].append(" ".join(words))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(
            f"{path} is damaged, or no file of COCO captions: {error!r}"
        ) from error
    return captions, sizes


def _read_boxes_by_image(
    path: Path,
    image_sizes: Mapping[str, tuple[int, int]],
    num_categories: int,
) -> dict[str, CategoriesAndBoxes]:
    """Return the boxes of each image that has any: lines of a name, and five numbers a box."""
    boxes = {}
    for number, line in enumerate(read_text(path).splitlines(), start=1):
        name, *numbers = line.split() or [""]
        if not numbers:
            continue
        rows = None
        if len(numbers) % 5 == 0 and all(map(str.isdecimal, numbers)) and name in image_sizes:
            rows = np.array(numbers, int).reshape(-1, 5)
        if rows is None or not ((rows[:, 4] >= 1) & (rows[:, 4] <= num_categories)).all():
            raise ValueError(
                f"{path}, line {number}: expected the name of an image with captions and, for "
                f"each box, five whole numbers, the last a category from 1 to "
                f"{num_categories}, "
                f"found {line[:60]!r}."
            )
        corners = rows[:, [1, 0, 3, 2]] / np.array(image_sizes[name] * 2)
        boxes[name] = CategoriesAndBoxes(rows[:, 4] - 1, corners)
    return boxes


# Scenes of two or three things, and captions whose truth is known.
#
# A caption names one thing or two, each by its shape and perhaps its colour and size, or by a
# more general word, and may say how they are placed. So captions are ordered: "a red heart left
# of a square" says more than "a heart and a square", which says more than "a curve".

CURVES, POLYGONS = ("circle", "ring", "heart"), ("triangle", "square", "star")
SHAPES = dict.fromkeys(CURVES, "curve") | dict.fromkeys(POLYGONS, "polygon")
"""The shapes, each with the more general word for it; "thing" is the word for all."""
WARM, COOL = ("red", "pink", "yellow"), ("green", "blue", "purple")
COLOURS = dict.fromkeys(WARM, "warm") | dict.fromkeys(COOL, "cool")
SIZES = {"small": (0.12, 0.18), "large": (0.24, 0.3)}
"""The least and the greatest side of a thing, as fractions of the image's."""
LARGE = 0.2  # the side above which a thing is large
RELATIONS = {"left of": (0, -1), "right of": (0, 1), "above": (1, -1), "below": (1, 1)}
"""The axis along which two things are compared, and the sign of the difference."""
OPPOSITE = {"left of": "right of", "right of": "left of", "above": "below", "below": "above"}
DISTANCE = 0.2  # the distance along the axis above which a relation holds
CATEGORIES = tuple(f"{colour} {shape}" for colour in COLOURS for shape in SHAPES)
SCENE_SIZES = {"train": 4000, "valid": 300, "test": 500}


@dataclass(frozen=True)
class NounPhrase:
    """The name of a thing in a caption: "a small red heart", "a warm thing"; "" is unsaid."""

    shape: str = "thing"
    colour: str = ""
    size: str = ""

    def __str__(self) -> str:
        return " ".join(filter(None, ["a", self.size, self.colour, self.shape]))

    def is_same_or_more_general_than(self, other: "NounPhrase") -> bool:
        """Return True if every thing that ``other`` names may also be named by this."""
        return (
            self.shape in ("thing", other.shape, SHAPES.get(other.shape))
            and self.colour in ("", other.colour, COLOURS.get(other.colour))
            and self.size in ("", other.size)
        )

    def one_step_generalizations(self) -> Iterator["NounPhrase"]:
        """Yield the nouns that are one step more general."""
        if self.shape != "thing":
            yield replace(self, shape=SHAPES.get(self.shape, "thing"))
        if self.colour:
            yield replace(self, colour=COLOURS.get(self.colour, ""))
        if self.size:
            yield replace(self, size="")


@dataclass(frozen=True)
class CaptionMeaning:
    """The meaning of a caption: one or two nouns, and their relation, or "" for none."""

    nouns: tuple[NounPhrase, ...]
    relation: str = ""

    def __str__(self) -> str:
        return f" {self.relation or 'and'} ".join(map(str, self.nouns))

    def entails(self, other: "CaptionMeaning") -> bool:
        """Return True if ``other`` is true of every scene that this is true of."""
        if len(other.nouns) > len(self.nouns):
            return False
        for chosen in permutations(range(len(self.nouns)), len(other.nouns)):
            # "a left of b" is "b right of a"
            turned = chosen[0] > chosen[-1]
            relation = OPPOSITE.get(self.relation, "") if turned else self.relation
            nouns = [self.nouns[index] for index in chosen]
            if other.relation in ("", relation) and all(
                wider.is_same_or_more_general_than(noun)
                for wider, noun in zip(other.nouns, nouns, strict=True)
            ):
                return True
        return False

    def one_step_generalizations(self) -> Iterator["CaptionMeaning"]:
        """Yield the meanings that are one step more general."""
        if self.relation:
            yield replace(self, relation="")
        elif len(self.nouns) > 1:
            yield from (CaptionMeaning((noun,)) for noun in self.nouns)
        for index, noun in enumerate(self.nouns):
            for wider in noun.one_step_generalizations():
                nouns = (*self.nouns[:index], wider, *self.nouns[index + 1 :])
                yield replace(self, nouns=nouns)


def parse_caption(caption: str) -> CaptionMeaning:
    """Return the meaning of a caption such as "a small red heart left of a square"."""
    words = [word for word in caption.lower().split() if word not in ("a", "an", "of")]
    relations = {relation.removesuffix(" of"): relation for relation in RELATIONS}
    cuts = [index for index, word in enumerate(words) if word in (*relations, "and")]
    if len(cuts) > 1:
        raise ValueError(f"{caption!r} names more than two things: name one or two.")
    nouns = [words[: cuts[0]], words[cuts[0] + 1 :]] if cuts else [words]
    relation = relations.get(words[cuts[0]], "") if cuts else ""
    return CaptionMeaning(tuple(_parse_noun(noun, caption) for noun in nouns), relation)


def _parse_noun(noun_words: list[str], caption: str) -> NounPhrase:
    colours = (*COLOURS, *dict.fromkeys(COLOURS.values()))
    shapes = ("thing", *dict.fromkeys(SHAPES.values()), *SHAPES)
    noun = {}
    for field, known in (("size", tuple(SIZES)), ("colour", colours), ("shape", shapes)):
        if noun_words and noun_words[0] in known:
            noun[field], *noun_words = noun_words
    if noun_words or "shape" not in noun:
        raise ValueError(
            f"{caption!r} is not understood: say it like 'a small red heart left of a square', "
            f"each thing by its size ({', '.join(SIZES)}) or none, its colour "
            f"({', '.join(colours)}) or none, and one of {', '.join(shapes)}; between two "
            f"{', '.join(RELATIONS)} or and."
        )
    return NounPhrase(**noun)


def most_specific_nouns(scene: CategoriesAndBoxes) -> list[NounPhrase]:
    """Return the most special noun of each thing of a scene."""
    nouns = []
    for category, (left, top, right, bottom) in zip(
        scene.categories, scene.left_top_right_bottom, strict=True
    ):
        colour, shape = CATEGORIES[category].split()
        size = "large" if max(right - left, bottom - top) > LARGE else "small"
        nouns.append(NounPhrase(shape, colour, size))
    return nouns


def is_true_of_scene(meaning: CaptionMeaning, scene: CategoriesAndBoxes) -> bool:
    """Return True if some things of a scene are what a meaning says of them."""
    full, centres = most_specific_nouns(scene), scene.centres
    for chosen in permutations(range(len(full)), len(meaning.nouns)):
        pairs = zip(meaning.nouns, chosen, strict=True)
        if not all(noun.is_same_or_more_general_than(full[index]) for noun, index in pairs):
            continue
        if not meaning.relation:
            return True
        axis, sign = RELATIONS[meaning.relation]
        if sign * (centres[chosen[0]] - centres[chosen[1]])[axis] > DISTANCE:
            return True
    return False


@cache  # once in a process: arms of a comparison have the same
def generate_captioned_scenes(
    max_train: int | None, scenes_per_split: tuple[tuple[str, int], ...]
) -> Splits:
    """Generate scenes and five captions of each; of training scenes at most ``max_train``."""
    splits = {}
    for split, count in scenes_per_split:
        rng = random.Random(f"scenes to {split}")
        if max_train is not None and split == "train":
            count = min(count, max_train)
        scenes = [random_scene(rng) for _ in range(count)]
        captions = [
            random_true_caption(rng, scene, k) for scene in scenes for k in range(PER_IMAGE)
        ]
        splits[split] = CaptionedImages(
            tuple(f"scene {index}" for index in range(count)),
            np.stack([image_features_from_boxes(scene, len(CATEGORIES)) for scene in scenes]),
            tuple(map(str, captions)),
            tuple(scenes),
        )
    return splits


def random_scene(rng: random.Random) -> CategoriesAndBoxes:
    """Draw a scene of two or three things, each in a cell of its own of a 3 x 3 grid."""
    count = rng.choice([2, 3])
    categories = [rng.randrange(len(CATEGORIES)) for _ in range(count)]
    corners = []
    for cell in rng.sample(range(9), count):
        side = rng.uniform(*SIZES[rng.choice([*SIZES])])
        x, y = ((at + 0.5 + rng.uniform(-0.04, 0.04)) / 3 for at in (cell % 3, cell // 3))
        corners.append([x - side / 2, y - side / 2, x + side / 2, y + side / 2])
    return CategoriesAndBoxes(np.array(categories), np.array(corners))


def random_true_caption(
    rng: random.Random, scene: CategoriesAndBoxes, mean_generalizations: int
) -> CaptionMeaning:
    """Draw a true caption, made more general up to twice ``mean_generalizations`` times."""
    first, second = rng.sample(range(len(scene.categories)), 2)
    offset = scene.centres[first] - scene.centres[second]
    relations = [
        name for name, (axis, sign) in RELATIONS.items() if sign * offset[axis] > DISTANCE
    ]
    nouns = most_specific_nouns(scene)
    relation = rng.choice(relations) if relations else ""
    meaning = CaptionMeaning((nouns[first], nouns[second]), relation)
    for _ in range(rng.randrange(2 * mean_generalizations + 1)):
        meaning = rng.choice([*meaning.one_step_generalizations()] or [meaning])
    return meaning


# The data set.

HYPERNYMS = {
    "an animal": "bird cat dog horse sheep cow elephant bear zebra giraffe",
    "a vehicle": "bicycle car motorcycle airplane bus train truck boat",
    "food": "banana apple sandwich orange broccoli carrot pizza donut cake",
    "furniture": "chair couch bed table",
    "a person": "man woman boy girl child",
}
"""More general words, each with special ones: most of them are COCO's groups."""
ENTAILING = 100  # captions of scenes from which pairs are made


class Captions(Dataset[CaptionedImages]):
    """A set of images with captions; ``categories`` are those of things in boxes."""

    def __init__(
        self,
        source: Source,
        read: Callable[[], Splits],
        key: Callable[[], str],
        categories: tuple[str, ...] = (),
    ) -> None:
        super().__init__(source, lambda: (read(), ""), key)
        self.categories = categories

    @property
    def feature_size(self) -> int:
        """D, the number of features of an image."""
        return self.train.features.shape[1]

    @cached_property
    def vocabulary(self) -> Vocabulary:
        """The words of the training and validation captions, as the authors have it."""
        assert self.valid is not None  # every source of captions has them
        captions = (*self.train.captions_in_image_order, *self.valid.captions_in_image_order)
        return Vocabulary(frequent_words(Counter(" ".join(captions).split())))

    @cached_property
    def entailing_and_entailed_captions(self) -> tuple[tuple[str, str], ...]:
        """Pairs of captions of which the second is true wherever the first is.

        Of scenes the first test captions with their generalizations, of photographs nouns and
        their hypernyms. All words are in the vocabulary.
        """
        if self.source is SCENES:
            meanings = map(parse_caption, self.test.captions_in_image_order[:ENTAILING])
            pairs = [
                (str(m), str(wider)) for m in meanings for wider in m.one_step_generalizations()
            ]
        else:
            groups = HYPERNYMS.items()
            pairs = [(f"a {word}", wider) for wider, words in groups for word in words.split()]
        known = {*self.vocabulary.words}
        return tuple(
            pair for pair in dict.fromkeys(pairs) if known >= {*" ".join(pair).split()}
        )

    def truth_per_test_image_if_generated(self, caption: str) -> np.ndarray | None:
        """Return where a caption is true of a test image (N,); None if unknown."""
        if self.source is not SCENES:
            return None
        meaning = parse_caption(caption)
        return np.array([is_true_of_scene(meaning, scene) for scene in self.test.boxes])

    def _digest(self) -> bytes:
        total = hashlib.sha256()
        for split, images in self._splits.items():
            features = images.features
            total.update(f"{split} {features.dtype} {features.shape}\n".encode())
            for text in (*images.image_names, *images.captions_in_image_order):
                total.update(text.encode() + b"\n")
            for start in range(0, len(images), CHUNK):
                total.update(np.ascontiguousarray(features[start : start + CHUNK]).data)
        return total.digest()

    def __str__(self) -> str:
        counts = ", ".join(f"{len(split)} {name}" for name, split in self._splits.items())
        return (
            f"{self.kind} data: {self.name}, images: {counts}, {PER_IMAGE} captions each; "
            f"{len(self.vocabulary)} words; an image is {self.feature_size} numbers"
        )


def load(
    source: Source, path: Path | None = None, *, split: int = 0, max_train: int | None = None
) -> Captions:
    """Return the images and captions of a source; the options are those of ``sources.toml``."""
    if source is SCENES:
        read = partial(generate_captioned_scenes, max_train, tuple(SCENE_SIZES.items()))
        return Captions(source, read, lambda: f"{max_train} {SCENE_SIZES}", CATEGORIES)
    folder = path or data_folder() / source.name
    files = require_files(source, folder, FILES[source.name])

    def cache_key() -> str:
        return f"{split} {hash_file_stats(files)}"

    if source is COCO:
        return Captions(source, lambda: read_coco_with_stored_features(folder), cache_key)
    categories = read_coco_categories(folder)
    return Captions(
        source, lambda: read_coco_with_box_features(folder, split), cache_key, categories
    )
