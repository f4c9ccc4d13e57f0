"""Reviews with two classes: opinions made here, and IMDB in the layout of its authors.

Words are numbered as Keras numbers those of IMDB: by how often they occur, from 4 on; 0 fills
up, 1 begins a review, 2 is every other word, 3 is none. A review is its last words, so many as
there are steps; a shorter one is filled up in front.

torch is imported when cases are loaded: to list or to download sources does not take it.
"""

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import numpy as np

from lnlab.data.cache import Arrays, cache_arrays, file_stamp
from lnlab.data.dataset import Dataset, Source, read_sources
from lnlab.data.files import unpack

if TYPE_CHECKING:
    import torch


# Reviews made here: what somebody thinks of a film, in sentences whose sense is known.
#
# A review praises and blames parts of a film, each of which counts so much, and says things
# that
# count for nothing. Words alone do not give its class away: "not dull" praises, "i expected the
# music to be fine but it was dull" blames, of "although the music is fine, the story is dull"
# the
# second half alone counts, and a friend's opinion counts if one agrees, and the other way round
# if one does not. The class is the sign of the sum.


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


OPINIONS, IMDB = SOURCES = read_sources("reviews")
SIZES = {"train": 4_000, "valid": 1_000, "test": 2_000}
"""Opinions of each split."""
FOLDER = "aclImdb"
CLASSES = ("neg", "pos")
NAME = re.compile(r"\d+_\d+\.txt")
"""The name of a review: its number and the stars that were given with it."""
LARGEST = 2**20
"""Bytes of a review; the longest of IMDB has 15,000."""
PARTED = 5
"""One in so many training reviews validates."""
PAD, BEGIN, UNKNOWN, FIRST = 0, 1, 2, 4
APART = re.compile(r"[!\"#$%&()*+,\-./:;<=>?@\[\\\]^_`{|}~\t\n]")
"""The letters that Keras takes for spaces: all signs but the apostrophe."""

Labelled = list[tuple[str, int]]
"""Texts, and the class of each: 0 or 1."""


@dataclass(frozen=True, eq=False)
class Words:
    """Reviews of one split: ``x`` int64 (N, T), words by number, ``y`` int64 (N,), classes."""

    x: "torch.Tensor"
    y: "torch.Tensor"

    def __len__(self) -> int:
        return len(self.y)


def words(text: str) -> list[str]:
    """The words of a text, as Keras cuts it: small letters, signs taken for spaces."""
    return APART.sub(" ", text.lower()).split()


def ranked(texts: Iterable[str]) -> list[str]:
    """The words of texts, the most frequent first; of equals the one that is met first."""
    counts = Counter(word for text in texts for word in words(text))
    return sorted(counts, key=lambda word: -counts[word])


def numbered(texts: Sequence[str], known: Sequence[str], steps: int) -> np.ndarray:
    """The numbers of the last ``steps`` words of each text (N, T), filled up in front."""
    numbers = {word: FIRST + rank for rank, word in enumerate(known)}
    cases = np.full((len(texts), steps), PAD, np.int32)
    for row, text in zip(cases, texts, strict=True):
        line = [BEGIN, *(numbers.get(word, UNKNOWN) for word in words(text))][-steps:]
        row[steps - len(line) :] = line
    return cases


class Reviews(Dataset[Words]):
    """Reviews as words by number. The checksum is over their texts and classes.

    Args:
        source, of: as of :class:`Dataset`.
        read: reads the texts of each split.
        steps: T, the words of a review that are read.
        size: V, how many numbers of words there are.
    """

    classes = 2

    def __init__(
        self,
        source: Source,
        read: Callable[[], Mapping[str, Labelled]],
        of: Callable[[], str],
        *,
        steps: int,
        size: int,
    ) -> None:
        super().__init__(source, self._encoded, lambda: f"{of()} {steps} {size}")
        self._texts, self.steps, self.size = read, steps, size

    @property
    def known(self) -> tuple[str, ...]:
        """The words that have numbers, from 4 on: the most frequent of the training reviews."""
        return tuple(self._arrays["known"].tobytes().decode().split("\n"))

    @cached_property
    def _arrays(self) -> Arrays:
        """The numbers of what was read, and its hash, kept: to read 50,000 files takes long."""
        return cache_arrays("reviews", f"{self.source.name} {self._key()}", self._made)

    def _made(self) -> Arrays:
        texts = self._texts()
        total = hashlib.sha256()
        for split, cases in texts.items():
            total.update(f"{split} {len(cases)}\n".encode())
            for text, label in cases:
                total.update(f"{label} {len(text)} {text}\n".encode())
        known = ranked(text for text, _ in texts["train"])[: self.size - FIRST]
        arrays: Arrays = {
            "digest": np.frombuffer(total.digest(), np.uint8),
            "known": np.frombuffer("\n".join(known).encode(), np.uint8),
        }
        for split, cases in texts.items():
            arrays[f"{split}.x"] = numbered([text for text, _ in cases], known, self.steps)
            arrays[f"{split}.y"] = np.array([label for _, label in cases], np.int64)
        return arrays

    def _encoded(self) -> tuple[Mapping[str, Words], str]:
        import torch

        def tensor(name: str) -> "torch.Tensor":
            return torch.from_numpy(self._arrays[name].astype(np.int64))

        splits = ("train", "valid", "test")
        return {part: Words(tensor(f"{part}.x"), tensor(f"{part}.y")) for part in splits}, ""

    def _digest(self) -> bytes:
        return self._arrays["digest"].tobytes()


