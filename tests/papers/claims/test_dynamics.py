"""Claims of stable dynamics: what grows is as far from stable as what shrinks alike."""

from dataclasses import replace

import pandas as pd
import pytest

from lnlab.papers.claims import ba2016_sequential_digits
from lnlab.papers.claims.ba2016_sequential_digits import WATCHED, unsteady
from lnlab.papers.claims.judging import evidence
from lnlab.papers.claims.rule import Outcome

CLAIM = next(
    one
    for one in ba2016_sequential_digits.CLAIMS
    if one.id == "ba2016-abstract-stabilizes-paper"
)


def test_a_factor_is_as_far_from_1_as_its_reciprocal():
    grows, shrinks = (pd.DataFrame({"gradient_factor": [3.0, last]}) for last in (1.25, 0.8))
    assert unsteady(grows) == pytest.approx(unsteady(shrinks))
    assert unsteady(pd.DataFrame({"gradient_factor": [3.0, 1.0]})) == 0


@pytest.mark.parametrize(
    ("layer", "none", "found"),
    [
        (1.01, 1.2, Outcome.SUPPORTED),
        (0.99, 1.2, Outcome.SUPPORTED),
        (0.8, 1.01, Outcome.CONTRADICTED),
        (1.1, 1 / 1.1, Outcome.NO_EFFECT),
    ],
)
def test_the_arm_whose_factor_is_nearer_to_1_is_the_stable_one(ran, layer, none, found):
    runs = [
        ran(
            replace(WATCHED, norm=norm, cell="lstm"),
            {seed: factor + k / 1e4 for k, seed in enumerate(WATCHED.seeds)},
            metric="gradient_factor", kind="embedded",
        )
        for norm, factor in (("layer", layer), ("none", none))
    ]  # fmt: skip
    assert evidence(runs, [CLAIM])[CLAIM.id].outcome is found
