"""Reviews made here: what somebody thinks of a film, in sentences whose sense is known.

A review praises and blames parts of a film, each of which counts so much, and says things that
count for nothing. Words alone do not give its class away: "not dull" praises, "i expected the
music to be fine but it was dull" blames, of "although the music is fine, the story is dull" the
second half alone counts, and a friend's opinion counts if one agrees, and the other way round
if one does not. The class is the sign of the sum.
"""

from random import Random

PARTS = {
    "story": 3, "acting": 2, "ending": 2, "dialogue": 2, "cast": 2, "music": 1, "camera": 1,
    "humour": 1, "setting": 1, "pace": 1,
}  # fmt: skip
"""The parts of a film, and how much each counts."""
PRAISE = ("good", "great", "fine", "moving", "clever", "charming", "lovely", "brilliant")
BLAME = ("bad", "poor", "dull", "clumsy", "awful", "boring", "weak", "silly")
DEGREES = ("", "", "really ", "quite ", "rather ", "truly ")
FRIENDS = ("my brother", "a friend", "my aunt", "everyone", "the critic", "my neighbour")
PLACES = ("prague", "a small town", "the desert", "winter", "an old hotel", "the harbour")
FACTS = (
    "it was shot in {place}", "it lasts {n} minutes", "i saw it on a {day}",
    "it has {n} scenes in {place}", "we were {n} in the room",
    "it is the director's {nth} film",
)  # fmt: skip
DAYS = ("monday", "friday", "sunday", "rainy evening")
NTHS = ("first", "second", "third", "last")
SENTENCES = (4, 9)
"""The least and the greatest number of sentences, facts aside."""
FACT = 0.35
"""The chance of a fact behind each sentence."""


def reviews(count: int, seed: int) -> list[tuple[str, int]]:
    """So many reviews and their classes, 1 where they praise and 0 where they blame, in turn.

    More of them begin with fewer.
    """
    random = Random(f"opinions {seed}")
    return [(review(random, number % 2 == 1), number % 2) for number in range(count)]


def review(random: Random, praises: bool) -> str:
    """One review of the class that is wanted: others are thrown away."""
    while True:
        sentences, total = [], 0
        for _ in range(random.randint(*SENTENCES)):
            sentence, counts = said(random)
            sentences.append(sentence)
            total += counts
            if random.random() < FACT:
                sentences.append(fact(random))
        if total and (total > 0) == praises:
            return ". ".join(sentences) + "."


def said(random: Random) -> tuple[str, int]:
    """A sentence, and what it counts: above 0 it praises."""
    part, other = random.sample([*PARTS], 2)
    sign = random.choice((-1, 1))
    word, contrary = opinion(random, sign), opinion(random, -sign)
    weight = sign * PARTS[part]
    kind = random.randrange(6)
    if kind == 0:
        return f"the {part} is not {contrary}", weight
    if kind == 1:
        return f"i expected the {part} to be {contrary} but it was {word}", weight
    if kind == 2:
        return f"although the {other} is {contrary}, the {part} is {word}", weight
    if kind == 3:
        friend, agrees = random.choice(FRIENDS), random.random() < 0.5
        told = word if agrees else contrary
        mine = "and that is true" if agrees else "which is wrong"
        return f"{friend} says that the {part} is {told}, {mine}", weight
    return f"the {part} is {random.choice(DEGREES)}{word}", weight


def opinion(random: Random, sign: int) -> str:
    """A word of praise, or of blame."""
    return random.choice(PRAISE if sign > 0 else BLAME)


def fact(random: Random) -> str:
    """A sentence that counts for nothing."""
    return random.choice(FACTS).format(
        place=random.choice(PLACES), n=random.randint(2, 180), day=random.choice(DAYS),
        nth=random.choice(NTHS),
    )  # fmt: skip
