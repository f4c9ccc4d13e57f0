"""Books as sentences that follow each other: stories generated here, BookCorpus, novels.

A sentence is a list of words in small letters. One that is too long is left out and counted; an
empty one stays at its place, so that nobody takes its neighbours for each other's.
"""

import codecs
import hashlib
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import chain
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from lnlab.data.cache import cache_arrays, file_stamp
from lnlab.data.dataset import Dataset, Source, read_sources, read_text, require_files
from lnlab.data.text import CHARACTERS
from lnlab.data.vocabulary import END, SPECIAL, UNKNOWN, Vocabulary, by_frequency
from lnlab.extras import name_missing_extra
from lnlab.papers.attentive_reader.data import CBT_FILES, read_cbt_books
from lnlab.paths import data_folder

if TYPE_CHECKING:
    from torch import Tensor

    from lnlab.papers.skip_thoughts.downstream import SentenceTask
    from lnlab.papers.skip_thoughts.model import Triples

Sentences = list[list[str]]
"""The words of each sentence."""
Library = dict[str, Sentences]
"""Books by title."""

STORIES, BOOKCORPUS, GUTENBERG, CBT_BOOKS, NOVELS = SOURCES = read_sources("books")

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


def tokenize(sentence: str) -> list[str]:
    """Return the words and signs of a sentence, in small letters."""
    return [word for token in _treebank().tokenize(sentence.lower()) for word in token.split()]


@cache
def _treebank() -> Any:
    with name_missing_extra():
        from nltk.tokenize.destructive import NLTKWordTokenizer

    return NLTKWordTokenizer()


def split_sentences(text: str) -> Sentences:
    """Return the sentences of a text, tokenized; empty lines end paragraphs."""
    with name_missing_extra():
        from nltk.tokenize.punkt import PunktSentenceTokenizer, PunktTrainer

    learned = PunktTrainer(text).get_params()
    learned.abbrev_types = set(ABBREVIATIONS)  # it learns too many: words of dialogue
    punkt = PunktSentenceTokenizer(learned)
    paragraphs = (" ".join(part.split()) for part in re.split(r"\n\s*\n", text))
    lines = chain.from_iterable(map(punkt.tokenize, paragraphs))
    return [tokenize(line) for line in lines if line.split()]


def cached_tokens(name: str, text: str, make: Callable[[], Sentences]) -> Sentences:
    """Return what ``make`` cuts a text into, cut once on this machine."""
    with name_missing_extra():
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


# Novels of Project Gutenberg. The text stands between two lines of asterisks; before the first
# and behind the second one is the licence.

BEGIN = re.compile(r"^\*\*\* ?START OF TH(?:IS|E) PROJECT GUTENBERG EBOOK.*$", re.M | re.I)
FINISH = re.compile(
    r"^(?:\*\*\* ?END OF TH(?:IS|E) PROJECT GUTENBERG EBOOK|End of (?:the )?Project Gutenberg)",
    re.M | re.I,
)
CREDITS = re.compile(r"\s*(?:Produced|Transcribed|E-text prepared)\b.*?\n\s*\n", re.S)
"""The paragraph before the title page."""
ENCODING = re.compile(rb"^Character set encoding:\s*([\w-]+)", re.M)


def read_novel(file: Path) -> Sentences:
    """Read the sentences of a novel in a file of Project Gutenberg; cut once on this machine.

    Raises:
        ValueError: if the file is not in the encoding that it names, or its text does not stand
            between the two lines; names it.
    """
    content = file.read_bytes()
    named = ENCODING.search(content)
    encodings = ["utf-8", *([named[1].decode()] if named else [])]
    text = read_text(file, encodings).removeprefix(codecs.BOM_UTF8.decode())
    text = text.replace("\r\n", "\n")
    begin, finish = BEGIN.search(text), FINISH.search(text)
    if not begin or not finish or finish.start() < begin.end():
        raise ValueError(
            f"{file} is no whole book of Project Gutenberg: expected its text between lines "
            "'*** START OF THIS PROJECT GUTENBERG EBOOK' and '*** END OF'."
        )
    text = CREDITS.sub("", text[begin.end() : finish.start()], count=1)
    text = text.replace("_", "")  # underscores stand for italics
    return cached_tokens("sentences", text, lambda: split_sentences(text))


