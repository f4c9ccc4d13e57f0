"""Questions with a word missing: made here, CNN's articles, and made from books."""

import hashlib
import random
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, partial
from itertools import pairwise
from pathlib import Path

import numpy as np

from lnlab.data.cache import Arrays, cache_arrays, file_stamp
from lnlab.data.dataset import Dataset, Source, require_files
from lnlab.data.vocabulary import END, Vocabulary
from lnlab.paths import data_folder

# Questions about a passage: a word is missing, and one of the candidates is it.


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
        called: the words that candidates stand for, where that is known.

    Raises:
        ValueError: if it cannot be asked: nothing to read, no blank, an answer that is no
            candidate, an entity that is none.
    """

    name: str
    sentences: tuple[str, ...]
    query: str
    candidates: tuple[str, ...]
    answer: str
    called: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not any(sentence.split() for sentence in self.sentences):
            raise ValueError(f"{self.name}: the passage has no words: leave it out.")
        if BLANK not in self.query.split():
            raise ValueError(f"{self.name}: the question has no {BLANK}: mend it.")
        if self.answer not in self.candidates:
            raise ValueError(
                f"{self.name}: the answer {self.answer!r} is no candidate: they are "
                f"{', '.join(self.candidates)}."
            )
        strange = sorted({*entities([*self.sentences, self.query])} - {*self.candidates})
        if strange:
            raise ValueError(
                f"{self.name}: {strange[0]} is no candidate: name every entity of the text."
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
    """The entities among the words of texts, as often as they stand there."""
    words = (word for text in texts for word in text.split())
    return [word for word in words if word[0] == "@" and ENTITY.fullmatch(word)]


def nearest(question: Question, sentences: int) -> Question:
    """The question with the sentences that share most words with it, in their order.

    Of two that share as many the first; a word counts once, and must have a letter. What is
    cut off may hold the answer: of CNN's articles four sentences hold 57 % of them.
    """
    asked = {word for word in question.query.split() if word[-1:].isalnum()} - {BLANK}
    shared = [len(asked & {*sentence.split()}) for sentence in question.sentences]
    best = sorted(range(len(shared)), key=lambda place: (-shared[place], place))[:sentences]
    return replace(question, sentences=tuple(question.sentences[at] for at in sorted(best)))


def mixed(words: Iterable[str], *where: object) -> list[str]:
    """Words in an order that depends on nothing but the words and where they stand."""
    return sorted(words, key=lambda word: drawn(*where, word))


def drawn(*parts: object) -> bytes:
    """A number that looks drawn, and is the same on every machine: a hash."""
    return hashlib.sha256("\0".join(map(str, parts)).encode()).digest()


def digest(parts: Mapping[str, Sequence[Question]]) -> bytes:
    """The SHA-256 of questions, split by split."""
    total = hashlib.sha256()
    for split, part in parts.items():
        total.update(f"{split} {len(part)}\n".encode())
        for q in part:
            lines = (q.name, *q.sentences, q.query, *q.candidates, q.answer)
            total.update("\n".join(lines).encode() + b"\0")
    return total.digest()


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
# is
# drawn by a hash.


CBT_FILES = ("data/cbt_valid.txt", "data/cbt_test.txt")
"""The files of books, below the set's folder; those of its training books are not read."""
TITLE = "_BOOK_TITLE_ :"
COMMON = 150
LEAST = {"name": 2, "word": 10}
CANDIDATES = 10
HELD = 2
"""Books that validate, and that test."""
OPENS = ("`", "``", "'", "''", '"', ".", "!", "?", ":")
"""Behind these a capital letter says nothing."""

Book = list[list[str]]


def read_cbt_books(folder: Path) -> dict[str, Book]:
    """The books in the files, by title: sentences of words.

    Raises:
        ValueError: for a line before the first title, or a file that is no UTF-8.
    """
    found: dict[str, Book] = {}
    for file in (folder / name for name in CBT_FILES):
        try:
            lines = file.read_bytes().decode("utf-8").split("\n")
        except UnicodeDecodeError as error:
            raise ValueError(f"{file} is not UTF-8 text: {error}") from error
        title = ""
        for number, line in enumerate(lines, start=1):
            if line.startswith(TITLE):
                title = line.removeprefix(TITLE).strip()
                found[title] = []
            elif line.split():
                if not title:
                    raise ValueError(f"{file}, line {number}: expected {TITLE} and a title.")
                found[title].append(line.replace("@", "").split())
    return found


