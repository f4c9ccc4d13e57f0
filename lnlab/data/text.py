"""Text, character by character: tales made here, Tiny Shakespeare, and your own file.

torch is imported when examples are loaded: listing sources does not need it.
"""

import hashlib
from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

from lnlab.data.cache import hash_file_stats
from lnlab.data.dataset import Dataset, Note, Source, Split, read_text, sources_offering

if TYPE_CHECKING:
    import torch

# Tales of two people and a thing: who the pronouns stand for, and what fits the thing, was said
# before.

CHARACTERS = {
    "she": ("anna", "ella", "mira", "ruth", "vera", "zoe"),
    "he": ("ben", "hugo", "jan", "kim", "oscar", "paul"),
}
OBJECT_FORMS = {"she": "her", "he": "him"}
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


def make_tales(length: int) -> str:
    """Make ``length`` characters of tales, a line each; a longer text begins with a shorter."""
    random, lines, written = Random(0), [], 0
    while written < length:
        lines.append(make_tale(random))
        written += len(lines[-1]) + 1
    return "\n".join(lines)[:length]


def make_tale(random: Random) -> str:
    """Make one tale."""
    pronoun, other = random.choices([*CHARACTERS], k=2)
    one = random.choice(CHARACTERS[pronoun])
    two = random.choice([name for name in CHARACTERS[other] if name != one])
    thing, kind = random.choice([*THINGS]), random.choice(KINDS)
    first, second = random.sample(THINGS[thing], 2)
    article = "an" if kind[0] in "aeiou" else "a"
    if pronoun == other:  # a pronoun would not say who is meant
        subject, receiver = one, two
    else:
        subject, receiver = pronoun, OBJECT_FORMS[other]
    return (
        f"{random.choice(TIMES)} {one} met {two} at the {random.choice(PLACES)}. {subject} "
        f"gave {receiver} {article} {kind} {thing}. {two} {first} the {thing}, and {one} "
        f"{second} it; then {random.choice((one, two))} {random.choice(ENDS)}."
    )


TALES, SHAKESPEARE, TXT = SOURCES = sources_offering("text")
LENGTH = 200_000
"""Characters of tales."""
PARTS = {"train": (0.0, 0.9), "valid": (0.9, 0.95), "test": (0.95, 1.0)}
"""The splits of a text, in its order: 90, 5 and 5 %, as in char-rnn."""


class CharacterWindows(Dataset[Split]):
    """A text as windows of characters. The checksum is over its bytes in UTF-8.

    An example is ``x`` int64 (N, T), and ``y`` (N, T), the characters that follow. Examples do
    not overlap; what is less than an example at the end is left out.

    Args:
        source, key: as for :class:`Dataset`.
        read_text: reads the text.
        context: T, the characters of an example.
    """

    def __init__(
        self,
        source: Source,
        read_text: Callable[[], str],
        key: Callable[[], str],
        *,
        context: int,
    ) -> None:
        super().__init__(source, self._windows, key)
        self._read_text, self.context = read_text, context

    @cached_property
    def text(self) -> str:
        """All of it."""
        return self._read_text()

    @cached_property
    def vocabulary(self) -> str:
        """The characters that occur in it, in order; a character's code is its position."""
        return "".join(sorted(set(self.text)))

    def encode(self, text: str) -> "torch.Tensor":
        """Return the codes of a text, int64 ``(N,)``."""
        import torch

        codes = {character: code for code, character in enumerate(self.vocabulary)}
        for position, character in enumerate(text):
            if character not in codes:
                raise ValueError(
                    f"character {position} is {character!r}, which {self.source.name} does not "
                    f"have: write with {self.vocabulary!r}."
                )
        return torch.tensor([codes[character] for character in text], dtype=torch.int64)

    def decode(self, codes: "torch.Tensor") -> str:
        """Return the text that has these codes ``(N,)``."""
        return "".join(self.vocabulary[code] for code in codes.tolist())

    def _windows(self) -> tuple[Mapping[str, Split], Note]:
        codes, T = self.encode(self.text), self.context
        splits = {}
        for split, (begin, end) in PARTS.items():
            part = codes[int(begin * len(codes)) : int(end * len(codes))]
            count = (len(part) - 1) // T
            if count < 1:
                raise ValueError(
                    f"{self.source.name}: the {split} part of the text has {len(part):,} "
                    f"characters, an example needs {T + 1:,}: give a longer text or "
                    "a smaller context."
                )
            x, y = part[: count * T], part[1 : count * T + 1]
            splits[split] = Split(x.view(count, T), y.view(count, T))
        return splits, ""

    def _digest(self) -> bytes:
        return hashlib.sha256(self.text.encode()).digest()


def load(source: Source, path: Path | None = None, *, context: int = 64) -> CharacterWindows:
    """Return a text, to be predicted character by character.

    - ``tales``: 200,000 characters from a grammar, always the same.
    - ``shakespeare``: 1,115,394 characters, 65 different ones; the path is ``input.txt`` or its
      folder.
    - ``txt``: your own file, in UTF-8.

    The first 90 % train, 5 % validate, the last 5 % test.

    Args:
        context: T, the characters of an example.
    """
    if source is TALES:
        return CharacterWindows(
            source, lambda: make_tales(LENGTH), lambda: str(LENGTH), context=context
        )
    if source is TXT and (path is None or path.is_dir()):
        raise ValueError(f"data 'txt' is {path}: name your file, txt=PATH.")
    file = source.locate(path)
    if source is SHAKESPEARE and file.is_dir():
        file = source.locate(file / source.files[0].name)
    return CharacterWindows(
        source, lambda: read_text(file), lambda: hash_file_stats([file]), context=context
    )