# Stories: what comes next follows from who did what to whom.
#
# A story has two people, a subject with its things, and a mood, which stay. What is told has
# consequences that its words alone do not give: who got the thing now has it, what was done
# second was the last thing, what was not said was true.

COUNT = 5_000
"""Stories."""
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
VERBS = (
    "watered water watered, cut cut cut, painted paint painted, mended mend mended, "
    "picked pick picked, ate eat eaten, rowed row rowed, threw throw thrown, caught catch "
    "caught, baked bake baked, cooked cook cooked, spilled spill spilled, washed wash washed, "
    "broke break broken, read read read, lost lose lost, drew draw drawn, learned learn "
    "learned, sang sing sung, bought buy bought, sold sell sold, fed feed fed, rode ride "
    "ridden, milked milk milked, pulled pull pulled, chased chase chased, lit light lit, "
    "watched watch watched, found find found, missed miss missed, burned burn burned, "
    "carried carry carried, helped help helped, pushed push pushed, praised praise praised, "
    "followed follow followed"
)
FORMS = {
    past: (base, participle) for past, base, participle in map(str.split, VERBS.split(","))
}
"""The base and the participle of every verb in the past."""
REACTIONS = {
    "helped": "thanked",
    "pushed": "shouted at",
    "praised": "smiled at",
    "followed": "looked back at",
}
"""Deeds of one person towards another, and the answer of the other."""
GOOD = ("good", "fine", "lovely", "bright", "great")
BAD = ("bad", "poor", "dull", "ugly", "weak")
GLAD, SAD = ("glad", "happy", "proud"), ("sad", "tired", "angry")
TIMES = ("one day", "in may", "last week", "on friday", "long ago")
EPISODES = (2, 4)
"""The least and the greatest number of things told in a story."""


@dataclass(frozen=True)
class Event:
    """Something done by an agent: with a thing, to somebody, or a thing given to somebody."""

    agent: str
    verb: str
    thing: str = ""
    recipient: str = ""

    @property
    def paraphrases(self) -> tuple[str, ...]:
        """Sentences that mean it."""
        agent, verb, thing, recipient = self.agent, self.verb, self.thing, self.recipient
        if verb == "gave":
            return (
                f"{agent} gave {recipient} the {thing}",
                f"{agent} gave the {thing} to {recipient}",
                f"{recipient} got the {thing} from {agent}",
            )
        whom = recipient or f"the {thing}"
        return f"{agent} {verb} {whom}", f"{whom} was {FORMS[verb][1]} by {agent}"

    @property
    def consequence(self) -> str:
        """The sentence that follows from it."""
        if self.verb == "gave":
            return f"now {self.recipient} had the {self.thing} and {self.agent} had nothing"
        if self.recipient:
            return f"{self.recipient} {REACTIONS[self.verb]} {self.agent}"
        return f"so {self.agent} was busy with the {self.thing}"

    @property
    def swapped(self) -> "Event":
        """The two people exchanged; an event with a thing alone stays."""
        if not self.recipient:
            return self
        return replace(self, agent=self.recipient, recipient=self.agent)


class Cast(NamedTuple):
    """The subject, the people and the mood of a story, which stay."""

    subject: str
    hero: str
    friend: str
    glad: bool


def random_cast(rng: Random) -> Cast:
    """Draw a cast; the two people have different names."""
    hero, friend = rng.sample([name for names in CHARACTERS.values() for name in names], 2)
    return Cast(rng.choice([*SUBJECTS]), hero, friend, rng.random() < 0.5)


def random_event(rng: Random, cast: Cast) -> Event:
    """Draw something that one of the two does."""
    agent, other = rng.sample([cast.hero, cast.friend], 2)
    thing = rng.choice([*SUBJECTS[cast.subject]])
    kind = rng.randrange(4)
    if kind == 0:
        return Event(agent, "gave", thing, other)
    if kind == 1:
        return Event(agent, rng.choice([*REACTIONS]), recipient=other)
    return Event(agent, rng.choice(SUBJECTS[cast.subject][thing].split()), thing)