def corpus(folder: Path, sentences: int, split: int) -> dict[str, tuple[Question, ...]]:
    """Questions of every split: two books test, the next two validate, the others train.

    Which ones depends on ``split`` alone; a book is in one of them.

    Args:
        sentences: of a passage, those right before the question.

    Raises:
        ValueError: if a split has no questions.
    """
    there = read_cbt_books(folder)
    seen = Counter(word.lower() for book in there.values() for line in book for word in line)
    common = {word for word, _ in seen.most_common(COMMON)}
    order = sorted(there, key=lambda title: drawn(split, title))
    parts = {"train": order[2 * HELD :], "valid": order[HELD : 2 * HELD], "test": order[:HELD]}
    found = {
        name: tuple(
            q for title in titles for q in asked(title, there[title], common, sentences)
        )
        for name, titles in parts.items()
    }
    for name, questions in found.items():
        if not questions:
            raise ValueError(
                f"{folder}: the {len(parts[name])} books that {name} in split {split} give no "
                "question: give whole books, ten or more."
            )
    return found


def asked(title: str, book: Book, common: set[str], sentences: int) -> Iterator[Question]:
    """The questions of a book, at most one of each kind for a sentence."""
    kinds = known(book, common)
    for place in range(sentences, len(book)):
        before, query = book[place - sentences : place], book[place]
        for kind, words in kinds.items():
            there = {word for line in before for word in line if word in words}
            once = {word for word in there if query.count(word) == 1}
            answers = mixed(once, title, place)
            others = mixed(there.difference(query), title, place)
            if answers and len(others) >= CANDIDATES - 1:
                chosen = [answers[0], *others[: CANDIDATES - 1]]
                yield _question(f"{title}, line {place + 1}, {kind}", before, query, chosen)


def known(book: Book, common: set[str]) -> dict[str, set[str]]:
    """The names and the words of a book that may be asked for, by the rule above."""
    counts = Counter(word for line in book for word in line)
    inside = Counter(
        word
        for line in book
        for before, word in pairwise(line)
        if word[0].isupper() and word.isalpha() and before not in OPENS
    )
    return {
        "name": {
            word
            for word, count in inside.items()
            if count >= LEAST["name"]
            and count > counts[word.lower()]
            and word.lower() not in common
        },
        "word": {
            word
            for word, count in counts.items()
            if count >= LEAST["word"]
            and word.isalpha()
            and word.islower()
            and len(word) >= 3
            and word not in common
        },
    }


def _question(
    name: str, before: Sequence[Sequence[str]], query: Sequence[str], chosen: Sequence[str]
) -> Question:
    """The question whose answer is the first chosen word; where it stands is the blank."""
    order = mixed({*chosen}, name, 0)
    anonymous = {word: f"@entity{number}" for number, word in enumerate(order)}
    blank = list(query).index(chosen[0])
    words = [anonymous.get(word, word.lower()) for word in query]
    return Question(
        name,
        tuple(_said(line, anonymous) for line in before),
        " ".join([*words[:blank], BLANK, *words[blank + 1 :]]),
        tuple(anonymous.values()),
        anonymous[chosen[0]],
        {entity: word for word, entity in anonymous.items()},
    )


def _said(line: Sequence[str], anonymous: Mapping[str, str]) -> str:
    return " ".join(anonymous.get(word, word.lower()) for word in line)


# CNN's articles with questions, as DeepMind laid them out: one ``.question`` file each.


SPLITS = {"train": "training", "valid": "validation", "test": "test"}
"""The folders of the splits, below ``questions``."""
BLOCKS = ("the address", "the passage", "the question", "the answer", "the entities")
LARGEST = 2**20
"""Bytes that a question may have; the longest article of CNN has some 20,000."""
ENDS = (".", "!", "?")


class Articles(Sequence[Question]):
    """The questions of a split, each read from its file when it is asked for.

    Args:
        folder: of the files.
        sentences: how many of each passage are kept, :func:`.question.nearest`; 0: all.

    Raises:
        FileNotFoundError: if the folder has no ``.question`` files.
    """

    def __init__(self, folder: Path, sentences: int = 0) -> None:
        self.folder, self.sentences = folder, sentences
        self.files = sorted(folder.glob("*.question")) if folder.is_dir() else []
        if not self.files:
            raise FileNotFoundError(
                f"{folder} has no .question files: name the folder that holds "
                f"questions/{{{','.join(SPLITS.values())}}}, cnn=PATH."
            )

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, place):
        if isinstance(place, slice):
            return [self[at] for at in range(*place.indices(len(self)))]
        return read(self.files[place], self.sentences)

    def __iter__(self) -> Iterator[Question]:
        return (read(file, self.sentences) for file in self.files)


