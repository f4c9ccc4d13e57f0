"""Books as sequences of sentences: stories generated here, BookCorpus, novels.

A sentence is a list of words in small letters. A sentence that is too long is replaced by an
empty one and counted, so that its neighbours do not become neighbours of each other.
"""

import codecs
import csv
import hashlib
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from itertools import chain
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from lnlab.data.cache import cache_arrays, hash_file_stats
from lnlab.data.dataset import Dataset, Source, read_text, require_files, sources_offering
from lnlab.data.text import CHARACTERS
from lnlab.data.vocabulary import END, SPECIAL, UNKNOWN, Vocabulary, frequent_words
from lnlab.extras import explain_missing_extra
from lnlab.papers.attentive_reader.data import CBT_FILES, read_cbt_books
from lnlab.papers.skip_thoughts.model import SentenceTriples
from lnlab.paths import data_folder
from lnlab.training.random_state import generator_seeded_by_hash

if TYPE_CHECKING:
    from lnlab.papers.skip_thoughts.downstream import SentenceTask

TokenizedSentences = list[list[str]]  # the words of each sentence
Library = dict[str, TokenizedSentences]  # books by title

STORIES, BOOKCORPUS, NOVELS = SOURCES = sources_offering("books")

# Text cut into sentences and words by NLTK, with the tools of Kiros et al. (2015): Punkt (Kiss
# and Strunk, 2006), and the tokenizer of the Penn Treebank. nltk is an extra, imported late.

ABBREVIATIONS = set(
    "mr mrs dr st esq messrs mme mlle m prof rev hon capt col gen lieut no".split()  # noqa: SIM905
)
"""Words after which a full stop ends no sentence; those that Punkt learns are often words of
dialogue."""


@cache
def _treebank_tokenizer() -> Any:
    with explain_missing_extra():
        from nltk.tokenize.destructive import NLTKWordTokenizer

    return NLTKWordTokenizer()


def tokenize(sentence: str) -> list[str]:
    """Split a sentence into words and signs, in small letters."""
    return [
        word
        for token in _treebank_tokenizer().tokenize(sentence.lower())
        for word in token.split()
    ]


def split_into_tokenized_sentences(text: str) -> TokenizedSentences:
    """Split a text into tokenized sentences; empty lines end paragraphs."""
    with explain_missing_extra():
        from nltk.tokenize.punkt import PunktSentenceTokenizer, PunktTrainer

    parameters = PunktTrainer(text).get_params()
    parameters.abbrev_types = ABBREVIATIONS
    punkt = PunktSentenceTokenizer(parameters)
    paragraphs = (" ".join(part.split()) for part in re.split(r"\n\s*\n", text))
    lines = chain.from_iterable(map(punkt.tokenize, paragraphs))
    return [tokenize(line) for line in lines if line.split()]


def load_or_tokenize(
    cache_name: str, text: str, tokenize_text: Callable[[], TokenizedSentences]
) -> TokenizedSentences:
    """Return the sentences into which ``tokenize_text`` cuts a text, once on this machine."""
    with explain_missing_extra():
        import nltk

    def tokenized_text_as_byte_array() -> dict[str, np.ndarray]:
        return {
            "text": np.frombuffer(
                join_sentences_by_newlines(tokenize_text()).encode(), np.uint8
            )
        }

    arrays = cache_arrays(
        cache_name, f"{text} {nltk.__version__}", tokenized_text_as_byte_array
    )
    return [line.split() for line in arrays["text"].tobytes().decode().split("\n")]


def join_sentences_by_newlines(sentences: TokenizedSentences) -> str:
    """Join sentences to a text, a line each, words separated by spaces."""
    return "\n".join(" ".join(words) for words in sentences)


# Novels of Project Gutenberg: the text is between two lines of asterisks, the licence is not.

BEGIN = re.compile(r"^\*\*\* ?START OF TH(?:IS|E) PROJECT GUTENBERG EBOOK.*$", re.M | re.I)
FINISH = re.compile(
    r"^(?:\*\*\* ?END OF TH(?:IS|E) PROJECT GUTENBERG EBOOK|End of (?:the )?Project Gutenberg)",
    re.M | re.I,
)
CREDITS = re.compile(r"\s*(?:Produced|Transcribed|E-text prepared)\b.*?\n\s*\n", re.S)
"""The paragraph before the title page."""
ENCODING = re.compile(rb"^Character set encoding:\s*([\w-]+)", re.M)


