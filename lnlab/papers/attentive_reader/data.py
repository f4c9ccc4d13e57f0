"""Questions with a word missing: generated here, CNN's articles, and made from books."""

import hashlib
import random
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, partial
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from lnlab.data.cache import Arrays, cache_arrays, file_stamp
from lnlab.data.dataset import Dataset, Source, read_sources, read_text, require_files
from lnlab.data.vocabulary import SPECIAL, Vocabulary, by_frequency, pad
from lnlab.paths import data_folder

if TYPE_CHECKING:
    from torch import Tensor

    from lnlab.papers.attentive_reader.model import QuestionBatch

CLOZE, CNN, CBT = SOURCES = read_sources("questions")

BLANK = "@placeholder"
"""The word that stands where the answer is missing."""
ENTITY = re.compile(r"@entity(\d+)")


@dataclass(frozen=True)
class Question:
    """A passage and a sentence with a word missing; words stand between spaces.

    Attributes:
        name: where it is from.
        sentences: of the passage, in its order.
        query: the sentence with :data:`BLANK` in it.
        candidates: "@entity3" and so on, each once.
        answer: one of them.
        entity_names: the words that candidates stand for, where that is known.

    Raises:
        ValueError: for nothing to read, no blank, or an answer or an entity that is no
            candidate.
    """

    name: str
    sentences: tuple[str, ...]
    query: str
    candidates: tuple[str, ...]
    answer: str
    entity_names: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.passage.split():
            raise ValueError(f"{self.name}: the passage has no words: leave it out.")
        if BLANK not in self.query.split():
            raise ValueError(f"{self.name}: the question has no {BLANK}: correct it.")
        for entity in (self.answer, *entities([*self.sentences, self.query])):
            if entity not in self.candidates:
                raise ValueError(
                    f"{self.name}: {entity!r} is no candidate, they are "
                    f"{', '.join(self.candidates)}: name every entity."
                )

    @property
    def passage(self) -> str:
        """All of its sentences."""
        return " ".join(self.sentences)

    @property
    def answerable(self) -> bool:
        """True if the answer stands in the passage."""
        return self.answer in self.passage.split()


def entities(texts: Iterable[str]) -> list[str]:
    """Return the entities among the words of texts, as often as they stand there."""
    words = (word for text in texts for word in text.split())
    return [word for word in words if word[0] == "@" and ENTITY.fullmatch(word)]


def nearest_sentences(question: Question, count: int) -> Question:
    """Return the question with the sentences that share most words with it, in their order.

    Of two that share as many the first; a word counts once, and must have a letter. What is
    cut off may hold the answer: of CNN's articles four sentences hold 57 % of them.
    """
    asked = {word for word in question.query.split() if word[-1:].isalnum()} - {BLANK}
    shared = [len(asked & {*sentence.split()}) for sentence in question.sentences]
    best = sorted(range(len(shared)), key=lambda index: (-shared[index], index))[:count]
    return replace(question, sentences=tuple(question.sentences[k] for k in sorted(best)))


Splits = Mapping[str, Sequence[Question]]

# Questions made from the books of the Children's Book Test, of Hill et al. (2016).
#
# Their own questions are not needed: from 21 sentences, or 5, that follow each other a word of
# the last one is taken out. By a rule that needs no tagger, it is
#
# - a *name*: a word with a capital letter that in its book stands inside sentences, twice or
#   more, and oftener so than in small letters; or
# - a *word*: in small letters, of three or more, ten times or more in its book, and none of the
#   150 most frequent ones of all books,
#
# that stands there once, and in the sentences before, too. Nine others of the same kind from
# there, none of them in the question, are the other candidates; where there are fewer, no
# question is made. All ten are anonymous, as entities are in CNN's articles, in an order that
# is drawn by a hash.

CBT_FILES = ("data/cbt_valid.txt", "data/cbt_test.txt")
"""The files of books, below the set's folder; those of its training books are not read."""
TITLE = "_BOOK_TITLE_ :"
COMMON = 150
MIN_COUNT = {"name": 2, "word": 10}
CANDIDATES = 10
HELD_OUT = 2
"""Books that validate, and that test."""
BEFORE = 20
"""Sentences of a passage, as Hill et al. (2016) have it."""
OPENING = ("`", "``", "'", "''", '"', ".", "!", "?", ":")
"""Behind these a capital letter says nothing."""

Book = list[list[str]]