def read(file: Path, sentences: int = 0) -> Question:
    """The question in a file: five parts with a line between them.

    Raises:
        ValueError: if the file is cut off or too large, or an entity, the answer or the blank
            is missing; names the file.
    """
    if file.stat().st_size > LARGEST:
        raise ValueError(f"{file} is larger than any question: is it one?")
    try:
        blocks = file.read_bytes().decode("utf-8").strip("\n").split("\n\n")
    except UnicodeDecodeError as error:
        raise ValueError(f"{file} is not UTF-8 text: {error}") from error
    if len(blocks) != len(BLOCKS) or not all(block.strip() for block in blocks):
        raise ValueError(
            f"{file} has {len(blocks)} parts, expected {', '.join(BLOCKS)}: it is cut off, or "
            "no question."
        )
    _, passage, query, answer, listed = (block.strip() for block in blocks)
    called = {}
    for line in listed.split("\n"):
        entity, colon, name = line.partition(":")
        if not (colon and name and ENTITY.fullmatch(entity)):
            raise ValueError(f"{file}: {line[:60]!r} names no entity: it is cut off.")
        called[entity] = name
    question = Question(
        str(file), tuple(cut(passage)), query, tuple(sorted(called, key=number)), answer, called
    )
    return nearest(question, sentences) if sentences else question


def cut(passage: str) -> list[str]:
    """The sentences of a passage that was cut into words: each ends at ".", "!" or "?"."""
    found: list[list[str]] = [[]]
    for word in passage.split():
        found[-1].append(word)
        if word in ENDS:
            found.append([])
    return [" ".join(words) for words in found if words]


def number(entity: str) -> int:
    """The number of an entity."""
    return int(entity.removeprefix("@entity"))


# Questions made here: who did what to whom, told once and asked in other words.
#
# Of three people one does something to the second, the third does something to the first, and
# the second and the third have to do with each other, one way or the other: everybody is named
# twice. Asked is to whom the first did it, by another word for what was done. Who is asked
# about
# is not the answer, and so two candidates are left: to choose between them one must find the
# sentence in which that person acts; how often, where and next to whom somebody is named tells
# nothing. People are entities whose numbers are drawn anew for every question.


DEEDS = {
    "praised": "acclaimed", "blamed": "accused", "chased": "pursued", "taught": "instructed",
    "helped": "assisted", "met": "encountered",
}  # fmt: skip
"""Words that tell, and the word by which each is asked."""
TIMES = ("today", "yesterday", "at noon", "in may", "last week")
TIMED = 0.3
"""The part of deeds that are told with their time: passages have different lengths."""
PEOPLE = 8
"""Entities among which three are drawn."""
TOLD = 3
PARTS = {"train": 24_000, "valid": 1000, "test": 1000}


def make_corpus(most: int | None, parts: Mapping[str, int]) -> dict[str, tuple[Question, ...]]:
    """Questions of every split.

    Args:
        most: how many there are to train on at most.
        parts: how many there are to train, validate and test.
    """
    found = {}
    for split, count in parts.items():
        chance = random.Random(f"cloze to {split}")
        if most is not None and split == "train":
            count = min(count, most)
        found[split] = tuple(question(chance, f"{split} {place}") for place in range(count))
    return found


def question(chance: random.Random, name: str) -> Question:
    """One question about three deeds."""
    people = [f"@entity{number}" for number in chance.sample(range(PEOPLE), TOLD)]
    who, whom, third = people
    deed, *others = chance.sample([*DEEDS], TOLD)
    pairs = [(who, whom), (third, who), tuple(chance.sample([whom, third], 2))]
    told = [
        f"{one} {done} {other} {_time(chance)}."
        for (one, other), done in zip(pairs, [deed, *others], strict=True)
    ]
    chance.shuffle(told)
    asked = f"{who} {DEEDS[deed]} {BLANK} ."
    return Question(name, tuple(told), asked, tuple(sorted(people)), whom)


def _time(chance: random.Random) -> str:
    return f"{chance.choice(TIMES)} " if chance.random() < TIMED else ""


