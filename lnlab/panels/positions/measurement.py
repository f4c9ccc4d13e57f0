"""Maps of statistics that were measured: a pure function of the panel's state."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from lnlab.analysis.feature_maps import Contrast, Maps, contrast, over_units
from lnlab.panels.choices import one_of
from lnlab.panels.positions.state import PositionsState

Found = Mapping[tuple[str, str, str], Mapping[str, Maps]]
"""Maps by arm, padding and time, and by layer."""

FIELDS = ("norm", "padding", "time", "layer")
WORDS = {
    "on": "part of cases a unit is on",
    "mean": "distance of the mean (deviations)",
    "deviation": "deviation (of the unit's)",
}
"""The statistics, in the words above their maps."""


class PositionsMeasurement(NamedTuple):
    """The maps of a state, (height, width) by name, where their colours end, and the border
    beside the middle."""

    maps: dict[str, np.ndarray]
    reaches: dict[str, float]
    contrast: Contrast


class Atlas:
    """Maps of several nets, ready to be looked at.

    Args:
        found: as :func:`lnlab.analysis.feature_maps.maps` gives them; every arm with every padding,
            at every time, with the same layers.

    Raises:
        ValueError: where there is nothing, or one of these is not there.
    """

    def __init__(self, found: Found) -> None:
        keys = [(*net, layer) for net, layers in found.items() for layer in layers]
        if not keys:
            raise ValueError("there are no maps: give those of one net, at least.")
        columns = zip(*keys, strict=True)
        self.values = {
            name: tuple(dict.fromkeys(column))
            for name, column in zip(FIELDS, columns, strict=True)
        }
        whole = np.prod([len(values) for values in self.values.values()])
        if len(keys) < whole:
            raise ValueError(
                f"{len(keys)} maps of {whole}: each arm needs each padding, time and layer."
            )
        self._maps = {
            key: {WORDS[n]: m.numpy() for n, m in over_units(found[key[:3]][key[3]]).items()}
            for key in keys
        }
        self._contrasts = {key: contrast(found[key[:3]][key[3]]) for key in keys}
        self.reaches = {
            word: float(max(maps[word].max() for maps in self._maps.values())) or 1.0
            for word in WORDS.values()
        }

    def whole(self, state: PositionsState) -> PositionsState:
        """A state with everything said.

        Raises:
            ValueError: for what was not measured.
        """
        said = {}
        for name, values in self.values.items():
            said[name] = getattr(state, name) or values[0]
            one_of(name, said[name], values)
        return PositionsState(**said)

    def at(self, state: PositionsState) -> PositionsMeasurement:
        """The maps of a state."""
        key = (state.norm, state.padding, state.time, state.layer)
        return PositionsMeasurement(self._maps[key], self.reaches, self._contrasts[key])


def measure(atlas: Atlas, state: PositionsState) -> PositionsMeasurement:
    """The maps of a state; the one way into this room for a move."""
    return atlas.at(state)