def read_cbt_books(folder: Path) -> dict[str, Book]:
    """Read the books in the files, by title: sentences of words.

    Raises:
        ValueError: for a line before the first title, or a file that is no UTF-8.
    """
    books: dict[str, Book] = {}
    for file in (folder / name for name in CBT_FILES):
        title = ""
        for number, line in enumerate(read_text(file).split("\n"), start=1):
            if line.startswith(TITLE):
                title = line.removeprefix(TITLE).strip()
                books[title] = []
            elif line.split():
                if not title:
                    raise ValueError(f"{file}, line {number}: expected {TITLE} and a title.")
                books[title].append(line.replace("@", "").split())
    return books


def make_cbt_questions(folder: Path, sentences: int, split: int) -> Splits:
    """Make the questions of every split: two books test, two validate, the others train.

    Which ones depends on ``split`` alone; a book is in one of them.

    Args:
        sentences: of a passage, those right before the question.

    Raises:
        ValueError: if a split has no questions.
    """
    books = read_cbt_books(folder)
    counts = Counter(word.lower() for book in books.values() for line in book for word in line)
    common = {word for word, _ in counts.most_common(COMMON)}
    order = by_hash(books, split)
    titles = {
        "train": order[2 * HELD_OUT :],
        "valid": order[HELD_OUT : 2 * HELD_OUT],
        "test": order[:HELD_OUT],
    }
    splits = {
        name: tuple(
            q for title in own for q in _questions(title, books[title], common, sentences)
        )
        for name, own in titles.items()
    }
    for name, questions in splits.items():
        if not questions:
            raise ValueError(
                f"{folder}: the {len(titles[name])} books that {name} in split {split} give no "
                "question: give whole books, ten or more."
            )
    return splits


def by_hash(words: Iterable[str], *where: object) -> list[str]:
    """Return words in an order that looks random, and is the same on every machine."""

    def key(word: str) -> bytes:
        return hashlib.sha256("\0".join(map(str, (*where, word))).encode()).digest()

    return sorted(words, key=key)


def _questions(title: str, book: Book, common: set[str], sentences: int) -> Iterator[Question]:
    """Yield the questions of a book, at most one of each kind for a sentence."""
    kinds = answer_words(book, common)
    for index in range(sentences, len(book)):
        before, query = book[index - sentences : index], book[index]
        for kind, words in kinds.items():
            present = {word for line in before for word in line if word in words}
            answers = by_hash({w for w in present if query.count(w) == 1}, title, index)
            others = by_hash(present.difference(query), title, index)
            if answers and len(others) >= CANDIDATES - 1:
                candidates = [answers[0], *others[: CANDIDATES - 1]]
                name = f"{title}, line {index + 1}, {kind}"
                yield _anonymous(name, before, query, candidates)


def answer_words(book: Book, common: set[str]) -> dict[str, set[str]]:
    """Return the names and the words of a book that may be asked for, by the rule above."""
    counts = Counter(word for line in book for word in line)
    inside = Counter(
        word
        for line in book
        for before, word in pairwise(line)
        if word[0].isupper() and word.isalpha() and before not in OPENING
    )
    names = {
        word
        for word, count in inside.items()
        if count >= MIN_COUNT["name"]
        and count > counts[word.lower()]
        and word.lower() not in common
    }
    words = {
        word
        for word, count in counts.items()
        if count >= MIN_COUNT["word"]
        and word.isalpha()
        and word.islower()
        and len(word) >= 3
        and word not in common
    }
    return {"name": names, "word": words}


def _anonymous(name: str, before: Book, query: Sequence[str], words: Sequence[str]) -> Question:
    """Return the question whose answer is the first of the words, all of which get a number."""
    order = by_hash({*words}, name, 0)
    entity = {word: f"@entity{number}" for number, word in enumerate(order)}

    def text(line: Sequence[str]) -> str:
        return " ".join(entity.get(word, word.lower()) for word in line)

    blank = list(query).index(words[0])
    return Question(
        name,
        tuple(map(text, before)),
        " ".join(filter(None, [text(query[:blank]), BLANK, text(query[blank + 1 :])])),
        tuple(entity.values()),
        entity[words[0]],
        {number: word for word, number in entity.items()},
    )


# CNN's articles with questions, as DeepMind laid them out: one ``.question`` file each.

CNN_FOLDERS = {"train": "training", "valid": "validation", "test": "test"}
"""The folders of the splits, below ``questions``."""
BLOCKS = ("the address", "the passage", "the question", "the answer", "the entities")
LARGEST = 2**20
"""Bytes that a question may have; the longest article of CNN has some 20,000."""


