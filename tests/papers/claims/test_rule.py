"""A verdict follows from the numbers by the rule, at the rates that the rule states."""

import math
from itertools import product

import numpy as np
import pytest
from scipy import stats

from lnlab.analysis.statistics import (
    detectable,
    ends,
    exact_interval,
    holm,
    interval,
    p_value,
    sign_flip_p,
)
from lnlab.papers.claims.rule import (
    Outcome,
    Says,
    Setting,
    Verdict,
    boundedness,
    defect,
    judge,
    outcome,
    sameness,
    size,
    steady,
    verdict,
)

SUPPORTED, CONTRADICTED = Outcome.SUPPORTED, Outcome.CONTRADICTED
NO_EFFECT, INCONCLUSIVE = Outcome.NO_EFFECT, Outcome.INCONCLUSIVE
DRAWS = 2000


def rate(outcomes, *wanted):
    return np.mean([one in wanted for one in outcomes])


def error(p, draws=DRAWS):
    """Three standard errors of a rate: 1 seed in 370 would leave them."""
    return 3 * math.sqrt(p * (1 - p) / draws)


def alone(values, margin, exact=False):
    return judge([values], [margin], [exact])[0].outcome


def test_intervals_have_one_form():
    assert ends((-0.123, 4.0)) == "-0.12 to 4"
    assert ends((-69.4, 104.2)) == "-69 to 100"
    assert ends((None, 0.5)) == ends((-math.inf, 0.5)) == "-∞ to 0.5"
    assert ends((-3.0, None)) == ends((-3.0, math.inf)) == "-3 to ∞"
    assert ends(None) == "none"


@pytest.mark.parametrize("value", [0.123456789, -7.3e-5, 41.0, 1.5e-11, 2e-16, 0.0])
def test_the_last_digits_of_a_machine_are_not_kept(value):
    for other in (value * (1 + 3e-15), value * (1 - 3e-15), value + 4e-17):
        assert steady(other) == steady(value)
        assert defect(other) == defect(value)
    assert steady(value) == pytest.approx(value, rel=1e-5, abs=1e-12)
    assert steady(0.123457) != steady(0.123458)


def test_a_defect_of_rounding_has_no_digits():
    assert defect(5.9e-16) == defect(0.0) == "below 1e-12"
    assert defect(0.0321) == "0.032"


def test_interval_is_students():
    # three values of mean 2 and standard deviation 1; t of 2 degrees at 97.5 % is 4.30265
    low, high = interval([1.0, 2.0, 3.0])
    reach = 4.302652729749464 / math.sqrt(3)
    assert (low, high) == pytest.approx((2 - reach, 2 + reach), rel=1e-12)  # t has 13 digits


@pytest.mark.parametrize("values", [[], [1.0]])
def test_fewer_than_two_seeds_have_no_interval(values):
    with pytest.raises(ValueError, match="two seeds or more"):
        interval(values)


@pytest.mark.parametrize(
    ("ends", "found"),
    [
        ((-0.9, 0.9), NO_EFFECT),
        ((-0.9, -0.1), NO_EFFECT),  # there, and too small to matter
        ((0.1, 0.9), NO_EFFECT),
        ((-3.0, -0.1), SUPPORTED),
        ((-3.0, 0.0), INCONCLUSIVE),
        ((0.1, 3.0), CONTRADICTED),
        ((-0.5, 1.0), INCONCLUSIVE),
        ((-math.inf, math.inf), INCONCLUSIVE),
    ],
)
def test_outcomes_come_in_their_order(ends, found):
    assert outcome(ends, 1.0) is found


def test_the_rule_is_the_same_for_a_claim_and_its_opposite():
    turned = {SUPPORTED: CONTRADICTED, CONTRADICTED: SUPPORTED}
    for values in np.random.default_rng(0).normal(-1, 1, (200, 5)):
        found = alone(values, 0.3)
        assert alone(-values, 0.3) is turned.get(found, found)


