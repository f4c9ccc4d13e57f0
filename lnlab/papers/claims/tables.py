"""Tables of the trainings of Ziaee & Çano (2022): their kept runs beside the published logs."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd

from lnlab.analysis.statistics import interval
from lnlab.nn import CONFIGURATIONS
from lnlab.papers.batch_layer_norm import published
from lnlab.papers.batch_layer_norm.experiment import Mixture
from lnlab.papers.batch_layer_norm.model import ARMS
from lnlab.papers.claims.ba2016_convolution_arms import CLAIMS, NLL_ALONG
from lnlab.papers.claims.ba2016_skip_thoughts import FAMILIES, TABLE_3, begun, nested
from lnlab.papers.claims.measurement import (
    TFIDF,
    WORDS,
    Measurement,
    asked_vectors,
    at,
    fixed,
    looked,
    mean,
    way,
)
from lnlab.papers.claims.paired import (
    Arms,
    NumberOfRuns,
    bounds,
    differences,
    final,
    like,
    logarithm,
    numbers,
    trajectories,
)
from lnlab.papers.claims.ziaee2022_pictures import FRESH, SEEDS, way_to_accuracy
from lnlab.papers.claims.ziaee2022_rates import RATES, TRIED
from lnlab.training.runs import Run

DECLARED = (*SEEDS, *FRESH)
"""The seeds that are compared at the published rate; by others rates were chosen."""


def trained_as(runs: Sequence[Run], task: Mixture, seeds: Sequence[int] = DECLARED) -> Arms:
    """The finished runs that differ from ``task`` in normalizer and seed, whatever they measure
    besides."""
    return like(runs, task, seeds=seeds)


def sixteen(runs: Mapping[int, Run], metric: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Means over seeds of a metric in each configuration, and both ends of their intervals.

    Args:
        runs: of one arm, by seed.
        metric: ``"test_accuracy"`` say.

    Returns:
        Three arrays (16,), in the order of :data:`lnlab.nn.CONFIGURATIONS`; NaN where a
        configuration is impossible, and ends NaN of a single seed.
    """
    found = []
    for letters in CONFIGURATIONS:
        values = [*numbers(runs, final(f"{metric}_{letters}")).values()]
        ends = interval(values) if len(values) > 1 else (np.nan, np.nan)
        found.append((np.mean(values), *ends))
    means, lows, highs = np.array(found).T
    return means, lows, highs


def beside_the_logs(arms: Arms, task: Mixture) -> pd.DataFrame:
    """A row for each arm: means over seeds, and what was published of one training.

    ``chosen`` is the test accuracy of the configuration that is best on validation,
    ``on the test`` of the one that is best on the test itself, as published. NaN where nothing
    was published.

    Args:
        arms: trained as ``task``.
        task: what was trained, at the batch size.
    """
    logs = published.LOGS.get((task.name, task.batch_size), {})
    tested = published.TESTED[task.name, task.batch_size]
    table = {}
    for arm in sorted(arms, key=[*ARMS].index):
        runs, log = arms[arm], logs.get(arm)
        ends = numbers(runs, lambda frame: final("train_accuracy")(way_to_accuracy(frame)))
        table[arm] = {
            "seeds": len(runs),
            "training": _mean_of_runs(ends),
            "chosen": _mean_of_runs(numbers(runs, final("chosen_accuracy"))),
            "on the test": _mean_of_runs(numbers(runs, final("optimistic_accuracy"))),
            "paper, training": log.train_accuracy[-1] if log else np.nan,
            "paper, on the test": tested[arm][1] if arm in tested else np.nan,
        }
    return pd.DataFrame(table).T


def over_rates(
    runs: Sequence[Run],
    task: Mixture,
    number: NumberOfRuns,
    rates: Sequence[float] = RATES,
    seeds: Sequence[int] = TRIED,
) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """The rates (K,) at which each arm was tried, and a number of every seed there (S, K)."""
    found: dict[str, dict[float, list[float]]] = {}
    for rate in rates:
        tried = like(runs, replace(task, learning_rate=rate), seeds=seeds)
        for arm, by_seed in tried.items():
            if len(by_seed) == len(seeds):
                told = [value for _, value in sorted(numbers(by_seed, number).items())]
                found.setdefault(arm, {})[rate] = told
    return {arm: (np.array([*at]), np.array([*at.values()]).T) for arm, at in found.items()}


def by_heart(arms: Arms, epochs: int = 5) -> pd.DataFrame:
    """A row for each arm: training loss (nats) in the batches of the training and in others.

    Both over the last epochs and all seeds: of the last batch of each epoch, before its update,
    and of the first 1,000 cases in batches in which they were never trained.
    """
    table = {}
    for arm in sorted(arms, key=[*ARMS].index):
        table[arm] = {
            words: _mean_of_runs(numbers(arms[arm], partial(_late, metric=name, epochs=epochs)))
            for words, name in (("own batches", "loss"), ("other batches", "train_nll"))
        }
    return pd.DataFrame(table).T


def _late(frame: pd.DataFrame, metric: str, epochs: int) -> float:
    return float(np.mean(way_to_accuracy(frame)[metric].tail(epochs)))


def _mean_of_runs(values: Mapping[int, float]) -> float:
    return round(float(np.mean([*values.values()])), 3)


