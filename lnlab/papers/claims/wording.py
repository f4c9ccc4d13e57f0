"""The words of a comparison: what was found in natural units, and what it is held against."""

import math
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from lnlab.papers.claims.entries import CALL, CONDITION, Comparison, parse_call
from lnlab.papers.claims.judge import (
    CONTRADICTED,
    INCONCLUSIVE,
    NO_DIFFERENCE,
    PAIRS,
    SUPPORTED,
    Decision,
    clopper_pearson_interval,
)

if TYPE_CHECKING:
    import numpy as np

FEWER, LESS, LOWER = ("fewer", "more"), ("less", "more"), ("lower", "higher")
NATURAL = {"updates": FEWER, "CPU": LESS}
"""The words for less and more, by the first word of a unit; of all others ``LOWER``."""
RATES = re.compile(
    r"one learning rate for all|each at its best learning rate( by [\w-]+ loss)?"
)


def name_setting(comparison: Comparison) -> str:
    """Return the name of a setting, with its data in front and with its learning rates."""
    name = (
        comparison.name
        if comparison.data_name.casefold() in comparison.name.casefold()
        else f"{comparison.data_name}: {comparison.name}"
    )
    rates = comparison.learning_rates or [
        one for one in [comparison.common_config.get("learning_rate")] if one
    ]
    shown = ", ".join(f"{rate:g}" for rate in rates)
    if len(rates) == 4 and len({*rates}) > 1:  # whose is whose
        pairs = [dict.fromkeys(rates[:2]), dict.fromkeys(rates[2:])]
        numbers = [" and ".join(f"{rate:g}" for rate in pair) for pair in pairs]
        shown = "; ".join(map(" ".join, zip(numbers, name_sides(comparison), strict=True)))
    elif len(rates) > 2:
        arms = map(name_arm, comparison.arms)
        shown = "; ".join(f"{rate:g} {arm}" for rate, arm in zip(rates, arms, strict=True))
    if len({*rates}) == 1:
        shown = f"{rates[0]:g}"
    if not rates or comparison.averaged_over or "before" in name:
        return name
    named = RATES.sub(rf"\g<0> ({shown})", name)
    if named != name:
        return named
    alone = f"{name}, learning rate {shown}"
    return (
        alone if len(comparison.arms) == 1 else f"{name}, one learning rate for all ({shown})"
    )


def convert_to_percent_if_ratio(comparison: Comparison, effect: float) -> float:
    """Return a value as it is kept: a ratio in per cent of change, six digits."""
    effect = 100 * math.expm1(effect) if comparison.effect_type == "ratio" else effect
    return float(f"{effect:.6g}")


def describe_effect(
    comparison: Comparison, estimate: float, interval: Sequence[float] | None
) -> str:
    """Return an effect in words: "27 % fewer updates with LN than with BN (21 to 32)"."""
    first, second = name_sides(comparison)
    if comparison.effect_type == "ratio" and (
        comparison.reference_effect is not None or estimate > math.log(2)
    ):
        # three digits where the ends may be close to the number that is claimed
        digits = 2 if comparison.reference_effect is None else 3
        numbers = [f"{math.exp(x):.{digits}g}" for x in (estimate, *(interval or ()))]
        text = f"{comparison.quantity_and_unit}: {numbers[0]}"
        if second:
            text = f"{first}, {numbers[0]} times the {comparison.quantity_and_unit} {second}"
        return text + (f" ({numbers[1]} to {numbers[2]})" if interval else "")
    amount, quantity = " %", name_quantity_without_unit(comparison)
    if comparison.effect_type == "difference":
        amount = (
            f" {comparison.quantity_and_unit}".removesuffix(quantity)
            .removesuffix(" of ")
            .rstrip()
        )
    less, more = _words_for_less_and_more(quantity)

    def format_abs(effect: float) -> str:
        value = 100 * math.expm1(effect) if comparison.effect_type == "ratio" else effect
        return f"{abs(value):.{comparison.decimals}f}"

    if not second:
        text = f"{quantity}: {format_abs(estimate)}{amount}"
        return text + (f" ({' to '.join(map(format_abs, interval))})" if interval else "")
    text = f"{format_abs(estimate)}{amount} {less if estimate < 0 else more} {quantity}"
    text += f" {first} than {second}"
    if not interval:
        return text
    low, high = interval
    if low > 0 or high < 0:
        return f"{text} ({' to '.join(sorted(map(format_abs, interval), key=float))})"
    amount = amount if comparison.effect_type == "ratio" else ""
    return f"{text} ({format_abs(low)}{amount} {less} to {format_abs(high)}{amount} {more})"