def read_gutenberg_novel(file: Path) -> TokenizedSentences:
    """Read the sentences of a novel of Project Gutenberg; cut once on this machine."""
    named = ENCODING.search(file.read_bytes())
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
    return load_or_tokenize("sentences", text, lambda: split_into_tokenized_sentences(text))


# Stories, in which the next sentence follows from who did what to whom.
#
# A story has two people, a subject with its things, and a mood, which stay. Events have
# consequences that need more than the set of their words: who received the thing has it, what
# was done second was the last thing, what was left unsaid was true.

COUNT = 5_000  # stories


def _read_csv_body(file_name: str) -> list[list[str]]:
    with Path(__file__).with_name(file_name).open(encoding="utf-8") as file:
        return [*csv.reader(file)][1:]


SUBJECTS: dict[str, dict[str, str]] = {}
"""The subjects of stories, their things, and the verbs for each."""
for _subject, _thing, _verbs in _read_csv_body("things.csv"):
    SUBJECTS.setdefault(_subject, {})[_thing] = _verbs
FORMS = {past: (base, participle) for past, base, participle in _read_csv_body("verbs.csv")}
"""The base and the participle of every verb in the past."""
REACTIONS = {
    "helped": "thanked",
    "pushed": "shouted at",
    "praised": "smiled at",
    "followed": "looked back at",
}
"""Actions of one person towards another, and the reaction of the other."""
GOOD = ("good", "fine", "lovely", "bright", "great")
BAD = ("bad", "poor", "dull", "ugly", "weak")
GLAD, SAD = ("glad", "happy", "proud"), ("sad", "tired", "angry")
TIMES = ("one day", "in may", "last week", "on friday", "long ago")


@dataclass(frozen=True)
class Event:
    """An action of an agent: on a thing, on a recipient, or a thing given to a recipient."""

    agent: str
    verb: str
    thing: str = ""
    recipient: str = ""

    @property
    def paraphrases(self) -> tuple[str, ...]:
        """Its sentences, all of the same meaning."""
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
    def consequence_sentence(self) -> str:
        """The sentence that follows from the event."""
        if self.verb == "gave":
            return f"now {self.recipient} had the {self.thing} and {self.agent} had nothing"
        if self.recipient:
            return f"{self.recipient} {REACTIONS[self.verb]} {self.agent}"
        return f"so {self.agent} was busy with the {self.thing}"

    @property
    def with_agent_and_recipient_swapped(self) -> "Event":
        """The event with agent and recipient exchanged; without a recipient the same."""
        if not self.recipient:
            return self
        return replace(self, agent=self.recipient, recipient=self.agent)


class StorySetup(NamedTuple):
    """The subject, the people and the mood of a story, which stay."""

    place: str
    hero: str
    friend: str
    is_glad_story: bool


def random_story_setup(rng: Random) -> StorySetup:
    """Draw the setup of a story; its two people have different names."""
    hero, friend = rng.sample([name for names in CHARACTERS.values() for name in names], 2)
    return StorySetup(rng.choice([*SUBJECTS]), hero, friend, rng.random() < 0.5)


def random_event(rng: Random, setup: StorySetup) -> Event:
    """Draw an action of one of the two people."""
    agent, other = rng.sample([setup.hero, setup.friend], 2)
    thing = rng.choice([*SUBJECTS[setup.place]])
    kind = rng.randrange(4)
    if kind == 0:
        return Event(agent, "gave", thing, other)
    if kind == 1:
        return Event(agent, rng.choice([*REACTIONS]), recipient=other)
    return Event(agent, rng.choice(SUBJECTS[setup.place][thing].split()), thing)


def random_events_of_one_agent(rng: Random, setup: StorySetup) -> tuple[Event, Event]:
    """Draw two actions of one of the two people, on two things."""
    agent = rng.choice((setup.hero, setup.friend))
    verbs = SUBJECTS[setup.place]
    first, second = (
        Event(agent, rng.choice(verbs[thing].split()), thing)
        for thing in rng.sample([*verbs], 2)
    )
    return first, second


def random_opinion_of_thing(rng: Random, thing: str, other_thing: str, is_good: bool) -> str:
    """Draw an opinion about a thing, good or bad; the set of its words does not tell which."""
    word, contrary = rng.choice(GOOD), rng.choice(BAD)
    if not is_good:
        word, contrary = contrary, word
    return rng.choice(
        (
            f"the {thing} was {word}",
            f"the {thing} was really {word}",
            f"the {thing} was not {contrary}",
            f"although the {other_thing} was {contrary} , the {thing} was {word}",
            f"the {thing} was {word} , although the {other_thing} was {contrary}",
        )
    )


