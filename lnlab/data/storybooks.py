"""Questions made from the books of the Children's Book Test, of Hill et al. (2016).

Their own questions are not needed: from 21 sentences, or 5, that follow each other a word of
the last one is taken out. By a rule that needs no tagger, it is

- a *name*: a word with a capital letter that in its book stands inside sentences, twice or
  more, and oftener so than in small letters; or
- a *word*: in small letters, of three or more, ten times or more in its book, and none of the
  150 most frequent ones of all books,

that stands there once, and in the sentences before, too. Nine others of the same kind from
there, none of them in the question, are the other candidates; where there are fewer, no
question is made. All ten are anonymous, as entities are in CNN's articles, in an order that is
drawn by a hash.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path

from lnlab.data.question import BLANK, Question, drawn, mixed

FILES = ("data/cbt_valid.txt", "data/cbt_test.txt")
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


def books(folder: Path) -> dict[str, Book]:
    """The books in the files, by title: sentences of words.

    Raises:
        ValueError: for a line before the first title, or a file that is no UTF-8.
    """
    found: dict[str, Book] = {}
    for file in (folder / name for name in FILES):
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
    there = books(folder)
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
