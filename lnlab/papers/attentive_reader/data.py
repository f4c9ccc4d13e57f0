"""Questions with a missing word: generated here, of CNN's articles, and made from books."""

import hashlib
import random
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, partial
from itertools import chain, pairwise
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor

from lnlab.data.cache import Arrays, cache_arrays, hash_file_stats
from lnlab.data.dataset import (
    Dataset,
    Source,
    read_text,
    require_files,
    sort_by_hash,
    sources_offering,
)
from lnlab.data.vocabulary import SPECIAL, Vocabulary, frequent_words, pad_rows
from lnlab.papers.attentive_reader.model import QuestionBatch
from lnlab.paths import data_folder

CLOZE, CNN, CBT = SOURCES = sources_offering("questions")

BLANK = "@placeholder"  # the word in the place of the missing one
ENTITY = re.compile(r"@entity(\d+)")


@dataclass(frozen=True)
class Question:
    """A passage, and a sentence with a missing word; words are separated by spaces."""

    name: str  # the source of the question, for messages
    sentences: tuple[str, ...]  # the passage
    query: str  # the sentence with BLANK in it
    candidates: tuple[str, ...]  # "@entity3" and so on, each once
    answer: str  # one of them
    entity_names: Mapping[str, str] = field(default_factory=dict)  # where they are known

    @property
    def passage(self) -> str:
        """The sentences as one text."""
        return " ".join(self.sentences)


def list_every_entity_mention(texts: Iterable[str]) -> list[str]:
    """Return the entities among the words of texts, in their order, repetitions included."""
    words = (word for text in texts for word in text.split())
    return [word for word in words if word[0] == "@" and ENTITY.fullmatch(word)]


def keep_most_similar_sentences(question: Question, count: int) -> Question:
    """Return the question with the sentences that share most words with it, in their order.

    Of two that share as many the first; a word counts once, and must have a letter. Four
    sentences of CNN's articles hold 57 % of the answers.
    """
    words = {word for word in question.query.split() if word[-1:].isalnum()} - {BLANK}
    shared = [len(words & {*sentence.split()}) for sentence in question.sentences]
    best = sorted(range(len(shared)), key=lambda index: (-shared[index], index))[:count]
    return replace(question, sentences=tuple(question.sentences[k] for k in sorted(best)))


Splits = Mapping[str, Sequence[Question]]

# Questions made from the books of the Children's Book Test of Hill et al. (2016).
#
# Their questions are not needed: each sentence of a book follows 20 others, or fewer, which are
# the passage, and one of its words is taken out. By a rule that needs no tagger, it is
#
# - a *name*: a word with a capital letter that in its book occurs inside sentences, twice or
#   more, and more often so than in small letters; or
# - a *word*: in small letters, of three or more, ten times or more in its book, and none of the
#   150 most frequent ones of all books,
#
# that occurs once in the sentence, and also in the passage. The other candidates are nine words
# of the same kind that are in the passage and not in the sentence; where there are fewer, there
# is no question. Candidates are anonymous, as entities are in CNN's articles. A hash decides
# their order.

CBT_FILES = ("data/cbt_valid.txt", "data/cbt_test.txt")
"""The files that are read; those of the training books are not."""
TITLE = "_BOOK_TITLE_ :"
COMMON = 150
MIN_COUNT = {"name": 2, "word": 10}
CANDIDATES = 10
HELD_OUT = 2  # the number of books to validate on, and to test on
BEFORE = 20  # sentences of a passage, as Hill et al. (2016) have it
OPENING = ("`", "``", "'", "''", '"', ".", "!", "?", ":")
"""Signs after which a capital letter says nothing."""

Book = list[list[str]]


def read_cbt_books(folder: Path) -> dict[str, Book]:
    """Read the books in the files, by title: sentences of words."""
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


