"""What is watched in nets that learn: always the same numbers, of the nets that are named."""

import pytest
import torch

from lnlab.ledger import Claim, Verdict
from lnlab.ledger.watched import (
    SHIFTS,
    learning,
    less_shift,
    less_variation,
    shifted,
    variation,
    watched,
)


def test_arms_are_paired():
    (ours, seen, _), (theirs, same, _) = (learning(arm, 3) for arm in ("layer", "none"))
    assert torch.equal(next(ours.parameters()), next(theirs.parameters()))
    for (x, y), (x_, y_) in zip(seen, same, strict=True):
        assert torch.equal(x, x_)
        assert torch.equal(y, y_)


def test_a_seed_gives_one_number_and_leaves_the_generator_alone():
    state = torch.get_rng_state()
    first = shifted.__wrapped__("batch hidden", 0)
    assert first == shifted("batch hidden", 0)
    assert first != shifted("batch hidden", 1)
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize("of", SHIFTS)
def test_statistics_over_cases_reduce_the_shift_and_over_units_hardly(of):
    batch, layer = (less_shift(arm, "none", of)(0) for arm in ("batch hidden", "layer"))
    assert batch < -2 < -0.5 < layer < 0.1


def test_the_loss_moves_less_along_its_gradient_under_a_normalizer():
    assert variation("layer", 0) == variation.__wrapped__("layer", 0)
    assert less_variation("batch hidden", "none")(0) < 0
    assert less_variation("layer", "none")(0) < 0
    assert less_variation("none", "none")(0) == 0


@pytest.mark.parametrize(
    ("number", "verdict"),
    [
        (lambda seed: -1.0 - seed, Verdict.SAME_DIRECTION),
        (lambda seed: 1.0 + seed, Verdict.NOT_REPRODUCED),
        (lambda seed: float("nan"), Verdict.NOT_COMPARABLE),
    ],
)
def test_what_is_watched_on_digits_reproduces_no_paper(number, verdict):
    evidence = Claim("x-1", "X (2000), 1", "x", watched(number, "a quantity")).judge([])
    assert evidence.verdict is verdict
    assert evidence.data.startswith("embedded: ")
    assert bool(evidence.values) == (verdict is not Verdict.NOT_COMPARABLE)
