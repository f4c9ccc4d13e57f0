"""Batches of questions whose entities have other numbers every time."""

from collections.abc import Iterator, Sequence
from functools import cached_property, partial
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from lnlab.data import Vocabulary
from lnlab.data.vocabulary import END
from lnlab.papers.attentive_reader.data import Articles, Question, Questions
from lnlab.papers.attentive_reader.model import Asked
from lnlab.training import Bucketed
from lnlab.training.random_state import generator, placed

Row = tuple[list[int], list[int], list[int], int]
"""A passage, a question, its candidates and the answer, by number."""


class NumberedQuestions:
    """Questions by number, from when they are first asked for; those of files each time.

    Args:
        questions: of a split.
        vocabulary: gives the words their numbers.
    """

    def __init__(self, questions: Sequence[Question], vocabulary: Vocabulary) -> None:
        self.questions, self.vocabulary = questions, vocabulary
        self._rows: dict[int, Row] = {}

    def __len__(self) -> int:
        return len(self.questions)

    def _row(self, place: int) -> Row:
        if place in self._rows:
            return self._rows[place]
        question, numbers = self.questions[place], self.vocabulary.encode
        candidates = numbers(" ".join(question.candidates))[:-1]
        answer = candidates[question.candidates.index(question.answer)]
        row = numbers(question.passage), numbers(question.query), candidates, answer
        if not isinstance(self.questions, Articles):
            self._rows[place] = row
        return row

    @cached_property
    def lengths(self) -> list[int]:
        """The lengths of passages; of files their bytes, which costs no reading."""
        if isinstance(self.questions, Articles):
            return [file.stat().st_size for file in self.questions.files]
        return [len(question.passage.split()) + 1 for question in self.questions]

    def asked(self, places: Sequence[int]) -> tuple[Asked, Tensor]:
        """Some of the questions, and their answers (B,)."""
        rows = [self._row(place) for place in places]
        passages, queries, candidates, answers = zip(*rows, strict=True)
        counts = [torch.tensor([len(row) for row in part]) for part in (passages, queries)]
        asked = Asked(whole(passages), counts[0], whole(queries), counts[1], whole(candidates))
        return asked, torch.tensor(answers)


_NUMBERED: WeakKeyDictionary[Questions, dict[str, NumberedQuestions]] = WeakKeyDictionary()


def numbered(dataset: Questions, split: str) -> NumberedQuestions:
    """The questions of a split by number, numbered once as long as the dataset lives."""
    parts = _NUMBERED.setdefault(dataset, {})
    if split not in parts:
        parts[split] = NumberedQuestions(getattr(dataset, split), dataset.vocabulary)
    return parts[split]


def whole(rows: Sequence[Sequence[int]]) -> Tensor:
    """Rows of numbers as one tensor (B, N), :data:`END` behind their ends."""
    longest = max(map(len, rows))
    return torch.tensor([[*row, *[END] * (longest - len(row))] for row in rows])


class Renamed(Bucketed):
    """Questions of like length together, their entities renamed at each batch.

    Every question has a permutation of its own, the same in its passage, its question and its
    candidates. It depends on (seed, epoch, update) alone: all arms of a comparison have the
    same.

    Args:
        numbered: the questions.
        anonymous: the numbers of entities.
        size, seeds, device: as of :class:`lnlab.training.Bucketed`.
    """

    def __init__(
        self,
        numbered: NumberedQuestions,
        anonymous: range,
        size: int,
        seeds: Sequence[int],
        device: torch.device,
    ) -> None:
        super().__init__(numbered.lengths, numbered.asked, size, seeds, device, fill=END)
        self.anonymous = anonymous

    def epoch(self, epoch: int, start: int = 0) -> Iterator[tuple[Asked, Tensor]]:
        """The batches of an epoch from ``start`` on: questions and answers (S, B)."""
        for update, (x, y) in enumerate(super().epoch(epoch, start), start=start):
            names = [self._names(seed, epoch, update, len(y[0])) for seed in self.seeds]
            renamed = partial(rename, placed(torch.stack(names), self.device), self.anonymous)
            words = x._replace(
                passage=renamed(x.passage),
                query=renamed(x.query),
                candidates=renamed(x.candidates),
            )
            yield words, renamed(y.unsqueeze(-1)).squeeze(-1)

    def _names(self, seed: int, epoch: int, update: int, size: int) -> Tensor:
        """The new places of entities (B, E): a permutation of each question's own."""
        random = generator(f"names of seed {seed} in epoch {epoch}, update {update}")
        return torch.rand(size, len(self.anonymous), generator=random).argsort(1)


def rename(names: Tensor, anonymous: range, words: Tensor) -> Tensor:
    """Words (..., N) whose entities have new numbers, by their places ``names`` (..., E)."""
    entity = (words >= anonymous.start) & (words < anonymous.stop)
    places = torch.where(entity, words - anonymous.start, 0)
    return torch.where(entity, anonymous.start + names.gather(-1, places), words)
