"""The records of several nets, step by step: a pure function of the panel's state."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from lnlab.panels.choices import one_of
from lnlab.panels.distributions.state import MOST, DistributionsState

if TYPE_CHECKING:
    import pandas as pd


class Recorded:
    """The records of several nets, ready to be looked at step by step.

    Args:
        frames: by kind of net and by arm, as
            :meth:`~lnlab.analysis.recorder.Recorder.frame` gives them, of activations and
            perhaps of gradients. Arms of a kind have the same steps and layers.

    Raises:
        ValueError: where there is nothing, or the steps of arms differ.
    """

    def __init__(self, frames: "Mapping[str, Mapping[str, pd.DataFrame]]") -> None:
        self.frames = frames
        if not frames or not all(frames.values()):
            raise ValueError("nothing was recorded: give a frame for each arm of each net.")
        self.arms = tuple(dict.fromkeys(arm for arms in frames.values() for arm in arms))
        self.steps = _common(frames)
        self.sections = lru_cache(maxsize=1000)(self._sections)

    def whole(self, state: DistributionsState) -> DistributionsState:
        """A state with everything said, and its step one that was recorded."""
        net = state.net or next(iter(self.frames))
        one_of("net", net, self.frames)
        for arm in state.arms:
            one_of("an arm", arm, self.frames[net])
        arms = state.arms or tuple(self.frames[net])[:MOST]
        step = min(self.steps, key=lambda recorded: abs(recorded - state.step))
        return replace(state, net=net, arms=arms, step=step)

    def _sections(self, state: DistributionsState) -> "dict[str, pd.DataFrame]":
        """The quantiles of a state: by arm, a row a layer, in the order of the net."""
        found = {}
        for arm in state.arms:
            frame: Any = self.frames[state.net].get(arm)
            if frame is None:
                continue
            layers = frame.loc[frame["what"] == "activations", "name"].unique()
            here = frame[(frame["step"] == state.step) & (frame["what"] == state.what)]
            by_name = here.drop_duplicates("name").set_index(
                "name"
            )  # of several calls the first
            found[arm] = by_name.reindex(sorted(layers, key=_parts)).dropna(subset=["q50"])
        return found

    def reach(self, state: DistributionsState) -> float:
        """Half the axis: of activations one for all steps, of gradients that of this one."""
        steps = self.steps if state.what == "activations" else (state.step,)
        edges = [
            np.abs(frame[["q05", "q95"]].to_numpy()).max(initial=0.0)
            for step in steps
            for frame in self.sections(state.at(step)).values()
        ]
        return 1.05 * max(edges, default=0.0) or 1.0


class DistributionsMeasurement(NamedTuple):
    """The records of one step.

    Attributes:
        sections: by arm: a row a layer, in the order of the net.
        reach: of the axis; every quantile lies between it and its negative.
    """

    sections: "dict[str, pd.DataFrame]"
    reach: float


def measure(recorded: Recorded, state: DistributionsState) -> DistributionsMeasurement:
    """The record of a state; the one way into this room for a slider."""
    return DistributionsMeasurement(recorded.sections(state), recorded.reach(state))


def _common(frames: "Mapping[str, Mapping[str, pd.DataFrame]]") -> Sequence[int]:
    steps = [
        tuple(sorted(f.step.unique().tolist()))
        for arms in frames.values()
        for f in arms.values()
    ]
    if len(set(steps)) > 1:
        raise ValueError("the nets were recorded at different steps: record all at the same.")
    return steps[0]


def _parts(name: str) -> list[tuple[int, str]]:
    """Parts of a name such that layer 10 comes behind layer 2."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in name.split(".")]
