"""Sentences as nets see them along their training: a pure function of the panel's state."""

from collections.abc import Mapping
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from lnlab.data.vocabulary import words
from lnlab.figures.thoughts import NEIGHBOURS, SLOTS, Thought
from lnlab.panels.thoughts.state import LAST, ThoughtsState
from lnlab.tasks.thoughts.numbered import NumberedBooks
from lnlab.tasks.vocabularies import alphabet

BOOKS = 12
"""Held-out passages whose sentences are on the map."""
LEAST = 5
"""Sentences that a passage has at least."""


class Thinkers:
    """Several nets at moments of their training, and held-out sentences.

    Args:
        nets: of the task ``skip_thoughts``, by name, then by update.
        numbered: what they were trained on.

    Raises:
        ValueError: if there is none or too many, or one was trained with another vocabulary,
            or no passage is held out.
    """

    def __init__(self, nets: Mapping[str, Mapping[int, Any]], numbered: NumberedBooks) -> None:
        if not 1 <= len(nets) <= SLOTS:
            raise ValueError(f"there are {len(nets)} nets: give 1 to {SLOTS}, trained ones.")
        for name, moments in nets.items():
            if not moments:
                raise ValueError(f"{name}: no weights were kept, train it with snapshots.")
            for net in moments.values():
                if not torch.equal(net.alphabet.cpu(), alphabet(numbered.vocabulary)):
                    raise ValueError(
                        f"{name} was trained with another vocabulary: its words have other "
                        "numbers."
                    )
        self.nets, self.numbered = nets, numbered
        self.updates = tuple(sorted(next(iter(nets.values()))))
        passages = numbered.passages(LEAST)[:BOOKS]
        if not passages:
            raise ValueError(
                f"{numbered.name} holds out no {LEAST} sentences in a row, with one before and "
                "one behind: give more of them, or allow longer ones (limit)."
            )
        self.places = [place for passage in passages for place in passage]
        self.texts = [numbered.sentence(place) for place in self.places]
        ends = accumulate(map(len, passages), initial=0)
        self.books = [range(*both) for both in pairwise(ends)]
        self._vectors: dict[tuple[str, int], Tensor] = {}

    def whole(self, state: ThoughtsState) -> ThoughtsState:
        """A state with a sentence, cut into words, and an update whose weights were kept.

        Raises:
            ValueError: for a book that is not there.
        """
        if not 0 <= state.book < len(self.books):
            raise ValueError(f"book is {state.book}: give 0 to {len(self.books) - 1}.")
        sentence = " ".join(state.sentence.lower().split())
        if sentence not in self.texts:  # those are cut already
            sentence = " ".join(words(sentence))
        wanted = self.updates[-1] if state.update == LAST else state.update
        nearest = min(self.updates, key=lambda update: abs(update - wanted))
        return ThoughtsState(
            sentence or self.texts[self.books[state.book][0]], state.book, nearest
        )

    def net(self, name: str, update: int) -> Any:
        """A net at the moment nearest to an update."""
        moments = self.nets[name]
        return moments[min(moments, key=lambda at: abs(at - update))]

    def vectors(self, name: str, update: int) -> Tensor:
        """The sentences of the map as a net sees them (N, H), of length 1."""
        if (name, update) not in self._vectors:
            self._vectors[name, update] = self.seen(name, update, self.texts)
        return self._vectors[name, update]

    def seen(self, name: str, update: int, texts: list[str]) -> Tensor:
        """Sentences as a net sees them (N, H), of length 1, on the CPU."""
        rows = [self.numbered.vocabulary.numbers(text) for text in texts]
        return F.normalize(self.net(name, update).vectors(rows).double(), dim=1).cpu()

    def map(self, name: str, update: int) -> tuple[Tensor, Tensor]:
        """The origin (H,) and the axes (H, 2) of the map: the two directions in which the
        sentences differ most, turned so that the map is like that of the last update."""
        mean, axes = _directions(self.vectors(name, update))
        if update == self.updates[-1]:
            return mean, axes
        last = self.vectors(name, self.updates[-1])
        _, final = _directions(last)
        now, then = (self.vectors(name, update) - mean) @ axes, (last - last.mean(0)) @ final
        U, _, V = torch.linalg.svd(now.T @ then)
        return mean, axes @ (U @ V)


class ThoughtsMeasurement(NamedTuple):
    """A sentence at one moment.

    Attributes:
        sentence: its words, in small letters.
        texts: the sentences of the map.
        path: the places of a book's sentences there.
        seen: by name, what each net makes of it.
        unknown: its words that the vocabulary does not have.
        follows: what follows in the book; empty where nobody knows.
    """

    sentence: str
    texts: list[str]
    path: range
    seen: dict[str, Thought]
    unknown: tuple[str, ...]
    follows: str


def measure(there: Thinkers, state: ThoughtsState) -> ThoughtsMeasurement:
    """The sentence of a state as every net sees it; the one way into this room."""
    state = there.whole(state)
    vocabulary = there.numbered.vocabulary
    unknown = tuple(w for w in state.sentence.split() if w not in vocabulary)
    path = there.books[state.book]
    return ThoughtsMeasurement(
        state.sentence, there.texts, path,
        {name: _thought(there, name, state) for name in there.nets}, unknown,
        _follows(there, state, path),
    )  # fmt: skip


def _thought(there: Thinkers, name: str, state: ThoughtsState) -> Thought:
    vectors = there.vectors(name, state.update)
    own = there.seen(name, state.update, [state.sentence])[0]
    mean, axes = there.map(name, state.update)
    cosines = (vectors @ own).tolist()
    near: dict[str, float] = {}
    for place in sorted(range(len(cosines)), key=lambda place: -cosines[place]):
        if there.texts[place] != state.sentence and len(near) < NEIGHBOURS:
            near.setdefault(there.texts[place], cosines[place])
    net = there.net(name, state.update)
    rows = [there.numbered.vocabulary.numbers(state.sentence)]
    told = net.say(net.vectors(rows)[0])
    known = there.numbered.vocabulary.words
    return Thought(
        ((vectors - mean) @ axes).numpy(), ((own - mean) @ axes).numpy(), [*near.items()],
        " ".join(known[number] for number in told),
    )  # fmt: skip


def _follows(there: Thinkers, state: ThoughtsState, path: range) -> str:
    """The sentence behind that of a state, where it stands in the book."""
    for place in path[:-1]:
        if there.texts[place] == state.sentence:
            return there.texts[place + 1]
    return ""


def _directions(vectors: Tensor) -> tuple[Tensor, Tensor]:
    """The mean (H,) of vectors (N, H), and the two directions of greatest spread (H, 2)."""
    mean = vectors.mean(0)
    _, _, V = torch.linalg.svd(vectors - mean, full_matrices=False)
    return mean, V[:2].T