def two_events(rng: Random, cast: Cast) -> tuple[Event, Event]:
    """Draw two things that one of the two does, with two things."""
    agent = rng.choice((cast.hero, cast.friend))
    verbs = SUBJECTS[cast.subject]
    first, second = rng.sample([*verbs], 2)
    return (
        Event(agent, rng.choice(verbs[first].split()), first),
        Event(agent, rng.choice(verbs[second].split()), second),
    )


def opinion(rng: Random, thing: str, other: str, good: bool) -> str:
    """Draw a sentence that finds a thing good, or bad; its words alone do not say which."""
    word, contrary = rng.choice(GOOD), rng.choice(BAD)
    if not good:
        word, contrary = contrary, word
    return rng.choice(
        (
            f"the {thing} was {word}",
            f"the {thing} was really {word}",
            f"the {thing} was not {contrary}",
            f"although the {other} was {contrary} , the {thing} was {word}",
            f"the {thing} was {word} , although the {other} was {contrary}",
        )
    )


def in_sequence(first: Event, second: Event) -> tuple[str, str]:
    """Return two sentences that tell of two events of one agent one after the other."""
    agent, one, two = first.agent, f"the {first.thing}", f"the {second.thing}"
    return (
        f"{agent} {first.verb} {one} before {two} was {FORMS[second.verb][1]}",
        f"{agent} {second.verb} {two} after {one} was {FORMS[first.verb][1]}",
    )


def not_said(teller: str, event: Event) -> tuple[str, str]:
    """Return two sentences that tell that somebody did not say what another did."""
    done = f"that {event.agent} did {FORMS[event.verb][0]} the {event.thing}"
    return f"{teller} did not say {done}", f"{done} , {teller} did not say"


def said_not(teller: str, event: Event) -> tuple[str, str]:
    """Return two sentences, of the same words, of somebody who says that it was not done."""
    denied = f"that {event.agent} did not {FORMS[event.verb][0]} the {event.thing}"
    return f"{teller} did say {denied}", f"{denied} , {teller} did say"


def _event(rng: Random, cast: Cast) -> Iterator[str]:
    """Tell an event, and what follows from it."""
    event = random_event(rng, cast)
    yield rng.choice(event.paraphrases)
    yield event.consequence
    yield f"{event.recipient or event.agent} was {rng.choice(GLAD if cast.glad else SAD)}"


def _sequence(rng: Random, cast: Cast) -> Iterator[str]:
    """Tell two events one after the other, and which was the last."""
    first, second = two_events(rng, cast)
    yield rng.choice(in_sequence(first, second))
    yield f"{first.agent} began with the {first.thing}"
    yield f"the last thing was the {second.thing}"


def _denial(rng: Random, cast: Cast) -> Iterator[str]:
    """Tell what was not said, or denied; and who knows of it."""
    event, teller = two_events(rng, cast)[0], rng.choice((cast.hero, cast.friend))
    if rng.random() < 0.5:
        yield rng.choice(not_said(teller, event))
        yield f"nobody heard of the {event.thing} , but it was true"
    else:
        yield rng.choice(said_not(teller, event))
        yield f"everybody heard of the {event.thing} , and nothing had happened"


def _opinion(rng: Random, cast: Cast) -> Iterator[str]:
    """Tell an opinion about a thing, and a feeling that follows."""
    thing, other = rng.sample([*SUBJECTS[cast.subject]], 2)
    yield opinion(rng, thing, other, cast.glad)
    yield f"{cast.hero} {'liked' if cast.glad else 'hated'} the {thing}"


def _feeling(rng: Random, cast: Cast) -> Iterator[str]:
    """Tell a feeling of the teller of the story, or of one of its people."""
    event, teller = random_event(rng, cast), rng.choice((cast.hero, cast.friend))
    adverb = "luckily" if cast.glad else "sadly"
    mood = rng.choice(GLAD if cast.glad else SAD)
    if rng.random() < 0.5:
        yield f"{adverb} , {teller} knew that {rng.choice(event.paraphrases)}"
        yield f"i was {mood} about it"
    else:
        yield f"{teller} knew that {adverb} , {rng.choice(event.paraphrases)}"
        yield f"{teller} was {mood} about it"


