"""The measures: from the metrics of a run to one number, by the name that an entry gives.

A measure of one run takes its metrics, a table with one row per evaluation, and the arguments
in the entry, ``final(test_nll)``. Those in :data:`TOGETHER` take the runs of both arms at once:
they ask when each comes to a level that both reach. Those in :data:`OVER` take the runs of one
arm at several rates.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Literal

import numpy as np
import pandas as pd
from scipy.optimize import isotonic_regression

from lnlab.papers.skip_thoughts.evaluate import BEST, BY, NESTED

LEVELS = 20
"""The number of losses at which the times of two trainings are compared."""
BEGUN = 0.1
"""The part of a training after which the first of these levels is read."""
A_TENTH = 0.1
WORDS = "_words"
"""The ending of a downstream score that a bag of words has."""

OF_ONE: dict[str, Callable[..., float]] = {}
ValuePerRun = list[float]

TOGETHER: dict[str, Callable[..., ValuePerRun]] = {}
OVER: dict[str, Callable[..., float]] = {}
IN_WORDS: dict[str, str] = {}
"""Words for the reading of each measure, on the page; {1} is the second argument."""
AT_THE_BEST = {
    "valid_nll": "read with the weights of the epoch with the lowest held-out loss",
    "valid_recall": "read with the weights of the evaluation with the highest held-out recall",
}
"""Words for what is read at the end, where the best model is chosen by a metric."""


def register_measure(registry: dict[str, Any], description: str) -> Callable[[Any], Any]:
    """Add a function to the measures of a kind, with words for how it is read."""

    def add_to_registry(function: Any) -> Any:
        registry[function.__name__], IN_WORDS[function.__name__] = function, description
        return function

    return add_to_registry


of_one, together, over_rates = (
    partial(register_measure, kind) for kind in (OF_ONE, TOGETHER, OVER)
)


def drop_best_model_row(metrics: pd.DataFrame) -> pd.DataFrame:
    """Return the rows in order of time: a last row of the best model, read again, is not."""
    return metrics.loc[metrics["update"] > metrics["update"].shift(fill_value=-1)]


def metric_values_during_training(metrics: pd.DataFrame, metric: str) -> np.ndarray:
    """Return a metric along the training, an array (K,); with a minus before it, negated."""
    sign = -1 if metric.startswith("-") else 1
    return sign * drop_best_model_row(metrics)[metric.removeprefix("-")].to_numpy(float)


@of_one("read at the end of training")
def final_value(metrics: pd.DataFrame, metric: str) -> float:
    """Return a metric in the last row: of the best model where that is chosen."""
    return float(metrics[metric].iloc[-1])


@of_one("read after the last update")
def value_after_last_update(metrics: pd.DataFrame, metric: str) -> float:
    """Return a metric after the last update."""
    return float(metric_values_during_training(metrics, metric)[-1])


@of_one("read before the first update")
def initial_value(metrics: pd.DataFrame, metric: str) -> float:
    """Return a metric before the first update."""
    return float(metrics[metric].iloc[0])


@of_one("read after {1} epochs")
def first_value_after_epochs(metrics: pd.DataFrame, metric: str, epochs: float) -> float:
    """Return a metric at the first evaluation when so many epochs are over."""
    over = metrics["epoch"].to_numpy(float) >= epochs
    return float(metrics[metric].to_numpy(float)[over][0])


@of_one(
    "the area under its curve over the updates (evaluations joined by straight lines), divided "
    "by their number"
)
def trapezoid_mean_over_updates(metrics: pd.DataFrame, metric: str) -> float:
    """Return the mean of a metric over the updates: the area under the learning curve."""
    updates = metric_values_during_training(metrics, "update")
    return float(
        np.trapezoid(metric_values_during_training(metrics, metric), updates)
        / (updates[-1] - updates[0])
    )


@of_one("the mean over the evaluations during training, one after each epoch")
def mean_over_evaluations(metrics: pd.DataFrame, metric: str) -> float:
    """Return the mean of a metric over the evaluations."""
    return float(metric_values_during_training(metrics, metric).mean())


def fit_nonincreasing_trend(curve: np.ndarray) -> np.ndarray:
    """Return the closest curve, by least squares, that never rises: the trend."""
    return isotonic_regression(curve, increasing=False).x


@of_one(
    "read at the end of the closest curve through the evaluations that never rises, so that "
    "chance lows do not count"
)
def minimum_of_nonincreasing_trend(metrics: pd.DataFrame, metric: str) -> float:
    """Return the least value of the trend of a metric."""
    return float(fit_nonincreasing_trend(metrics[metric].to_numpy(float))[-1])


@of_one("1 over the squared length of the weights, at the end relative to the start")
def effective_learning_rate_ratio(metrics: pd.DataFrame, weight_norm_metric: str) -> float:
    """Return 1 over the square of a norm at the end, relative to what it was at the start."""
    return (
        initial_value(metrics, weight_norm_metric)
        / value_after_last_update(metrics, weight_norm_metric)
    ) ** 2


@of_one("the size of the logarithm of the factor, read at the {1} of training")
def abs_log_value(metrics: pd.DataFrame, metric: str, when: Literal["start", "end"]) -> float:
    """Return the distance of a factor from 1 at the "start" or the "end", in logarithms."""
    return abs(
        float(np.log({"start": initial_value, "end": final_value}[when](metrics, metric)))
    )


@of_one(
    "the area under it over {1}, from the start of training until the training loss is a tenth "
    "of what it was at the start"
)
def area_until_tenth_of_initial_loss(
    metrics: pd.DataFrame, metric: str, integrate_over: Literal["updates", "progress"]
) -> float:
    """Return the area under a metric from the start until the loss is at a tenth.

    The end lies between two evaluations, where metric and updates are straight in the log loss.

    Args:
        integrate_over: "updates": the sum of what each of them does, however many there are;
            "progress": the area over the logarithm of the least loss so far, for what is a
            rate.
    """
    loss = metrics["train_nll"].to_numpy(float)
    progress = np.log(loss[0] / loss) / np.log(1 / A_TENTH)
    last = int((progress >= 1).argmax())
    part = (1 - progress[last - 1]) / (progress[last] - progress[last - 1])
    updates, progress, y = (
        np.append(c[:last], c[last - 1] + part * (c[last] - c[last - 1]))
        for c in (metrics["update"].to_numpy(float), progress, metrics[metric].to_numpy())
    )
    x = {"updates": updates, "progress": np.maximum.accumulate(progress)}[integrate_over]
    return float(np.trapezoid(y, x))


def initial_value_per_layer(metrics: pd.DataFrame, metric: str) -> np.ndarray:
    """Return a metric of each layer before the first update, ``metric_1`` first."""
    first = metrics.iloc[0].dropna()
    count = sum(str(name).startswith(f"{metric}_") for name in first.index)
    return np.array([float(first[f"{metric}_{layer}"]) for layer in range(1, count + 1)])


@of_one("read before the first update")
def initial_value_of_first_layer(metrics: pd.DataFrame, metric: str) -> float:
    """Return a metric of the first layer before the first update."""
    return float(initial_value_per_layer(metrics, metric)[0])


@of_one("read before the first update")
def initial_value_of_last_layer(metrics: pd.DataFrame, metric: str) -> float:
    """Return a metric of the last layer before the first update."""
    return float(initial_value_per_layer(metrics, metric)[-1])


@of_one("read before the first update")
def initial_max_min_ratio_over_layers(metrics: pd.DataFrame, metric: str) -> float:
    """Return the largest of all layers over the smallest, before the first update."""
    return float(
        initial_value_per_layer(metrics, metric).max()
        / initial_value_per_layer(metrics, metric).min()
    )


@of_one(
    "the value farthest from 1 after update {1}, or the square of its change from there to the "
    "end if that is farther"
)
def ratio_or_change_farthest_from_one(
    metrics: pd.DataFrame, log_ratio_metric: str, start_update: int
) -> float:
    """Return the ratio farthest from 1: one from an update on, or the square of their change.

    The metric is the logarithm of the ratio.
    """
    late = metrics.loc[metrics["update"] >= start_update, log_ratio_metric].to_numpy(float)
    every = [*late, 2 * (late[-1] - late[0])]
    return float(np.exp(every[np.argmax(np.abs(every))]))


@of_one("of the mean after update {1}")
def abs_of_mean_from_update(metrics: pd.DataFrame, metric: str, start_update: int) -> float:
    """Return the distance of the mean of a metric, from an update on, from 0."""
    return float(
        abs(metrics.loc[metrics["update"] >= start_update, metric].to_numpy(float).mean())
    )


# downstream scores of skip-thoughts


def rows_with_downstream_score(
    metrics: pd.DataFrame, metric: str, classifier_C: float = 0
) -> pd.DataFrame:
    """Return the rows in which a downstream score was measured, under its own name.

    Args:
        classifier_C: the classifier's regularization; 0: chosen by inner folds.

    Raises:
        KeyError: if the score was not measured so.
    """
    if f"{metric}{BY}" in metrics:
        raise KeyError(f"the C of {metric} was chosen on the folds that are reported")
    names = (
        [f"{metric}{BY}{classifier_C:g}", metric]
        if classifier_C
        else [metric + NESTED, metric + BEST, metric]
    )
    name = next((name for name in names if name in metrics), None)
    if name is None:
        raise KeyError(f"{metric} was not measured so")
    rows = metrics[metrics[name].notna()]
    return rows.assign(**{metric: rows[name]})


@of_one("of a linear classifier of the sentence vectors at the end of training")
def final_downstream_score(metrics: pd.DataFrame, metric: str) -> float:
    """Return a downstream score at the end, C chosen by inner folds."""
    return final_value(metrics, metric + NESTED)


@of_one(
    "of a linear classifier of the sentence vectors, averaged over training like an area, less "
    "that of the untrained network"
)
def score_gain_averaged_over_updates(
    metrics: pd.DataFrame, metric: str, classifier_C: float = 0
) -> float:
    """Return the mean of a score along the run, less what it is before the first update."""
    rows = rows_with_downstream_score(metrics, metric, classifier_C)
    return trapezoid_mean_over_updates(rows, metric) - initial_value(rows, metric)


@of_one("the lead over a bag of words and over the untrained network")
def lead_over_baselines(metrics: pd.DataFrame, metric: str, classifier_C: float = 0) -> float:
    """Return the lead of a score over the better of a bag of words and the untrained model."""
    sign = -1 if metric.endswith("_mse") else 1
    rows = rows_with_downstream_score(metrics, metric, classifier_C)
    words = rows_with_downstream_score(metrics, metric + WORDS, classifier_C)
    base = max(sign * initial_value(rows, metric), sign * final_value(words, metric + WORDS))
    return sign * final_value(rows, metric) - base


@of_one(
    "the mean over the tasks (accuracies in %, correlations times 100, minus 100 times the "
    "squared error) at the end of training, less that after 59 % of it"
)
def mean_score_gain_after_59_percent(
    metrics: pd.DataFrame, classifier_C: float, *score_names: str
) -> float:
    """Return the points that scores gain, on average, after 1/1.7 of the updates."""

    def score_gain(score_name: str) -> float:
        rows = rows_with_downstream_score(metrics, score_name, classifier_C)
        updates, curve = rows["update"].to_numpy(float), rows[score_name].to_numpy(float)
        index = int(abs(updates - updates[-1] / 1.7).argmin())
        scale = (-1 if score_name.endswith("_mse") else 1) * (100 if "_" in score_name else 1)
        return scale * (curve[-1] - curve[index])

    return sum(map(score_gain, score_names)) / len(score_names)


# the time in which learning curves come down to a level
#
# The first time near a run's own least value is no measure of it: the least of a noisy curve
# falls with the number of evaluations, so that longer runs seem to converge later.


def time_to_level_or_end(
    metrics: pd.DataFrame, metric: str, level: float, time_column: str = "update"
) -> float:
    """Return when the trend of a metric is first at a level; the end if it never is.

    Between two evaluations the trend is a straight line.
    """
    at, trend = (
        metric_values_during_training(metrics, time_column),
        fit_nonincreasing_trend(metric_values_during_training(metrics, metric)),
    )
    below = np.flatnonzero(trend <= level)
    if not len(below) or below[0] == 0:
        return float(at[below[0] if len(below) else -1])
    first = below[0]
    part = (trend[first - 1] - level) / (trend[first - 1] - trend[first])
    return float(at[first - 1] + part * (at[first] - at[first - 1]))


def geomean_time_per_run(
    frame_per_run: Sequence[pd.DataFrame], metric: str, levels: np.ndarray, time_column: str
) -> ValuePerRun:
    """Return the geometric mean over levels of the time that each run takes."""
    logs = [
        [np.log1p(time_to_level_or_end(frame, metric, x, time_column)) for x in levels]
        for frame in frame_per_run
    ]
    return [float(np.exp(np.mean(one))) for one in logs]


def level_all_runs_reach(
    frame_per_run: Sequence[pd.DataFrame], metric: str, remaining_share: float = 0.05
) -> float:
    """Return a level that all runs reach: near the end of the one that ends highest.

    The end is the mean of the last quarter of a run; ``remaining_share`` of its fall stands
    above it.
    """
    curves = [metric_values_during_training(frame, metric) for frame in frame_per_run]
    end, start = max((curve[-max(1, len(curve) // 4) :].mean(), curve[0]) for curve in curves)
    return float(end + remaining_share * max(start - end, 0.0))


@together(
    "counted until each side first reaches the same value: the one at which the side that ends "
    "worse has made 95 % of its way to its end (the mean of its last quarter)"
)
def times_to_common_level(
    frame_per_run: Sequence[pd.DataFrame], metric: str, time_column: str = "update"
) -> ValuePerRun:
    """Return the time that each run takes to :func:`level_all_runs_reach`."""
    return geomean_time_per_run(
        frame_per_run,
        metric,
        np.array([level_all_runs_reach(frame_per_run, metric)]),
        time_column,
    )


def levels_all_runs_reach(frame_per_run: Sequence[pd.DataFrame], metric: str) -> np.ndarray:
    """Return levels (:data:`LEVELS`,) that all runs reach, at equal distances, falling.

    The first is where the highest trend is after a tenth of the updates, the last where the
    highest one ends.
    """
    begins, ends = [], []
    for frame in frame_per_run:
        at, trend = (
            metric_values_during_training(frame, "update"),
            fit_nonincreasing_trend(metric_values_during_training(frame, metric)),
        )
        begins.append(float(np.interp(BEGUN * at[-1], at, trend)))
        ends.append(float(trend[-1]))
    return np.linspace(max(begins), max(ends), LEVELS)


@together("the geometric mean of those to 20 values that both sides reach")
def geomean_times_to_common_levels(
    frame_per_run: Sequence[pd.DataFrame], metric: str, time_column: str = "update"
) -> ValuePerRun:
    """Return the geometric mean of each run's times to :func:`levels_all_runs_reach`."""
    return geomean_time_per_run(
        frame_per_run, metric, levels_all_runs_reach(frame_per_run, metric), time_column
    )


@together(
    "the geometric mean of those to 20 values, from {1} nats to where the better side ends; "
    "a side that does not get there counts with its full training"
)
def geomean_updates_to_levels_below(
    frame_per_run: Sequence[pd.DataFrame], metric: str, start_level: float
) -> ValuePerRun:
    """Return the same for levels from ``start_level`` to where the lowest run ends."""
    end = min(
        minimum_of_nonincreasing_trend(drop_best_model_row(frame), metric)
        for frame in frame_per_run
    )
    return geomean_time_per_run(
        frame_per_run, metric, np.linspace(start_level, end, LEVELS), "update"
    )


@over_rates(
    "the mean of the final loss over the learning rates, less that at the best rate (a loss "
    "above that before training counts as that)"
)
def mean_minus_best_loss_over_rates(
    frame_per_rate: Sequence[pd.DataFrame], metric: str
) -> float:
    """Return the mean over rates of a loss above that of the best rate.

    None counts as more than the loss before the first update.
    """
    start = initial_value(frame_per_rate[0], metric)
    ends = [final_value(frame, metric) for frame in frame_per_rate]
    losses = [min(end, start) if np.isfinite(end) else start for end in ends]
    return float(np.mean(losses) - min(losses))