def load(
    source: Source, path: Path | None = None, *, steps: int = 80, words: int = 20_000
) -> Reviews:
    """The reviews of a source, to be told good from bad.

    - ``opinions``: 4,000 train, 1,000 validate, 2,000 test, made here, always the same.
    - ``imdb``: 20,000 of the 25,000 training reviews train, the others validate, 25,000 test;
      what does not depend on the class decides which, and their order. Without a path it is
      what ``lnlab data fetch imdb`` left; else the archive, the folder ``aclImdb``, or the
      folder of either.

    They are read when a split is first used: what is damaged is noticed then.

    Args:
        steps: T, the words of a review that are read.
        words: V, how many numbers of words there are.

    Raises:
        ValueError: for less than one step or one known word, or if a path is given against the
            above; later, for classes that are missing, and files that are no reviews.
        FileNotFoundError: if there is nothing at the path.
    """
    if steps < 1:
        raise ValueError(f"steps is {steps}: read at least one word.")
    if words <= FIRST:
        raise ValueError(f"words is {words}: give more than {FIRST}, which stand for none.")
    if source is OPINIONS:
        return Reviews(source, _made, lambda: str(SIZES), steps=steps, size=words)
    place = source.locate(path)
    return Reviews(
        source,
        partial(_imdb, place),
        lambda: file_stamp(_stamped(place)),
        steps=steps,
        size=words,
    )


def _made() -> dict[str, Labelled]:
    return {split: reviews(size, seed) for seed, (split, size) in enumerate(SIZES.items())}


def _archive(place: Path) -> Path | None:
    """The archive at a place, None where that is a folder of reviews."""
    if place.is_file():
        return place
    archives = sorted(place.glob("aclImdb*.tar.gz"))
    return archives[0] if archives and not _root(place).is_dir() else None


def _root(place: Path) -> Path:
    """The folder that has, or should have, train and test."""
    return place if (place / "train").is_dir() else place / FOLDER


def _stamped(place: Path) -> list[Path]:
    archive = _archive(place)
    return [archive] if archive else sorted(_root(place).glob("t*/???/*.txt"))


def _imdb(place: Path) -> dict[str, Labelled]:
    """The texts of IMDB by split, in an order that says nothing of their class."""
    archive = _archive(place)
    root = _root(unpack(archive) if archive else place)
    found = {split: _mixed(root / split, split) for split in ("train", "test")}
    held = len(found["train"]) // PARTED
    if not held:
        raise ValueError(f"{root / 'train'}: {len(found['train'])} reviews are too few.")
    train = found["train"]
    return {"train": train[held:], "valid": train[:held], "test": found["test"]}


def _mixed(folder: Path, split: str) -> Labelled:
    """The reviews of both classes in the order of a hash of their names."""
    files = [(path, label) for label, name in enumerate(CLASSES) for path in _of(folder / name)]

    def order(one: tuple[Path, int]) -> bytes:
        path, label = one
        return hashlib.sha256(f"{split} {label} {path.name}".encode()).digest()

    return [(_read(path), label) for path, label in sorted(files, key=order)]


def _of(folder: Path) -> list[Path]:
    """The reviews of one class.

    Raises:
        ValueError: if there are none, or a file has not the name of one.
    """
    files = sorted(folder.glob("*.txt")) if folder.is_dir() else []
    if not files:
        raise ValueError(
            f"imdb: there are no reviews in {folder}: train and test need both classes, "
            f"{' and '.join(CLASSES)}."
        )
    for path in files:
        if not NAME.fullmatch(path.name) or (_stars(path) > 5) != (folder.name == "pos"):
            raise ValueError(
                f"{path} is no review of this class: expected NUMBER_STARS.txt, with more than "
                "5 stars in pos and fewer in neg."
            )
    return files


def _stars(path: Path) -> int:
    return int(path.stem.partition("_")[2])


def _read(path: Path) -> str:
    size = path.stat().st_size
    if not 0 < size <= LARGEST:
        raise ValueError(f"{path} has {size:,} bytes, a review 1 to {LARGEST:,}.")
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is no UTF-8 at byte {error.start}.") from error
