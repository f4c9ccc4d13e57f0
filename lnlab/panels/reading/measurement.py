"""The attention of readers in their training: a pure function of the panel's state."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from lnlab.data.question import Question
from lnlab.data.vocabulary import END, NAMES
from lnlab.figures.reading import Look, Posed
from lnlab.panels.controls import looks
from lnlab.panels.reading.state import LAST, ReadingState
from lnlab.training.runs import Run


class Readers:
    """Several trainings that kept what they looked at, and the questions.

    Args:
        runs: by name, of the task ``attentive_reader``; of several seeds the first counts.
        questions: the validation questions of their data, the first first.

    Raises:
        ValueError: where a run kept no attention, or there is none.
    """

    def __init__(self, runs: Mapping[str, Run], questions: Sequence[Question]) -> None:
        self.rows, self.kept = looks(runs, "readers")
        name, first = next(iter(self.rows.items()))
        self.updates = tuple(int(update) for update in first["update"])
        self.questions = questions[: len(next(iter(self.kept[name].values())))]

    def whole(self, state: ReadingState) -> ReadingState:
        """A state with an update after which somebody looked.

        Raises:
            ValueError: for a question that is not there.
        """
        if not 0 <= state.question < len(self.questions):
            raise ValueError(
                f"question is {state.question}: give 0 to {len(self.questions) - 1}."
            )
        wanted = self.updates[-1] if state.update == LAST else state.update
        return state.at(min(self.updates, key=lambda update: abs(update - wanted)))

    def row(self, name: str, state: ReadingState) -> Any:
        """The metrics of a reader at the moment of a state."""
        rows = self.rows[name]
        return rows.iloc[(rows["update"] - state.update).abs().argmin()]


class Guessed(NamedTuple):
    """The answer of one reader: a candidate, its probability, and that of the right one."""

    candidate: str
    chance: float
    right: float


class ReadingMeasurement(NamedTuple):
    """The attention and the answers of readers to a question, at one moment.

    Attributes:
        passage: the question.
        looks: by reader, where it looked.
        said: by reader, its answer.
    """

    passage: Posed
    looks: dict[str, Look]
    said: dict[str, Guessed]


def measure(readers: Readers, state: ReadingState) -> ReadingMeasurement:
    """The measurement of a state, as it was kept; the one way into this room for a slider."""
    question = readers.questions[state.question]
    passage = Posed(
        (*question.passage.split(), NAMES[END]),
        question.query,
        question.candidates,
        question.answer,
    )
    looks, said = {}, {}
    for name in readers.rows:
        row = readers.row(name, state)
        # runs of before kept a chance of the end too, where others had more candidates
        own = row.candidate_probabilities[state.question][: len(question.candidates)]
        chances = [float(chance) for chance in own]
        best = int(np.argmax(chances))
        said[name] = Guessed(
            question.candidates[best],
            chances[best],
            chances[question.candidates.index(question.answer)],
        )
        alpha = readers.kept[name][int(row["update"])][f"attention {state.question}"]
        right = "right" if said[name].candidate == question.answer else (
            f"the right one, {question.answer}, {said[name].right:.0%}"
        )  # fmt: skip
        text = (
            f"says {said[name].candidate}, {said[name].chance:.0%} ({right}); of all "
            f"{row.valid_error:.0%} wrong"
        )
        looks[name] = Look(alpha.astype(float), text)
    return ReadingMeasurement(passage, looks, said)
