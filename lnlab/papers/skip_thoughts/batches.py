"""Batches of sentences of one length, each with the one before it and the one after."""

import hashlib
from collections.abc import Mapping, Sequence
from itertools import chain

import torch
from torch import Tensor

from lnlab.data.vocabulary import END, UNKNOWN
from lnlab.papers.skip_thoughts.data import Books, frequent
from lnlab.papers.skip_thoughts.model import Told
from lnlab.papers.skip_thoughts.sentence_tasks import SentenceJudge
from lnlab.training import Bucketed
from lnlab.training.random_state import generator

# Books by number: which sentences train, which are held out, and what their vectors judge.


STRETCH, EACH = 50, 20
"""Sentences of a stretch, and the number of stretches of which the last one is held out."""


class NumberedBooks:
    """The sentences of books, by number.

    A sentence that has one right before it and one right behind it trains if none of the three
    is held out, and validates if all are. One that was left out stands between its neighbours
    as an empty one, and parts them.

    Args:
        books: as :func:`lnlab.data.load` gives them.
        known: V, the most frequent words of those that train, with the end and the unknown
            word.
        most: sentences to read, in whole books; 0: all.
        shuffled: whether sentences stand in the places of others, drawn at random: what is
            beside one then says nothing of it. The vocabulary stays that of the books in
            order, so that a net begins with the same vector for each word.
        judges: by name, what vectors of sentences are judged on.

    Attributes:
        vocabulary: the words.
        lengths: words of each sentence (N,).
        train, valid: places of sentences with two neighbours.

    Raises:
        ValueError: if the books have no word, or nothing trains or validates.
    """

    def __init__(
        self,
        books: Books,
        known: int,
        most: int = 0,
        judges: Mapping[str, SentenceJudge] | None = None,
        *,
        shuffled: bool = False,
    ) -> None:
        self.books, self.judges = books, dict(judges or {})
        ends = torch.tensor([len(book) for book in books.books]).cumsum(0)
        self.ends = ends[: 1 + int((ends < most).sum())] if most else ends
        sentences = [*chain.from_iterable(books.books[: len(self.ends)])]
        held = [place // STRETCH % EACH == EACH - 1 for place in range(len(sentences))]
        trains = (s for s, out in zip(sentences, held, strict=True) if not out)
        self.vocabulary = frequent(trains, known)
        if shuffled:
            random = generator("sentences out of their order")
            order = torch.randperm(len(sentences), generator=random)
            sentences = [sentences[place] for place in order.tolist()]
        self.sentences = sentences
        self.lengths = torch.tensor([len(sentence) for sentence in sentences])
        self.begins = torch.cat([torch.zeros(1).long(), (self.lengths + 1).cumsum(0)])
        self.words = self._numbered(sentences)
        self.train, self.valid = self._parted(torch.tensor(held))

    def _numbered(self, sentences: Sequence[Sequence[str]]) -> Tensor:
        """All sentences in one row, each with its end."""
        number = {word: place for place, word in enumerate(self.vocabulary.words)}
        rows = (
            (*(number.get(word, UNKNOWN) for word in sentence), END) for sentence in sentences
        )
        return torch.tensor([*chain.from_iterable(rows)], dtype=torch.int32)

    def _parted(self, held: Tensor) -> tuple[Tensor, Tensor]:
        """The places of sentences with two neighbours that train, and that validate."""
        book = torch.bucketize(torch.arange(len(held)), self.ends, right=True)

        def three(of: Tensor) -> Tensor:
            return of[:-2] & of[1:-1] & of[2:]

        told = three(self.lengths > 0) & (book[:-2] == book[2:])
        parts = [(told & three(of)).nonzero().squeeze(1) + 1 for of in (~held, held)]
        for name, part in zip(("train on", "validate on"), parts, strict=True):
            if not len(part):
                raise ValueError(
                    f"{self.name}: {len(held)} sentences in {len(self.ends)} books, none to "
                    f"{name}; {self.books.left_out} were too long. Give a thousand sentences "
                    "or more that follow each other, or allow longer ones (limit)."
                )
        return parts[0], parts[1]

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
        """That of the books and of what judges them."""
        told = [self.books.checksum, *(f"{n} {j.checksum}" for n, j in self.judges.items())]
        return hashlib.sha256("\n".join(told).encode()).hexdigest() if told[1:] else told[0]

    def sentence(self, place: int) -> str:
        """The words of a sentence, as the books have them."""
        return " ".join(self.sentences[place])

    def passages(self, least: int) -> list[range]:
        """The places of held-out sentences in a row, of each row that has at least so many."""
        breaks = (self.valid.diff() > 1).nonzero().squeeze(1) + 1
        rows = self.valid.tensor_split(breaks)
        found = [range(int(row[0]) - 1, int(row[-1]) + 2) for row in rows]
        return [row for row in found if len(row) >= least]

    def told(self, places: Tensor) -> Told:
        """Sentences of one length with their neighbours (B)."""
        longest = max(int(self.lengths[places + side].max()) for side in (-1, 1)) + 1
        middle = self._rows(places, int(self.lengths[places[0]]) + 1)
        before, after = (self._rows(places + side, longest) for side in (-1, 1))
        counts = torch.stack([self.lengths[places + side] + 1 for side in (-1, 1)], 1)
        return Told(middle, before, after, counts)

    def _rows(self, places: Tensor, width: int) -> Tensor:
        """The numbers of sentences (B, width), :data:`END` behind them."""
        at = torch.arange(width)
        there = at <= self.lengths[places][:, None]
        index = torch.where(there, self.begins[places][:, None] + at, 0)
        return torch.where(there, self.words[index].long(), END)

    def __str__(self) -> str:
        return (
            f"{self.books}; {len(self.train):,} train and {len(self.valid):,} validate, "
            f"{self.books.left_out:,} left out as too long; {len(self.vocabulary):,} words"
        )


class OfOneLength(Bucketed):
    """Told sentences in batches of one length, whose neighbours have any.

    The lengths come in an order that depends on the epoch alone, so that seeds can be trained
    side by side; which sentences come depends on (seed, epoch). The last batch of a length may
    be smaller, as in the authors' code.

    Args:
        numbered: where the sentences are.
        places: which of them.
        size, seeds, device: as of :class:`lnlab.training.Bucketed`.
    """

    def __init__(
        self,
        numbered: NumberedBooks,
        places: Tensor,
        size: int,
        seeds: Sequence[int],
        device: torch.device,
    ) -> None:
        self.numbered, self.places = numbered, places
        lengths = numbered.lengths[places]
        super().__init__(lengths.tolist(), self._told, size, seeds, device)
        self._of: dict[int, Tensor] = {
            int(length): (lengths == length).nonzero().squeeze(1) for length in lengths.unique()
        }

    def __len__(self) -> int:
        """The number of updates in an epoch."""
        return sum(-(-len(cases) // self.size) for cases in self._of.values())

    def _told(self, chosen: list[int]) -> tuple[Told, Tensor]:
        """Some of the sentences, and how many words their neighbours have (B,)."""
        told = self.numbered.told(self.places[chosen])
        return told, told.counts.sum(1)

    def _order(self, seed: int, epoch: int) -> list[list[int]]:
        random = generator(f"order of seed {seed} in epoch {epoch}")
        batches = {
            length: iter(cases[torch.randperm(len(cases), generator=random)].split(self.size))
            for length, cases in self._of.items()
        }
        return [next(batches[length]).tolist() for length in self._lengths(epoch)]

    def _lengths(self, epoch: int) -> list[int]:
        """The length of each batch of an epoch."""
        every = [
            length
            for length, cases in self._of.items()
            for _ in range(0, len(cases), self.size)
        ]
        shuffled = torch.randperm(len(every), generator=generator(f"lengths of epoch {epoch}"))
        return [every[k] for k in shuffled.tolist()]