def before_and_after_sentences(first: Event, second: Event) -> tuple[str, str]:
    """Return two sentences about two events of one agent, the first before the second."""
    agent, one, two = first.agent, f"the {first.thing}", f"the {second.thing}"
    return (
        f"{agent} {first.verb} {one} before {two} was {FORMS[second.verb][1]}",
        f"{agent} {second.verb} {two} after {one} was {FORMS[first.verb][1]}",
    )


def negated_report_paraphrases(
    speaker: str, event: Event, *, speaker_denies: bool
) -> tuple[str, str]:
    """Return two sentences in which a speaker denies an event, or does not say that it was.

    Both have the same words, denied or not: the "not" is in another place.
    """
    happened = (
        f"{event.agent} did {'not ' * speaker_denies}{FORMS[event.verb][0]} the {event.thing}"
    )
    says = f"{speaker} did {'' if speaker_denies else 'not '}say"
    return f"{says} that {happened}", f"that {happened} , {says}"


# Episodes of a story, a few sentences each.


def tell_event_and_consequence(rng: Random, setup: StorySetup) -> Iterator[str]:
    """Tell an event and its consequence."""
    event = random_event(rng, setup)
    yield rng.choice(event.paraphrases)
    yield event.consequence_sentence
    mood = rng.choice(GLAD if setup.is_glad_story else SAD)
    yield f"{event.recipient or event.agent} was {mood}"


def tell_two_events_in_order(rng: Random, setup: StorySetup) -> Iterator[str]:
    """Tell two events one after the other, and which was the last."""
    first, second = random_events_of_one_agent(rng, setup)
    yield rng.choice(before_and_after_sentences(first, second))
    yield f"{first.agent} began with the {first.thing}"
    yield f"the last thing was the {second.thing}"


def tell_denial_or_silence(rng: Random, setup: StorySetup) -> Iterator[str]:
    """Tell what somebody did not say, or denied, and who knows of it."""
    event, speaker = (
        random_events_of_one_agent(rng, setup)[0],
        rng.choice((setup.hero, setup.friend)),
    )
    denied = rng.random() >= 0.5
    yield rng.choice(negated_report_paraphrases(speaker, event, speaker_denies=denied))
    if not denied:
        yield f"nobody heard of the {event.thing} , but it was true"
    else:
        yield f"everybody heard of the {event.thing} , and nothing had happened"


def tell_opinion_and_feeling(rng: Random, setup: StorySetup) -> Iterator[str]:
    """Tell an opinion about a thing, and a feeling that follows."""
    thing, other = rng.sample([*SUBJECTS[setup.place]], 2)
    yield random_opinion_of_thing(rng, thing, other, setup.is_glad_story)
    yield f"{setup.hero} {'liked' if setup.is_glad_story else 'hated'} the {thing}"


def tell_feeling_about_event(rng: Random, setup: StorySetup) -> Iterator[str]:
    """Tell a feeling of the narrator, or of one of the people."""
    event, speaker = random_event(rng, setup), rng.choice((setup.hero, setup.friend))
    adverb = "luckily" if setup.is_glad_story else "sadly"
    mood = rng.choice(GLAD if setup.is_glad_story else SAD)
    if rng.random() < 0.5:
        yield f"{adverb} , {speaker} knew that {rng.choice(event.paraphrases)}"
        yield f"i was {mood} about it"
    else:
        yield f"{speaker} knew that {adverb} , {rng.choice(event.paraphrases)}"
        yield f"{speaker} was {mood} about it"


EPISODES = (
    tell_event_and_consequence,
    tell_event_and_consequence,
    tell_two_events_in_order,
    tell_denial_or_silence,
    tell_opinion_and_feeling,
    tell_feeling_about_event,
)


def make_stories(count: int, seed: int) -> list[TokenizedSentences]:
    """Generate stories; a larger ``count`` gives the same ones and more."""
    rng = Random(f"stories {seed}")
    return [
        [line.split() for line in _tell_story(rng, random_story_setup(rng))]
        for _ in range(count)
    ]


def _tell_story(rng: Random, setup: StorySetup) -> Iterator[str]:
    yield f"{rng.choice(TIMES)} {setup.hero} met {setup.friend} at the {setup.place} ."
    for _ in range(rng.randint(2, 4)):
        yield from (f"{line} ." for line in rng.choice(EPISODES)(rng, setup))
    mood = rng.choice(GLAD if setup.is_glad_story else SAD)
    yield f"{setup.hero} and {setup.friend} went home and were {mood} ."


# The data set.

