"""An identity holds for every seed or not at all, and a change is one that can be seen."""

import math

import pytest

from lnlab.nn import WeightNorm
from lnlab.papers.claims import Verdict
from lnlab.papers.claims.ba2016_analysis import farthest, scaled_scalars
from lnlab.papers.claims.exact import (
    DRAWS,
    MOVED,
    NOTHING_MOVED,
    changed,
    counted,
    greatest,
    nearly,
    readings,
    unchanged,
)

YES, NO = Verdict.HOLDS, Verdict.FAILS


def verdict(judge):
    return judge().verdict


@pytest.mark.parametrize(
    ("defect", "stays", "moves"),
    [
        (0.0, YES, NO),
        (NOTHING_MOVED / 2, YES, NO),
        (NOTHING_MOVED, NO, NO),
        (1e-6, NO, NO),
        (MOVED, NO, NO),
        (2 * MOVED, NO, YES),
        (math.inf, NO, YES),
        (math.nan, NO, NO),
    ],
)
def test_between_rounding_and_what_can_be_seen_nothing_is_shown(defect, stays, moves):
    assert verdict(unchanged(lambda seed: defect)) is stays
    assert verdict(changed(lambda seed: defect)) is moves
    assert verdict(nearly(lambda seed: defect, "x")) is (YES if defect < MOVED else NO)


@pytest.mark.parametrize("odd", DRAWS)
@pytest.mark.parametrize("value", [math.nan, 1e-3])
def test_one_seed_is_enough_to_refuse(odd, value):
    assert verdict(unchanged(lambda seed: value if seed == odd else 0.0)) is NO
    assert verdict(changed(lambda seed: value if seed == odd else 1.0)) is NO


def test_the_evidence_says_what_was_measured():
    evidence = unchanged(lambda seed: seed * 1e-14, "quantity", "made of nothing")()
    assert evidence.values[:3] == (0.0, 1e-14, 2e-14)
    assert evidence.worst == evidence.values[-1] == max(evidence.values)
    assert changed(lambda seed: 1.0 + seed)().worst == 1.0
    assert evidence.interval is None
    assert evidence.quantity == "largest quantity"
    assert evidence.data == "synthetic: made of nothing"
    assert not evidence.hardware  # an equation holds on any
    assert evidence.seeds == tuple(DRAWS)


@pytest.mark.parametrize(
    ("defects", "found"),
    [((0.0, 0.0), YES), ((1.0, 1.0), NO), ((0.0, 1.0), Verdict.INCONCLUSIVE)],
)
def test_a_reading_holds_if_all_do_and_fails_if_none_does(defects, found):
    judges = {str(k): unchanged(lambda seed, d=d: d) for k, d in enumerate(defects)}
    evidence = readings(judges)()
    assert evidence.verdict is found
    assert evidence.quantity.startswith("0: ")
    assert "; 1: " in evidence.quantity


def test_a_count_holds_or_not():
    assert verdict(counted(lambda: 3, lambda n: n == 3, "things")) is YES
    assert verdict(counted(lambda: 4, lambda n: n == 3, "things")) is NO


@pytest.mark.parametrize("place", range(3))
def test_a_defect_that_is_no_number_is_not_lost_among_others(place):
    defects = [0.0, 0.0, 0.0]
    defects[place] = math.nan
    assert math.isnan(greatest(defects))
    judged = unchanged(farthest(*(lambda seed, value=value: value for value in defects)))()
    assert judged.verdict is Verdict.FAILS


def test_scalars_that_all_units_share_are_not_scaled_with_one_weight_vector(monkeypatch):
    shared = WeightNorm.stats

    def of_the_whole(self, a, W=None, t=None):
        mu, sigma = shared(self, a, W, t)
        return type(shared(self, a, W, t))(mu, sigma.mean().expand_as(sigma))

    assert scaled_scalars("weight")(0) < NOTHING_MOVED
    monkeypatch.setattr(WeightNorm, "stats", of_the_whole)
    assert scaled_scalars("weight")(0) > MOVED