class Articles(Sequence[Question]):
    """The questions of a split, each read from its file when it is asked for.

    Args:
        folder: of the files.
        sentences: how many of each passage are kept, :func:`nearest_sentences`; 0: all.

    Raises:
        FileNotFoundError: if the folder has no ``.question`` files.
    """

    def __init__(self, folder: Path, sentences: int = 0) -> None:
        self.sentences = sentences
        self.files = sorted(folder.glob("*.question"))
        if not self.files:
            raise FileNotFoundError(
                f"{folder} has no .question files: name the folder that holds "
                f"questions/{{{','.join(CNN_FOLDERS.values())}}}, cnn=PATH."
            )

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, index):
        if isinstance(index, slice):
            return [self[k] for k in range(*index.indices(len(self)))]
        question = read_article(self.files[index])
        return nearest_sentences(question, self.sentences) if self.sentences else question


def read_article(file: Path) -> Question:
    """Read the question in a file: five blocks with a line between them.

    Raises:
        ValueError: if the file is cut off or too large, or an entity, the answer or the blank
            is missing; names the file.
    """
    if file.stat().st_size > LARGEST:
        raise ValueError(f"{file} is larger than any question: is it one?")
    blocks = [block.strip() for block in read_text(file).strip("\n").split("\n\n")]
    if len(blocks) != len(BLOCKS) or not all(blocks):
        raise ValueError(
            f"{file} has {len(blocks)} parts, expected {', '.join(BLOCKS)}: it is cut off, or "
            "no question."
        )
    _, passage, query, answer, listed = blocks
    names = {}
    for line in listed.split("\n"):
        entity, colon, name = line.partition(":")
        if not (colon and name and ENTITY.fullmatch(entity)):
            raise ValueError(f"{file}: {line[:60]!r} names no entity: it is cut off.")
        names[entity] = name
    # the words are cut already: a sentence ends with a word that is a full stop or its like
    sentences = re.split(r"(?<=\s[.!?])\s", " " + " ".join(passage.split()))
    candidates = tuple(sorted(names, key=entity_number))
    return Question(
        str(file), tuple(map(str.strip, sentences)), query, candidates, answer, names
    )


def entity_number(entity: str) -> int:
    """Return the number of an entity."""
    return int(entity.removeprefix("@entity"))


# Questions generated here: who did what to whom, told once and asked in other words.
#
# Of three people one does something to the second, the third does something to the first, and
# the second and the third have to do with each other, one way or the other: everybody is named
# twice. Asked is to whom the first did it, by another word for what was done. Who is asked
# about is not the answer, and so two candidates are left: to choose between them one must find
# the sentence in which that person acts; how often, where and next to whom somebody is named
# tells nothing. People are entities whose numbers are drawn anew for every question.

SYNONYMS = {
    "praised": "acclaimed",
    "blamed": "accused",
    "chased": "pursued",
    "taught": "instructed",
    "helped": "assisted",
    "met": "encountered",
}
"""Words that tell, and the word by which each is asked."""
TIMES = ("today", "yesterday", "at noon", "in may", "last week")
TIMED = 0.3
"""The fraction of deeds that are told with their time: passages have different lengths."""
PEOPLE = 8
"""Entities among which three are drawn."""
CLOZE_SIZES = {"train": 24_000, "valid": 1000, "test": 1000}


@cache  # once in a process: arms of a comparison have the same
def make_cloze(most: int | None, sizes: tuple[tuple[str, int], ...]) -> Splits:
    """Generate the questions of every split.

    Args:
        most: how many there are to train on at most.
        sizes: how many there are to train, validate and test.
    """
    splits = {}
    for split, count in sizes:
        rng = random.Random(f"cloze to {split}")
        if most is not None and split == "train":
            count = min(count, most)
        splits[split] = tuple(random_question(rng, f"{split} {k}") for k in range(count))
    return splits


def random_question(rng: random.Random, name: str) -> Question:
    """Draw one question about three deeds."""
    people = [f"@entity{number}" for number in rng.sample(range(PEOPLE), 3)]
    who, whom, third = people
    verbs = rng.sample([*SYNONYMS], 3)
    pairs = [(who, whom), (third, who), tuple(rng.sample([whom, third], 2))]
    sentences = [
        f"{agent} {verb} {recipient} {_time(rng)}."
        for (agent, recipient), verb in zip(pairs, verbs, strict=True)
    ]
    rng.shuffle(sentences)
    query = f"{who} {SYNONYMS[verbs[0]]} {BLANK} ."
    return Question(name, tuple(sentences), query, tuple(sorted(people)), whom)


def _time(rng: random.Random) -> str:
    return f"{rng.choice(TIMES)} " if rng.random() < TIMED else ""


