"""Questions with a word missing: made here, CNN's articles, and made from books."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import cache, cached_property, partial
from pathlib import Path

import numpy as np

from lnlab.data import cloze, storybooks
from lnlab.data.articles import SPLITS, Articles, number
from lnlab.data.cache import Arrays, code, kept, stamp
from lnlab.data.dataset import Dataset
from lnlab.data.question import BLANK, ENTITY, Question, digest
from lnlab.data.source import Source, data_folder
from lnlab.data.vocabulary import END, Vocabulary

CLOZE = Source(
    name="cloze",
    title="Who did what to whom: told in three sentences, asked in other words",
    kind="synthetic",
    licence="made on this machine",
    citation="lnlab.data.cloze",
    offers="questions",
    options={"most": "how many questions to train on at most"},
)
CNN = Source(
    name="cnn",
    title="CNN's articles with anonymous entities, the official .question files",
    kind="official",
    licence="Apache 2.0 (the scripts); the articles are CNN's",
    citation="Hermann et al. (2015), https://github.com/google-deepmind/rc-data",
    offers="questions",
    options={"sentences": "how many sentences of an article, those most like the question"},
)
CBT = Source(
    name="cbt",
    title="Questions made here from ten books of the Children's Book Test",
    kind="official",
    licence="GNU FDL 1.2; the books are in the public domain",
    citation="Hill et al. (2016), https://research.facebook.com/downloads/babi/",
    offers="questions",
    options={
        "sentences": "how many sentences before the question, 20 if nothing is said",
        "split": "which books train, validate and test: a whole number",
    },
)
SOURCES = (CLOZE, CNN, CBT)
BEFORE = 20
"""Sentences of a passage from a book, as Hill et al. (2016) have it."""


class Questions(Dataset[Sequence[Question]]):
    """A set of questions; as :class:`lnlab.data.Images`.

    Words occur in a vocabulary by number: :data:`.vocabulary.END` ends a passage or a question
    and fills up behind it, :data:`.vocabulary.UNKNOWN` stands for words that neither training
    nor validation has. The blank is the first word, all entities come next.
    """

    def __init__(
        self,
        source: Source,
        read: Callable[[], Mapping[str, Sequence[Question]]],
        of: Callable[[], str],
        *,
        least: int = 1,
    ) -> None:
        super().__init__(source, lambda: (read(), ""), of)
        self.least = least

    @cached_property
    def _counted(self) -> Arrays:
        """The words that are known, how many entities there are, and how long the longest
        training passage and question are; read once, then kept."""
        return kept("words", f"{self.checksum} {self.least} {_written()}", self._count)

    def _count(self) -> Arrays:
        counts, most, longest = Counter(), -1, [0, 0]
        parts = self._parts[0]
        for split, part in parts.items():
            for question in part:
                most = max([most, *(number(one) for one in question.candidates)])
                if split == "test":
                    continue
                texts = question.passage.split(), question.query.split()
                counts.update([*texts[0], *texts[1]])
                if split == "train":
                    longest = [max(n, len(t)) for n, t in zip(longest, texts, strict=True)]
        words = [
            word
            for word, count in counts.items()
            if count >= self.least and word != BLANK and not ENTITY.fullmatch(word)
        ]
        words.sort(key=lambda word: (-counts[word], word))
        return {
            "words": np.frombuffer("\n".join(words).encode(), np.uint8),
            "entities": np.array([most + 1]),
            "longest": np.array(longest),
        }

    @cached_property
    def vocabulary(self) -> Vocabulary:
        """The blank, all entities, and the words of training and validation, frequent first."""
        words = self._counted["words"].tobytes().decode().split("\n")
        entities = (f"@entity{k}" for k in range(self._entities))
        return Vocabulary([BLANK, *entities, *words])

    @property
    def _entities(self) -> int:
        return int(self._counted["entities"][0])

    @property
    def anonymous(self) -> range:
        """The numbers of the entities in the vocabulary."""
        first = END + 3  # behind the end, the unknown word and the blank
        return range(first, first + self._entities)

    @property
    def longest(self) -> tuple[int, int]:
        """The most words that a training passage has, and a training question, each with its
        end."""
        passage, query = (int(n) + 1 for n in self._counted["longest"])
        return passage, query

    def _digest(self) -> bytes:
        return digest(self._parts[0])

    def __str__(self) -> str:
        counts = ", ".join(f"{len(part)} {split}" for split, part in self._parts[0].items())
        return (
            f"{self.kind} data: {self.name}, questions: {counts}; {len(self.vocabulary)} "
            f"words, {len(self.anonymous)} of them entities; the longest passage to train on "
            f"has {self.longest[0]}"
        )


def load(
    source: Source,
    place: Path | None = None,
    *,
    sentences: int | None = None,
    split: int | None = None,
    most: int | None = None,
) -> Questions:
    """The questions of a source, for :func:`lnlab.data.load`.

    Args:
        place: the folder of its files. None: the source's own place in the data folder.
        sentences: how many of a passage are read; None: of CNN all, of books 20.
        split: which books train, validate and test; None is 0.
        most: how many made here to train on at most; None: all.

    Raises:
        ValueError: for an option below what it may be; later, for damaged files, an answer
            that is no candidate, entities that a file does not list.
        FileNotFoundError: where files are not; names them.
    """
    for name, value, least in (
        ("sentences", sentences, 1),
        ("split", split, 0),
        ("most", most, 1),
    ):
        if value is not None and value < least:
            raise ValueError(f"{name} is {value}: {source.options[name]}, from {least}.")
    if source is CLOZE:
        if place is not None:
            raise ValueError(f"{source.name}={place}: it is made here, give no path.")
        return Questions(source, partial(_made, most), lambda: f"{most} {_written()}")
    place = place or data_folder() / source.name
    if source is CNN:
        folders = {ours: place / "questions" / theirs for ours, theirs in SPLITS.items()}
        parts = {name: Articles(folder, sentences or 0) for name, folder in folders.items()}
        files = [file for part in parts.values() for file in part.files]
        return Questions(
            source, lambda: parts, lambda: f"{sentences} {stamp(files)} {_written()}"
        )
    files = [place / name for name in storybooks.FILES]
    missing = [path for path in files if not path.is_file()]
    if missing:
        raise FileNotFoundError(
            f"cbt is not whole in {place}, {missing[0]} is not there: its books are "
            f"{', '.join(storybooks.FILES)} ({source.citation}). Name their folder, cbt=PATH."
        )
    given = sentences or BEFORE, split or 0
    return Questions(
        source,
        lambda: storybooks.corpus(place, *given),
        lambda: f"{given} {stamp(files)} {_written()}",
        least=2,
    )


def _written() -> str:
    return code(*Path(__file__).parent.glob("*.py"))


def _made(most: int | None) -> dict[str, tuple[Question, ...]]:
    return _cloze(most, tuple(cloze.PARTS.items()))


@cache
def _cloze(
    most: int | None, parts: tuple[tuple[str, int], ...]
) -> dict[str, tuple[Question, ...]]:
    """The questions, made once in a process: arms of a comparison have the same."""
    return cloze.corpus(most, dict(parts))