def test_rounding_is_no_effect_and_equal_values_decide_nothing():
    assert alone([-1e-17, -1e-17], 0.1) is NO_EFFECT
    assert alone([0.0, 0.0], 0.1) is NO_EFFECT
    assert alone([-1.0, -1.0], 0.1) is INCONCLUSIVE
    assert alone([-1.0] * 8, 0.1, exact=True) is INCONCLUSIVE
    assert verdict(Setting.OWN, alone([-1.0, -1.0], 0.1), 2) is Verdict.INCONCLUSIVE


def test_one_reading_written_down_for_every_seed_has_no_interval():
    [read] = judge([[0.045] * 5], [0.1], says=[Says.SAME])
    assert read.outcome is INCONCLUSIVE
    assert read.interval == (-math.inf, math.inf)
    assert read.detectable == math.inf


@pytest.mark.parametrize(
    ("ends", "found"),
    [
        ((-0.9, 0.9), SUPPORTED),
        ((0.1, 0.9), SUPPORTED),  # there, and comparable
        ((0.1, 1.1), INCONCLUSIVE),
        ((-1.1, -0.1), INCONCLUSIVE),
        ((-3.0, 3.0), INCONCLUSIVE),
        ((1.1, 3.0), CONTRADICTED),
        ((-3.0, -1.1), CONTRADICTED),
    ],
)
def test_the_same_is_what_lies_inside_the_margins(ends, found):
    assert sameness(ends, 1.0, [0.0, 1.0]) is found
    assert sameness(ends, 1.0, [0.5, 0.5]) is INCONCLUSIVE


def test_that_two_are_the_same_is_said_in_at_most_five_percent_where_they_are_not():
    draws = np.random.default_rng(2).normal(1, 0.5, (DRAWS, 5))  # the mean is at the margin
    found = [judge([v], [1.0], says=[Says.SAME])[0] for v in draws]
    wrong = rate([one.outcome for one in found], SUPPORTED, CONTRADICTED)
    assert wrong == pytest.approx(0.05, abs=error(0.05))
    for v, one in zip(draws, found, strict=True):
        said = one.outcome is not INCONCLUSIVE
        assert said == (one.p < 0.05)
        assert one.p == pytest.approx(stats.ttest_1samp(v, 1.0).pvalue)


@pytest.mark.parametrize(
    ("ends", "found"),
    [
        ((-3.0, -2.0), SUPPORTED),
        ((0.1, 0.9), SUPPORTED),  # more, but not by as much
        ((0.9, 1.1), INCONCLUSIVE),  # of a claim of less than 0 no effect as large
        ((1.1, 3.0), CONTRADICTED),
    ],
)
def test_what_stays_below_its_margin_is_supported(ends, found):
    assert boundedness(ends, 1.0, [0.0, 1.0]) is found
    assert boundedness(ends, 1.0, [0.5, 0.5]) is INCONCLUSIVE


def test_that_a_bound_is_kept_is_said_in_one_of_forty_where_the_mean_is_at_it():
    draws = np.random.default_rng(3).normal(1, 0.5, (DRAWS, 5))
    found = [judge([v], [1.0], says=[Says.AT_MOST])[0] for v in draws]
    kept = rate([one.outcome for one in found], SUPPORTED)
    assert kept == pytest.approx(0.025, abs=error(0.025))
    for v, one in zip(draws, found, strict=True):
        assert (one.outcome is not INCONCLUSIVE) == (one.p < 0.05)
        assert one.p == pytest.approx(stats.ttest_1samp(v, 1.0).pvalue)


def test_what_is_the_same_is_judged_beside_what_is_not():
    lower, alike = [-5.0, -4.0, -6.0, -5.0, -4.5], [0.2, -0.1, 0.0, 0.1, -0.2]
    one, other = judge([lower, alike], [1.0, 1.0], says=[Says.LESS, Says.SAME])
    assert one.outcome is other.outcome is SUPPORTED
    assert judge([alike], [1.0])[0].outcome is NO_EFFECT
    with pytest.raises(ValueError, match="above 0"):
        judge([alike], [0.0], says=[Says.SAME])


