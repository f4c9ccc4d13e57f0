"""Answers without reading: what somebody finds who looks at places and counts alone."""

from collections import Counter
from collections.abc import Callable, Sequence

from lnlab.data.question import BLANK, Question, entities

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