# The data set.


class Questions(Dataset[Sequence[Question]]):
    """A set of questions.

    In its vocabulary the blank is the first word, all entities come next, and then the words of
    training and validation.
    """

    def __init__(
        self,
        source: Source,
        read: Callable[[], Splits],
        key: Callable[[], str],
        *,
        min_count: int = 1,
    ) -> None:
        super().__init__(source, lambda: (read(), ""), key)
        self.min_count = min_count
        self._encoded: dict[str, EncodedQuestions] = {}

    def encoded(self, split: str) -> "EncodedQuestions":
        """Return the questions of a split by number."""
        if split not in self._encoded:
            self._encoded[split] = EncodedQuestions(getattr(self, split), self.vocabulary)
        return self._encoded[split]

    @cached_property
    def _counts(self) -> Arrays:
        """The known words, the number of entities, and the lengths of the longest training
        passage and question; read once, then stored."""
        return cache_arrays("words", f"{self.checksum} {self.min_count}", self._count)

    def _count(self) -> Arrays:
        counts, largest, longest = Counter(), -1, [0, 0]
        for split, questions in self._splits.items():
            for question in questions:
                largest = max(largest, *map(entity_number, question.candidates))
                if split == "test":
                    continue
                texts = question.passage.split(), question.query.split()
                counts.update([*texts[0], *texts[1]])
                if split == "train":
                    longest = [max(n, len(t)) for n, t in zip(longest, texts, strict=True)]
        words = [
            word
            for word in by_frequency(counts, self.min_count)
            if word != BLANK and not ENTITY.fullmatch(word)
        ]
        return {
            "words": np.frombuffer("\n".join(words).encode(), np.uint8),
            "entities": np.array([largest + 1]),
            "longest": np.array(longest),
        }

    @cached_property
    def vocabulary(self) -> Vocabulary:
        """The blank, all entities, and the words of training and validation, frequent first."""
        words = self._counts["words"].tobytes().decode().split("\n")
        return Vocabulary(
            [BLANK, *(f"@entity{k}" for k in range(len(self.entity_ids))), *words]
        )

    @property
    def entity_ids(self) -> range:
        """The numbers of the entities in the vocabulary, behind those of the blank."""
        first = len(SPECIAL) + 1
        return range(first, first + int(self._counts["entities"][0]))

    @property
    def longest(self) -> tuple[int, int]:
        """The most words that a training passage has, and a training question, with its end."""
        passage, query = (int(n) + 1 for n in self._counts["longest"])
        return passage, query

    def _digest(self) -> bytes:
        total = hashlib.sha256()
        for split, questions in self._splits.items():
            total.update(f"{split} {len(questions)}\n".encode())
            for q in questions:
                lines = (q.name, *q.sentences, q.query, *q.candidates, q.answer)
                total.update("\n".join(lines).encode() + b"\0")
        return total.digest()

    def __str__(self) -> str:
        counts = ", ".join(f"{len(part)} {split}" for split, part in self._splits.items())
        return (
            f"{self.kind} data: {self.name}, questions: {counts}; {len(self.vocabulary)} "
            f"words, {len(self.entity_ids)} of them entities; the longest passage to train on "
            f"has {self.longest[0]}"
        )


class EncodedQuestions:
    """Questions by number, encoded when they are first asked for; those of files each time.

    Args:
        questions: of a split.
        vocabulary: gives the words their numbers.
    """

    def __init__(self, questions: Sequence[Question], vocabulary: Vocabulary) -> None:
        self.questions, self.vocabulary = questions, vocabulary
        self._rows: dict[int, tuple[list[int], list[int], list[int], int]] = {}

    def __len__(self) -> int:
        return len(self.questions)

    def _row(self, index: int) -> tuple[list[int], list[int], list[int], int]:
        """Return a passage, a question, its candidates and the answer, by number."""
        if index in self._rows:
            return self._rows[index]
        question, encode = self.questions[index], self.vocabulary.encode
        candidates = encode(" ".join(question.candidates))[:-1]
        answer = candidates[question.candidates.index(question.answer)]
        row = encode(question.passage), encode(question.query), candidates, answer
        if not isinstance(self.questions, Articles):  # those are too many to be kept
            self._rows[index] = row
        return row

    @cached_property
    def lengths(self) -> list[int]:
        """The lengths of passages; of files their bytes, which costs no reading."""
        if isinstance(self.questions, Articles):
            return [file.stat().st_size for file in self.questions.files]
        return [len(question.passage.split()) + 1 for question in self.questions]

    def batch(self, indices: Sequence[int]) -> "tuple[QuestionBatch, Tensor]":
        """Return some of the questions, and their answers (B,)."""
        import torch  # to list data sets does not take it

        from lnlab.papers.attentive_reader.model import QuestionBatch

        rows = [self._row(index) for index in indices]
        passages, queries, candidates, answers = zip(*rows, strict=True)
        batch = QuestionBatch(*pad(passages), *pad(queries), pad(candidates)[0])
        return batch, torch.tensor(answers)


