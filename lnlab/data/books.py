"""Books as sentences that follow each other: stories made here, BookCorpus, novels.

A sentence is a list of words in small letters. One that is too long is left out and counted; an
empty one stays at its place, so that nobody takes its neighbours for each other's.
"""

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path

import numpy as np

from lnlab.data import novels, stories, storybooks
from lnlab.data.cache import code, stamp
from lnlab.data.dataset import Dataset
from lnlab.data.source import Source, data_folder
from lnlab.data.vocabulary import NAMES, Sentences, Vocabulary, joined

OPTIONS = {"longest": "words of a sentence at most; 29 if nothing is said"}

STORIES = Source(
    name="stories",
    title="Stories made here, in which what comes next follows from who did what to whom",
    kind="synthetic",
    licence="made on this machine",
    citation="lnlab.data.stories",
    offers="books",
    options=OPTIONS,
)
BOOKCORPUS = Source(
    name="bookcorpus",
    title="Books in the layout of BookCorpus: a file each, a sentence a line, words cut",
    kind="own",
    licence="of BookCorpus: that of each book",
    citation="Zhu et al. (2015), https://yknzhu.wixsite.com/mbweb",
    offers="books",
    options=OPTIONS,
)
GUTENBERG = Source(
    name="gutenberg",
    title="Novels in text files of Project Gutenberg",
    kind="official",
    licence="public domain in the USA; the Project Gutenberg licence is in the files",
    citation="https://www.gutenberg.org",
    offers="books",
    options=OPTIONS,
)
CBT_BOOKS = Source(
    name="cbt-books",
    title="Ten books of the Children's Book Test, whole",
    kind="official",
    licence="GNU FDL 1.2; the books are in the public domain",
    citation="Hill et al. (2016), https://research.facebook.com/downloads/babi/",
    offers="books",
    options=OPTIONS,
)
NOVELS = Source(
    name="novels",
    title="Both of these: a folder with gutenberg/*.txt and cbt/CBTest/data/cbt_*.txt",
    kind="official",
    licence="as gutenberg and cbt-books",
    citation="Project Gutenberg; Hill et al. (2016)",
    offers="books",
    options=OPTIONS,
)
SOURCES = (STORIES, BOOKCORPUS, GUTENBERG, CBT_BOOKS, NOVELS)

COUNT = 5_000
"""Stories."""
LONGEST = 29
"""Words of a sentence; the authors read those of fewer than 30."""
BRACKETS = {"-lrb-": "(", "-rrb-": ")"}
"""Words of the Children's Book Test that NLTK leaves as they are written."""
WRITTEN = "books", "cutting", "novels", "stories", "storybooks", "tales"
"""The modules that decide what is read."""

Shelf = dict[str, Sentences]
"""Books by title."""


@dataclass(frozen=True, eq=False)
class Library:
    """The titles, the books, and the number of sentences that were left out."""

    titles: tuple[str, ...]
    books: list[Sentences]
    left_out: int


class Books(Dataset[Library]):
    """A set of books. The checksum is over the sentences that are left.

    Args:
        source, of: as of :class:`Dataset`.
        shelf: reads the books by title.
        longest: words of a sentence at most.
    """

    def __init__(
        self,
        source: Source,
        shelf: Callable[[], Shelf],
        of: Callable[[], str],
        *,
        longest: int,
    ) -> None:
        super().__init__(source, self._shortened, lambda: f"{of()} {longest}", noted=True)
        self._shelf, self.longest = shelf, longest

    @property
    def books(self) -> list[Sentences]:
        """The sentences of each book, of words; an empty one is left out."""
        return self._checked["books"].books

    @property
    def titles(self) -> tuple[str, ...]:
        """The titles of the books."""
        return self._checked["books"].titles

    @property
    def left_out(self) -> int:
        """The number of sentences that are too long."""
        return self._checked["books"].left_out

    @property
    def sentences(self) -> list[list[str]]:
        """All that were not left out, in their order."""
        return [words for book in self.books for words in book if words]

    def triples(self) -> np.ndarray:
        """The places of sentences that have one right before and one right behind them (N, 2).

        A row is (book, place): ``books[book][place - 1 : place + 2]`` are the three.
        """
        found = []
        for number, book in enumerate(self.books):
            there = np.array([bool(words) for words in book])
            places = 1 + np.flatnonzero(there[:-2] & there[1:-1] & there[2:])
            found.append(np.stack([np.full_like(places, number), places], axis=1))
        return np.concatenate(found)

    def vocabulary(self, size: int) -> Vocabulary:
        """The most frequent words, ``size`` numbers in all: :func:`frequent`."""
        return frequent(chain.from_iterable(self.books), size)

    def _shortened(self) -> tuple[dict[str, Library], str]:
        shelf = self._shelf()
        for title, book in shelf.items():
            if (count := sum(map(bool, book))) < 3:
                raise ValueError(
                    f"{self.source.name}: {title} has {count} sentence{'s' * (count != 1)}, "
                    "and a book needs three, one before and one behind another: take it out."
                )
            if named := {*NAMES} & {*chain.from_iterable(book)}:
                raise ValueError(
                    f"{self.source.name}: {title} has the word {min(named)!r}, which stands "
                    "for what is no word: write it otherwise."
                )
        books = [
            [words if len(words) <= self.longest else [] for words in book]
            for book in shelf.values()
        ]
        out = sum(not words for book in books for words in book)
        whole = sum(map(len, books))
        if out == whole:
            raise ValueError(
                f"{self.source.name}: all {whole} sentences have more than {self.longest} "
                "words: allow longer ones (limit), or cut the text into sentences, a line each."
            )
        note = f"{out} of {whole} sentences of more than {self.longest} words left out"
        return {"books": Library(tuple(shelf), books, out)}, note if out else ""

    def _digest(self) -> bytes:
        total, read = hashlib.sha256(), self._parts[0]["books"]
        for title, book in zip(read.titles, read.books, strict=True):
            total.update(f"{title} {len(book)}\n{joined(book)}\0".encode())
        return total.digest()

    def __str__(self) -> str:
        whole = sum(map(len, self.books))
        return (
            f"{self.kind} data: {self.name}; {len(self.books):,} books, {whole:,} sentences, "
            f"{len(self.triples()):,} of them between two others"
        )