PLOTS = (_event, _event, _sequence, _denial, _opinion, _feeling)


def make_stories(count: int, seed: int) -> list[Sentences]:
    """Generate so many stories, of sentences, of words; more of them begin with fewer."""
    rng = Random(f"stories {seed}")
    return [[line.split() for line in _story(rng, random_cast(rng))] for _ in range(count)]


def _story(rng: Random, cast: Cast) -> Iterator[str]:
    yield f"{rng.choice(TIMES)} {cast.hero} met {cast.friend} at the {cast.subject} ."
    for _ in range(rng.randint(*EPISODES)):
        yield from (f"{line} ." for line in rng.choice(PLOTS)(rng, cast))
    mood = rng.choice(GLAD if cast.glad else SAD)
    yield f"{cast.hero} and {cast.friend} went home and were {mood} ."


# The data set.

MAX_LENGTH = 29
"""Words of a sentence; the authors read those of fewer than 30."""
BRACKETS = {"-lrb-": "(", "-rrb-": ")"}
"""Words of the Children's Book Test that NLTK leaves as they are written."""


class Books(Dataset[Library]):
    """A set of books. The checksum is over the sentences that are left.

    Args:
        source, key: as of :class:`Dataset`.
        read: reads the books by title.
        max_length: words of a sentence at most.
    """

    def __init__(
        self,
        source: Source,
        read: Callable[[], Library],
        key: Callable[[], str],
        *,
        max_length: int,
    ) -> None:
        super().__init__(source, self._shortened, lambda: f"{key()} {max_length}", noted=True)
        self._library, self.max_length = read, max_length

    @property
    def library(self) -> Library:
        """The sentences of each book, of words, by title; one that is too long is empty."""
        return self._verified["books"]

    @property
    def books(self) -> list[Sentences]:
        """The sentences of each book, of words."""
        return [*self.library.values()]

    @property
    def left_out(self) -> int:
        """The number of sentences that are too long."""
        return sum(not words for book in self.books for words in book)

    def _shortened(self) -> tuple[dict[str, Library], str]:
        library = self._library()
        name = self.source.name
        for title, book in library.items():
            if (count := sum(map(bool, book))) < 3:
                raise ValueError(
                    f"{name}: {title} has {count} sentence{'s' * (count != 1)}, and a book "
                    "needs three, one before and one behind another: take it out."
                )
            if special := {*SPECIAL} & {*chain.from_iterable(book)}:
                raise ValueError(
                    f"{name}: {title} has the word {min(special)!r}, which stands for what is "
                    "no word: write it otherwise."
                )
        whole = sum(map(len, library.values()))
        library = {
            title: [words if len(words) <= self.max_length else [] for words in book]
            for title, book in library.items()
        }
        out = sum(not words for book in library.values() for words in book)
        if out == whole:
            raise ValueError(
                f"{name}: all {whole} sentences have more than {self.max_length} words: allow "
                "longer ones (max_length), or cut the text into sentences, a line each."
            )
        note = f"{out} of {whole} sentences of more than {self.max_length} words left out"
        return {"books": library}, note if out else ""

    def _digest(self) -> bytes:
        total = hashlib.sha256()
        for title, book in self._splits["books"].items():
            total.update(f"{title} {len(book)}\n{join(book)}\0".encode())
        return total.digest()

    def __str__(self) -> str:
        sentences = sum(map(len, self.books))
        return (
            f"{self.kind} data: {self.name}; {len(self.books):,} books, {sentences:,} sentences"
        )


def load(source: Source, path: Path | None = None, *, longest: int = MAX_LENGTH) -> Books:
    """Return the books of a source, for :func:`lnlab.data.load`.

    - ``stories``: 5,000, generated here, always the same.
    - ``bookcorpus``: every ``.txt`` file in the folder, in UTF-8, or in a folder of it.
    - ``gutenberg``: every ``.txt`` file in the folder, cut by NLTK.
    - ``cbt-books``: the folder CBTest.
    - ``novels``: a folder with both of these.

    Args:
        path: the folder. None: the source's own place in the data folder.
        longest: words of a sentence at most; longer ones are left out.

    Raises:
        ValueError: if sentences may have no word; later, for a book of fewer than three
            sentences, and files in another encoding.
        FileNotFoundError: where there are no files; says which.
    """
    if source is STORIES:
        return Books(source, _stories, lambda: str(COUNT), max_length=longest)
    files, read = _reader(source, path or data_folder() / source.name)
    return Books(source, read, lambda: file_stamp(files), max_length=longest)