def _words_for_less_and_more(unit: str) -> tuple[str, str]:
    return NATURAL.get(unit.partition(" ")[0], LOWER)


def describe_claimed_value_or_margin(
    comparison: Comparison, decision: Decision, smallest_relevant_effect: float
) -> str:
    """Return what a claim is held against in place of no effect, and a bound that decides."""
    if decision.learned_counts:
        return ""
    most = (
        1 / (1 - comparison.smallest_relevant_effect)
        if comparison.effect_type == "ratio"
        else 0.0
    )
    more = _words_for_less_and_more(comparison.quantity_and_unit)[1]
    if comparison.claimed_relation == "equal" and comparison.effect_type == "ratio":
        low, high = (
            (comparison.reference_effect or 1) * x
            for x in (1 - comparison.smallest_relevant_effect, most)
        )
        claimed = f"; claimed: {comparison.reference_effect:g}"
        return f"{claimed}; counted as equal: {low:.3g} to {high:.3g}"
    if comparison.claimed_relation == "not more" and comparison.effect_type == "ratio":
        if len(comparison.arms) == 1:
            return f"; claimed: not more than {most:.3g}"
        return f"; smallest effect that matters: {100 * (most - 1):.0f} % {more}"
    if comparison.reference_effect is not None:
        return f"; claimed: {comparison.claimed_relation} than {comparison.reference_effect:g}"
    if decision.verdict_without_size == INCONCLUSIVE and (
        excluded := _find_excluded_direction(comparison, decision, smallest_relevant_effect)
    ):
        return f"; {excluded[1]} is ruled out"
    bounded = (
        comparison.claimed_relation in ("equal", "not more")
        or decision.verdict_without_size == NO_DIFFERENCE
    )
    if bounded or decision.effect_size_class == "small":
        return f"; smallest effect that matters: {_describe_smallest_effect(comparison)}"
    return ""


def explain_missing_verdict(comparison: Comparison, decision: Decision) -> str:
    """Return why there is no word, where there are too few pairs or no interval."""
    if decision.num_pairs < PAIRS:
        pairs = f"{decision.num_pairs} {comparison.pair_unit_name}"
        return f"; only {pairs}, and a decision needs {PAIRS}"
    alone = decision.interval_low is None and not decision.learned_counts
    return "; no interval: all seeds have one number" if alone else ""


def describe_claimed_relation(comparison: Comparison, of_learned_shares: bool) -> str:
    """Return what is claimed: "lower training loss with LN than with BN"."""
    first, second = name_sides(comparison)
    if of_learned_shares:
        return f"more networks learn {first} than {second}"
    quantity = name_quantity_without_unit(comparison)
    less, more = _words_for_less_and_more(quantity)
    if comparison.reference_effect is not None:
        than = {"less": "less than", "more": "more than", "equal": "equal to"}[
            comparison.claimed_relation
        ]
        return f"{quantity} {first}: {than} {comparison.reference_effect:g}"
    relations = {"less": less, "more": more, "equal": "equal", "not more": f"not {more}"}
    than = "as" if comparison.claimed_relation == "equal" else "than"
    return f"{relations[comparison.claimed_relation]} {quantity} {first} {than} {second}"


def describe_learned_counts(
    comparison: Comparison, learned_counts: tuple[int, int], seeds_per_arm: int
) -> str:
    """Return how many networks learned on each side, with exact intervals."""
    if not any(learned_counts):
        return f"none of {2 * seeds_per_arm} networks learned"
    (first, second), (a, b) = name_sides(comparison), learned_counts
    n = seeds_per_arm
    return (
        f"{a} of {n} networks learned {first}{_format_share_interval(a, n)}, "
        f"{b} of {n} {second}{_format_share_interval(b, n)}"
    )


