"""An identity holds for every seed or not at all, and a change is one that can be seen."""

import math

import pytest

from lnlab.ledger import Claim, Verdict
from lnlab.ledger.exact import MOVED, NOTHING_MOVED, SEEDS, changed, nearly, unchanged

YES, NO = Verdict.REPRODUCED, Verdict.NOT_REPRODUCED


def verdict(test):
    return Claim("x-1", "X (2000), 1", "x", test).judge([]).verdict


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


@pytest.mark.parametrize("odd", SEEDS)
@pytest.mark.parametrize("value", [math.nan, 1e-3])
def test_one_seed_is_enough_to_refuse(odd, value):
    assert verdict(unchanged(lambda seed: value if seed == odd else 0.0)) is NO
    assert verdict(changed(lambda seed: value if seed == odd else 1.0)) is NO


def test_the_evidence_says_what_was_measured():
    evidence = unchanged(lambda seed: seed * 1e-14, "a quantity", "made of nothing")([])
    assert evidence.values == (0.0, 1e-14, 2e-14, 3e-14, 4e-14)
    assert evidence.interval == (0.0, 4e-14)
    assert evidence.quantity.startswith("a quantity")
    assert evidence.data == "synthetic: made of nothing"
    assert evidence.hardware
