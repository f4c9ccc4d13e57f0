"""Scenes of two or three things, and captions of which it is known what they are true of.

A caption names one thing or two, each by its shape and, if it likes, by its colour and size, or
by a more general word, and may say how they stand to each other. So captions are ordered: "a
red heart left of a square" says more than "a heart and a square", which says more than "a
curve"; and of every scene it can be decided whether a caption is true of it.
"""

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import permutations
from typing import Any

import numpy as np

from lnlab.data.boxes import Boxes

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
CAPTIONS = 5
PARTS = {"train": 4000, "valid": 300, "test": 500}


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
                for place in range(CAPTIONS)
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
