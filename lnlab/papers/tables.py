"""Tables of kept runs beside the numbers that the papers print, as the notebooks show them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from lnlab.analysis.statistics import format_interval, interval
from lnlab.nn import CONFIGURATIONS
from lnlab.papers import (
    attentive_reader,
    batch_layer_norm,
    draw,
    las,
    order_embeddings,
    skip_thoughts,
)
from lnlab.papers.attentive_reader.experiment import FIGURE_2
from lnlab.papers.batch_layer_norm import published
from lnlab.papers.batch_layer_norm.experiment import BatchLayerNormExperiment
from lnlab.papers.batch_layer_norm.model import ARMS
from lnlab.papers.claims.measures import (
    WORDS,
    drop_best_model_row,
    level_all_runs_reach,
    levels_all_runs_reach,
    minimum_of_nonincreasing_trend,
    rows_with_downstream_score,
    time_to_level_or_end,
)
from lnlab.papers.order_embeddings.evaluate import chance_retrieval_metrics
from lnlab.papers.results import (
    Arms,
    Measure,
    RunBySeed,
    XAndValuesPerSeed,
    confidence_interval,
    curves_by_arm,
    differences_by_seed,
    final_value,
    log_of_measure,
    rows_of_seed,
    select_runs,
    select_runs_with_its_seeds,
    trapezoid_mean_over_updates,
    values_by_seed,
)
from lnlab.papers.skip_thoughts.evaluate import NESTED
from lnlab.training import Experiment
from lnlab.training.runs import Run

PAPERS = Path(__file__).parent
SEEDS = tuple(range(100, 105))
BOTH = ("none", "layer")


def values_of_seeds(runs: RunBySeed, measure: Measure) -> list[float]:
    """Return one number for each seed."""
    return [*values_by_seed(runs, measure).values()]


def rounded_mean_of_seeds(runs: RunBySeed, measure: Measure, decimals: int = 3) -> float:
    """Return the mean of a number over seeds, rounded."""
    return round(float(np.mean(values_of_seeds(runs, measure))), decimals)


# convolutions


def arms_of_setting(runs: Sequence[Run], claim: str, setting: str) -> Arms:
    """Return the runs of a setting of a claim by arm, in the order of the entry."""
    from lnlab.papers.claims.entries import load_statements
    from lnlab.papers.claims.pairs import PairedRuns, RunSelector

    (entry,) = (entry for entry in load_statements() if entry.id == claim)
    (comparison,) = (one for one in entry.settings if one.name == setting)
    (by_seed,) = PairedRuns(comparison, RunSelector(runs)).runs_by_block_seed_and_arm
    return {
        arm["norm"]: {
            seed: by_arm[index][0]
            for seed, by_arm in zip(comparison.seeds, by_seed, strict=True)
        }
        for index, arm in enumerate(comparison.arms)
    }


def convolution_arms_by_mean_nll(arms: Arms) -> pd.DataFrame:
    """Return a row for each arm, the fastest first: means over seeds, and the ratio to BN.

    ``over batch norm`` is the interval (95 %, each by itself) of the ratio of the mean training
    loss along the run to that of batch norm: above 1 where batch norm is the faster one.
    """
    loss, table = trapezoid_mean_over_updates("train_nll"), {}
    for arm, runs in arms.items():
        ratios = differences_by_seed(arms, arm, "batch", log_of_measure(loss)).values()
        low, high = np.exp(confidence_interval([*ratios]))
        (rate,) = {run.config["learning_rate"] for run in runs.values()}
        table[arm] = {
            "rate": rate,
            "training NLL along the run": rounded_mean_of_seeds(runs, loss),
            "over batch norm": "" if arm == "batch" else f"{low:.2f} to {high:.2f}",
            "training NLL at the end": rounded_mean_of_seeds(runs, final_value("train_nll")),
            "test error": rounded_mean_of_seeds(runs, final_value("test_error")),
        }
    frame = pd.DataFrame(table).T
    return frame.sort_values("training NLL along the run").rename_axis(index="arm")


# order embeddings

BOXES = order_embeddings.Experiment(
    data="coco-boxes", units=(256,), epochs=30, eval_every=46, split=0
)
TEST_TRAIN_RATIO = 1_000 / 2_952
"""Test images over those of the training, of which two splits have most in common."""


def order_embedding_arms_by_split(runs: Sequence[Run]) -> dict[int, Arms]:
    """Return the kept runs on boxes by split, of the splits that have both arms."""
    splits = {
        split: select_runs_with_its_seeds(runs, replace(BOXES, split=split, seeds=(seed,)))
        for split, seed in enumerate(SEEDS)
    }
    return {split: arms for split, arms in splits.items() if {*BOTH} <= arms.keys()}


def order_embeddings_table_2(splits: Mapping[int, Arms]) -> pd.DataFrame:
    """Return a row for each number of Table 2: means over splits, their difference, baselines
    and the paper's, recall in per cent."""
    guessing, table = chance_retrieval_metrics(BOXES.fold_size), {}
    printed: Any
    for printed in pd.read_csv(PAPERS / "order_embeddings/table_2.csv").itertuples():
        metric: Any = f"{printed.query}_{printed.metric}"
        measure = final_value(f"test_{metric}")
        none, layer = (
            np.array(
                [value for s in splits.values() for value in values_of_seeds(s[arm], measure)]
            )
            for arm in BOTH
        )
        bounds = (
            interval([*(layer - none)], test_train_ratio=TEST_TRAIN_RATIO)
            if len(none) > 1
            else None
        )
        table[f"{printed.name}, {printed.query} retrieval"] = {
            "none": round(none.mean(), 2),
            "layer": round(layer.mean(), 2),
            "layer − none": f"{(layer - none).mean():.2f} ({format_interval(bounds)})",
            "guessing": round(guessing[metric], 2),
            "words alone": printed.words,
            "paper, none": printed.none,
            "paper, layer": printed.layer,
        }
    return pd.DataFrame(table).T


