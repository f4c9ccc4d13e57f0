"""Judges made here, of sentences in the grammar of the stories: words alone do not decide them.

Many cases are turned: who did it to whom, what came first, what a negation denies, who feels
something. The words of a sentence and of the turned one are the same, or nearly, and as like
those of a sentence that means the same.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from random import Random

import numpy as np

from lnlab.data import stories
from lnlab.data.judge import TEST, TRAIN, TRIAL, SentenceJudge, folds
from lnlab.data.stories import BAD, GLAD, GOOD, SAD, SUBJECTS, Cast

SCORES = {"same": 5.0, "near": 3.5, "turned": 2.5, "other": 2.0, "far": 1.0}
"""The relatedness of two sentences, by what was done to the second."""
CHANCES = {"same": 3, "near": 1, "turned": 3, "other": 1, "far": 2}
PAIRS = {TRAIN: 700, TRIAL: 200, TEST: 500}
CASES = 600
"""Sentences of a judge of single ones; half of each class."""
DENIED = 0.3
"""The part of phrases that deny their words."""
ALONE = 0.6
"""The part of customers of whom nobody else's mood is told."""
Said = tuple[str, str]


def judges() -> dict[str, SentenceJudge]:
    """All of them, always the same: a SICK, a SUBJ, an MR, an MPQA and a CR in small."""
    return {
        "relatedness": _related(),
        **{name: _classes(name, make) for name, make in MADE.items()},
    }


def _related() -> SentenceJudge:
    """Pairs: the second sentence says the same, or is turned, or has less to do with it."""
    random = Random("relatedness")
    relations = random.choices([*CHANCES], [*CHANCES.values()], k=sum(PAIRS.values()))
    said = [random.choice(FORMS)(random, relation) for relation in relations]
    first, second = ([pair[side].split() for pair in said] for side in (0, 1))
    return SentenceJudge(
        "relatedness",
        first,
        second,
        np.array([SCORES[relation] for relation in relations]),
        np.repeat([*PAIRS], [*PAIRS.values()]),
    )


def _classes(name: str, make: Callable[[Random, bool], str]) -> SentenceJudge:
    """Different sentences of both classes in turn."""
    random, found = Random(name), dict[str, bool]()
    while len(found) < CASES:
        found.setdefault(make(random, len(found) % 2 == 1), len(found) % 2 == 1)
    targets = np.array([*found.values()], np.float64)
    return SentenceJudge(
        name, [line.split() for line in found], [], targets, folds(name, CASES)
    )


# --- pairs -----------------------------------------------------------------------------------


def _roles(random: Random, relation: str) -> Said:
    """The roles in a deed."""
    cast = stories.drawn(random)
    one = next(deed for deed in _many(random, cast) if deed.whom)
    way, other = random.sample(range(len(one.ways)), 2)
    if relation in ("same", "turned"):
        return one.ways[way], (one if relation == "same" else one.turned).ways[other]
    if relation == "near" and one.thing:
        things = [thing for thing in SUBJECTS[cast.subject] if thing != one.thing]
        return one.ways[way], replace(one, thing=random.choice(things)).ways[way]
    if relation == "near":
        verbs = [verb for verb in stories.TOWARDS if verb != one.verb]
        return one.ways[way], replace(one, verb=random.choice(verbs)).ways[way]
    return one.ways[way], _else(random, cast, relation, one)


def _order(random: Random, relation: str) -> Said:
    """The order of two deeds."""
    cast = stories.drawn(random)
    first, second = stories.deeds(random, cast)
    way = random.randrange(2)
    said = stories.in_turn(first, second)[way]
    if relation == "same":
        return said, stories.in_turn(first, second)[1 - way]
    if relation == "turned":
        return said, random.choice(stories.in_turn(second, first))
    if relation == "near":
        return said, random.choice(first.ways)
    return said, _else(random, cast, relation, first, second)


