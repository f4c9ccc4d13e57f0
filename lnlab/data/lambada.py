"""LAMBADA: passages of novels whose last word takes the whole passage to guess.

Paperno et al. (2016). In 83 % of the passages the word stands there before. A reader that was
trained on other books can be asked for it: nothing here trains.
"""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from lnlab.data import storybooks
from lnlab.data.archive import opened
from lnlab.data.articles import cut
from lnlab.data.cutting import Sentences
from lnlab.data.question import BLANK, Question, mixed

FILES = {
    "valid": "lambada_development_plain_text.txt",
    "test": "lambada_test_plain_text.txt",
}
LEAST = 3
"""Letters of a candidate."""


def passages(place: Path, splits: Sequence[str] = ("valid", "test")) -> Sentences:
    """The passages, in small letters, in a folder or the official archive.

    Raises:
        FileNotFoundError: where the files are not.
    """
    lines: list[str] = []
    for name in (FILES[split] for split in splits):
        files = sorted(opened(place, "lambada*.tar.gz").rglob(name))
        if not files:
            raise FileNotFoundError(f"{name} is not in {place}: name the folder of LAMBADA.")
        lines += files[0].read_text("utf-8").splitlines()
    return [line.lower().split() for line in lines if line.strip()]


def questions(place: Path, split: str = "test") -> tuple[Question, ...]:
    """The passages that can be asked about as those of :mod:`.storybooks`.

    The last sentence lacks its last word. Candidates are words of the sentences before that
    the last one has not, of :data:`LEAST` letters or more and none of the
    :data:`.storybooks.COMMON` most frequent ones. Passages whose word is no such word, or that
    have fewer than :data:`.storybooks.CANDIDATES` of them, are left out.

    Args:
        split: ``"valid"`` or ``"test"``.

    Raises:
        FileNotFoundError: where the files are not.
        ValueError: if no passage can be asked about.
    """
    every = passages(place)
    counts = Counter(word for passage in every for word in passage)
    common = {word for word, _ in counts.most_common(storybooks.COMMON)}
    asked = (
        _asked(f"lambada, {split}, line {number}", passage, common)
        for number, passage in enumerate(passages(place, (split,)), start=1)
    )
    found = tuple(question for question in asked if question)
    if not found:
        raise ValueError(f"{place}: no passage of {split} can be asked about: is it LAMBADA?")
    return found


def _asked(name: str, passage: Sequence[str], common: set[str]) -> Question | None:
    *before, last = (sentence.split() for sentence in cut(" ".join(passage)))
    *query, answer = last
    there = {
        word
        for sentence in before
        for word in sentence
        if word.isalpha() and len(word) >= LEAST and word not in common
    }
    others = mixed(there.difference(last), name)[: storybooks.CANDIDATES - 1]
    if answer not in there or answer in query or len(others) < storybooks.CANDIDATES - 1:
        return None
    order = mixed([answer, *others], name, "candidates")
    anonymous = {word: f"@entity{number}" for number, word in enumerate(order)}
    return Question(
        name,
        tuple(" ".join(anonymous.get(word, word) for word in one) for one in before),
        " ".join([*query, BLANK]),
        tuple(anonymous.values()),
        anonymous[answer],
        {entity: word for word, entity in anonymous.items()},
    )
