"""Reviews with two classes: generated opinions, and IMDB in the layout of its authors.

Words have Keras' numbers for IMDB: by frequency, from 4 on; 0 pads, 1 begins a review, 2 is
every other word, 3 is unused. Of a review the last ``max_length`` words are used; shorter ones
are padded in front.

torch is imported when examples are loaded: listing sources does not need it.
"""

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Literal

import numpy as np

from lnlab.data.cache import Arrays, cache_arrays, hash_file_stats
from lnlab.data.dataset import Dataset, Source, read_text, sort_by_hash, sources_offering
from lnlab.data.downloads import unpack_into_data_folder

if TYPE_CHECKING:
    import torch

OPINIONS, IMDB = SOURCES = sources_offering("reviews")
PAD, BEGIN, UNKNOWN, FIRST = 0, 1, 2, 4
LabelledTexts = list[tuple[str, int]]  # texts and their classes, 0 or 1


@dataclass(frozen=True, eq=False)
class EncodedReviews:
    """Reviews of one split: ``x`` int64 (N, T), numbers of words, ``y`` int64 (N,), classes."""

    x: "torch.Tensor"
    y: "torch.Tensor"

    def __len__(self) -> int:
        return len(self.y)


def split_words_like_keras(text: str) -> list[str]:
    """Split a text as Keras does: lower case, all punctuation except ' separates words."""
    return re.sub(r"[!\"#$%&()*+,\-./:;<=>?@\[\\\]^_`{|}~\t\n]", " ", text.lower()).split()


def rank_words_by_frequency(texts: Iterable[str]) -> list[str]:
    """Return the words of texts by frequency; equally frequent ones in order of appearance."""
    counts = Counter(word for text in texts for word in split_words_like_keras(text))
    return sorted(counts, key=lambda word: -counts[word])


def encode_last_words(
    texts: Sequence[str], words_by_rank: Sequence[str], max_length: int
) -> np.ndarray:
    """Return the numbers of the last words of each text (N, max_length), padded in front."""
    numbers = {word: FIRST + rank for rank, word in enumerate(words_by_rank)}
    encoded = np.full((len(texts), max_length), PAD, np.int32)
    for row, text in zip(encoded, texts, strict=True):
        words = [numbers.get(word, UNKNOWN) for word in split_words_like_keras(text)]
        line = [BEGIN, *words][-max_length:]
        row[max_length - len(line) :] = line
    return encoded


class ReviewDataset(Dataset[EncodedReviews]):
    """Reviews as numbers of words. The checksum is over their texts and classes."""

    classes = 2

    def __init__(
        self,
        source: Source,
        read_texts: Callable[[], Mapping[str, LabelledTexts]],
        key: Callable[[], str],
        *,
        max_length: int,
        vocab_size: int,
    ) -> None:
        super().__init__(
            source,
            self._tensors_by_split_and_note,
            lambda: f"{key()} {max_length} {vocab_size}",
        )
        self._read_texts, self.max_length, self.vocab_size = read_texts, max_length, vocab_size

    @property
    def known_words(self) -> tuple[str, ...]:
        """The words that have numbers, from 4 on: the most frequent of the training reviews."""
        return tuple(self._cached_arrays["known"].tobytes().decode().split("\n"))

    @cached_property
    def _cached_arrays(self) -> Arrays:
        """The numbers of what was read, and its hash, cached: reading 50,000 files is slow."""
        return cache_arrays(
            "reviews", f"{self.source.name} {self._key()}", self._encode_texts_with_digest
        )

    def _encode_texts_with_digest(self) -> Arrays:
        texts = self._read_texts()
        total = hashlib.sha256()
        for split, reviews in texts.items():
            total.update(f"{split} {len(reviews)}\n".encode())
            for text, label in reviews:
                total.update(f"{label} {len(text)} {text}\n".encode())
        known = rank_words_by_frequency(text for text, _ in texts["train"])[
            : self.vocab_size - FIRST
        ]
        arrays: Arrays = {
            "digest": np.frombuffer(total.digest(), np.uint8),
            "known": np.frombuffer("\n".join(known).encode(), np.uint8),
        }
        for split, reviews in texts.items():
            arrays[f"{split}.x"] = encode_last_words(
                [text for text, _ in reviews], known, self.max_length
            )
            arrays[f"{split}.y"] = np.array([label for _, label in reviews], np.int64)
        return arrays

    def _tensors_by_split_and_note(self) -> tuple[Mapping[str, EncodedReviews], Literal[""]]:
        import torch

        def int64_tensor(array_name: str) -> "torch.Tensor":
            return torch.from_numpy(self._cached_arrays[array_name].astype(np.int64))

        splits = ("train", "valid", "test")
        return {
            name: EncodedReviews(int64_tensor(f"{name}.x"), int64_tensor(f"{name}.y"))
            for name in splits
        }, ""

    def _digest(self) -> bytes:
        return self._cached_arrays["digest"].tobytes()


