"""The sentence of the reading panel, of a question and of those who answered it."""

from lnlab.panels.reading.measurement import ReadingMeasurement
from lnlab.panels.reading.state import ReadingState


def sentence(state: ReadingState, measurement: ReadingMeasurement) -> str:
    """A sentence that says what each of the readers answered at that moment."""
    answers = "; ".join(
        f"{name}: {said.candidate} ({said.chance:.0%})"
        for name, said in measurement.said.items()
    )
    passage = measurement.passage
    return f"Update {state.update}. {passage.query} Right: {passage.answer}. Said by {answers}."
