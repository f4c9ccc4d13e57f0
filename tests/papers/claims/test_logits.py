"""The logits of section 6.6: nets without layer norm on them, less nets with it."""

import math

import pandas as pd
import pytest

from lnlab.papers.claims.ba2016_mnist import LOGITS
from lnlab.papers.claims.rule import Says


@pytest.mark.parametrize("claim", [c for c in LOGITS if c.test], ids=lambda claim: claim.id)
def test_a_smaller_number_without_layer_norm_on_the_logits_is_negative(claim):
    numbers = {"layer": 0.1, "layer everywhere": 0.2}
    frames = [
        pd.DataFrame({"update": [0, 1], "train_nll": [n, n], "test_error": [n, n]})
        for n in (numbers[fields["norm"]] for _, fields in claim.test.terms)
    ]
    read = claim.test.numbers(frames)
    value = sum(s * n for (s, _), n in zip(claim.test.terms, read, strict=True))
    assert value == pytest.approx(-math.log(2))
    assert claim.declared.says is Says.AT_MOST
