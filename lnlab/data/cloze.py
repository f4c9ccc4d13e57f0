"""Questions made here: who did what to whom, told once and asked in other words.

Of three people one does something to the second, the third does something to the first, and
the second and the third have to do with each other, one way or the other: everybody is named
twice. Asked is to whom the first did it, by another word for what was done. Who is asked about
is not the answer, and so two candidates are left: to choose between them one must find the
sentence in which that person acts; how often, where and next to whom somebody is named tells
nothing. People are entities whose numbers are drawn anew for every question.
"""

import random
from collections.abc import Mapping

from lnlab.data.question import BLANK, Question

DEEDS = {
    "praised": "acclaimed", "blamed": "accused", "chased": "pursued", "taught": "instructed",
    "helped": "assisted", "met": "encountered",
}  # fmt: skip
"""Words that tell, and the word by which each is asked."""
TIMES = ("today", "yesterday", "at noon", "in may", "last week")
TIMED = 0.3
"""The part of deeds that are told with their time: passages have different lengths."""
PEOPLE = 8
"""Entities among which three are drawn."""
TOLD = 3
PARTS = {"train": 24_000, "valid": 1000, "test": 1000}


def corpus(most: int | None, parts: Mapping[str, int]) -> dict[str, tuple[Question, ...]]:
    """Questions of every split.

    Args:
        most: how many there are to train on at most.
        parts: how many there are to train, validate and test.
    """
    found = {}
    for split, count in parts.items():
        chance = random.Random(f"cloze to {split}")
        if most is not None and split == "train":
            count = min(count, most)
        found[split] = tuple(question(chance, f"{split} {place}") for place in range(count))
    return found


def question(chance: random.Random, name: str) -> Question:
    """One question about three deeds."""
    people = [f"@entity{number}" for number in chance.sample(range(PEOPLE), TOLD)]
    who, whom, third = people
    deed, *others = chance.sample([*DEEDS], TOLD)
    pairs = [(who, whom), (third, who), tuple(chance.sample([whom, third], 2))]
    told = [
        f"{one} {done} {other} {_time(chance)}."
        for (one, other), done in zip(pairs, [deed, *others], strict=True)
    ]
    chance.shuffle(told)
    asked = f"{who} {DEEDS[deed]} {BLANK} ."
    return Question(name, tuple(told), asked, tuple(sorted(people)), whom)


def _time(chance: random.Random) -> str:
    return f"{chance.choice(TIMES)} " if chance.random() < TIMED else ""
