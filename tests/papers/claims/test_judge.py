"""A word follows from values of a known effect at the rate that the rule states."""

import numpy as np
import pytest
from scipy import stats

from lnlab.papers.claims.judge import (
    CONTRADICTED,
    INCONCLUSIVE,
    LEVEL,
    NO_DIFFERENCE,
    NOT_TESTED,
    SUPPORTED,
    adjust_holm,
    clopper_pearson_interval,
    is_mixed,
    judge_differences,
    judge_which_arm_learns,
)

DRAWS = 1000
TOLERANCE = 3 * (LEVEL * (1 - LEVEL) / DRAWS) ** 0.5
"""Three standard deviations of a rate of 5 % in so many draws."""


def draw(effect, n=5, deviation=1.0, seed=0, draws=DRAWS):
    return np.random.default_rng(seed).normal(effect, deviation, (draws, n))


def rate(words, *wanted):
    return np.mean([word in wanted for word in words])


@pytest.mark.parametrize("claims", ["less", "more"])
def test_without_an_effect_a_direction_is_claimed_at_the_stated_rate(claims):
    words = [judge_differences(v, 0.1, claims).verdict_without_size for v in draw(0.0)]
    for word in (SUPPORTED, CONTRADICTED):
        assert rate(words, word) == pytest.approx(LEVEL / 2, abs=TOLERANCE)


def test_an_effect_is_supported_as_often_as_its_power():
    words = [judge_differences(v, 0.1).verdict_without_size for v in draw(-1.5)]
    reach, shift = stats.t.ppf(0.975, 4), 1.5 * 5**0.5
    assert rate(words, SUPPORTED) == pytest.approx(stats.nct.cdf(-reach, 4, -shift), abs=0.03)
    assert rate(words, CONTRADICTED) < 0.005


def test_a_narrower_interval_never_reverses_the_direction():
    shape = np.array([-2.0, -1.0, 0.0, 1.0, 2.0])
    for estimate in (-3.0, -0.5, -0.05, 0.0, 0.05, 0.5, 3.0):
        decided = set()
        for deviation in np.geomspace(10, 1e-3, 60):
            one = judge_differences(estimate + deviation * shape, 0.1)
            if one.verdict_without_size in (SUPPORTED, CONTRADICTED):
                decided.add(one.verdict_without_size)
            elif decided:  # once it is decided, it stays so
                pytest.fail(f"{estimate}: {decided} became {one.verdict_without_size}")
        assert decided == (
            {SUPPORTED} if estimate < 0 else {CONTRADICTED} if estimate else set()
        )


def test_the_size_stands_beside_the_word():
    shape = 0.01 * np.array([-2.0, -1.0, 0.0, 1.0, 2.0])
    for mean, verdict, size in (
        (-1.0, "supported", "large"), (-0.1, "supported, size uncertain", "open"),
        (-0.05, "supported, but small", "small"), (0.05, "contradicted, but small", "small"),
        (0.001, NO_DIFFERENCE, ""),
    ):  # fmt: skip
        one = judge_differences(mean + shape, 0.1)
        assert (one.verdict_with_effect_size_caveat, one.effect_size_class) == (verdict, size)


def test_equality_is_two_one_sided_tests():
    words = [judge_differences(v, 1.0, "equal").verdict_without_size for v in draw(1.0, n=10)]
    assert rate(words, SUPPORTED) <= LEVEL / 2 + TOLERANCE  # at the border
    assert (
        rate(
            [judge_differences(v, 1.0, "equal").verdict_without_size for v in draw(0.0, n=20)],
            SUPPORTED,
        )
        > 0.9
    )
    assert (
        rate(
            [judge_differences(v, 1.0, "equal").verdict_without_size for v in draw(3.0, n=10)],
            CONTRADICTED,
        )
        > 0.9
    )
    values = draw(0.0, n=20, draws=1)[0]
    error = values.std(ddof=1) / 20**0.5
    larger = stats.t.sf((1 - abs(values.mean())) / error, 19)
    assert judge_differences(values, 1.0, "equal").p_value == pytest.approx(larger)


def test_not_more_is_one_test_at_the_largest_effect_that_does_not_matter():
    words = [judge_differences(v, 1.0, "not more").verdict_without_size for v in draw(1.0)]
    assert rate(words, SUPPORTED) == pytest.approx(LEVEL / 2, abs=TOLERANCE)
    assert (
        judge_differences([-3.0, -3.1, -2.9, -3.0, -3.1], 1.0, "not more").verdict_without_size
        == SUPPORTED
    )
    assert (
        judge_differences([3.0, 3.1, 2.9, 3.0, 3.1], 1.0, "not more").verdict_without_size
        == CONTRADICTED
    )


def test_fewer_than_five_pairs_and_equal_values_decide_nothing():
    assert judge_differences([-1.0, -1.1, -0.9, -1.0], 0.1).verdict_without_size == INCONCLUSIVE
    assert judge_differences([-1.0] * 5, 0.1) == judge_differences([-1.0] * 5, 0.1, "equal")
    assert judge_differences([-1.0] * 5, 0.1).verdict_without_size == INCONCLUSIVE
    with pytest.raises(ValueError, match="finite"):
        judge_differences([float("nan")] * 5, 0.1)


def test_splits_of_the_same_examples_get_nadeau_and_bengios_interval():
    values, shared = [-1.0, -0.2, -0.6, -0.5, -0.9], 0.5
    one = judge_differences(values, 0.1, test_to_train_ratio=shared)
    reach = stats.t.ppf(0.975, 4) * np.std(values, ddof=1) * (1 / 5 + shared) ** 0.5
    assert (one.interval_low, one.interval_high) == pytest.approx(
        (-0.64 - reach, -0.64 + reach)
    )


def test_where_only_some_seeds_learn_the_shares_are_judged():
    yes, no = [True] * 5, [False] * 5
    assert judge_which_arm_learns(no, no).verdict_without_size == NOT_TESTED
    assert judge_which_arm_learns(yes, no).verdict_without_size == SUPPORTED
    assert judge_which_arm_learns(no, yes).verdict_without_size == CONTRADICTED
    assert (
        judge_which_arm_learns([True] * 3 + [False] * 2, yes).verdict_without_size
        == INCONCLUSIVE
    )
    assert (
        judge_which_arm_learns([True] * 4, [False] * 4).verdict_without_size == INCONCLUSIVE
    )  # fewer than five
    assert clopper_pearson_interval(3, 5) == pytest.approx((0.1466, 0.9473), abs=1e-4)


def test_mixed_occurs_at_most_at_the_level():
    """Five settings without an effect stand beside a headline that has one."""
    mixed = []
    for values in draw(0.0, n=30).reshape(DRAWS, 6, 5):
        headline, *same = (
            judge_differences(v, 0.1) for v in (values[0] * 1e-3 - 1, *values[1:])
        )
        mixed.append(is_mixed(headline, same, []))
    assert np.mean(mixed) <= LEVEL / 2 + TOLERANCE
    contrary = judge_differences(values[0] * 1e-3 + 1, 0.1)
    assert is_mixed(headline, [contrary], same)
    assert not is_mixed(headline, same, [contrary])  # it asks another question
    assert adjust_holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