def load(
    source: Source, path: Path | None = None, *, max_length: int = 80, vocab_size: int = 20_000
) -> ReviewDataset:
    """Return the reviews of a source; the options are those of ``sources.toml``.

    Of IMDB 20,000 of the 25,000 training reviews train, the others validate: a hash of their
    names, independent of the class, decides which, and their order. The path is the archive,
    the folder ``aclImdb``, or the folder of either.
    """
    sizes = {"max_length": max_length, "vocab_size": vocab_size}
    if source is OPINIONS:
        made = {split: (size, seed) for seed, (split, size) in enumerate(SIZES.items())}
        return ReviewDataset(
            source,
            lambda: {split: make_reviews(*each) for split, each in made.items()},
            lambda: str(SIZES),
            **sizes,
        )
    path = source.locate(path)
    folder = path if (path / "train").is_dir() else path / "aclImdb"
    archives = [path] if path.is_file() else sorted(path.glob("aclImdb*.tar.gz"))
    packed = archives and not folder.is_dir()
    files = archives[:1] if packed else sorted(folder.glob("t*/???/*.txt"))
    return ReviewDataset(
        source,
        lambda: read_imdb(unpack_into_data_folder(files[0]) / "aclImdb" if packed else folder),
        lambda: hash_file_stats(files),
        **sizes,
    )


# IMDB.

CLASSES = ("neg", "pos")
VALID = 5  # one in this many training reviews validates


def read_imdb(folder: Path) -> dict[str, LabelledTexts]:
    """Read IMDB's reviews by split, in an order that does not depend on their class."""
    splits = {split: _read_imdb_split(folder / split) for split in ("train", "test")}
    train = splits["train"]
    held_out = len(train) // VALID
    return {"train": train[held_out:], "valid": train[:held_out], "test": splits["test"]}


def _read_imdb_split(folder: Path) -> LabelledTexts:
    """Read the reviews of both classes in the order of a hash of their names."""
    reviews: dict[str, tuple[Path, int]] = {}
    for label, name in enumerate(CLASSES):
        files = sorted((folder / name).glob("*.txt"))
        if not files:
            raise ValueError(
                f"imdb: there are no reviews in {folder / name}: train and test need both "
                f"classes, {' and '.join(CLASSES)}."
            )
        reviews |= {f"{label} {path.name}": (path, label) for path in files}
    chosen = (reviews[name] for name in sort_by_hash(reviews, folder.name))
    return [(read_text(path), label) for path, label in chosen]


# Opinions: reviews of films in sentences whose meaning is known.
#
# A review praises and blames parts of a film, each with a weight, and states facts without
# weight. Single words do not decide its class: "not dull" praises, "i expected the music to be
# fine but it was dull" blames, of "although the music is fine, the story is dull" only the
# second half counts, and a friend's opinion counts if the author agrees, and its opposite if
# not. The class is the sign of the sum.

SIZES = {"train": 4_000, "valid": 1_000, "test": 2_000}
WEIGHTS = {
    **{"story": 3, "acting": 2, "ending": 2, "dialogue": 2, "cast": 2},
    **dict.fromkeys(("music", "camera", "humour", "setting", "pace"), 1),
}
"""The parts of a film, and how much each counts."""
PRAISE = ("good", "great", "fine", "moving", "clever", "charming", "lovely", "brilliant")
BLAME = ("bad", "poor", "dull", "clumsy", "awful", "boring", "weak", "silly")
DEGREES = ("", "", "really ", "quite ", "rather ", "truly ")
FRIENDS = ("my brother", "a friend", "my aunt", "everyone", "the critic", "my neighbour")
PLACES = ("prague", "a small town", "the desert", "winter", "an old hotel", "the harbour")
FACTS = (
    "it was shot in {place}",
    "it lasts {n} minutes",
    "i saw it on a {day}",
    "it has {n} scenes in {place}",
    "we were {n} in the room",
    "it is the director's {nth} film",
)
DAYS = ("monday", "friday", "sunday", "rainy evening")
NTHS = ("first", "second", "third", "last")
SENTENCES = (4, 9)  # the smallest and the largest number of sentences, without facts
FACT = 0.35  # the probability of a fact after each sentence


def make_reviews(count: int, seed: int) -> LabelledTexts:
    """Make reviews that alternately blame (class 0) and praise (class 1).

    The first ones do not depend on ``count``.
    """
    random = Random(f"opinions {seed}")
    return [(make_review(random, number % 2 == 1), number % 2) for number in range(count)]


def make_review(random: Random, praises: bool) -> str:
    """Make one review of a class: reviews of the other class are discarded."""
    while True:
        sentences, total = [], 0
        for _ in range(random.randint(*SENTENCES)):
            sentence, weight = make_opinion_and_signed_weight(random)
            sentences.append(sentence)
            total += weight
            if random.random() < FACT:
                fact = random.choice(FACTS)
                place, n = random.choice(PLACES), random.randint(2, 180)
                day, nth = random.choice(DAYS), random.choice(NTHS)
                sentences.append(fact.format(place=place, n=n, day=day, nth=nth))
        if total and (total > 0) == praises:
            return ". ".join(sentences) + "."


def make_opinion_and_signed_weight(random: Random) -> tuple[str, int]:
    """Make an opinion, and return it with its weight: above 0 it praises."""
    part, other = random.sample([*WEIGHTS], 2)
    sign = random.choice((-1, 1))
    word = random.choice(PRAISE if sign > 0 else BLAME)
    opposite = random.choice(BLAME if sign > 0 else PRAISE)
    weight = sign * WEIGHTS[part]
    form = random.randrange(6)
    if form == 0:
        return f"the {part} is not {opposite}", weight
    if form == 1:
        return f"i expected the {part} to be {opposite} but it was {word}", weight
    if form == 2:
        return f"although the {other} is {opposite}, the {part} is {word}", weight
    if form == 3:
        friend, agrees = random.choice(FRIENDS), random.random() < 0.5
        opinion = word if agrees else opposite
        mine = "and that is true" if agrees else "which is wrong"
        return f"{friend} says that the {part} is {opinion}, {mine}", weight
    return f"the {part} is {random.choice(DEGREES)}{word}", weight