# attentive reader

CLOZE = attentive_reader.Experiment.budget("notebook", updates=700, seeds=SEEDS)


def attentive_reader_figure_2(
    runs: Sequence[Run], task: attentive_reader.Experiment
) -> pd.DataFrame:
    """Return a row for each curve of Fig. 2 that has kept runs.

    The lowest smoothed validation errors with both statistics of BN, and the interval of the
    difference of LN and this curve.
    """
    arms = {
        curve: by_seed
        for curve, changes in FIGURE_2.items()
        for by_seed in select_runs(runs, replace(task, **changes), seeds=SEEDS).values()
        if next(iter(by_seed.values())).config["norm"] == changes["norm"]
    }
    metrics = {"batch": "valid_error_batch", "population": "valid_error"}
    table: dict[str, dict[str, Any]] = {}
    for curve, by_seed in arms.items():
        errors = {
            name: lowest_smoothed_error_percent(by_seed, metric)
            for name, metric in metrics.items()
        }
        table[curve] = {"seeds": len(by_seed)} | {
            f"error %, {statistics}": round(sum(values.values()) / len(values), 2)
            for statistics, values in errors.items()
        }
        ours = lowest_smoothed_error_percent(arms.get("layer", {}), metrics["batch"])
        shared = sorted(ours.keys() & by_seed.keys())
        if curve != "layer" and len(shared) > 1:
            paired = [ours[seed] - errors["batch"][seed] for seed in shared]
            table[curve]["LN minus this curve, points"] = format_interval(interval(paired))
    return pd.DataFrame(table).T


def lowest_smoothed_error_percent(runs: RunBySeed, metric: str) -> dict[int, float]:
    """Return the minimum of a smoothed error, in per cent, by seed."""
    return values_by_seed(
        runs, lambda frame: 100 * minimum_of_nonincreasing_trend(frame, metric)
    )


# skip-thoughts


def skip_thoughts_experiments_by_data() -> dict[str, skip_thoughts.Experiment]:
    """Return the trainings that have kept runs, by the data that they read."""
    paper = skip_thoughts.Experiment.budget("paper", seeds=SEEDS[:3])
    novels = replace(paper, data="novels", units=(256,), embedding_size=128, vocab_size=8000)
    small = replace(novels, units=(128,), embedding_size=64, vocab_size=4000, seeds=SEEDS)
    stories = skip_thoughts.Experiment.budget("notebook", seeds=SEEDS, downstream_every=65)
    return {
        "novels": replace(novels, updates=10_000, eval_every=500, downstream_every=1000),
        "novels, small": replace(small, updates=3000, eval_every=150, downstream_every=375),
        "stories": replace(stories, snapshots=False),
    }


