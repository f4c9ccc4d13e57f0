"""A training at one of its steps: the state of a panel, and pure functions of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from lnlab.figures.table import number

from .transformed import one_of

if TYPE_CHECKING:
    import pandas as pd

MOST = 4
WHAT = {"activations": "what f is given", "gradients": "gradient of the loss by it"}


@dataclass(frozen=True)
class Scrubbed:
    """Recorded nets at one moment.

    Attributes:
        net: which of the recorded kinds; "" is the first.
        arms: of that net, at most four; none: the first four.
        what: activations or gradients.
        step: the nearest one that was recorded is shown.

    Raises:
        ValueError: for a value that makes no sense.
    """

    net: str = ""
    arms: tuple[str, ...] = ()
    what: str = "activations"
    step: int = 0

    def __post_init__(self) -> None:
        # What comes from a command line is a list.
        object.__setattr__(self, "arms", tuple(self.arms))
        one_of("what", self.what, WHAT)
        if len(self.arms) > MOST:
            raise ValueError(f"{len(self.arms)} arms: compare at most {MOST}.")

    def at(self, step: int) -> "Scrubbed":
        """The same at another step."""
        return replace(self, step=step)


class Recorded:
    """What recorders have seen of several nets, ready to be looked at step by step.

    Args:
        frames: by kind of net and by arm, as :meth:`~lnlab.probes.record.Recorder.frame`
            gives them, of activations and perhaps of gradients. Arms of a kind have the same
            steps and layers.

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

    def whole(self, state: Scrubbed) -> Scrubbed:
        """A state with everything said, and its step one that was recorded."""
        net = state.net or next(iter(self.frames))
        one_of("net", net, self.frames)
        for arm in state.arms:
            one_of("an arm", arm, self.frames[net])
        arms = state.arms or tuple(self.frames[net])[:MOST]
        step = min(self.steps, key=lambda recorded: abs(recorded - state.step))
        return replace(state, net=net, arms=arms, step=step)

    def _sections(self, state: Scrubbed) -> "dict[str, pd.DataFrame]":
        """By arm: a row a layer, in the order of the net."""
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

    def reach(self, state: Scrubbed) -> float:
        """Of the axis: of activations the same at all steps, of gradients that of this one."""
        steps = self.steps if state.what == "activations" else (state.step,)
        edges = [
            np.abs(frame[["q05", "q95"]].to_numpy()).max(initial=0.0)
            for step in steps
            for frame in self.sections(state.at(step)).values()
        ]
        return 1.05 * max(edges, default=0.0) or 1.0


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


def conditions(state: Scrubbed) -> str:
    """What is shown, in short."""
    return f"{state.net}: {WHAT[state.what]}, step {state.step}"


def sentence(recorded: Recorded, state: Scrubbed) -> str:
    """How wide the distribution of the last layer is, against that of the first."""
    sections = {arm: frame for arm, frame in recorded.sections(state).items() if len(frame)}
    if not sections:
        return f"{conditions(state)}. There is nothing to see of it."
    said = []
    for arm, frame in sections.items():
        widths = (frame["q95"] - frame["q05"]).to_numpy()
        said.append(f"{arm} {number(float(widths[-1] / widths[0])) if widths[0] else 'NaN'}")
    return (
        f"{conditions(state)}. From the first layer to the last its width changes by a factor "
        f"of: {', '.join(said)}."
    )
