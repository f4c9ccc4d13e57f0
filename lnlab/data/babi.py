"""Stories of bAbI with questions: those of its 20 tasks that a reader can answer.

Weston et al. (2015). A reader finds its answer among words of the passage. So it is for the
tasks of :data:`TASKS`; the answers of the others are "yes", numbers, lists or ways.
"""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from lnlab.data.archive import opened
from lnlab.data.question import BLANK, Question, mixed

TASKS = (1, 2, 3, 4, 5, 11, 12, 13, 14, 16)
"""The tasks each of whose answers is a word that stands in its story."""
HELD = 10
"""Stories for one that validates."""
WORD = re.compile(r"[\w']+|[.?!,]")

Asked = tuple[str, list[str], list[str], str]
"""Its place, the story until then, the question and the answer, in small letters."""


def files(place: Path, task: int) -> dict[str, Path]:
    """The English files of a task, by split, in a folder or the official archive.

    Raises:
        FileNotFoundError: where they are not.
        ValueError: for a task whose answers do not stand in its stories.
    """
    if task not in TASKS:
        raise ValueError(
            f"skill is {task}: its answers do not stand in its stories; choose one of "
            f"{', '.join(map(str, TASKS))}."
        )
    found = {}
    for split in ("train", "test"):
        there = sorted(opened(place, "babi*.tar.gz").rglob(f"qa{task}_*_{split}.txt"))
        there = [file for file in there if file.parent.name == "en"] or there
        if not there:
            raise FileNotFoundError(
                f"qa{task}_*_{split}.txt is not in {place}: name the folder of bAbI's en/, "
                "babi=PATH."
            )
        found[split] = there[0]
    return found


def corpus(place: Path, task: int) -> dict[str, tuple[Question, ...]]:
    """The questions of a task: the official test, and of the training stories every tenth
    validates.

    The words that are answers in training are anonymous, in an order drawn by a hash; those
    that stand in a story or its question are the candidates.

    Raises:
        FileNotFoundError, ValueError: as :func:`files`; also for a line that has no number,
            a question without an answer, an answer that does not stand in its story.
    """
    told = {split: [*_stories(file)] for split, file in files(place, task).items()}
    answers = {answer for story in told["train"] for *_, answer in story}
    valid = told["train"][HELD - 1 :: HELD]
    parts = {
        "train": [one for n, one in enumerate(told["train"], start=1) if n % HELD],
        "valid": valid,
        "test": told["test"],
    }
    return {
        split: tuple(_question(asked, answers) for story in stories for asked in story)
        for split, stories in parts.items()
    }


def _stories(file: Path) -> Iterator[list[Asked]]:
    """The questions of each story: its lines are numbered from 1."""
    asked: list[Asked] = []
    told: list[str] = []
    for place, line in enumerate(file.read_text("utf-8").splitlines(), start=1):
        number, _, rest = line.strip().partition(" ")
        where = f"{file.name}, line {place}"
        if not number.isdigit() or not rest:
            raise ValueError(f"{where}: {line[:60]!r} has no number and sentence.")
        if number == "1":
            if asked:
                yield asked
            asked, told = [], []
        query, *answered = rest.split("\t")
        if not answered:
            told.append(rest.lower())
        elif not answered[0].strip():
            raise ValueError(f"{where}: the question {query.strip()!r} has no answer.")
        else:
            asked.append((where, [*told], WORD.findall(query.lower()), answered[0].lower()))
    if asked:
        yield asked


def _question(asked: Asked, answers: set[str]) -> Question:
    where, told, query, answer = asked
    sentences = [WORD.findall(sentence) for sentence in told]
    there = {word for words in (*sentences, query) for word in words} & {*answers, answer}
    if not any(answer in words for words in sentences):
        raise ValueError(f"{where}: the answer {answer!r} does not stand in its story.")
    anonymous = {word: f"@entity{n}" for n, word in enumerate(mixed(there, where))}

    def said(words: Sequence[str]) -> str:
        return " ".join(anonymous.get(word, word) for word in words)

    return Question(
        where,
        tuple(said(words) for words in sentences),
        f"{said(query)} {BLANK}",
        tuple(anonymous.values()),
        anonymous[answer],
        {entity: word for word, entity in anonymous.items()},
    )