def select_none_and_layer_arms(runs: Sequence[Run], task: Experiment) -> Arms:
    """Return the kept runs of a task's seeds by arm; empty unless both arms have some."""
    arms = select_runs(runs, task, seeds=task.seeds)
    return arms if {*BOTH} <= arms.keys() else {}


def describe_run_length_and_seeds(arms: Arms) -> str:
    """Return length of runs, number of seeds and learning rate, in words."""
    runs = arms["layer"]
    rate = next(iter(runs.values())).config["learning_rate"]
    last = next(iter(runs.values())).metrics().iloc[-1]
    length = f"{last['update']:,.0f} updates, {last['epoch']:.1f} epochs"
    return f"{length}, {len(runs)} seeds, learning rate {rate:g}"


def skip_thoughts_table_3(runs: Sequence[Run], task: skip_thoughts.Experiment) -> pd.DataFrame:
    """Return a row for each number of Table 3: means over seeds, baselines, the paper's.

    "layer − none" is the interval of the difference at the end over seeds, with C chosen by
    inner folds. "start → end" is the score before the first update and at the end. For
    generated tasks C is 256 there, for a bag of words and for TF-IDF. Empty unless both arms
    have runs.
    """
    arms, table = select_none_and_layer_arms(runs, task), {}
    # runs of one update from the other start have the scores of an untrained model and TF-IDF
    start = {"updates": 1, "eval_every": 1, "downstream_every": 1}
    others = select_runs(runs, replace(task, initialisation="modern", **start))
    generated = task.data == "stories"
    C = 256.0 if generated else 0.0
    with_C = f", C = {C:g}" if C else ""
    printed = pd.read_csv(PAPERS / "skip_thoughts/table_3.csv", keep_default_na=False)
    row: Any
    for row in printed.itertuples() if arms else ():
        score, title = str(row.metric), str(row.name)
        if generated:
            if not row.story_task:
                continue
            score = score.replace(score.partition("_")[0], row.story_task)
            title = f"{title}: here {row.story_task}"
        chosen = final_value(score + NESTED)
        low, high = confidence_interval(
            [*differences_by_seed(arms, "layer", "none", chosen).values()]
        )
        values: dict[str, Any] = {}
        if generated:
            values |= {
                f"{arm}, C chosen": mean_to_three_significant_digits(arms[arm], chosen)
                for arm in BOTH
            }
        values["layer − none"] = f"{low:.3g} to {high:.3g}"
        for arm in BOTH:
            values[f"{arm}, start → end{with_C}"] = format_mean_score_at_start_and_end(
                arms[arm], score, C
            )
        words = score_at_evaluation(score + WORDS, -1, C)
        values[f"words{with_C}"] = mean_to_three_significant_digits(arms["layer"], words)
        tf_idf = score_at_evaluation(score + "_tfidf", -1, C)
        values[f"TF-IDF{with_C}"] = (
            mean_to_three_significant_digits(others["layer"], tf_idf) if others else ""
        )
        for arm in BOTH:
            if arm in others:
                untrained = mean_to_three_significant_digits(
                    others[arm], score_at_evaluation(score, 0, C)
                )
                values[f"{arm}, modern start, untrained{with_C}"] = untrained
        table[title] = values | {"paper, none": row.none, "paper, layer": row.layer}
    return pd.DataFrame(table).T


def score_at_evaluation(
    metric: str, evaluation_index: int, classifier_C: float = 0.0
) -> Measure:
    """Return a score in a row that has it; C as for ``rows_with_downstream_score``."""
    return lambda metrics: float(
        rows_with_downstream_score(metrics, metric, classifier_C)[metric].iloc[evaluation_index]
    )


def mean_to_three_significant_digits(runs: RunBySeed, measure: Measure) -> float:
    """Return the mean of a number over seeds, to three significant digits."""
    return float(f"{np.mean(values_of_seeds(runs, measure)):.3g}")