def frequent(sentences: Iterable[Sequence[str]], size: int) -> Vocabulary:
    """The most frequent words of sentences; of equals the first in the order of letters.

    Args:
        size: V, how many numbers the vocabulary has at most, with the end and the unknown word.

    Raises:
        ValueError: if that leaves no word, or the sentences have none.
    """
    counts = Counter(chain.from_iterable(sentences))
    known = sorted(counts, key=lambda word: (-counts[word], word))[: max(0, size - 2)]
    if not known:
        raise ValueError(
            f"the vocabulary is empty: {len(counts)} different words were given, and room for "
            f"{size} numbers, two of them for the end and the unknown word. Give text with "
            "words and more numbers (known)."
        )
    return Vocabulary(known)


def load(source: Source, place: Path | None = None, *, longest: int = LONGEST) -> Books:
    """The books of a source, for :func:`lnlab.data.load`.

    - ``stories``: 5,000, made here, always the same.
    - ``bookcorpus``: every ``.txt`` file in the folder, in UTF-8, or in a folder of it.
    - ``gutenberg``: every ``.txt`` file in the folder, cut by :mod:`lnlab.data.vocabulary`.
    - ``cbt-books``: the folder CBTest.
    - ``novels``: a folder with both of these.

    Args:
        place: the folder. None: the source's own place in the data folder.
        longest: words of a sentence at most; longer ones are left out.

    Raises:
        ValueError: if sentences may have no word, or a path is given for what is made here;
            later, for a book of fewer than three sentences, and files in another encoding.
        FileNotFoundError: where there are no files; says which.
        NotADirectoryError: where the folder is a file.
    """
    if longest < 1:
        raise ValueError(f"longest is {longest}: {OPTIONS['longest']}, from 1.")
    written = code(*(Path(__file__).with_name(f"{name}.py") for name in WRITTEN))
    if source is STORIES:
        if place is not None:
            raise ValueError(f"{source.name}={place}: they are made here, give no path.")
        return Books(source, _made, lambda: f"{COUNT} {written}", longest=longest)
    place = place or data_folder() / source.name
    files, read = _files(source, place)
    return Books(source, read, lambda: f"{stamp(files)} {written}", longest=longest)


def _made() -> Shelf:
    return {f"story {n}": book for n, book in enumerate(stories.books(COUNT, 0))}


def _files(source: Source, place: Path) -> tuple[list[Path], Callable[[], Shelf]]:
    """The files of a source at a place, and what reads them."""
    if source is NOVELS:
        parts = [
            _files(GUTENBERG, place / "gutenberg"), _files(CBT_BOOKS, place / "cbt" / "CBTest"),
        ]  # fmt: skip
        files = [file for found, _ in parts for file in found]
        return files, lambda: {t: b for _, read in parts for t, b in read().items()}
    if source is CBT_BOOKS:
        files = [place / name for name in storybooks.FILES]
        missing = [file for file in files if not file.is_file()]
        wanted, read = " and ".join(storybooks.FILES), partial(_children, place)
    else:
        if place.is_file():
            raise NotADirectoryError(
                f"{source.name}: {place} is a file: name the folder that it is in."
            )
        found = place.rglob("*.txt") if source is BOOKCORPUS else place.glob("*.txt")
        files = sorted(file for file in found if file.is_file())
        missing = [] if files else [place]
        wanted, read = ".txt files, a book each", partial(_each, source, place, files)
    if missing:
        raise FileNotFoundError(
            f"{source.name}: {missing[0]} is not there or empty: it needs {wanted} "
            f"({source.citation}). Name the folder, {source.name}=PATH."
        )
    return files, read


def _each(source: Source, place: Path, files: Sequence[Path]) -> Shelf:
    read = _lines if source is BOOKCORPUS else novels.novel
    return {file.relative_to(place).as_posix(): read(file) for file in files}


def _lines(file: Path) -> Sentences:
    """The sentences of a file, a line each; blank lines are none.

    Raises:
        ValueError: if it is no UTF-8.
    """
    try:
        text = file.read_bytes().decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{file} is no UTF-8 at byte {error.start}: convert it, a sentence a line."
        ) from error
    if "\0" in text:
        raise ValueError(f"{file} is no text, it has bytes of 0: take it out of the folder.")
    return [line.split() for line in text.lower().split("\n") if line.split()]


def _children(place: Path) -> Shelf:
    return {
        title: [[BRACKETS.get(word, word) for word in map(str.lower, line)] for line in book]
        for title, book in storybooks.books(place).items()
    }