def name_quantity_without_unit(comparison: Comparison) -> str:
    """Return what is measured, without the unit that a difference is given in."""
    _, _, quantity = comparison.quantity_and_unit.partition(" of ")
    return (
        quantity
        if comparison.effect_type == "difference" and quantity
        else comparison.quantity_and_unit
    )


def name_quantity_and_sides(comparison: Comparison) -> str:
    """Return what an effect names beside its size: "loss with LN than with BN"."""
    first, second = name_sides(comparison)
    quantity = name_quantity_without_unit(comparison)
    return f" {quantity} {first} than {second}" if second else f"{quantity}: "


def _format_share_interval(learned: int, num_seeds: int) -> str:
    low, high = (100 * end for end in clopper_pearson_interval(learned, num_seeds))
    return f" ({low:.0f} to {high:.0f} %)"


def describe_learned_condition(condition: str) -> str:
    """Return in words what counts as having learned."""
    if not condition:
        return ""
    if condition.startswith("lead_over_baselines("):
        return "a better score than a bag of words and than the untrained network"
    name, sign, bound = CONDITION.fullmatch(condition).groups()  # pyright: ignore
    metric = parse_call(name)[1][0]
    quantity = {
        "test_bound": "variational bound",
        "valid_nll": "validation loss",
        "train_nll": "training loss",
    }[metric]
    return f"a {quantity} {'below' if sign == '<' else 'above'} {bound} nats"


NORMS = {
    "none": "without normalization", "layer": "with LN", "batch": "with BN",
    "batch hidden": "with BN on the hidden layers", "batch everywhere": "with BN everywhere",
    "batch pooled": "with one pair of BN statistics for all steps",
    "batch, axis 0": "with BN of each position",
    "batch, axis 0, small": "with BN of each position divided by √d",
    "batch layer": "with BLN", "batch layer, full size": "with BLN times √d",
    "layer everywhere": "with LN also on the logits",
    "layer, per position": "with LN of each position",
    "layer, small gain": "with LN whose gain starts at 1/√d",
    "group": "with group norm", "instance": "with instance norm", "weight": "with weight norm",
    "encoder": "with LN in the encoder", "decoder": "with LN in the decoder",
    "both": "with LN in encoder and decoder", "pre": "with pre-LN", "post": "with post-LN",
    "sandwich": "with Peri-LN", "qk": "with a layer norm of queries and keys",
    "rms": "with RMSNorm", "dyt": "with DyT", "derf": "with Derf",
    "lns": "with LayerNorm scaling", "keel": "with Keel",
}  # fmt: skip
"""Values of the field ``norm`` in words."""


def name_sides(comparison: Comparison) -> tuple[str, str]:
    """Return the two sides of a comparison in words; the second is empty for one arm alone."""
    if comparison.side_names:
        return comparison.side_names[0], comparison.side_names[1]
    first, *others = map(name_arm, comparison.arms)
    if len(others) < 2:
        return first, "".join(others)
    names = [name.removeprefix("with ") for name in others]
    best = f"better of {names[0]} and {names[1]}" if len(names) == 2 else "best other method"
    return first, f"with the {best} of each seed"


def name_arm(arm: Mapping[str, Any]) -> str:
    """Return an arm in words: "with LN", "with BN, batch size 4"."""
    fields = dict(arm)
    norm = fields.pop("norm", "")
    words = [NORMS.get(norm, f"with {norm}")] if norm else []
    words += [f"{name.replace('_', ' ')} {value}" for name, value in fields.items()]
    return ", ".join(words)


def describe_smallest_effect_with_reason(comparison: Comparison) -> str:
    """Return the smallest effect that matters, with its reason."""
    return f"{_describe_smallest_effect(comparison)} ({comparison.smallest_effect_reason})"


