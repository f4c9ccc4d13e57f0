"""The panel of maps: it shows what was measured, of exactly the net that was chosen."""

import numpy as np
import pytest

from lnlab import panels
from lnlab.analysis.feature_maps import contrast, mean_over_units
from lnlab.panels.positions_panel import PositionsState
from tests.golden.write import feature_maps


def test_every_state_shows_its_own_maps_in_colours_that_reach_as_far():
    measured = feature_maps()
    panel = panels.positions(measured)
    every = [mean_over_units(of) for layers in measured.values() for of in layers.values()]
    for (norm, padding, time), layers in measured.items():
        for layer, of in layers.items():
            panel.state = PositionsState(norm, padding, time, layer)
            for slot, (name, expected) in enumerate(mean_over_units(of).items()):
                trace = panel.plots["positions"].current(slot)
                np.testing.assert_array_equal(trace["z"], expected.numpy())
                assert trace["zmax"] == max(float(each[name].max()) for each in every)
            border = contrast(of)
            assert f"in {100 * border.border:.0f} % of the cases" in panel.bar.sentence
            assert f"in the middle in {100 * border.middle:.0f} %" in panel.bar.sentence


def test_maps_that_are_not_all_there_are_refused():
    measured = feature_maps()
    with pytest.raises(ValueError, match="there are no maps"):
        panels.positions({})
    measured.pop(("none", "zeros", "after"))
    with pytest.raises(ValueError, match=r"14 maps of 16: each arm needs each padding, time"):
        panels.positions(measured)