def _stories() -> Library:
    return {f"story {n}": book for n, book in enumerate(make_stories(COUNT, 0))}


def _reader(source: Source, folder: Path) -> tuple[list[Path], Callable[[], Library]]:
    """Return the files of a source in a folder, and what reads them."""
    if source is NOVELS:
        files, novels = _reader(GUTENBERG, folder / "gutenberg")
        others, children = _reader(CBT_BOOKS, folder / "cbt" / "CBTest")
        return files + others, lambda: novels() | children()
    if source is CBT_BOOKS:
        return require_files(source, folder, CBT_FILES), partial(_read_children, folder)
    found = folder.rglob("*.txt") if source is BOOKCORPUS else folder.glob("*.txt")
    files = sorted(file for file in found if file.is_file())
    if not files:
        raise FileNotFoundError(
            f"{source.name}: {folder} is no folder with .txt files, a book each "
            f"({source.citation}). Name it, {source.name}=PATH."
        )
    read = _read_lines if source is BOOKCORPUS else read_novel
    return files, lambda: {file.relative_to(folder).as_posix(): read(file) for file in files}


def _read_lines(file: Path) -> Sentences:
    """Read the sentences of a file, a line each; blank lines are none."""
    return [line.split() for line in read_text(file).lower().split("\n") if line.split()]


def _read_children(folder: Path) -> Library:
    return {
        title: [[BRACKETS.get(word, word) for word in map(str.lower, line)] for line in book]
        for title, book in read_cbt_books(folder).items()
    }


# Books by number: which sentences train and which are held out.

STRETCH, EACH = 50, 20
"""Sentences of a stretch, and the number of stretches of which the last one is held out."""