def _describe_smallest_effect(comparison: Comparison) -> str:
    """Return the smallest effect that matters: of a ratio on both sides of 1."""
    if comparison.effect_type == "difference":
        unit = comparison.quantity_and_unit.partition(" of ")[0].rstrip(",")
        text = f"{comparison.smallest_relevant_effect:g} {unit}"
        return (
            text.replace("points", "point")
            if comparison.smallest_relevant_effect == 1
            else text
        )
    if comparison.reference_effect is not None or not name_sides(comparison)[1]:
        return f"a factor of {1 / (1 - comparison.smallest_relevant_effect):.3g}"
    less, more = _words_for_less_and_more(comparison.quantity_and_unit)
    share = comparison.smallest_relevant_effect
    return f"{100 * share:g} % {less} or {100 / (1 / share - 1):.0f} % {more}"


def explain_decision(
    comparison: Comparison, decision: Decision, smallest_relevant_effect: float
) -> str:
    """Return why a word follows from the interval, where no effect is not what decides."""
    low, high, word = (
        decision.interval_low,
        decision.interval_high,
        decision.verdict_without_size,
    )
    if decision.learned_counts:
        return _explain_learned_counts_test(comparison, decision)
    if low is None or high is None:
        return "there is no interval, as all seeds have one number"
    if decision.num_pairs < PAIRS:
        pairs = f"{decision.num_pairs} {comparison.pair_unit_name}"
        return f"there are {pairs}, and a decision needs {PAIRS}"
    where = {SUPPORTED: "all", CONTRADICTED: "no part"}.get(word, "a part, but not all,")
    if comparison.claimed_relation == "equal":
        return f"{where} of the 95 % interval counts as equal"
    if comparison.claimed_relation == "not more":
        return _explain_not_more_verdict(comparison, low, high, word)
    if comparison.reference_effect is None:
        return (
            _explain_inconclusive(comparison, decision, smallest_relevant_effect)
            if word == INCONCLUSIVE
            else ""
        )
    if low <= 0 <= high:
        near = " and nothing far from it" if word == NO_DIFFERENCE else ""
        return f"the 95 % interval includes {comparison.reference_effect:g}{near}"
    side = "below" if high < 0 else "above"
    return f"the 95 % interval lies wholly {side} {comparison.reference_effect:g}"


def _explain_inconclusive(
    comparison: Comparison, decision: Decision, smallest_relevant_effect: float
) -> str:
    """Return which effects that matter an interval around 0 includes, and which it excludes."""
    text = "the 95 % interval includes 0 (no effect) and effects that matter"
    excluded = _find_excluded_direction(comparison, decision, smallest_relevant_effect)
    if not excluded:
        return f"{text} in both directions"
    direction, size = excluded
    names = ["the claimed direction", "the other direction"]
    claimed, other = (
        names
        if direction == (-1 if comparison.claimed_relation == "less" else 1)
        else names[::-1]
    )
    return f"{text} in {other}; in {claimed} it excludes them ({size})"


def _find_excluded_direction(
    comparison: Comparison, decision: Decision, smallest_relevant_effect: float
) -> tuple[int, str] | None:
    """Return the direction in which an interval around 0 excludes what matters, and that."""
    low, high = decision.interval_low, decision.interval_high
    if low is None or high is None or decision.num_pairs < PAIRS or decision.learned_counts:
        return None
    if not low <= 0 <= high:
        return None
    for direction, end in ((-1, low), (1, high)):
        if direction * end < smallest_relevant_effect:
            size = describe_effect(comparison, direction * smallest_relevant_effect, None)
            return direction, size.removesuffix(name_quantity_and_sides(comparison))
    return None


def _explain_not_more_verdict(
    comparison: Comparison, low: float, high: float, verdict: str
) -> str:
    most = 1 / (1 - comparison.smallest_relevant_effect)
    first, second = name_sides(comparison)
    bound = f"{most:.3g}"
    if second:
        size = (
            f"{100 * (most - 1):.0f} %"
            if comparison.effect_type == "ratio"
            else _describe_smallest_effect(comparison)
        )
        more = _words_for_less_and_more(comparison.quantity_and_unit)[1]
        bound = f"{size} {more} {name_quantity_without_unit(comparison)} {first}"
    where = {SUPPORTED: "ends below", CONTRADICTED: "lies wholly above"}.get(
        verdict, "includes"
    )
    zero = f", and {'includes' if low <= 0 <= high else 'excludes'} 0" if second else ""
    return f"the 95 % interval {where} {bound}{zero}"