def make_cbt_questions(folder: Path, sentences_per_passage: int, split_number: int) -> Splits:
    """Make the questions of every split: two books test, two validate, the others train.

    A passage has ``sentences_per_passage``; ``split_number`` decides which books are in which
    split.
    """
    books = read_cbt_books(folder)
    counts = Counter(word.lower() for book in books.values() for line in book for word in line)
    common_words = {word for word, _ in counts.most_common(COMMON)}
    order = sort_by_hash(books, split_number, sep="\0")
    test, valid, train = order[:HELD_OUT], order[HELD_OUT : 2 * HELD_OUT], order[2 * HELD_OUT :]
    splits = {}
    for name, titles in (("train", train), ("valid", valid), ("test", test)):
        questions = (
            _book_questions(t, books[t], common_words, sentences_per_passage) for t in titles
        )
        splits[name] = tuple(chain.from_iterable(questions))
        if not splits[name]:
            raise ValueError(
                f"{folder}: the {len(titles)} books that {name} in split {split_number} give "
                "no question: give whole books, ten or more."
            )
    return splits


def _book_questions(
    title: str, book: Book, common_words: set[str], sentences_per_passage: int
) -> Iterator[Question]:
    """Yield the questions of a book, at most one of each kind for a sentence."""
    kinds = candidate_names_and_words(book, common_words)
    for index in range(sentences_per_passage, len(book)):
        passage, query = book[index - sentences_per_passage : index], book[index]
        for kind, words in kinds.items():
            present = {word for line in passage for word in line if word in words}
            answers = sort_by_hash(
                {w for w in present if query.count(w) == 1}, title, index, sep="\0"
            )
            others = sort_by_hash(present.difference(query), title, index, sep="\0")
            if answers and len(others) >= CANDIDATES - 1:
                candidates = [answers[0], *others[: CANDIDATES - 1]]
                name = f"{title}, line {index + 1}, {kind}"
                yield _anonymize_question(name, passage, query, candidates)


def candidate_names_and_words(
    book: Book, common_words: set[str]
) -> dict[Literal["name", "word"], set[str]]:
    """Return the names and the words of a book that may be answers, by the rule above."""
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
        if count >= max(MIN_COUNT["name"], counts[word.lower()] + 1)
    }
    words = {
        word
        for word, count in counts.items()
        if count >= MIN_COUNT["word"] and word.isalpha() and word.islower() and len(word) >= 3
    }
    return {
        "name": {word for word in names if word.lower() not in common_words},
        "word": words - common_words,
    }


def _anonymize_question(
    name: str, passage: Book, query: list[str], answer_and_others: Sequence[str]
) -> Question:
    """Return the question whose candidates are entities, the answer and the others."""
    order = sort_by_hash({*answer_and_others}, name, 0, sep="\0")
    entity = {word: f"@entity{number}" for number, word in enumerate(order)}

    def anonymize_sentence(line: Sequence[str]) -> str:
        return " ".join(entity.get(word, word.lower()) for word in line)

    blank = query.index(answer_and_others[0])
    return Question(
        name,
        tuple(map(anonymize_sentence, passage)),
        " ".join(
            filter(
                None,
                [
                    anonymize_sentence(query[:blank]),
                    BLANK,
                    anonymize_sentence(query[blank + 1 :]),
                ],
            )
        ),
        tuple(entity.values()),
        entity[answer_and_others[0]],
        {number: word for word, number in entity.items()},
    )


# CNN's articles with questions, in DeepMind's layout: one ``.question`` file each.

CNN_FOLDERS = {"train": "training", "valid": "validation", "test": "test"}
"""The folders of the splits, below ``questions``."""
BLOCKS = ("the address", "the passage", "the question", "the answer", "the entities")


