"""The drawings of nets in their training: a pure function of the panel's state."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from lnlab.figures.drawing import SLOTS, Framed, Sketch
from lnlab.panels.controls import looks
from lnlab.panels.drawing.state import LAST, DrawingState
from lnlab.tasks.draw.bound import stills
from lnlab.training.runs import Run


class Drawers:
    """Several trainings that kept what they drew, and the pictures.

    Args:
        runs: by name, of the task ``draw``; of several seeds the first counts.
        pictures: the validation pictures of their data (N, height, width), 0 to 255.

    Raises:
        ValueError: where a run kept no drawings, there is none, there are too many, or one
            has other glimpses than the rest.
    """

    def __init__(self, runs: Mapping[str, Run], pictures: np.ndarray) -> None:
        if len(runs) > SLOTS:
            raise ValueError(f"{len(runs)} runs: show at most {SLOTS} at once.")
        self.rows, self.kept = looks(runs, "nets")
        self.configs = {name: run.config for name, run in runs.items()}
        lengths = {config["glimpses"] for config in self.configs.values()}
        if len(lengths) > 1:
            raise ValueError(
                f"these runs have {sorted(lengths)} glimpses: show those of one T."
            )
        self.glimpses = tuple(t + 1 for t in stills(*lengths))
        first = next(iter(self.kept.values()))
        self.updates = tuple(sorted(first))
        self.pictures = pictures[: first[self.updates[0]]["canvas"].shape[1]]

    def whole(self, state: DrawingState) -> DrawingState:
        """A state after a glimpse and an update that were kept.

        Raises:
            ValueError: for a picture that is not there.
        """
        if not 0 <= state.picture < len(self.pictures):
            raise ValueError(f"picture is {state.picture}: give 0 to {len(self.pictures) - 1}.")
        return state.at(nearest(self.updates, state.update)).after(
            nearest(self.glimpses, state.glimpse)
        )


def nearest(stops: tuple[int, ...], wanted: int) -> int:
    """The stop that is nearest to what is wanted; the last for -1."""
    if wanted == LAST:
        return stops[-1]
    return min(stops, key=lambda stop: abs(stop - wanted))


class DrawingMeasurement(NamedTuple):
    """The drawings of a picture by several nets, at one moment.

    Attributes:
        picture: (height, width), 0 to 255.
        sketches: by net.
        bounds: by net, nats a picture on validation.
    """

    picture: np.ndarray
    sketches: dict[str, Sketch]
    bounds: dict[str, float]


def measure(drawers: Drawers, state: DrawingState) -> DrawingMeasurement:
    """The measurement of a state, as it was kept; the one way in for a slider."""
    sketches, bounds = {}, {}
    k, at = drawers.glimpses.index(state.glimpse), state.picture
    for name, rows in drawers.rows.items():
        update = nearest(tuple(sorted(drawers.kept[name])), state.update)
        kept, config = drawers.kept[name][update], drawers.configs[name]
        row: Any = rows[rows["update"] == update].iloc[-1]
        bounds[name] = float(row.valid_bound)
        look, write = (
            Framed(*(float(number) for number in window[:, k, at]), count=config[which])
            for which, window in zip(("read", "write"), kept["windows"], strict=True)
        )
        text = f"{row.valid_bound:.1f} nats a picture, {row.valid_kl:.1f} of them for z"
        sketches[name] = Sketch(kept["canvas"][k, at], look, write, kept["dreams"], text)
    return DrawingMeasurement(drawers.pictures[at], sketches, bounds)