def test_what_is_below_0_at_both_levels_is_supported():
    """Inside the margins at Holm's step, outside of them where all hold at once."""
    values = [-0.146, -0.327, -0.172, -0.352, -0.232]
    others = [[4.0, 5.0, 4.5, 4.2, 4.8]] * 4  # which Holm's method lets go first
    found = judge([values, *others], [0.41, *[1.0] * 4])[0]
    at_his_step, at_once = (interval(values, 1 - 0.05 / n) for n in (1, 5))
    assert at_his_step[0] > -0.41 > at_once[0]
    assert at_once[1] < 0
    assert found.interval == at_once
    assert found.outcome is SUPPORTED


@pytest.mark.parametrize(
    ("ends", "said"),
    [
        ((-3.0, -1.5), "all of it beyond"),
        ((-3.0, -0.5), "perhaps less than it"),
        ((None, -0.5), "perhaps less than it"),
        ((-0.9, -0.5), "below 0, and less than it"),
        ((-0.9, 0.5), ""),
        ((-0.9, 1.5), "no gain as large"),
        ((-0.9, None), "no gain as large"),
        ((-1.5, 1.5), ""),
        ((0.5, 1.5), ""),
    ],
)
def test_the_size_next_to_the_margin_is_told(ends, said):
    low, high = ends
    wide = (-math.inf if low is None else low, math.inf if high is None else high)
    found = outcome(wide, 1.0).value
    assert size(found, "less than 0", ends, 1.0) == said
    assert size(found, "less than the margin", ends, 1.0) == ""


def test_a_margin_is_positive_and_differences_are_finite():
    with pytest.raises(ValueError, match="above 0"):
        outcome((-1.0, 1.0), 0.0)
    with pytest.raises(ValueError, match="what a failed run counts as"):
        alone([-1.0, -math.inf], 1.0)


@pytest.mark.parametrize(
    ("setting", "found", "seeds", "word"),
    [
        (Setting.OWN, SUPPORTED, 5, Verdict.REPRODUCED),
        (Setting.OWN, SUPPORTED, 4, Verdict.INCONCLUSIVE),
        (Setting.OWN, CONTRADICTED, 5, Verdict.NOT_REPRODUCED),
        (Setting.OWN, NO_EFFECT, 5, Verdict.NOT_REPRODUCED),
        (Setting.OWN, NO_EFFECT, 4, Verdict.INCONCLUSIVE),
        (Setting.OWN, INCONCLUSIVE, 9, Verdict.INCONCLUSIVE),
        (Setting.SCALED, SUPPORTED, 9, Verdict.ALSO_SEEN),
        (Setting.OTHER, SUPPORTED, 3, Verdict.ALSO_SEEN),
        (Setting.OTHER, CONTRADICTED, 3, Verdict.NOT_SEEN),
        (Setting.SCALED, NO_EFFECT, 3, Verdict.NOT_SEEN),
        (Setting.OTHER, INCONCLUSIVE, 3, Verdict.INCONCLUSIVE),
    ],
)
def test_words_follow_from_setting_outcome_and_seeds(setting, found, seeds, word):
    assert verdict(setting, found, seeds) is word


def test_t_is_that_of_scipy():
    values = np.random.default_rng(1).normal(0.4, 1, 7)
    known = stats.ttest_1samp(values, 0.0)
    assert p_value(values) == pytest.approx(known.pvalue, rel=1e-9)  # another order of sums
    ends = known.confidence_interval(0.9)
    assert interval(values, 0.9) == pytest.approx((ends.low, ends.high), rel=1e-9)


def test_sign_flips_are_counted_one_by_one():
    values = [0.3, -1.2, -0.7, -2.0]
    sums = [abs(np.dot(signs, values)) for signs in product([1, -1], repeat=4)]
    known = np.mean([s >= abs(sum(values)) - 1e-12 for s in sums])
    assert sign_flip_p(values) == known == 0.25
    assert sign_flip_p([-1.0, -1.1, -0.9, -1.2, -1.05]) == 2 / 32  # five cannot go below .06