class EncodedBooks:
    """The sentences of books, by number.

    A sentence that has one right before it and one right behind it trains if none of the three
    is held out, and validates if all are. One that was left out stands between its neighbours
    as an empty one, and parts them.

    Args:
        books: as :func:`lnlab.data.load` gives them.
        vocab_size: V, the most frequent words of those that train, with the end and the unknown
            word.
        max_sentences: how many to read, in whole books; 0: all.
        shuffled: whether sentences stand in the places of others, drawn at random: what is
            beside one then says nothing of it. The vocabulary stays that of the books in
            order, so that a model begins with the same vector for each word.
        tasks: by name, what vectors of sentences are scored on.

    Attributes:
        vocabulary: the words.
        lengths: words of each sentence (N,).
        train, valid: indices of sentences with two neighbours.

    Raises:
        ValueError: if the books have no word, or nothing trains or validates.
    """

    def __init__(
        self,
        books: Books,
        vocab_size: int,
        max_sentences: int = 0,
        tasks: "Mapping[str, SentenceTask] | None" = None,
        *,
        shuffled: bool = False,
    ) -> None:
        import torch  # to list data sets does not take it

        from lnlab.training.random_state import generator

        self.books, self.tasks = books, dict(tasks or {})
        ends = torch.tensor([len(book) for book in books.books]).cumsum(0)
        if max_sentences:
            ends = ends[: 1 + int((ends < max_sentences).sum())]
        self.ends = ends
        sentences = [*chain.from_iterable(books.books[: len(ends)])]
        held_out = torch.arange(len(sentences)) // STRETCH % EACH == EACH - 1
        self.vocabulary = frequent_words(
            (words for words, out in zip(sentences, held_out.tolist(), strict=True) if not out),
            vocab_size,
        )
        if shuffled:
            random = generator("sentences out of their order")
            order = torch.randperm(len(sentences), generator=random)
            sentences = [sentences[index] for index in order.tolist()]
        self.sentences = sentences
        self.lengths = torch.tensor([len(sentence) for sentence in sentences])
        # all sentences in one row, each with its end
        numbers = {word: number for number, word in enumerate(self.vocabulary.words)}
        rows = ([*(numbers.get(word, UNKNOWN) for word in words), END] for words in sentences)
        self.words = torch.tensor([*chain.from_iterable(rows)], dtype=torch.int32)
        self.begins = (self.lengths + 1).cumsum(0) - self.lengths - 1

        def three(mask: "Tensor") -> "Tensor":
            return mask[:-2] & mask[1:-1] & mask[2:]

        book = torch.bucketize(torch.arange(len(sentences)), ends, right=True)
        whole = three(self.lengths > 0) & (book[:-2] == book[2:])
        self.train, self.valid = (
            (whole & three(mask)).nonzero().squeeze(1) + 1 for mask in (~held_out, held_out)
        )
        for name, indices in (("train", self.train), ("validate", self.valid)):
            if not len(indices):
                raise ValueError(
                    f"{self.name}: {len(sentences)} sentences in {len(ends)} books, none to "
                    f"{name} on; {books.left_out} were too long. Give a thousand sentences or "
                    "more that follow each other, or allow longer ones (max_length)."
                )

    @property
    def name(self) -> str:
        return self.books.name

    @property
    def kind(self) -> str:
        return self.books.kind

    @property
    def licence(self) -> str:
        return self.books.licence

    @property
    def checksum(self) -> str:
        """That of the books and of the tasks."""
        if not self.tasks:
            return self.books.checksum
        checksums = [f"{name} {task.checksum}" for name, task in self.tasks.items()]
        lines = "\n".join([self.books.checksum, *checksums])
        return hashlib.sha256(lines.encode()).hexdigest()

    def sentence(self, index: int) -> str:
        """Return the words of a sentence, as the books have them."""
        return " ".join(self.sentences[index])

    def passages(self, min_length: int) -> list[range]:
        """Return the indices of held-out sentences, of each row that is long enough."""
        breaks = (self.valid.diff() > 1).nonzero().squeeze(1) + 1
        rows = self.valid.tensor_split(breaks)
        passages = [range(int(row[0]) - 1, int(row[-1]) + 2) for row in rows]
        return [passage for passage in passages if len(passage) >= min_length]

    def triples(self, indices: "Tensor") -> "Triples":
        """Return sentences of one length with their neighbours."""
        import torch

        from lnlab.papers.skip_thoughts.model import Triples

        counts = torch.stack([self.lengths[indices + side] + 1 for side in (-1, 1)], 1)
        middle = self._rows(indices, int(self.lengths[indices[0]]) + 1)
        before, after = (self._rows(indices + side, int(counts.max())) for side in (-1, 1))
        return Triples(middle, before, after, counts)

    def _rows(self, indices: "Tensor", width: int) -> "Tensor":
        """Return the numbers of sentences (B, width), padded with :data:`END`."""
        import torch

        at = torch.arange(width)
        mask = at <= self.lengths[indices][:, None]
        index = torch.where(mask, self.begins[indices][:, None] + at, 0)
        return torch.where(mask, self.words[index].long(), END)

    def __str__(self) -> str:
        return (
            f"{self.books}; {len(self.train):,} train and {len(self.valid):,} validate, "
            f"{self.books.left_out:,} left out as too long; {len(self.vocabulary):,} words"
        )


def frequent_words(sentences: Iterable[Sequence[str]], size: int) -> Vocabulary:
    """Return the most frequent words of sentences; of equals the first by letters.

    Args:
        size: V, how many numbers the vocabulary has at most, with the end and the unknown word.

    Raises:
        ValueError: if that leaves no word, or the sentences have none.
    """
    counts = Counter(chain.from_iterable(sentences))
    words = by_frequency(counts)[: max(0, size - len(SPECIAL))]
    if not words:
        raise ValueError(
            f"the vocabulary is empty: {len(counts)} different words were given, and room for "
            f"{size} numbers, two of them for the end and the unknown word. Give text with "
            "words and more numbers (vocab_size)."
        )
    return Vocabulary(words)
