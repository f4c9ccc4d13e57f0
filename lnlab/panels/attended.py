"""What recognizers attended to while they were trained: the state of a panel, and its view."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
import torch

from lnlab.data.filterbank import FILTERS, HOP
from lnlab.data.utterance import Utterance
from lnlab.figures.attending import Attention, Spoken
from lnlab.runs import Run
from lnlab.tasks.las.alignment import mass

LAST = -1


@dataclass(frozen=True)
class Attended:
    """One example at one moment of the training.

    Attributes:
        example: which utterance, from 0.
        epoch: of the training; the nearest at which it was looked at. -1 is the last.
    """

    example: int = 0
    epoch: float = LAST

    def at(self, epoch: float) -> "Attended":
        """The same at another moment."""
        return replace(self, epoch=epoch)


class Recognizers:
    """Several trainings that kept what they attended to, and the utterances.

    Args:
        runs: by name, of the task ``las``; of several seeds the first counts.
        utterances: the test utterances of their data, the first first.

    Raises:
        ValueError: where a run kept no attention, or there is none.
    """

    def __init__(self, runs: Mapping[str, Run], utterances: Sequence[Utterance]) -> None:
        if not runs:
            raise ValueError("there are no runs: train some recognizers first.")
        self.rows: dict[str, pd.DataFrame] = {}
        self.steps: dict[str, float] = {}
        for name, run in runs.items():
            metrics: Any = run.metrics()
            if "attention" not in metrics:
                raise ValueError(f"{name}: this run kept no attention, train it again.")
            first = metrics[metrics.seed == metrics.seed.iloc[0]]
            self.rows[name] = first.reset_index(drop=True)
            self.steps[name] = HOP * 2 ** (run.config["layers"] - 1)
        first = next(iter(self.rows.values()))
        self.epochs = tuple(first.epoch.tolist())
        self.utterances = utterances[: len(first.attention.iloc[0])]

    def whole(self, state: Attended) -> Attended:
        """A state with an epoch at which somebody looked.

        Raises:
            ValueError: for an example that is not there.
        """
        if not 0 <= state.example < len(self.utterances):
            raise ValueError(
                f"example is {state.example}: give 0 to {len(self.utterances) - 1}."
            )
        wanted = self.epochs[-1] if state.epoch == LAST else state.epoch
        return state.at(min(self.epochs, key=lambda epoch: abs(epoch - wanted)))

    def spoken(self, state: Attended) -> Spoken:
        """The utterance of a state."""
        utterance = self.utterances[state.example]
        return Spoken(
            title=f"{utterance.name}, {utterance.speaker}",
            spectrogram=utterance.features[:, :FILTERS].numpy(),
            hop=HOP,
            units=utterance.units,
            begins=utterance.begins,
            ends=utterance.ends,
        )

    def attentions(self, state: Attended) -> dict[str, Attention]:
        """What each recognizer attends to in it."""
        utterance = self.utterances[state.example]
        found = {}
        for name, rows in self.rows.items():
            row = rows.iloc[(rows.epoch - state.epoch).abs().argmin()]
            alpha, step = np.array(row.attention[state.example]), self.steps[name]
            alpha = alpha[:, : -(-len(utterance.features) // round(step / HOP))]
            text = f"error {row.test_error:.0%}"
            if utterance.begins is not None and utterance.ends is not None:
                inside = mass(torch.tensor(alpha), step, utterance.begins, utterance.ends)
                text = f"{float(inside.mean()):.0%} inside the boxes; {text}"
            found[name] = Attention(alpha, step, text)
        return found

    def sentence(self, state: Attended) -> str:
        """What each of them heard at that moment."""
        said = " ".join(self.utterances[state.example].units)
        heard = []
        for name, rows in self.rows.items():
            row = rows.iloc[(rows.epoch - state.epoch).abs().argmin()]
            heard.append(f"{name}: {' '.join(row.heard[state.example]) or '(nothing)'}")
        return f"Epoch {state.epoch:g}. Said: {said}. Heard by {'; '.join(heard)}."