def test_the_exact_interval_is_where_flips_do_not_reject():
    values = np.random.default_rng(2).normal(-1, 1, 8)
    low, high = exact_interval(values, 0.95)
    inside, outside = low + 1e-6, low - 1e-6
    assert sign_flip_p(values - outside) <= 0.05 < sign_flip_p(values - inside)
    assert sign_flip_p(values - high - 1e-6) <= 0.05 < sign_flip_p(values - high + 1e-6)
    assert exact_interval(values[:5], 0.95) == (-math.inf, math.inf)
    assert np.isfinite(exact_interval(values[:6], 0.95)).all()


def test_holm_goes_down_step_by_step():
    # .01 <= .05/3, .03 > .05/2: it and the last share that level
    np.testing.assert_allclose(holm([0.03, 0.01, 0.6]), [1 - 0.05 / 2, 1 - 0.05 / 3, 0.975])
    np.testing.assert_allclose(holm([0.001], size=4), [1 - 0.05 / 4])
    np.testing.assert_allclose(holm([0.9, 0.8]), [0.975, 0.975])


def test_a_claim_leaves_zero_out_where_its_test_rejects():
    random = np.random.default_rng(3)
    for family in random.normal(-0.8, 1, (100, 4, 5)):
        p = [p_value(values) for values in family]
        for values, confidence, chance in zip(family, holm(p), p, strict=True):
            low, high = interval(values, confidence)
            assert (chance <= 1 - confidence) == (high < 0 or low > 0)


@pytest.mark.parametrize("seeds", [3, 5, 15])
def test_size_nothing_there_is_called_something_in_at_most_five_percent(seeds):
    draws = np.random.default_rng(seeds).normal(0, 1, (DRAWS, seeds))
    found = [alone(values, 1e-6) for values in draws]  # so small that it never is inside
    assert abs(rate(found, SUPPORTED, CONTRADICTED) - 0.05) < error(0.05)
    assert abs(rate(found, SUPPORTED) - 0.025) < error(0.025)


@pytest.mark.parametrize("shared", [0.2, 0.5])
def test_size_over_splits_that_have_cases_in_common(shared):
    # correlated by n_test/(n_train + n_test), for which the correction was made
    common = shared / (1 + shared)
    random = np.random.default_rng(13)
    draws = random.normal(0, common**0.5, (DRAWS, 1))
    draws = draws + random.normal(0, (1 - common) ** 0.5, (DRAWS, 5))
    known = [judge([values], [1e-6], shared=[shared])[0] for values in draws]
    found = [one.outcome for one in known]
    assert abs(rate(found, SUPPORTED, CONTRADICTED) - 0.05) < error(0.05)
    unknown = [alone(values, 1e-6) for values in draws]
    assert rate(unknown, SUPPORTED, CONTRADICTED) > 0.09
    assert known[0].interval == interval(draws[0], shared=shared)
    assert known[0].detectable > judge([draws[0]], [1e-6])[0].detectable
    with pytest.raises(ValueError, match="permutations ask for independent values"):
        judge([draws[0]], [1.0], exact=[True], shared=[shared])


def test_size_of_a_whole_family():
    draws = np.random.default_rng(4).normal(0, 1, (DRAWS, 4, 5))
    found = [judge(family, [1e-6] * 4) for family in draws]
    wrong = [any(one.outcome is not INCONCLUSIVE for one in family) for family in found]
    assert np.mean(wrong) < 0.05 + error(0.05)
    assert np.mean(wrong) > 0.025  # and not by never saying anything


def test_size_of_a_family_in_which_one_claim_is_true():
    draws = np.random.default_rng(5).normal(0, 1, (DRAWS, 4, 5)) - [[3.0], [0], [0], [0]]
    found = [judge(family, [1e-6] * 4) for family in draws]
    wrong = [any(one.outcome is not INCONCLUSIVE for one in family[1:]) for family in found]
    assert np.mean(wrong) < 0.05 + error(0.05)


