"""The half of what batch norm saves that weight norm must have, on errors that are known."""

import pandas as pd
import pytest

from lnlab.papers.claims.ba2016_convolutions import STABILITY_RATES
from lnlab.papers.claims.ba2016_geometry import CLAIMS as GEOMETRY
from lnlab.papers.claims.ziaee2022 import STABLE


def value(claim, errors):
    """The value of a claim where each arm has one error at all rates."""
    frames = [
        pd.DataFrame({"update": [0, 1], "valid_error": [0.9, errors[fields["norm"]]]})
        for _, fields in claim.test.terms
    ]
    numbers = claim.test.numbers(frames)
    return sum(s * n for (s, _), n in zip(claim.test.terms, numbers, strict=True))


@pytest.mark.parametrize(
    ("weight", "found"), [(0.5, -0.4), (0.6, -0.2), (0.7, 0.0), (0.9, 0.4)]
)
def test_more_than_half_is_mainly(weight, found):
    stable, scale = STABLE
    errors = {"none": 0.9, "batch": 0.5, "weight": weight}
    assert value(stable, errors) == pytest.approx(-0.4)
    assert value(scale, errors) == pytest.approx(found, abs=1e-12)


def test_every_arm_is_tried_at_every_rate():
    (of_layer_norm,) = (c for c in GEOMETRY if c.id == "ba2016-5.2-stable")
    for claim in (*STABLE, of_layer_norm):
        tried = {}
        for sign, fields in claim.test.terms:
            tried.setdefault((sign, fields["norm"]), []).append(fields["learning_rate"])
        assert all(tuple(rates) == STABILITY_RATES for rates in tried.values())
