"""Questions made here: who did what to whom, told once and asked in other words.

Four people do four things in a ring, each to the next, so that everybody is named twice, once
as the one who acts and once as the other. What is asked is one of the four deeds by another
word for it: to answer one must find the deed, and see who plays which part in it; how often
and where somebody is named tells nothing. People are entities whose numbers are drawn anew
for every question.
"""

import random
from collections.abc import Mapping

from lnlab.data.question import BLANK, Question

DEEDS = {
    "praised": "acclaimed", "blamed": "accused", "chased": "pursued", "taught": "instructed",
    "helped": "assisted", "met": "encountered", "painted": "portrayed", "warned": "alerted",
    "hired": "employed", "freed": "released",
}  # fmt: skip
"""The things that are told, each with the word by which it is asked for."""
TIMES = ("today", "yesterday", "again", "at noon", "in may", "last week")
PEOPLE = 16
"""Entities among which four are drawn."""
TOLD = 4
PASSIVE = 0.25
"""The part of deeds that are told, or asked, in the passive voice."""
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
    """One question about four deeds."""
    people = [f"@entity{number}" for number in chance.sample(range(PEOPLE), TOLD)]
    deeds = chance.sample([*DEEDS], TOLD)
    ring = [*zip(deeds, people, [*people[1:], people[0]], strict=True)]
    asked, who, whom = chance.choice(ring)
    chance.shuffle(ring)
    by_whom = chance.random() < 0.5
    parts = (BLANK, "somebody") if by_whom else ("somebody", BLANK)
    return Question(
        name,
        tuple(f"{said(chance, *deed)} {chance.choice(TIMES)} ." for deed in ring),
        f"{said(chance, DEEDS[asked], *parts)} .",
        tuple(sorted(people, key=lambda one: int(one.removeprefix("@entity")))),
        who if by_whom else whom,
    )


def said(chance: random.Random, deed: str, who: str, whom: str) -> str:
    """A deed in words, in one of two voices."""
    if chance.random() < PASSIVE:
        return f"{whom} was {deed} by {who}"
    return f"{who} {deed} {whom}"