def format_mean_score_at_start_and_end(
    runs: RunBySeed, metric: str, classifier_C: float
) -> str:
    """Return the mean of a score before the first update and at the end.

    ``classifier_C`` is the regularization of the classifier that makes the score.
    """
    first, last = (
        mean_to_three_significant_digits(runs, score_at_evaluation(metric, row, classifier_C))
        for row in (0, -1)
    )
    return f"{first}\N{NO-BREAK SPACE}→\N{NO-BREAK SPACE}{last}"


def score_curves_with_bag_of_words(arms: Arms, metric: str) -> dict[str, XAndValuesPerSeed]:
    """Return the curves of a score along the runs of both arms, and of a bag of words."""
    pair = {arm: arms[arm] for arm in BOTH}
    curves = curves_by_arm(
        pair, metric, select_rows=lambda metrics: rows_with_downstream_score(metrics, metric)
    )
    along, _ = curves["layer"]
    words = mean_to_three_significant_digits(
        arms["layer"], score_at_evaluation(metric + WORDS, -1)
    )
    return curves | {"bag of words": (along, np.full((1, len(along)), words))}


# DRAW

DRAW_DIGITS = draw.Experiment.budget("notebook", epochs=24, drawings=2, seeds=SEEDS)


def layer_over_none_times_by_bound(arms: Arms, clock: str = "update") -> pd.DataFrame:
    """Return the time of LN over that without it to each of twenty levels of the bound.

    Columns: the level in nats and the ratio, each a mean over seeds (of logarithms), and the
    ends of its interval where there are two seeds or more. Below 1 LN is the faster one. The
    time is the column ``clock``: "update" or "cpu_seconds".
    """
    bound, levels, logs = "valid_bound", [], []
    for seed in sorted(arms["layer"].keys() & arms["none"].keys()):
        frames = [rows_of_seed(arms[arm][seed].metrics(), seed) for arm in ("layer", "none")]
        levels.append(levels_all_runs_reach(frames, bound))
        layer, none = (
            [np.log1p(time_to_level_or_end(frame, bound, level, clock)) for level in levels[-1]]
            for frame in frames
        )
        logs.append(np.subtract(layer, none))
    means = {"level": np.mean(levels, axis=0), "ratio": np.exp(np.mean(logs, axis=0))}
    table = pd.DataFrame(means)
    if len(logs) > 1:
        bounds = np.exp([interval(list(values)) for values in np.transpose(logs)])
        table["low"], table["high"] = bounds.T
    return table


# Listen, Attend and Spell

FSDD = las.Experiment(data="fsdd", epochs=16)
ERRORS = {
    "error": final_value("test_error"),
    "substitutions": final_value("substitutions"),
    "deletions": final_value("deletions"),
    "insertions": final_value("insertions"),
    "units (N)": final_value("reference_length"),
    "error, ends in N": final_value("test_error_with_end"),
}
"""Errors at the end of a run."""


def las_study_table(arms: Arms) -> pd.DataFrame:
    """Return a row for each arm: means over seeds, and tables 1 to 3 of the study.

    ``updates`` are those until the smoothed test error is at a level that all arms of a seed
    reach; the study's are steps until it stopped.
    """
    study = pd.read_csv(PAPERS / "las/study.csv", index_col="arm")
    table = pd.DataFrame(
        {
            arm: {
                name: np.mean(values_of_seeds(runs, measure))
                for name, measure in ERRORS.items()
            }
            | {"seeds": len(runs)}
            for arm, runs in arms.items()
        }
    ).T.loc[sorted(arms, key=[*study.index, *arms].index)]
    times: dict[str, list[float]] = {arm: [] for arm in arms}
    for seed in sorted(set.intersection(*(set(runs) for runs in arms.values()))):
        frames = {arm: rows_of_seed(runs[seed].metrics(), seed) for arm, runs in arms.items()}
        level = level_all_runs_reach([*frames.values()], "test_error")
        for arm, frame in frames.items():
            times[arm].append(time_to_level_or_end(frame, "test_error", level))
    table["updates"] = pd.Series({arm: np.mean(t) for arm, t in times.items() if t})
    return table.join(study)


# batch layer normalization

