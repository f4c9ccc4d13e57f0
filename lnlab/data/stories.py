"""Books made here: short stories in which what comes next follows from who did what to whom.

A story has two people, a subject with its things, and a mood, which stay. What is told has
consequences that its words alone do not give: who got the thing now has it, what was done
second was the last thing, what was not said was true.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from random import Random
from typing import NamedTuple

from lnlab.data.text import CHARACTERS

SUBJECTS = {
    "garden": {"rose": "watered cut", "fence": "painted mended", "apple": "picked ate"},
    "harbour": {"boat": "painted rowed", "net": "mended threw", "fish": "caught ate"},
    "kitchen": {"cake": "baked ate", "soup": "cooked spilled", "plate": "washed broke"},
    "school": {"book": "read lost", "map": "drew lost", "song": "learned sang"},
    "market": {"lamp": "bought broke", "clock": "mended sold", "coat": "bought washed"},
    "farm": {"horse": "fed rode", "cow": "fed milked", "cart": "mended pulled"},
    "forest": {"fox": "chased fed", "fire": "lit watched", "path": "found lost"},
    "station": {"train": "missed caught", "letter": "read burned", "bag": "carried lost"},
}
"""The places of stories, the things there, and what can be done with each."""
FORMS = {
    past: (base, participle)
    for past, base, participle in (
        line.split()
        for line in (
            "watered water watered", "cut cut cut", "painted paint painted",
            "mended mend mended", "picked pick picked", "ate eat eaten", "rowed row rowed",
            "threw throw thrown", "caught catch caught", "baked bake baked",
            "cooked cook cooked", "spilled spill spilled", "washed wash washed",
            "broke break broken", "read read read", "lost lose lost", "drew draw drawn",
            "learned learn learned", "sang sing sung", "bought buy bought", "sold sell sold",
            "fed feed fed", "rode ride ridden", "milked milk milked", "pulled pull pulled",
            "chased chase chased", "lit light lit", "watched watch watched",
            "found find found", "missed miss missed", "burned burn burned",
            "carried carry carried", "helped help helped", "pushed push pushed",
            "praised praise praised", "followed follow followed",
        )
    )
}  # fmt: skip
"""The base and the participle of every verb in the past."""
TOWARDS = {
    "helped": "thanked", "pushed": "shouted at", "praised": "smiled at",
    "followed": "looked back at",
}  # fmt: skip
"""Deeds of one person towards another, and the answer of the other."""
GOOD = ("good", "fine", "lovely", "bright", "great")
BAD = ("bad", "poor", "dull", "ugly", "weak")
GLAD, SAD = ("glad", "happy", "proud"), ("sad", "tired", "angry")
TIMES = ("one day", "in may", "last week", "on friday", "long ago")
SECTIONS = (2, 4)
"""The least and the greatest number of things told in a story."""


@dataclass(frozen=True)
class Deed:
    """A deed of somebody: with a thing, or to another, or gave the thing to another."""

    who: str
    verb: str
    thing: str = ""
    whom: str = ""

    @property
    def ways(self) -> tuple[str, ...]:
        """Sentences that mean it."""
        if self.verb == "gave":
            return (
                f"{self.who} gave {self.whom} the {self.thing}",
                f"{self.who} gave the {self.thing} to {self.whom}",
                f"{self.whom} got the {self.thing} from {self.who}",
            )
        done = FORMS[self.verb][1]
        if self.whom:
            return (
                f"{self.who} {self.verb} {self.whom}",
                f"{self.whom} was {done} by {self.who}",
            )
        return (
            f"{self.who} {self.verb} the {self.thing}",
            f"the {self.thing} was {done} by {self.who}",
        )

    @property
    def follows(self) -> str:
        """A consequence."""
        if self.verb == "gave":
            return f"now {self.whom} had the {self.thing} and {self.who} had nothing"
        if self.whom:
            return f"{self.whom} {TOWARDS[self.verb]} {self.who}"
        return f"so {self.who} was busy with the {self.thing}"

    @property
    def turned(self) -> "Deed":
        """The two people exchanged; a deed with a thing alone stays."""
        return replace(self, who=self.whom, whom=self.who) if self.whom else self


class Cast(NamedTuple):
    """The part of a story that stays."""

    subject: str
    hero: str
    friend: str
    glad: bool


def drawn(random: Random) -> Cast:
    """A cast by chance; the two people have different names."""
    hero, friend = random.sample([name for names in CHARACTERS.values() for name in names], 2)
    return Cast(random.choice([*SUBJECTS]), hero, friend, random.random() < 0.5)


def deed(random: Random, cast: Cast) -> Deed:
    """Something that one of the two does."""
    who, whom = random.sample([cast.hero, cast.friend], 2)
    thing = random.choice([*SUBJECTS[cast.subject]])
    kind = random.randrange(4)
    if kind == 0:
        return Deed(who, "gave", thing, whom)
    if kind == 1:
        return Deed(who, random.choice([*TOWARDS]), whom=whom)
    return Deed(who, random.choice(SUBJECTS[cast.subject][thing].split()), thing)


def opinion(random: Random, thing: str, other: str, good: bool) -> str:
    """A sentence that finds a thing good, or bad; its words alone do not say which."""
    word, contrary = random.choice(GOOD), random.choice(BAD)
    if not good:
        word, contrary = contrary, word
    return random.choice(
        (
            f"the {thing} was {word}",
            f"the {thing} was really {word}",
            f"the {thing} was not {contrary}",
            f"although the {other} was {contrary} , the {thing} was {word}",
            f"the {thing} was {word} , although the {other} was {contrary}",
        )
    )


def story(random: Random, cast: Cast) -> list[str]:
    """The sentences of a story."""
    subject, hero, friend, glad = cast
    told = [f"{random.choice(TIMES)} {hero} met {friend} at the {subject} ."]
    for _ in range(random.randint(*SECTIONS)):
        told += [f"{line} ." for line in random.choice(PLOTS)(random, cast)]
    mood = random.choice(GLAD if glad else SAD)
    told.append(f"{hero} and {friend} went home and were {mood} .")
    return told


def _done(random: Random, cast: Cast) -> Iterable[str]:
    """A deed, and what follows from it."""
    one = deed(random, cast)
    yield random.choice(one.ways)
    yield one.follows
    yield f"{one.whom or one.who} was {random.choice(GLAD if cast.glad else SAD)}"


def _in_turn(random: Random, cast: Cast) -> Iterable[str]:
    """Two deeds one after the other, and which was the last."""
    first, second = deeds(random, cast)
    yield random.choice(in_turn(first, second))
    yield f"{first.who} began with the {first.thing}"
    yield f"the last thing was the {second.thing}"


def _denied(random: Random, cast: Cast) -> Iterable[str]:
    """Words that were not said, or deny a deed; and who knows of it."""
    one, teller = deeds(random, cast)[0], random.choice((cast.hero, cast.friend))
    if random.random() < 0.5:
        yield random.choice(silent(teller, one))
        yield f"nobody heard of the {one.thing} , but it was true"
    else:
        yield random.choice(denies(teller, one))
        yield f"everybody heard of the {one.thing} , and nothing had happened"


def _valued(random: Random, cast: Cast) -> Iterable[str]:
    """An opinion about a thing, and a feeling that follows."""
    thing, other = random.sample([*SUBJECTS[cast.subject]], 2)
    yield opinion(random, thing, other, cast.glad)
    liked = "liked" if cast.glad else "hated"
    yield f"{cast.hero} {liked} the {thing}"


def _feared(random: Random, cast: Cast) -> Iterable[str]:
    """A feeling of the teller of the story, or of one of its people."""
    one, teller = deed(random, cast), random.choice((cast.hero, cast.friend))
    adverb = "luckily" if cast.glad else "sadly"
    mood = random.choice(GLAD if cast.glad else SAD)
    if random.random() < 0.5:
        yield f"{adverb} , {teller} knew that {random.choice(one.ways)}"
        yield f"i was {mood} about it"
    else:
        yield f"{teller} knew that {adverb} , {random.choice(one.ways)}"
        yield f"{teller} was {mood} about it"


PLOTS = (_done, _done, _in_turn, _denied, _valued, _feared)


def deeds(random: Random, cast: Cast) -> tuple[Deed, Deed]:
    """Two things that one of the two does, with two things."""
    who = random.choice((cast.hero, cast.friend))
    things = SUBJECTS[cast.subject]
    one, other = random.sample([*things], 2)
    return (
        Deed(who, random.choice(things[one].split()), one),
        Deed(who, random.choice(things[other].split()), other),
    )


def in_turn(first: Deed, second: Deed) -> tuple[str, str]:
    """Two sentences that tell of two deeds of one person one after the other."""
    who, (one, other) = first.who, (f"the {deed.thing}" for deed in (first, second))
    return (
        f"{who} {first.verb} {one} before {other} was {FORMS[second.verb][1]}",
        f"{who} {second.verb} {other} after {one} was {FORMS[first.verb][1]}",
    )


def silent(teller: str, one: Deed) -> tuple[str, str]:
    """Two sentences that tell that somebody did not say what another did."""
    done = f"that {one.who} did {FORMS[one.verb][0]} the {one.thing}"
    return f"{teller} did not say {done}", f"{done} , {teller} did not say"


def denies(teller: str, one: Deed) -> tuple[str, str]:
    """Two sentences, of the same words, that tell that somebody said that it was not done."""
    denied = f"that {one.who} did not {FORMS[one.verb][0]} the {one.thing}"
    return f"{teller} did say {denied}", f"{denied} , {teller} did say"


def books(count: int, seed: int) -> list[list[list[str]]]:
    """So many stories, of sentences, of words; more of them begin with fewer."""
    random = Random(f"stories {seed}")
    return [[line.split() for line in story(random, drawn(random))] for _ in range(count)]