def test_size_of_a_family_of_effects_as_large_as_the_margin():
    # Holm's levels are for 0: intervals at them would deny an effect in 7 % of families
    draws = np.random.default_rng(17).normal(-1, 1, (DRAWS, 8, 15))
    found = [judge(family, [1.0] * 8) for family in draws]
    wrong = [any(one.outcome is NO_EFFECT for one in family) for family in found]
    assert np.mean(wrong) < 0.025 + error(0.025)


def test_size_of_a_family_of_both():
    effects = np.repeat([0.0, -1.0], 4)
    draws = np.random.default_rng(18).normal(effects[:, None], 1, (DRAWS, 8, 15))
    found = np.array([[one.outcome for one in judge(family, [1.0] * 8)] for family in draws])
    nothing, effect = found[:, :4], found[:, 4:]
    claimed = ((nothing == SUPPORTED) | (nothing == CONTRADICTED)).any(1)
    denied = (effect == NO_EFFECT).any(1)
    assert 0.01 < claimed.mean() < 0.05 + error(0.05)
    assert denied.mean() < 0.025 + error(0.025)
    assert (claimed | denied).mean() < 0.075 + error(0.075)


@pytest.mark.parametrize("effect", [1.0, 2.0, 3.0])
def test_power_is_that_of_the_t_test(effect):
    draws = np.random.default_rng(6).normal(-effect, 1, (DRAWS, 5))
    found = [alone(values, 1e-6) for values in draws]
    reach = stats.t.ppf(0.975, 4)
    known = stats.nct.cdf(-reach, 4, -effect * math.sqrt(5))
    assert abs(rate(found, SUPPORTED) - known) < error(known)
    assert rate(found, CONTRADICTED) < 0.001  # 2e-4 at one standard deviation, by nct


def test_an_effect_of_the_margin_is_called_none_as_large_in_one_of_forty():
    # fifteen seeds, so that the interval fits between the margins
    for effect in (-1.0, 1.0):
        draws = np.random.default_rng(7).normal(effect, 0.3, (DRAWS, 15))
        found = [alone(values, 1.0) for values in draws]
        assert abs(rate(found, NO_EFFECT) - 0.025) < error(0.025)


def test_no_effect_is_seen_where_seeds_suffice():
    draws = np.random.default_rng(8).normal(0, 0.3, (DRAWS, 15))
    assert rate([alone(values, 1.0) for values in draws], NO_EFFECT) > 0.999


def test_what_could_have_been_detected_is_detected_four_times_out_of_five():
    # with the spread known; estimated from the seeds it scatters about this
    n, spread = 8, 0.5
    exact = spread * np.array([-1, 1] * 4) / np.std([-1, 1] * 4, ddof=1)
    effect = detectable(exact, 0.95)
    draws = np.random.default_rng(9).normal(-effect, spread, (DRAWS, n))
    power = rate([alone(values, 1e-6) for values in draws], SUPPORTED)
    assert abs(power - 0.8) < 0.02 + error(0.8)  # the sum of two quantiles is 1 % off


def test_size_and_power_where_runs_fail_and_permutations_decide():
    # a run ends at 0.02, or fails and counts as 0.9: two heaps, nothing like a normal
    random = np.random.default_rng(10)

    def errors(failing):
        fine = random.normal(0.02, 0.002, (DRAWS, 8))
        return np.where(random.random((DRAWS, 8)) < failing, 0.9, fine)

    alike = [alone(a, 0.1, True) for a in errors(0.4) - errors(0.4)]
    assert rate(alike, SUPPORTED, CONTRADICTED) < 0.05 + error(0.05)
    better = [alone(a, 0.1, True) for a in errors(0.02) - errors(0.98)]
    assert rate(better, SUPPORTED) > 0.9
    few = [alone(a, 0.1, True) for a in (errors(0.0) - errors(1.0))[:50, :5]]
    assert rate(few, SUPPORTED) == 0  # five seeds do not allow it