IMAGES = batch_layer_norm.ImageExperiment.budget("paper", seeds=SEEDS)
"""20 % of the training pictures, batch size 25."""
REVIEWS = batch_layer_norm.ReviewExperiment.budget("paper", seeds=SEEDS)
REVIEWS_ALONE = replace(REVIEWS, batch_size=1, seeds=(110, 111, 112))
OF_THE_PAPER = ("batch", "layer", "batch layer")
RATES = (5e-4, 1e-3, 2e-3, 5e-3, 1e-2, 2e-2)
RATES_ALONE = (2e-4, 5e-4, 1e-3, 2e-3, 5e-3)
TRIED = (97, 98, 99)  # seeds of every rate that was tried; the last one chose
COMPARED = tuple(range(100, 110))  # seeds that are compared at the published rate


def configuration_means_lows_highs(
    runs: RunBySeed, metric: str
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return means over seeds of a metric in each configuration, and their intervals' ends.

    Each is (16,), in the order of :data:`lnlab.nn.CONFIGURATIONS`; NaN where a configuration is
    impossible, and ends NaN of a single seed.
    """
    rows = []
    for letters in CONFIGURATIONS:
        values = values_of_seeds(runs, final_value(f"{metric}_{letters}"))
        bounds = interval(values) if len(values) > 1 else (np.nan, np.nan)
        rows.append((np.mean(values), *bounds))
    means, lows, highs = np.array(rows).T
    return means, lows, highs


def batch_layer_norm_table(arms: Arms, task: BatchLayerNormExperiment) -> pd.DataFrame:
    """Return a row for each arm: means over seeds, and what was published of one training.

    ``chosen`` is the test accuracy of the configuration that is best on validation, ``on the
    test`` of the one that is best on the test itself, as published. NaN where nothing was
    published.
    """
    logs = published.read_logs_by_arm(task.name, task.batch_size)
    tested = published.read_test_scores(task.name, task.batch_size).accuracy
    table = {}
    for arm in sorted(arms, key=[*ARMS].index):
        runs, log = arms[arm], logs.get(arm)
        table[arm] = {
            "seeds": len(runs),
            "training": rounded_mean_of_seeds(runs, value_after_last_epoch("train_accuracy")),
            "chosen": rounded_mean_of_seeds(runs, final_value("chosen_accuracy")),
            "on the test": rounded_mean_of_seeds(runs, final_value("optimistic_accuracy")),
            "paper, training": np.nan if log is None else log.train_accuracy.iloc[-1],
            "paper, on the test": tested.get(arm, np.nan),
        }
    return pd.DataFrame(table).T


def value_after_last_epoch(metric: str) -> Measure:
    """Return a metric after the last epoch, not that of the weights that were chosen."""
    return lambda frame: final_value(metric)(drop_best_model_row(frame))


def values_over_learning_rates(
    runs: Sequence[Run],
    task: BatchLayerNormExperiment,
    measure: Callable[[pd.DataFrame], float],
    rates: Sequence[float] = RATES,
    seeds: Sequence[int] = TRIED,
) -> dict[str, XAndValuesPerSeed]:
    """Return the rates (K,) at which each arm was tried, and a number per seed there (S, K)."""
    by_arm: dict[str, dict[float, list[float]]] = {}
    for rate in rates:
        tried = select_runs(runs, replace(task, learning_rate=rate), seeds=seeds)
        for arm, by_seed in tried.items():
            if len(by_seed) == len(seeds):
                values = [v for _, v in sorted(values_by_seed(by_seed, measure).items())]
                by_arm.setdefault(arm, {})[rate] = values
    return {arm: (np.array([*v]), np.array([*v.values()]).T) for arm, v in by_arm.items()}


def training_losses_by_batch_composition(arms: Arms, last_epochs: int = 5) -> pd.DataFrame:
    """Return a row for each arm: training loss in the batches of the training and in others.

    Both over the last epochs and all seeds, in nats: of the last batch of each epoch, before
    its update, and of the first 1,000 examples in batches in which they were never trained.
    """

    def mean_of_last_epochs(frame: pd.DataFrame, metric: str) -> float:
        return float(np.mean(drop_best_model_row(frame)[metric].tail(last_epochs)))

    return pd.DataFrame(
        {
            arm: {
                words: rounded_mean_of_seeds(
                    arms[arm], partial(mean_of_last_epochs, metric=metric)
                )
                for words, metric in (("own batches", "loss"), ("other batches", "train_nll"))
            }
            for arm in sorted(arms, key=[*ARMS].index)
        }
    ).T
