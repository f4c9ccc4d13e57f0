"""Books as sentences that follow each other: stories made here, BookCorpus, novels.

A sentence is a list of words in small letters. One that is too long is left out and counted; an
empty one stays at its place, so that nobody takes its neighbours for each other's.
"""

import codecs
import hashlib
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import chain
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import numpy as np

from lnlab.data.cache import cache_arrays, file_stamp
from lnlab.data.dataset import Dataset, Source
from lnlab.data.text import CHARACTERS
from lnlab.data.vocabulary import SPECIAL, Vocabulary, by_frequency
from lnlab.papers.attentive_reader import data
from lnlab.paths import data_folder

# Text cut into sentences and words by NLTK, with the tools of Kiros et al. (2015).
#
# Sentences end where Punkt (Kiss and Strunk, 2006) ends them, which learns from a text how its
# sentences begin; its abbreviations are :data:`ABBREVIATIONS`, for those that it learns are
# often words of dialogue. Words are those of NLTK's tokenizer, as in the Penn Treebank, in
# small letters. nltk is imported when a text is cut: to list data sets does not take it.

ABBREVIATIONS = frozenset(
    "mr mrs dr st esq messrs mme mlle m prof rev hon capt col gen lieut no".split()  # noqa: SIM905
)
"""Words behind which a full stop ends no sentence."""
PARAGRAPH = re.compile(r"\n\s*\n")

Sentences = list[list[str]]
"""The words of each sentence."""


def tokenize(sentence: str) -> list[str]:
    """Return the words and signs of a sentence, in small letters."""
    return [word for token in _treebank().tokenize(sentence.lower()) for word in token.split()]


def split_sentences(text: str) -> Sentences:
    """Return the sentences of a text, tokenized; empty lines end paragraphs."""
    punkt = _punkt(text)
    lines = (
        line
        for paragraph in PARAGRAPH.split(text)
        for line in punkt.tokenize(" ".join(paragraph.split()))
    )
    return [tokenize(line) for line in lines if line.split()]


def cached_tokens(name: str, text: str, make: Callable[[], Sentences]) -> Sentences:
    """Return what ``make`` cuts a text into, cut once on this machine."""
    import nltk

    arrays = cache_arrays(
        name,
        f"{text} {nltk.__version__}",
        lambda: {"text": np.frombuffer(join(make()).encode(), np.uint8)},
    )
    return [line.split() for line in arrays["text"].tobytes().decode().split("\n")]


def join(sentences: Sentences) -> str:
    """Return sentences as a text, a line each, words between spaces."""
    return "\n".join(" ".join(words) for words in sentences)


def _punkt(text: str) -> Any:
    from nltk.tokenize.punkt import PunktSentenceTokenizer, PunktTrainer

    learned = PunktTrainer(text).get_params()
    learned.abbrev_types = set(ABBREVIATIONS)
    return PunktSentenceTokenizer(learned)


@cache
def _treebank() -> Any:
    from nltk.tokenize.destructive import NLTKWordTokenizer

    return NLTKWordTokenizer()


# Novels as Project Gutenberg has them.
#
# The text stands between two lines of asterisks; before the first and behind the second one is
# the licence. A sentence never goes on in the next paragraph.


BEGINS = re.compile(r"^\*\*\* ?START OF TH(?:IS|E) PROJECT GUTENBERG EBOOK.*$", re.M | re.I)
ENDS = re.compile(
    r"^(?:\*\*\* ?END OF TH(?:IS|E) PROJECT GUTENBERG EBOOK|End of (?:the )?Project Gutenberg)",
    re.M | re.I,
)
MADE_BY = re.compile(r"\s*(?:Produced|Transcribed|E-text prepared)\b.*?\n\s*\n", re.S)
"""The paragraph before the title page."""
ENCODING = re.compile(rb"^Character set encoding:\s*([\w-]+)", re.M)


def novel(file: Path) -> Sentences:
    """The sentences of a novel in a file of Project Gutenberg; cut once on this machine.

    Raises:
        ValueError: if the file is not in the encoding that it names, or its text does not stand
            between the two lines; names it.
    """
    text = told(file)
    return cached_tokens("sentences", text, lambda: split_sentences(text))


