"""Pictures with captions: scenes made here, COCO in two layouts.

A picture is a vector that is given, never pixels: outputs of a net, or what stands in it and
where (:mod:`lnlab.data.boxes`).
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cache, cached_property, partial
from pathlib import Path

import numpy as np

from lnlab.data import captioned, scenes
from lnlab.data.boxes import vector
from lnlab.data.cache import code, stamp
from lnlab.data.captioned import Pictures
from lnlab.data.dataset import Dataset
from lnlab.data.source import Source, data_folder
from lnlab.data.vocabulary import Vocabulary

SCENES = Source(
    name="scenes",
    title="Scenes of two or three things, captions whose truth is known",
    kind="synthetic",
    licence="made on this machine",
    citation="lnlab.data.scenes",
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
        *(f"{split}.txt" for split in captioned.SPLITS),
        *(f"images/10crop/{split}.npy" for split in captioned.SPLITS),
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
        self._galleries: dict[str, scenes.Gallery] = {}

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
            said = [scenes.parsed(text) for text in self.test.captions[:TAKEN]]
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
            self._galleries[split] = scenes.Gallery(getattr(self, split).boxes)
        return np.stack([self._galleries[split].true(scenes.parsed(c)) for c in captions])

    def _digest(self) -> bytes:
        return captioned.digest(self._parts[0])

    def __str__(self) -> str:
        counts = ", ".join(f"{len(part)} {split}" for split, part in self._parts[0].items())
        return (
            f"{self.kind} data: {self.name}, pictures: {counts}, {captioned.CAPTIONS} captions "
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
    written = code(*Path(__file__).parent.glob("*.py"))
    if source is SCENES:
        if place is not None:
            raise ValueError(f"{source.name}={place}: it is made here, give no path.")
        made = partial(_made, most)
        return Captions(source, made, lambda: f"{most} {written}", lambda: scenes.KINDS)
    place = place or data_folder() / source.name
    files = [place / name for name in FILES[source.name]]
    missing = [path for path in files if not path.is_file()]
    if missing:
        raise FileNotFoundError(
            f"{source.name} is not whole in {place}, {missing[0]} is not there: its files are "
            f"{', '.join(FILES[source.name])} ({source.citation}). Name their folder, "
            f"{source.name}=PATH."
        )
    read = {
        "coco": lambda: captioned.coco(place),
        "coco-boxes": lambda: captioned.coco_boxes(place, split),
    }[source.name]
    names = (lambda: captioned.kinds(place)) if source is COCO_BOXES else tuple
    return Captions(source, read, lambda: f"{split} {stamp(files)} {written}", names)


def _made(most: int | None) -> dict[str, Pictures]:
    return _scenes(most, tuple(scenes.PARTS.items()))


@cache
def _scenes(most: int | None, parts: tuple[tuple[str, int], ...]) -> dict[str, Pictures]:
    """The scenes, made once in a process: arms of a comparison have the same."""
    return {
        split: Pictures(
            tuple(f"scene {place}" for place in range(len(there))),
            np.stack([vector(boxes, len(scenes.KINDS)) for boxes in there]),
            tuple(said),
            tuple(there),
        )
        for split, (there, said) in scenes.corpus(most, dict(parts)).items()
    }