def _explain_learned_counts_test(comparison: Comparison, decision: Decision) -> str:
    if decision.p_value is None:
        return ""
    test = f"Fisher's exact test, p = {decision.p_value:.2g}"
    if decision.verdict_without_size == INCONCLUSIVE:
        return f"the shares of networks that learned cannot be told apart ({test})"
    more = name_sides(comparison)[decision.verdict_without_size != SUPPORTED]
    return f"more networks learned {more} ({test})"


def describe_arm_means(comparison: Comparison, measurements_by_arm: "np.ndarray") -> str:
    """Return the mean of each side, of ratios the geometric mean, from a number per arm."""
    ratio = comparison.effect_type == "ratio"
    means = [
        math.exp(one.mean()) if ratio else float(one.mean()) for one in measurements_by_arm
    ]
    sign = "over" if ratio else "less"

    percent = " %" * (
        not ratio and comparison.quantity_and_unit.startswith("percentage points")
    )

    def format_mean(mean: float) -> str:
        if not ratio:
            return f"{mean:.{comparison.decimals}f}{percent}"
        return f"{mean:,.0f}" if mean >= 100 else f"{mean:.3g}"

    if len(means) == 4:
        pairs = [means[:2], means[2:]]
        texts = [
            f"{format_mean(a / b if ratio else a - b)} {side} "
            f"({format_mean(a)} {sign} {format_mean(b)})"
            for (a, b), side in zip(pairs, name_sides(comparison), strict=True)
        ]
    elif len(means) == 2:
        texts = [
            f"{format_mean(x)} {side}"
            for x, side in zip(means, name_sides(comparison), strict=True)
        ]
    else:
        texts = [
            f"{format_mean(x)} {name_arm(arm)}"
            for x, arm in zip(means, comparison.arms, strict=True)
        ]
    unit, _, quantity = comparison.quantity_and_unit.partition(" of ")
    in_unit = f"in {unit}; " if not ratio and quantity and not percent else ""
    over = f"{in_unit}{'geometric ' * ratio}means over the {comparison.pair_unit_name}"
    return f"{', '.join(texts)} ({over})" if len(means) > 1 else ""


def describe_cifar10_images_and_epochs(configs: Sequence[Mapping[str, Any]]) -> str:
    """Return how many images of CIFAR-10 networks are trained on, and how often."""
    if {config.get("data") for config in configs} != {"cifar10"}:
        return ""
    used = {(config["train_size"], config["epochs"]) for config in configs}
    if len(used) > 1 or not (size := min(used)[0]):
        return ""
    epochs = min(used)[1]
    return f"{size:,} training images, {epochs} epoch{'s' * (epochs > 1)}"


def describe_measure(comparison: Comparison) -> str:
    """Return how the number of each network is read from its training."""
    from lnlab.papers import EXPERIMENTS
    from lnlab.papers.claims.measures import AT_THE_BEST, IN_WORDS

    if not CALL.fullmatch(comparison.measure_per_arm[0]):
        return comparison.measure_per_arm[0]  # in words: of runs that are not kept
    name, arguments = parse_call(comparison.measure_per_arm[0])
    words = IN_WORDS[name].format(*arguments)
    metric = str(arguments[0]) if arguments else ""
    if name == "final_value" and comparison.experiment:
        words = AT_THE_BEST.get(EXPERIMENTS[comparison.experiment].best_metric, words)
    if metric.startswith("chosen_") and any(
        "batch layer" in one["norm"] for one in comparison.arms
    ):
        words += (
            "; BLN can be evaluated in 16 configurations, by which of its four statistics are "
            "the population's: for each seed that with the lowest held-out loss"
        )
    if len(comparison.arms) in (3, *range(5, 20)):
        words += "; the best of the others is taken seed by seed"
    return words