# Tables of kept runs of skip-thoughts, as notebook 10 shows them.


BOTH = ("none", "layer")
"""The arms of Table 3, in its order."""
WITHIN = "_within"
"""The end of the name of half of a number's interval over folds."""


def compared(runs: Sequence[Run], end: str) -> Arms:
    """Return the kept runs of a setting by arm: of its own seeds alone; empty where not both
    arms are there. Runs on the data of most seeds count."""
    task = FAMILIES[end][0]
    arms = like(runs, task, seeds=task.seeds)
    return arms if set(BOTH) <= arms.keys() else {}


def how_far(arms: Arms) -> str:
    """The length of the runs in updates and epochs, and the number of seeds, in words."""
    runs = arms["layer"]
    last = next(iter(runs.values())).metrics().iloc[-1]
    return f"{last['update']:,.0f} updates, {last['epoch']:.1f} epochs, {len(runs)} seeds"


def beside_table_3(runs: Sequence[Run], end: str) -> pd.DataFrame:
    """A row for each number of Table 3, of the kept runs of a setting: means over seeds.

    The interval over seeds of the difference of both arms at their ends, C chosen by inner
    folds, and half of one over the folds of one net; each arm from before its first update to
    its end, a bag of words, TF-IDF, and each arm before any update from the other start, as the
    setting reads them along a run (where that is with another C, the ends with the chosen one,
    too); and the paper's. Empty where not both arms are there, or a number is not.
    """
    arms, rows, C = compared(runs, end), {}, fixed(end)
    others = like(runs, begun(FAMILIES[end][0]))
    one = f", C = {C:g}" if C else ""
    for metric, (words, *paper) in TABLE_3.items() if arms else ():
        own = asked_vectors(metric, end)
        if not own:
            continue
        less = differences(arms, "layer", "none", nested(own))
        low, high = interval([*less.values()]) if len(less) > 1 else (float("nan"),) * 2
        rows[words if own == metric else f"{words}: here {own.partition('_')[0]}"] = {
            **{f"{arm}, C chosen": mean(arms[arm], nested(own)) for arm in BOTH if C},
            "layer − none": f"{low:.3g} to {high:.3g}",
            "over folds": folds(arms["layer"], own),
            **{f"{arm}, start → end{one}": way(arms[arm], own, C) for arm in BOTH},
            f"words{one}": mean(arms["layer"], at(own + WORDS, -1, C)),
            f"TF-IDF{one}": mean(others["layer"], at(own + TFIDF, -1, C)) if others else "",
            **{
                f"{arm}, modern start, untrained{one}": mean(others[arm], at(own, 0, C))
                for arm in BOTH
                if arm in others
            },
            **{f"paper, {arm}": value for arm, value in zip(BOTH, paper, strict=True)},
        }  # fmt: skip
    return pd.DataFrame(rows).T


def beside_words(arms: Arms, metric: str) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """As Fig. 3: what a judge says along the runs of both arms, and of a bag of words."""
    pair = {arm: arms[arm] for arm in BOTH}
    curves = trajectories(pair, metric, read=lambda metrics: looked(metrics, metric))
    along, _ = curves["layer"]
    words = mean(arms["layer"], at(metric + WORDS, -1))
    return curves | {"bag of words": (along, np.full((1, len(along)), words))}


def folds(runs: Mapping[int, Run], metric: str) -> str:
    """Half of the interval over folds, "± 0.9"; empty where it was not measured."""
    try:
        return f"± {mean(runs, final(metric + WITHIN)):.2g}"
    except KeyError:
        return ""


# Tables of the kept runs of 6.7 with all arms, as notebook 05 shows them.


def at_own_rates(runs: Sequence[Run], end: str) -> Arms:
    """The kept runs of a setting by arm, each at its own rate; empty where not all are there.

    Args:
        end: of the name of a claim about all arms: "lenet-4-whole".
    """
    (test,) = (c.test for c in CLAIMS if c.id == f"ba2016-6.7-batch-all-{end}-own-rates")
    assert isinstance(test, Measurement)
    names = [fields["norm"] for _, fields in test.terms]
    return dict(zip(names, test.arms(runs), strict=False))


def all_arms(arms: Arms) -> pd.DataFrame:
    """A row for each arm, the fastest first: means over seeds, and what batch norm is ahead.

    ``over batch norm`` is the interval (95 %, each by itself) of the ratio of the mean training
    NLL along the run to that of batch norm: above 1 where batch norm is the faster one.
    """
    rows = {}
    for arm, runs in arms.items():
        ratios = differences(arms, arm, "batch", logarithm(NLL_ALONG)).values()
        low, high = np.exp(bounds([*ratios]))
        (rate,) = {run.config["learning_rate"] for run in runs.values()}
        rows[arm] = {
            "rate": rate,
            "training NLL along the run": _mean(runs, NLL_ALONG),
            "over batch norm": "" if arm == "batch" else f"{low:.2f} to {high:.2f}",
            "training NLL at the end": _mean(runs, final("train_nll")),
            "test error": _mean(runs, final("test_error")),
        }
    table = pd.DataFrame(rows).T
    return table.sort_values("training NLL along the run").rename_axis(index="arm")


def _mean(runs: dict[int, Run], number: NumberOfRuns) -> float:
    return round(float(np.mean([*numbers(runs, number).values()])), 3)
