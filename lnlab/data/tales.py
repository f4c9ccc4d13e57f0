"""Text made here: short tales of two people and a thing, in which pronouns say who is who."""

from random import Random

NAMES = {
    "she": ("anna", "ella", "mira", "ruth", "vera", "zoe"),
    "he": ("ben", "hugo", "jan", "kim", "oscar", "paul"),
}
OF = {"she": "her", "he": "him"}
PLACES = ("bridge", "harbour", "market", "old mill", "quarry", "river", "station", "tower")
THINGS = {
    "lamp": ("lit", "broke", "polished"),
    "letter": ("read", "hid", "burnt"),
    "apple": ("ate", "peeled", "washed"),
    "clock": ("mended", "wound", "sold"),
    "boat": ("painted", "rowed", "sold"),
    "song": ("sang", "wrote", "forgot"),
    "map": ("drew", "folded", "lost"),
    "fox": ("fed", "chased", "tamed"),
}
"""Things, and what can be done with each."""
KINDS = ("blue", "green", "heavy", "large", "new", "old", "strange", "tiny", "white")
TIMES = ("at dawn", "at noon", "in may", "last night", "on friday", "one evening")
ENDS = ("laughed", "went home", "said nothing", "slept well", "fell silent", "danced")


def tales(length: int, seed: int = 0) -> str:
    """So many characters of tales, a line each: a longer text begins with a shorter one."""
    random, lines, written = Random(seed), [], 0
    while written < length:
        lines.append(tale(random))
        written += len(lines[-1]) + 1
    return "\n".join(lines)[:length]


def tale(random: Random) -> str:
    """One tale: who the pronouns stand for, and what fits the thing, was said before."""
    pronoun, other = random.choices([*NAMES], k=2)
    one = random.choice(NAMES[pronoun])
    two = random.choice([name for name in NAMES[other] if name != one])
    thing, kind = random.choice([*THINGS]), random.choice(KINDS)
    first, second = random.sample(THINGS[thing], 2)
    article = "an" if kind[0] in "aeiou" else "a"
    if pronoun == other:  # else nobody could tell who is meant
        pronoun, at = one, two
    else:
        at = OF[other]
    return (
        f"{random.choice(TIMES)} {one} met {two} at the {random.choice(PLACES)}. {pronoun} "
        f"gave {at} {article} {kind} {thing}. {two} {first} the {thing}, and {one} {second} "
        f"it; then {random.choice((one, two))} {random.choice(ENDS)}."
    )
