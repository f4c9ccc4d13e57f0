"""The attention of recognizers in their training: a pure function of the panel's state."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import torch

from lnlab.data.filterbank import FILTERS, HOP
from lnlab.data.phones import SILENCE, WORDS
from lnlab.data.utterance import Utterance
from lnlab.figures.attention import AttentionMap, Spoken
from lnlab.nn import mass
from lnlab.panels.attention.state import LAST, AttentionState
from lnlab.panels.controls import looks
from lnlab.training.runs import Run

WORD_OF = {phones: word for word, phones in WORDS.items()}
"""The words of the synthesised speech by their phones: no two words share them."""


def quoted_words(units: Sequence[str]) -> str:
    """Return the words that phones of the synthesised speech spell, in quotes; else nothing."""
    words = spell(tuple(units))
    return f"“{' '.join(words)}”" if words else ""


def spell(units: tuple[str, ...]) -> list[str] | None:
    """Return the words whose phones, with pauses between them, are ``units``, if any are."""
    if not units:
        return []
    if units[0] == SILENCE:
        return spell(units[1:])
    for end in range(1, len(units) + 1):
        word = WORD_OF.get(units[:end])
        rest = spell(units[end:]) if word else None
        if word and rest is not None:
            return [word, *rest]
    return None


class Recognizers:
    """Several trainings that kept what they attended to, and the utterances.

    Args:
        runs: by name, of the task ``las``; of several seeds the first counts.
        utterances: the test utterances of their data, the first first.

    Raises:
        ValueError: where a run kept no attention, or there is none.
    """

    def __init__(self, runs: Mapping[str, Run], utterances: Sequence[Utterance]) -> None:
        self.rows, self.kept = looks(runs, "recognizers")
        self.steps = {
            name: HOP * 2 ** (run.config["encoder_layers"] - 1) for name, run in runs.items()
        }
        name, first = next(iter(self.rows.items()))
        self.epochs = tuple(first.epoch.tolist())
        self.utterances = utterances[: len(next(iter(self.kept[name].values())))]

    def whole(self, state: AttentionState) -> AttentionState:
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

    def spoken(self, state: AttentionState) -> Spoken:
        """The utterance of a state."""
        utterance = self.utterances[state.example]
        words = quoted_words(utterance.units)
        return Spoken(
            title=f"{utterance.name}, {utterance.speaker}" + (words and f": {words}"),
            spectrogram=utterance.features[:, :FILTERS].numpy(),
            hop=HOP,
            units=utterance.units,
            begins=utterance.begins,
            ends=utterance.ends,
        )

    def attentions(self, state: AttentionState) -> dict[str, AttentionMap]:
        """The attention of each recognizer to it."""
        utterance = self.utterances[state.example]
        found = {}
        for name, rows in self.rows.items():
            row = rows.iloc[(rows.epoch - state.epoch).abs().argmin()]
            kept = self.kept[name][int(row["update"])]
            alpha, step = kept[f"attention {state.example}"].astype(float), self.steps[name]
            alpha = alpha[:, : -(-utterance.frames // round(step / HOP))]
            text, score = "", f"({row.test_error:.0%} errors in the whole test)"
            if utterance.begins is not None and utterance.ends is not None:
                inside = mass(torch.tensor(alpha), step, utterance.begins, utterance.ends)
                text = f"{float(inside.mean()):.0%} of the attention inside the boxes"
            found[name] = AttentionMap(alpha, step, text, score)
        return found

    def heard(self, state: AttentionState) -> dict[str, str]:
        """The words that each of them heard in it."""
        said = {}
        for name, rows in self.rows.items():
            row = rows.iloc[(rows.epoch - state.epoch).abs().argmin()]
            said[name] = " ".join(row.hypotheses[state.example])
        return said


class AttentionMeasurement(NamedTuple):
    """The attention and the words of recognizers for an utterance, at one moment.

    Attributes:
        spoken: the utterance.
        attentions: by recognizer, where it looked.
        heard: by recognizer, the units that it wrote, with spaces between them.
    """

    spoken: Spoken
    attentions: dict[str, AttentionMap]
    heard: dict[str, str]


def measure(recognizers: Recognizers, state: AttentionState) -> AttentionMeasurement:
    """The measurement of a state, as it was kept; the one way into this room for a slider."""
    return AttentionMeasurement(
        recognizers.spoken(state), recognizers.attentions(state), recognizers.heard(state)
    )