def _scope(random: Random, relation: str) -> Said:
    """The scope of a negation: it denies that it was said, or that it was done."""
    cast = stories.drawn(random)
    one, teller = stories.deeds(random, cast)[0], random.choice((cast.hero, cast.friend))
    told = [stories.silent(teller, one), stories.denies(teller, one)]
    random.shuffle(told)
    way = random.randrange(2)
    if relation in ("same", "turned"):
        return told[0][way], told[relation == "turned"][1 - way]
    if relation == "near":
        return told[0][way], random.choice(one.ways)
    return told[0][way], _else(random, cast, relation, one)


FORMS = (_roles, _order, _scope)


def _many(random: Random, cast: Cast) -> Iterator[stories.Deed]:
    while True:
        yield stories.deed(random, cast)


def _else(random: Random, cast: Cast, relation: str, *not_these: stories.Deed) -> str:
    """Another deed: of the same people there, or of others elsewhere."""
    if relation == "far":
        return random.choice(next(_many(random, _away(random, cast))).ways)
    return random.choice(
        next(
            deed
            for deed in _many(random, cast)
            if all(deed.verb != one.verb and deed.thing != one.thing for one in not_these)
        ).ways
    )


def _away(random: Random, cast: Cast) -> Cast:
    """A cast of which nothing is the same."""
    while True:
        other = stories.drawn(random)
        if other.subject != cast.subject and not {*other[1:3]} & {*cast[1:3]}:
            return other


# --- single sentences ------------------------------------------------------------------------


def _teller(random: Random, subjective: bool) -> str:
    """Subjective if the teller of the story feels or finds it; else somebody else does."""
    cast = stories.drawn(random)
    somebody = random.choice((cast.hero, cast.friend))
    told = random.choice(stories.deed(random, cast).ways)
    adverb = random.choice(("luckily", "sadly"))
    if random.random() < 0.75:
        if subjective:
            return f"{adverb} , {somebody} knew that {told}"
        return f"{somebody} knew that {adverb} , {told}"
    found = f"the {random.choice([*SUBJECTS[cast.subject]])} was {random.choice(GOOD + BAD)}"
    return found if subjective else random.choice((f"{somebody} knew that {found}", told))


def _opinion(random: Random, good: bool) -> str:
    """Good if the thing that it is about is found good."""
    thing, other = random.sample([*SUBJECTS[random.choice([*SUBJECTS])]], 2)
    return stories.opinion(random, thing, other, good)


def _phrase(random: Random, good: bool) -> str:
    """A few words that praise or blame, by themselves or by denying the contrary."""
    thing = random.choice([*SUBJECTS[random.choice([*SUBJECTS])]])
    denied = random.random() < DENIED
    word = random.choice(GOOD if good != denied else BAD)
    mood = random.choice(GLAD if good != denied else SAD)
    before = "not " * denied, random.choice(("", "really "))
    return random.choice(
        (
            "{}a {}{} {}".format(*before, word, thing),
            "was {}{}{} about the {}".format(*before, mood, thing),
        )
    )


def _customer(random: Random, content: bool) -> str:
    """Good if who got a thing is content, whatever who gave it feels."""
    cast = stories.drawn(random)
    giver, customer = random.sample([cast.hero, cast.friend], 2)
    thing = random.choice([*SUBJECTS[cast.subject]])
    got = random.choice(stories.Deed(giver, "gave", thing, customer).ways)
    own, contrary = (GLAD, SAD) if content else (SAD, GLAD)
    liked = "liked" if content else "hated"
    if random.random() < ALONE:
        return random.choice(
            (
                f"{got} , {customer} was {random.choice(own)} about it",
                f"{got} , {customer} {liked} it",
            )
        )
    moods = [
        f"{customer} was {random.choice(own)}",
        f"{giver} was {random.choice(contrary)}",
    ]
    random.shuffle(moods)
    return " , ".join((got, *moods))


MADE = {"teller": _teller, "opinion": _opinion, "phrase": _phrase, "customer": _customer}
"""Judges of single sentences, and what makes them."""