MAX_LENGTH = 29  # the most words of a sentence; the authors read those of fewer than 30
BRACKETS = {"-lrb-": "(", "-rrb-": ")"}
"""Words of the Children's Book Test that stand for signs."""


class Books(Dataset[Library]):
    """A set of books; the checksum is over the sentences of at most ``max_length`` words."""

    def __init__(
        self,
        source: Source,
        read: Callable[[], Library],
        key: Callable[[], str],
        *,
        max_length: int,
    ) -> None:
        super().__init__(
            source,
            self._blank_long_sentences_and_note,
            lambda: f"{key()} {max_length}",
            noted=True,
        )
        self._read_library, self.max_length = read, max_length

    @property
    def sentences_by_title(self) -> Library:
        """The sentences of each book, by title; one that is too long is empty."""
        return self._checksum_verified_splits["books"]

    @property
    def sentences_per_book(self) -> list[TokenizedSentences]:
        """The sentences of each book."""
        return [*self.sentences_by_title.values()]

    def _blank_long_sentences_and_note(self) -> tuple[dict[str, Library], str]:
        library = {
            title: [words if len(words) <= self.max_length else [] for words in book]
            for title, book in self._read_library().items()
        }
        sentences = [*chain.from_iterable(library.values())]
        out = sentences.count([])
        note = (
            f"{out} of {len(sentences)} sentences of more than {self.max_length} words left out"
        )
        return {"books": library}, note if out else ""

    def _digest(self) -> bytes:
        total = hashlib.sha256()
        for title, book in self._splits["books"].items():
            total.update(f"{title} {len(book)}\n{join_sentences_by_newlines(book)}\0".encode())
        return total.digest()

    def __str__(self) -> str:
        books, sentences = len(self.sentences_per_book), sum(map(len, self.sentences_per_book))
        return f"{self.kind} data: {self.name}; {books:,} books, {sentences:,} sentences"


def load(source: Source, path: Path | None = None, *, max_length: int = MAX_LENGTH) -> Books:
    """Return the books of a source; the options are those of ``sources.toml``.

    The path is a folder: of ``.txt`` files for BookCorpus, below it too; for the novels, of
    ``gutenberg/*.txt`` and ``cbt/CBTest``.
    """
    if source is STORIES:
        return Books(source, _stories_by_title, lambda: str(COUNT), max_length=max_length)
    folder = path or data_folder() / source.name
    if source is NOVELS:
        novels, cbt = (
            _find_text_files(source, folder / "gutenberg", "*.txt"),
            folder / "cbt/CBTest",
        )
        files = novels + require_files(source, cbt, CBT_FILES)

        def read_novels() -> Library:
            return {
                file.name: read_gutenberg_novel(file) for file in novels
            } | _read_cbt_books_by_title(cbt)

        read = read_novels
    else:
        files = _find_text_files(source, folder, "**/*.txt")

        def read_bookcorpus() -> Library:
            return {
                file.relative_to(folder).as_posix(): _read_sentence_lines(file)
                for file in files
            }

        read = read_bookcorpus

    return Books(source, read, lambda: hash_file_stats(files), max_length=max_length)


def _stories_by_title() -> Library:
    return {f"story {n}": book for n, book in enumerate(make_stories(COUNT, 0))}


def _find_text_files(source: Source, folder: Path, pattern: str) -> list[Path]:
    files = sorted(filter(Path.is_file, folder.glob(pattern)))
    if not files:
        raise FileNotFoundError(
            f"{source.name}: {folder} is no folder with .txt files, a book each "
            f"({source.citation}). Name it, {source.name}=PATH."
        )
    return files


def _read_sentence_lines(file: Path) -> TokenizedSentences:
    """Read the sentences of a file, a line each, without blank lines."""
    return [line.split() for line in read_text(file).lower().split("\n") if line.split()]


def _read_cbt_books_by_title(folder: Path) -> Library:
    return {
        title: [[BRACKETS.get(word, word) for word in map(str.lower, line)] for line in book]
        for title, book in read_cbt_books(folder).items()
    }


# Books by number, with the sentences that are held out.

STRETCH, EACH = 50, 20
"""The sentences of a stretch, and stretches of which the last one is held out."""