class ArticleQuestions(Sequence[Question]):
    """The questions in a folder, each read from its file when it is used.

    Of each passage ``sentences`` are the :func:`keep_most_similar_sentences`; 0: all.
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
        question = read_article_question(self.files[index])
        return (
            keep_most_similar_sentences(question, self.sentences)
            if self.sentences
            else question
        )


def read_article_question(file: Path) -> Question:
    """Read the question in a file: five blocks with a line between them."""
    blocks = [block.strip() for block in read_text(file).strip("\n").split("\n\n")]
    if len(blocks) != len(BLOCKS) or not all(blocks):
        raise ValueError(
            f"{file} has {len(blocks)} parts, expected {', '.join(BLOCKS)}: it is cut off, or "
            "no question."
        )
    _, passage, query, answer, lines = blocks
    names = {}
    for line in lines.split("\n"):
        entity, colon, name = line.partition(":")
        if not (colon and name and ENTITY.fullmatch(entity)):
            raise ValueError(f"{file}: {line[:60]!r} names no entity: it is cut off.")
        names[entity] = name
    if answer not in names:
        raise ValueError(f"{file}: the answer {answer!r} is not among its entities.")
    # signs are words of their own: a sentence ends with one that is ".", "!" or "?"
    sentences = re.split(r"(?<=\s[.!?])\s", " " + " ".join(passage.split()))
    sentences = tuple(map(str.strip, sentences))
    candidates = tuple(sorted(names, key=entity_number))
    return Question(str(file), sentences, query, candidates, answer, names)


def entity_number(entity: str) -> int:
    """Return the number of an entity."""
    return int(entity.removeprefix("@entity"))


# Questions generated here: who did what to whom, stated once and asked in other words.
#
# Of three people one does something to the second, the third does something to the first, and
# one of the second and the third does something to the other: each is named twice. The question
# is to whom the first did it, with a synonym of the verb. The first is not the answer, which
# leaves two candidates: to choose between them one must find the sentence in which the first
# acts. Counts, places and neighbours of names say nothing. The numbers of the people are drawn
# anew for every question.

SYNONYMS = {
    "praised": "acclaimed",
    "blamed": "accused",
    "chased": "pursued",
    "taught": "instructed",
    "helped": "assisted",
    "met": "encountered",
}
"""The verbs of passages, and the synonyms of questions."""
TIMES = ("today", "yesterday", "at noon", "in may", "last week")
TIMED = 0.3  # the fraction of sentences with a time: passages have different lengths
PEOPLE = 8  # the number of entities of which three are drawn
CLOZE_SIZES = {"train": 24_000, "valid": 1000, "test": 1000}


@cache  # once in a process: arms of a comparison have the same
def make_cloze_questions(
    max_train: int | None, split_sizes: tuple[tuple[str, int], ...]
) -> Splits:
    """Generate the questions of every split, at most ``max_train`` to train on; None: all."""
    splits = {}
    for split, count in split_sizes:
        rng = random.Random(f"cloze to {split}")
        if max_train is not None and split == "train":
            count = min(count, max_train)
        splits[split] = tuple(random_cloze_question(rng, f"{split} {k}") for k in range(count))
    return splits


def random_cloze_question(rng: random.Random, name: str) -> Question:
    """Draw a question about three actions."""
    people = [f"@entity{number}" for number in rng.sample(range(PEOPLE), 3)]
    who, whom, third = people
    verbs = rng.sample([*SYNONYMS], 3)
    pairs = [(who, whom), (third, who), tuple(rng.sample([whom, third], 2))]
    sentences = []
    for (agent, recipient), verb in zip(pairs, verbs, strict=True):
        time = f"{rng.choice(TIMES)} " if rng.random() < TIMED else ""
        sentences.append(f"{agent} {verb} {recipient} {time}.")
    rng.shuffle(sentences)
    query = f"{who} {SYNONYMS[verbs[0]]} {BLANK} ."
    return Question(name, tuple(sentences), query, tuple(sorted(people)), whom)


# The data set.


class QuestionDataset(Dataset[Sequence[Question]]):
    """A set of questions; words of the vocabulary occur ``min_count`` times or more."""

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

    def encoded_split(self, split: str) -> "EncodedQuestions":
        """Return the questions of a split by number."""
        if split not in self._encoded:
            self._encoded[split] = EncodedQuestions(getattr(self, split), self.vocabulary)
        return self._encoded[split]

    @cached_property
    def _cached_vocabulary_and_max_lengths(self) -> Arrays:
        """The words, the number of entities, and the longest training passage and question."""
        return cache_arrays(
            "words",
            f"{self.checksum} {self.min_count}",
            self._collect_vocabulary_and_max_lengths,
        )

    def _collect_vocabulary_and_max_lengths(self) -> Arrays:
        counts, entity_count, longest = Counter(), 0, (0, 0)
        for split, questions in self._splits.items():
            for question in questions:
                numbers = map(entity_number, question.candidates)
                entity_count = max(entity_count, *(number + 1 for number in numbers))
                if split == "test":
                    continue
                passage, query = question.passage.split(), question.query.split()
                counts.update(passage + query)
                if split == "train":
                    longest = max(longest[0], len(passage)), max(longest[1], len(query))
        frequent = frequent_words(counts, self.min_count)
        words = [word for word in frequent if word != BLANK and not ENTITY.fullmatch(word)]
        return {
            "words": np.frombuffer("\n".join(words).encode(), np.uint8),
            "entities": np.array(entity_count),
            "longest": np.array(longest),
        }

    @cached_property
    def vocabulary(self) -> Vocabulary:
        """The blank, all entities, and the words of training and validation, frequent first."""
        words = self._cached_vocabulary_and_max_lengths["words"].tobytes().decode().split("\n")
        return Vocabulary(
            [BLANK, *(f"@entity{k}" for k in range(len(self.entity_ids))), *words]
        )

    @property
    def entity_ids(self) -> range:
        """The numbers of the entities in the vocabulary, behind that of the blank."""
        first = len(SPECIAL) + 1
        return range(first, first + int(self._cached_vocabulary_and_max_lengths["entities"]))

    @property
    def longest_training_passage_and_query(self) -> tuple[int, int]:
        """The lengths of the longest training passage and question, their ends included."""
        passage, query = self._cached_vocabulary_and_max_lengths["longest"].tolist()
        return passage + 1, query + 1

    def _digest(self) -> bytes:
        total = hashlib.sha256()
        for split, questions in self._splits.items():
            total.update(f"{split} {len(questions)}\n".encode())
            for q in questions:
                lines = (q.name, *q.sentences, q.query, *q.candidates, q.answer)
                total.update("\n".join(lines).encode() + b"\0")
        return total.digest()

    def __str__(self) -> str:
        counts = ", ".join(f"{len(split)} {name}" for name, split in self._splits.items())
        return (
            f"{self.kind} data: {self.name}, questions: {counts}; {len(self.vocabulary)} "
            f"words, {len(self.entity_ids)} of them entities; the longest passage to train on "
            f"has {self.longest_training_passage_and_query[0]}"
        )


class EncodedQuestion(NamedTuple):
    """A question whose words are numbers of the vocabulary."""

    passage_ids: list[int]
    query_ids: list[int]
    candidate_ids: list[int]
    answer_id: int


class EncodedQuestions:
    """Questions by number, encoded when they are first used; those of files each time."""

    def __init__(self, questions: Sequence[Question], vocabulary: Vocabulary) -> None:
        self.questions, self.vocabulary = questions, vocabulary
        self._rows: dict[int, EncodedQuestion] = {}

    def __len__(self) -> int:
        return len(self.questions)

    def _encode_question(self, index: int) -> EncodedQuestion:
        """Return question number ``index`` of the split, by numbers of its words."""
        if index in self._rows:
            return self._rows[index]
        question, encode = self.questions[index], self.vocabulary.encode_with_end
        candidates = encode(" ".join(question.candidates))[:-1]
        answer = candidates[question.candidates.index(question.answer)]
        row = EncodedQuestion(
            encode(question.passage), encode(question.query), candidates, answer
        )
        if not isinstance(
            self.questions, ArticleQuestions
        ):  # these are too many for the memory
            self._rows[index] = row
        return row

    @cached_property
    def passage_lengths_or_bytes(self) -> list[int]:
        """The lengths of passages; of files their bytes, which needs no reading."""
        if isinstance(self.questions, ArticleQuestions):
            return [file.stat().st_size for file in self.questions.files]
        return [len(question.passage.split()) + 1 for question in self.questions]

    def batch(self, indices: Sequence[int]) -> tuple[QuestionBatch, Tensor]:
        """Return some of the questions, and their answers (B,)."""
        rows = [self._encode_question(index) for index in indices]
        passages, queries, candidates, answers = zip(*rows, strict=True)
        batch = QuestionBatch(*pad_rows(passages), *pad_rows(queries), pad_rows(candidates)[0])
        return batch, torch.tensor(answers)


def load(
    source: Source,
    path: Path | None = None,
    *,
    sentences: int | None = None,
    split: int = 0,
    max_train: int | None = None,
) -> QuestionDataset:
    """Return the questions of a source; the options are those of ``sources.toml``."""
    if source is CLOZE:
        read = partial(make_cloze_questions, max_train, tuple(CLOZE_SIZES.items()))
        return QuestionDataset(source, read, lambda: f"{max_train} {CLOZE_SIZES}")
    folder = path or data_folder() / source.name
    if source is CNN:
        splits = {
            ours: ArticleQuestions(folder / "questions" / theirs, sentences or 0)
            for ours, theirs in CNN_FOLDERS.items()
        }
        files = [file for articles in splits.values() for file in articles.files]
        return QuestionDataset(
            source, lambda: splits, lambda: f"{sentences} {hash_file_stats(files)}"
        )
    files = require_files(source, folder, CBT_FILES)
    options = sentences or BEFORE, split
    read = partial(make_cbt_questions, folder, *options)
    return QuestionDataset(
        source, read, lambda: f"{options} {hash_file_stats(files)}", min_count=2
    )


# Guesses from places and counts alone: a model that is better than these has read.


def guesses_by_heuristic(question: Question) -> dict[str, Sequence[str]]:
    """Return the candidates between which each way of guessing cannot choose, by its name."""
    words, query = question.passage.split(), question.query.split()
    mentions, queried = list_every_entity_mention(words), {*list_every_entity_mention(query)}
    present = [entity for entity in dict.fromkeys(mentions) if entity not in query]
    present = present or [*question.candidates]
    counts = Counter(mentions)
    most = max(counts[entity] for entity in present)
    last = [entity for entity in mentions if entity in present][-1:]
    marks = [position for position, word in enumerate(words) if word in queried]
    positions = [position for position, word in enumerate(words) if word in present]
    nearest = present
    if marks and positions:
        distances = [min(abs(position - mark) for mark in marks) for position in positions]
        nearest = [words[positions[distances.index(min(distances))]]]
    known = {*query} - {BLANK}
    similar = max(question.sentences, key=lambda sentence: len(known & {*sentence.split()}))
    return {
        "any candidate": question.candidates,
        "one that is there and not asked about": present,
        "the most frequent": [entity for entity in present if counts[entity] == most],
        "the first": present[:1],
        "the last": last or question.candidates,
        "the nearest to who is asked about": nearest,
        "one of the sentence most like the question": (
            [entity for entity in present if entity in similar.split()] or present
        ),
    }


def accuracies_by_heuristic(questions: Sequence[Question]) -> dict[str, float]:
    """Return the expected accuracy of each of the :func:`guesses_by_heuristic`, by its name.

    ``ceiling`` is the fraction of questions whose answer is in the passage.
    """
    scores = defaultdict(float)
    for question in questions:
        for name, chosen in guesses_by_heuristic(question).items():
            scores[name] += (question.answer in chosen) / len(chosen)
        scores["ceiling"] += question.answer in question.passage.split()
    return {name: score / len(questions) for name, score in scores.items()}