CLOZE = Source(
    name="cloze",
    title="Who did what to whom: told in three sentences, asked in other words",
    kind="synthetic",
    licence="made on this machine",
    citation="lnlab.papers.attentive_reader.data",
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
        return cache_arrays("words", f"{self.checksum} {self.least}", self._count)

    def _count(self) -> Arrays:
        counts, most, longest = Counter(), -1, [0, 0]
        parts = self._splits
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
        return digest(self._splits)

    def __str__(self) -> str:
        counts = ", ".join(f"{len(part)} {split}" for split, part in self._splits.items())
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
        return Questions(source, partial(_made, most), lambda: f"{most} {PARTS}")
    place = place or data_folder() / source.name
    if source is CNN:
        folders = {ours: place / "questions" / theirs for ours, theirs in SPLITS.items()}
        parts = {name: Articles(folder, sentences or 0) for name, folder in folders.items()}
        files = [file for part in parts.values() for file in part.files]
        return Questions(source, lambda: parts, lambda: f"{sentences} {file_stamp(files)}")
    files = require_files(source, place, CBT_FILES)
    given = sentences or BEFORE, split or 0
    return Questions(
        source,
        lambda: corpus(place, *given),
        lambda: f"{given} {file_stamp(files)}",
        least=2,
    )


def _made(most: int | None) -> dict[str, tuple[Question, ...]]:
    return _cloze(most, tuple(PARTS.items()))


@cache
def _cloze(
    most: int | None, parts: tuple[tuple[str, int], ...]
) -> dict[str, tuple[Question, ...]]:
    """The questions, made once in a process: arms of a comparison have the same."""
    return make_corpus(most, dict(parts))


# Answers without reading: what somebody finds who looks at places and counts alone.


Guess = Callable[[Question], Sequence[str]]
"""Candidates between which a guesser cannot choose."""


def anybody(question: Question) -> Sequence[str]:
    """All candidates."""
    return question.candidates


def present(question: Question) -> Sequence[str]:
    """The candidates that stand in the passage and not in the question."""
    there = dict.fromkeys(entities(question.sentences))
    return [one for one in there if one not in question.query.split()] or question.candidates


def frequent(question: Question) -> Sequence[str]:
    """Those of :func:`present` that stand there most often."""
    counts, there = Counter(entities(question.sentences)), present(question)
    most = max(counts[one] for one in there)
    return [one for one in there if counts[one] == most]


def first(question: Question) -> Sequence[str]:
    """The first of :func:`present`."""
    return present(question)[:1]


def last(question: Question) -> Sequence[str]:
    """The last of :func:`present`."""
    there = {*present(question)}
    standing = [one for one in entities(question.sentences) if one in there]
    return standing[-1:] or question.candidates


def near(question: Question) -> Sequence[str]:
    """The one of :func:`present` that stands nearest to an entity of the question."""
    words, there = question.passage.split(), present(question)
    asked = {*entities([question.query])}
    marks = [at for at, word in enumerate(words) if word in asked]
    standing = [at for at, word in enumerate(words) if word in there]
    if not (marks and standing):
        return there
    return [words[min(standing, key=lambda at: min(abs(at - mark) for mark in marks))]]


def overlap(question: Question) -> Sequence[str]:
    """Those of :func:`present` in the sentence that shares most words with the question."""
    asked = {*question.query.split()} - {BLANK}
    shared = [len(asked & {*sentence.split()}) for sentence in question.sentences]
    best = question.sentences[shared.index(max(shared))]
    there = present(question)
    return [one for one in there if one in best.split()] or there


GUESSES: dict[str, Guess] = {
    "any candidate": anybody,
    "one that is there and not asked about": present,
    "the most frequent": frequent,
    "the first": first,
    "the last": last,
    "the nearest to who is asked about": near,
    "one of the sentence most like the question": overlap,
}


def right(guess: Guess, questions: Sequence[Question]) -> float:
    """The part of questions that a guesser gets right, in the mean over its choices."""
    found = (guess(question) for question in questions)
    pairs = zip(questions, found, strict=True)
    return sum((q.answer in those) / len(those) for q, those in pairs) / len(questions)


def shortcuts(questions: Sequence[Question]) -> dict[str, float]:
    """The part of questions that each guesser of :data:`GUESSES` gets right, and the ceiling.

    ``ceiling`` is the part whose answer stands in the passage.
    """
    found = {name: right(guess, questions) for name, guess in GUESSES.items()}
    return found | {"ceiling": sum(q.answerable for q in questions) / len(questions)}