def told(file: Path) -> str:
    """The text of a file without the licence before and behind it, and without underscores,
    which stand for italics.

    Raises:
        ValueError: as :func:`novel`.
    """
    text = _decoded(file).removeprefix(codecs.BOM_UTF8.decode()).replace("\r\n", "\n")
    begins, ends = BEGINS.search(text), ENDS.search(text)
    if not begins or not ends or ends.start() < begins.end():
        raise ValueError(
            f"{file} is no whole book of Project Gutenberg: expected its text between lines "
            "'*** START OF THIS PROJECT GUTENBERG EBOOK' and '*** END OF'."
        )
    return MADE_BY.sub("", text[begins.end() : ends.start()], count=1).replace("_", "")


def _decoded(file: Path) -> str:
    """The text of a file in UTF-8, or in the encoding that it names."""
    content = file.read_bytes()
    named = ENCODING.search(content)
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        try:
            return content.decode(named[1].decode() if named else "utf-8")
        except (UnicodeDecodeError, LookupError):
            says = f"it says {named[1].decode()}" if named else "it names no other"
            raise ValueError(f"{file} is no UTF-8 at byte {error.start}; {says}.") from error


# Books made here: short stories in which what comes next follows from who did what to whom.
#
# A story has two people, a subject with its things, and a mood, which stay. What is told has
# consequences that its words alone do not give: who got the thing now has it, what was done
# second was the last thing, what was not said was true.


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


OPTIONS = {"longest": "words of a sentence at most; 29 if nothing is said"}

STORIES = Source(
    name="stories",
    title="Stories made here, in which what comes next follows from who did what to whom",
    kind="synthetic",
    licence="made on this machine",
    citation="lnlab.papers.skip_thoughts.data",
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
        return self._verified["books"].books

    @property
    def titles(self) -> tuple[str, ...]:
        """The titles of the books."""
        return self._verified["books"].titles

    @property
    def left_out(self) -> int:
        """The number of sentences that are too long."""
        return self._verified["books"].left_out

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
            if named := {*SPECIAL} & {*chain.from_iterable(book)}:
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
        total, read = hashlib.sha256(), self._splits["books"]
        for title, book in zip(read.titles, read.books, strict=True):
            total.update(f"{title} {len(book)}\n{join(book)}\0".encode())
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
    known = by_frequency(counts)[: max(0, size - 2)]
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
    - ``gutenberg``: every ``.txt`` file in the folder, cut by NLTK.
    - ``cbt-books``: the folder CBTest.
    - ``novels``: a folder with both of these.

    Args:
        place: the folder. None: the source's own place in the data folder.
        longest: words of a sentence at most; longer ones are left out.

    Raises:
        ValueError: if sentences may have no word; later, for a book of fewer than three
            sentences, and files in another encoding.
        FileNotFoundError: where there are no files; says which.
        NotADirectoryError: where the folder is a file.
    """
    if longest < 1:
        raise ValueError(f"longest is {longest}: {OPTIONS['longest']}, from 1.")
    if source is STORIES:
        return Books(source, _made, lambda: str(COUNT), longest=longest)
    place = place or data_folder() / source.name
    files, read = _files(source, place)
    return Books(source, read, lambda: file_stamp(files), longest=longest)


def _made() -> Shelf:
    return {f"story {n}": book for n, book in enumerate(books(COUNT, 0))}


def _files(source: Source, place: Path) -> tuple[list[Path], Callable[[], Shelf]]:
    """The files of a source at a place, and what reads them."""
    if source is NOVELS:
        parts = [
            _files(GUTENBERG, place / "gutenberg"), _files(CBT_BOOKS, place / "cbt" / "CBTest"),
        ]  # fmt: skip
        files = [file for found, _ in parts for file in found]
        return files, lambda: {t: b for _, read in parts for t, b in read().items()}
    if source is CBT_BOOKS:
        files = [place / name for name in data.FILES]
        missing = [file for file in files if not file.is_file()]
        wanted, read = " and ".join(data.FILES), partial(_children, place)
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
    read = _lines if source is BOOKCORPUS else novel
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
        for title, book in data.books(place).items()
    }
