"""The panel of maps: it shows what was atlas, of exactly the net that was chosen."""

import numpy as np
import pytest

from lnlab import panels
from lnlab.analysis.feature_maps import contrast, over_units
from lnlab.panels.positions_panel import Atlas, PositionsState, conditions, measure, sentence
from tests.panels.test_every_panel import maps


@pytest.fixture
def found():
    (given,) = maps()
    return given


def test_every_state_shows_its_own_maps(found):
    atlas = Atlas(found)
    for (norm, padding, time), layers in found.items():
        for layer, of in layers.items():
            seen = measure(atlas, PositionsState(norm, padding, time, layer))
            for drawn, expected in zip(
                seen.maps.values(), over_units(of).values(), strict=True
            ):
                np.testing.assert_array_equal(drawn, expected.numpy())
            assert seen.contrast == contrast(of)


def test_colours_reach_as_far_in_every_state(found):
    atlas = Atlas(found)
    highest = [
        max(float(over_units(of)[name].max()) for one in found.values() for of in one.values())
        for name in ("on", "mean", "deviation")
    ]
    seen = measure(atlas, atlas.whole(PositionsState()))
    assert list(seen.reaches.values()) == pytest.approx(highest)


def test_the_sentence_has_the_numbers_of_border_and_middle(found):
    atlas = Atlas(found)
    state = atlas.whole(PositionsState(time="after"))
    of = contrast(found[state.norm, state.padding, "after"][state.layer])
    said = sentence(measure(atlas, state))
    assert f"in {100 * of.border:.0f} % of the cases" in said
    assert f"in the middle in {100 * of.middle:.0f} %" in said
    assert conditions(state) not in said, "its title has that"


def test_maps_that_are_not_all_there_are_refused(found):
    with pytest.raises(ValueError, match="there are no maps"):
        panels.positions({})
    found.pop(("none", "zeros", "after"))
    with pytest.raises(ValueError, match=r"14 maps of 16: each arm needs each padding, time"):
        panels.positions(found)
