"""Texts in the hands of nets: a pure function of the panel's state."""

from collections.abc import Sequence
from typing import NamedTuple

from lnlab.data.line import Line, strokes
from lnlab.figures.writing import SLOTS, Penned
from lnlab.panels.controls import one_of
from lnlab.panels.writing.hands import Hands
from lnlab.panels.writing.state import LAST, NOBODY, WritingState
from lnlab.tasks.handwriting import Ink

BIASES = (0.0, 0.5, 1.0, 2.0, 5.0)
LONGEST = 40
"""Characters of a text."""

Asked = tuple[str, int, str, float, int]


class Writers:
    """Nets of several arms at several stages, and lines to write like.

    Args:
        hands: the nets.
        lines: whose hands can be gone on in; often empty.

    Raises:
        ValueError: if there are no nets, or more arms than a picture holds.
    """

    def __init__(self, hands: Hands, lines: Sequence[Line] = ()) -> None:
        if not 1 <= len(hands.nets) <= SLOTS or not hands.stages:
            raise ValueError(
                f"there are {len(hands.nets)} arms with {len(hands.stages)} common stages: "
                f"give 1 to {SLOTS}, at one stage at least."
            )
        self.hands, self.lines = hands, lines
        self._written: dict[Asked, Ink] = {}

    def whole(self, state: WritingState) -> WritingState:
        """A state with an update at which there are nets.

        Raises:
            ValueError: for a text or a line that cannot be written, a bias that is no choice.
        """
        if not 1 <= len(state.text.strip()) <= LONGEST:
            raise ValueError(f"text is {state.text!r}: give 1 to {LONGEST} characters.")
        one_of("bias", state.bias, BIASES)
        one_of("like", state.like, range(NOBODY, len(self.lines)))
        if not 0 <= state.pen <= 100:
            raise ValueError(f"pen is {state.pen}: give 0 to 100 per cent.")
        stages = self.hands.stages
        wanted = stages[-1] if state.update == LAST else state.update
        return state.at(min(stages, key=lambda stage: abs(stage - wanted)))

    def ink(self, arm: str, state: WritingState) -> Ink:
        """A text in the hand of an arm, written once."""
        text = state.text.strip()
        asked = arm, state.update, text, state.bias, state.like
        if asked not in self._written:
            like = None if state.like == NOBODY else self.lines[state.like]
            self._written[asked] = self.hands.write(
                arm, state.update, text, bias=state.bias, like=like
            )
        return self._written[asked]


class WritingMeasurement(NamedTuple):
    """Texts in the hands of nets.

    Attributes:
        text: what is written.
        lines: by arm.
        points: by arm, how many there are.
        ended: by arm, whether it came to the end of the text.
        part: how much of them is written.
    """

    text: str
    lines: dict[str, Penned]
    points: dict[str, int]
    ended: dict[str, bool]
    part: float


def measure(writers: Writers, state: WritingState) -> WritingMeasurement:
    """The measurement of a state; the one way into this room for a slider.

    Raises:
        ValueError: for a text that is too long, or has characters that no net learned.
    """
    state = writers.whole(state)
    inks = {arm: writers.ink(arm, state) for arm in writers.hands.nets}
    lines = {
        arm: Penned(
            strokes(ink.offsets),
            ink.phi,
            f"{len(ink.phi)} points"
            + ("" if ink.ended else ", cut before it came to the end of the text"),
        )
        for arm, ink in inks.items()
    }
    return WritingMeasurement(
        state.text.strip(), lines, {arm: len(ink.phi) for arm, ink in inks.items()},
        {arm: ink.ended for arm, ink in inks.items()}, state.pen / 100,
    )  # fmt: skip
