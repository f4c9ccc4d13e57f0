"""What is read of the turns of a matrix, and of the losses over rates."""

import numpy as np
import pandas as pd
import pytest

from lnlab.papers.claims import kept
from lnlab.papers.claims.transformers import FARTHEST, TURNING, band, distance, settled


def turns(*ratios, moments=(0, 200, 400, 600, 800, 1000)):
    return pd.DataFrame({"update": moments, "rotation_Q": [float("nan"), *ratios]})


@pytest.mark.parametrize(
    ("ratios", "found"),
    [
        ((-0.9, -0.05, 0.01, 0.02, -0.03), -0.05),  # at rest: what is farthest
        ((-0.9, 0.02, 0.03, -0.2, 0.03), -0.2),  # on the way, too
        ((-0.9, -0.2, -0.1, 0.0, 0.1), 0.6),  # always within a quarter, and still rising
    ],
)
def test_a_turn_is_at_rest_if_it_is_near_and_stays(ratios, found):
    assert settled("Q")(turns(*ratios)) == pytest.approx(found)


def test_a_distance_is_the_size_of_a_mean_from_update_400_on():
    assert distance("Q")(turns(-0.9, -0.3, 0.1, -0.3, 0.1)) == pytest.approx(0.1)


def test_what_diverged_has_no_number():
    gone = turns(-0.9, 0.1, float("nan"), float("nan"), float("nan"))
    assert np.isnan(settled("Q")(gone))
    assert np.isnan(distance("Q")(gone))


def test_each_matrix_is_set_against_itself_where_no_norm_follows():
    nearer = [claim for claim in TURNING if "nearer" in claim.id]
    assert len(nearer) == 4
    for claim in nearer:
        (one, ours), (other, theirs) = claim.test.terms
        assert (one, other) == (1, -1)
        follows = {"qk": ("Q", "K"), "sandwich": ("O", "2")}
        assert claim.id[-1] in follows[ours["norm"]]
        assert claim.id[-1] not in follows[theirs["norm"]]


@pytest.mark.parametrize("matrix", FARTHEST)
def test_the_farthest_ratio_that_is_told_is_that_of_a_seed(matrix):
    name = f"kosson2023-turn-{matrix}"
    values = next(one["values"] for one in kept.entries() if one["id"] == name)
    assert FARTHEST[matrix] == round(max(map(abs, values)), 2)


def losses(*ends, start=4.0):
    return [pd.DataFrame({"valid_nll": [start, end]}) for end in ends]


def test_sensitivities_are_compared_as_a_ratio_whatever_their_size():
    flat, steep = losses(2.5, 2.4), losses(2.8, 2.4)
    assert band(*flat, *steep) == pytest.approx(np.log(0.05 / 0.2))
    lost = losses(float("nan"), 2.4)  # a net that is lost knows what it knew at the start
    assert band(*flat, *lost) == pytest.approx(np.log(0.05 / 0.8))