def load(
    source: Source,
    path: Path | None = None,
    *,
    sentences: int | None = None,
    split: int | None = None,
    most: int | None = None,
) -> Questions:
    """Return the questions of a source, for :func:`lnlab.data.load`.

    Args:
        path: the folder of its files. None: the source's own place in the data folder.
        sentences: how many of a passage are read; None: of CNN all, of books 20.
        split: which books train, validate and test; None is 0.
        most: how many of those generated here to train on at most; None: all.

    Raises:
        ValueError: for an option below what it may be; later, for damaged files, an answer
            that is no candidate, entities that a file does not list.
        FileNotFoundError: where files are not; names them.
    """
    if source is CLOZE:
        read = partial(make_cloze, most, tuple(CLOZE_SIZES.items()))
        return Questions(source, read, lambda: f"{most} {CLOZE_SIZES}")
    folder = path or data_folder() / source.name
    if source is CNN:
        splits = {
            ours: Articles(folder / "questions" / theirs, sentences or 0)
            for ours, theirs in CNN_FOLDERS.items()
        }
        files = [file for articles in splits.values() for file in articles.files]
        return Questions(source, lambda: splits, lambda: f"{sentences} {file_stamp(files)}")
    files = require_files(source, folder, CBT_FILES)
    options = sentences or BEFORE, split or 0
    read = partial(make_cbt_questions, folder, *options)
    return Questions(source, read, lambda: f"{options} {file_stamp(files)}", min_count=2)


# Answers without reading: what is found by looking at places and counts alone.

Guesser = Callable[[Question], Sequence[str]]
"""Returns candidates between which it cannot choose."""


def _any(question: Question) -> Sequence[str]:
    return question.candidates


def _present(question: Question) -> Sequence[str]:
    """Return the candidates that stand in the passage and not in the question."""
    present = dict.fromkeys(entities(question.sentences))
    return [one for one in present if one not in question.query.split()] or question.candidates


def _most_frequent(question: Question) -> Sequence[str]:
    counts, present = Counter(entities(question.sentences)), _present(question)
    most = max(counts[one] for one in present)
    return [one for one in present if counts[one] == most]


def _first(question: Question) -> Sequence[str]:
    return _present(question)[:1]


def _last(question: Question) -> Sequence[str]:
    present = {*_present(question)}
    standing = [one for one in entities(question.sentences) if one in present]
    return standing[-1:] or question.candidates


def _nearest(question: Question) -> Sequence[str]:
    """Return the one of those present that stands nearest to an entity of the question."""
    words, present = question.passage.split(), _present(question)
    asked = {*entities([question.query])}
    marks = [at for at, word in enumerate(words) if word in asked]
    standing = [at for at, word in enumerate(words) if word in present]
    if not (marks and standing):
        return present
    return [words[min(standing, key=lambda at: min(abs(at - mark) for mark in marks))]]


def _overlap(question: Question) -> Sequence[str]:
    """Return those present in the sentence that shares most words with the question."""
    asked, present = {*question.query.split()} - {BLANK}, _present(question)
    best = max(question.sentences, key=lambda sentence: len(asked & {*sentence.split()}))
    return [one for one in present if one in best.split()] or present


GUESSERS: dict[str, Guesser] = {
    "any candidate": _any,
    "one that is there and not asked about": _present,
    "the most frequent": _most_frequent,
    "the first": _first,
    "the last": _last,
    "the nearest to who is asked about": _nearest,
    "one of the sentence most like the question": _overlap,
}


def shortcuts(questions: Sequence[Question]) -> dict[str, float]:
    """Return how many questions each of :data:`GUESSERS` gets right, in the mean over choices.

    ``ceiling`` is the fraction whose answer stands in the passage.
    """

    def accuracy(guess: Guesser) -> float:
        guesses = [(question.answer, guess(question)) for question in questions]
        return sum((answer in few) / len(few) for answer, few in guesses) / len(questions)

    scores = {name: accuracy(guess) for name, guess in GUESSERS.items()}
    return scores | {"ceiling": sum(q.answerable for q in questions) / len(questions)}