class EncodedBooks:
    """The sentences of books, by number.

    A sentence with a neighbour on both sides is trained on if none of the three is held out,
    and validated on if all are. An empty sentence is no neighbour.

    The vocabulary is the ``vocab_size`` most frequent training words, with the end and the
    unknown word. ``max_sentences`` keeps the first books, up to the one with that sentence; 0:
    all. ``tasks`` are those that sentence vectors are scored on. If ``shuffled``, sentences are
    in a random order, in which neighbours say nothing about each other; the vocabulary is that
    of the books in order, so that a model starts with the same vector for each word.

    ``lengths`` (N,) are words of each sentence; ``train`` and ``valid`` indices of sentences
    with two neighbours.
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
        self.books, self.tasks = books, dict(tasks or {})
        self.name, self.kind, self.licence = books.name, books.kind, books.licence
        ends = torch.tensor([len(book) for book in books.sentences_per_book]).cumsum(0)
        if max_sentences:
            ends = ends[: 1 + int((ends < max_sentences).sum())]
        self.ends = ends
        sentences = [*chain.from_iterable(books.sentences_per_book[: len(ends)])]
        held_out = torch.arange(len(sentences)) // STRETCH % EACH == EACH - 1
        trained = zip(sentences, held_out.tolist(), strict=True)
        counts = Counter(word for words, out in trained if not out for word in words)
        self.vocabulary = Vocabulary(frequent_words(counts)[: vocab_size - len(SPECIAL)])
        if shuffled:
            rng = generator_seeded_by_hash("sentences out of their order")
            order = torch.randperm(len(sentences), generator=rng)
            sentences = [sentences[index] for index in order.tolist()]
        self.sentences = sentences
        self.lengths = torch.tensor([len(sentence) for sentence in sentences])
        # all sentences in one row, each with its end symbol
        numbers = {word: number for number, word in enumerate(self.vocabulary.words)}
        rows = ([*(numbers.get(word, UNKNOWN) for word in words), END] for words in sentences)
        self.word_ids = torch.tensor([*chain.from_iterable(rows)], dtype=torch.int32)
        self.begins = (self.lengths + 1).cumsum(0) - self.lengths - 1

        def starts_of_three_in_a_row(mask: Tensor) -> Tensor:
            return mask[:-2] & mask[1:-1] & mask[2:]

        book = torch.bucketize(torch.arange(len(sentences)), ends, right=True)
        whole = starts_of_three_in_a_row(self.lengths > 0) & (book[:-2] == book[2:])
        self.train, self.valid = (
            (whole & starts_of_three_in_a_row(mask)).nonzero().squeeze(1) + 1
            for mask in (~held_out, held_out)
        )
        for name, indices in (("train", self.train), ("validate", self.valid)):
            if not len(indices):
                raise ValueError(
                    f"{self.name}: {len(sentences)} sentences in {len(ends)} books, none to "
                    f"{name} on: give a thousand sentences or more that follow each other, or "
                    "allow longer ones (max_length)."
                )

    @property
    def checksum(self) -> str:
        """The SHA-256 of the books and of the tasks."""
        if not self.tasks:
            return self.books.checksum
        checksums = [f"{name} {task.checksum}" for name, task in self.tasks.items()]
        lines = "\n".join([self.books.checksum, *checksums])
        return hashlib.sha256(lines.encode()).hexdigest()

    def unencoded_sentence_text(self, index: int) -> str:
        """Return a sentence as text."""
        return " ".join(self.sentences[index])

    def held_out_passages(self, min_sentences: int) -> list[range]:
        """Return the indices of held-out passages of at least so many sentences."""
        breaks = (self.valid.diff() > 1).nonzero().squeeze(1) + 1
        rows = self.valid.tensor_split(breaks)
        passages = [range(int(row[0]) - 1, int(row[-1]) + 2) for row in rows]
        return [passage for passage in passages if len(passage) >= min_sentences]

    def sentence_triples(self, indices: Tensor) -> SentenceTriples:
        """Return sentences of one length with their neighbours."""
        counts = torch.stack([self.lengths[indices + side] + 1 for side in (-1, 1)], 1)
        middle = self._padded_word_ids(indices, int(self.lengths[indices[0]]) + 1)
        before, after = (
            self._padded_word_ids(indices + side, int(counts.max())) for side in (-1, 1)
        )
        return SentenceTriples(middle, before, after, counts)

    def _padded_word_ids(self, indices: Tensor, width: int) -> Tensor:
        """Return the numbers of sentences (B, width), padded with :data:`END`."""
        position = torch.arange(width)
        mask = position <= self.lengths[indices][:, None]
        index = torch.where(mask, self.begins[indices][:, None] + position, 0)
        return torch.where(mask, self.word_ids[index].long(), END)

    def __str__(self) -> str:
        return (
            f"{self.books}; {len(self.train):,} train and {len(self.valid):,} validate; "
            f"{len(self.vocabulary):,} words"
        )
