"""Kept runs as notebooks show them: selected, paired by seed, as numbers and as curves."""

import json
from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Mapping, Sequence

import numpy as np
import pandas as pd

from lnlab import paths
from lnlab.analysis.statistics import interval
from lnlab.training import Experiment
from lnlab.training.experiment import experiment_fields
from lnlab.training.runs import Run, read

Measure = Callable[[pd.DataFrame], float]
"""A function from the metrics of one seed to one number."""

Arms = dict[str, dict[int, Run]]
"""Finished runs that differ in normalizer and seed alone: by name, then by seed."""

RunBySeed = Mapping[int, Run]
"""The finished run that contains each seed."""

XAndValuesPerSeed = tuple[np.ndarray, np.ndarray]
"""A curve: x (K,), and the values (S, K) of S seeds."""

DifferencesAndInterval = tuple[tuple[float, ...], tuple[float, float]]
"""The difference of two arms for each seed, and the 95 % interval of their mean."""

PanelAndArmPair = str  # "panel: arm − other"

BETWEEN_ARMS = ("norm", "seeds")  # fields that may differ between runs that are compared

TIMES = ("seconds", "cpu_seconds")  # metrics that seeds trained side by side share


def read_runs(experiment_name: str) -> list[Run]:
    """Return the runs of an experiment that were trained in this checkout."""
    return read(paths.folder_in_checkout_or_cwd("runs"), experiment_name)


def read_kept_runs(experiment_name: str) -> list[Run]:
    """Return the runs of an experiment that come with the checkout."""
    return read(paths.folder_in_checkout_or_cwd("results"), experiment_name)


def trapezoid_mean_over_updates(metric: str) -> Measure:
    """Return the mean of a metric over the updates of a run.

    The area under the learning curve: it is lower for what learns faster.
    """

    def mean_by_trapezoids(metrics: pd.DataFrame) -> float:
        updates = metrics["update"].to_numpy(float)
        area = np.trapezoid(metrics[metric].to_numpy(float), updates)
        return float(area / (updates[-1] - updates[0]))

    return mean_by_trapezoids


def final_value(metric: str) -> Measure:
    """Return a metric at the end of a run."""
    return lambda metrics: float(metrics[metric].iloc[-1])


def log_of_measure(measure: Measure) -> Measure:
    """Return the logarithm of a measure: its differences are logarithms of ratios."""
    return lambda metrics: float(np.log(measure(metrics)))


def values_by_seed(runs: RunBySeed, measure: Measure) -> dict[int, float]:
    """Return one number for each seed, read from the metrics of its run."""
    frames = {run: run.evaluations() for run in set(runs.values())}
    return {seed: measure(rows_of_seed(frames[run], seed)) for seed, run in runs.items()}


def rows_of_seed(metrics: pd.DataFrame, seed: int) -> pd.DataFrame:
    """Return the rows that metrics have of one seed."""
    return metrics.loc[metrics.seed == seed]


def differences_by_seed(arms: Arms, arm: str, other: str, measure: Measure) -> dict[int, float]:
    """Return ``arm`` - ``other`` for each seed that both have."""
    ours, theirs = values_by_seed(arms[arm], measure), values_by_seed(arms[other], measure)
    return {seed: ours[seed] - theirs[seed] for seed in sorted(ours.keys() & theirs.keys())}


def group_comparable_runs(
    runs: Iterable[Run],
    experiment: Experiment,
    group_by: Sequence[str] = (),
) -> list[Arms]:
    """Return the finished runs of a task in sets that differ in normalizer and seed alone.

    Arms are in the order of their choices, seeds in theirs.

    If several runs contain the same seed, the one that measured what the task asks for and no
    more is used, and of those the one with most seeds. Only in the fields ``group_by`` sets
    may differ from the task: each combination of their values has its own.
    """
    wanted, extra = (
        json.loads(json.dumps(experiment.config())),
        _measurement_only_field_names(experiment),
    )
    same_as_task = [k for k in wanted if k not in (*BETWEEN_ARMS, *group_by, *extra)]
    sets: dict[str, Arms] = defaultdict(lambda: defaultdict(dict))
    done = (run for run in runs if run.task == experiment.name and run.done)

    # of a seed, the last run counts
    for run in sorted(
        done,
        key=lambda run: (
            not has_unrequested_measurements(run, experiment),
            len(run.config["seeds"]),
        ),
    ):
        config = experiment.config_with_defaults(run.config)
        if any(config[name] != wanted[name] for name in same_as_task):
            continue
        if any(wanted[name] and not config[name] for name in extra):
            continue
        rest = {k: v for k, v in config.items() if k not in (*BETWEEN_ARMS, *extra)}
        key = json.dumps([rest, run.data["checksum"]], sort_keys=True)
        sets[key][run.config["norm"]] |= dict.fromkeys(run.config["seeds"], run)
    order = list(experiment_fields(type(experiment))["norm"].constraints.get("choices", ()))
    return [
        {
            arm: dict(sorted(arms[arm].items()))
            for arm in sorted(arms, key=lambda arm: (*order, arm).index(arm))
        }
        for arms in sets.values()
    ]


def _measurement_only_field_names(experiment: Experiment) -> list[str]:
    """Return the fields that add measurements and change nothing else."""
    fields = experiment_fields(type(experiment))
    return [name for name, field in fields.items() if field.constraints.get("measured")]


def has_unrequested_measurements(run: Run, experiment: Experiment) -> bool:
    """Return True if a run measured more than a task asks for."""
    config = experiment.config_with_defaults(run.config)
    fields = _measurement_only_field_names(experiment)
    return any(config[name] and not getattr(experiment, name) for name in fields)


def select_runs(
    runs: Iterable[Run],
    experiment: Experiment,
    device: str = "",
    seeds: Container[int] | None = None,
) -> Arms:
    """Return the finished runs that differ from ``experiment`` in normalizer and seed alone.

    If several sets do (other devices, or data of the same name), the largest is taken, with a
    preference for runs that measured no more than it asks for. ``device`` is the one that they
    were trained on, by default any; ``seeds`` are by default all.
    """
    kind = device.partition(":")[0]
    on_device = [run for run in runs if run.config.get("device") == kind or not kind]
    sets = [select_seeds(arms, seeds) for arms in group_comparable_runs(on_device, experiment)]

    def count_exact_and_all_runs(arms: Arms) -> tuple[int, int]:
        runs = [run for by_seed in arms.values() for run in by_seed.values()]
        return sum(not has_unrequested_measurements(run, experiment) for run in runs), len(runs)

    return max(sets, key=count_exact_and_all_runs, default={})


def select_runs_with_its_seeds(runs: Iterable[Run], experiment: Experiment) -> Arms:
    """Return :func:`select_runs` of the seeds of ``experiment`` alone."""
    return select_runs(runs, experiment, seeds=experiment.seeds)


def select_seeds(arms: Arms, seeds: Container[int] | None) -> Arms:
    """Return arms with these seeds alone, without arms that have none of them."""
    if seeds is None:
        return arms
    selected = {
        arm: {seed: run for seed, run in by_seed.items() if seed in seeds}
        for arm, by_seed in arms.items()
    }
    return {arm: by_seed for arm, by_seed in selected.items() if by_seed}


def describe_data_seeds_hardware(arms: Arms) -> str:
    """Describe the runs of a figure: the data and their kind, seeds, hardware."""
    runs = [run for by_seed in arms.values() for run in by_seed.values()]
    seeds = sorted({len(by_seed) for by_seed in arms.values()})
    data, machines = runs[0].data, {run.environment["device_name"] for run in runs}
    count = " to ".join(str(n) for n in dict.fromkeys([seeds[0], seeds[-1]]))
    count += " seed" if seeds[-1] == 1 else " seeds"
    # "official data: cifar10, not the official files" would contradict itself
    kind = "" if "not the official" in data["name"] else f"{data['kind']} "
    return f"{kind}data: {data['name']}; {count}; {', '.join(sorted(machines))}"


def differences_and_interval(
    arms: Arms, arm: str, other: str, measure: Measure
) -> DifferencesAndInterval:
    """Return the differences of two arms by seed, and the interval of their mean."""
    values = tuple(differences_by_seed(arms, arm, other, measure).values())
    return values, confidence_interval(values)


def confidence_interval(values: Sequence[float]) -> tuple[float, float]:
    """Return the 95 % interval of the mean; for one seed (-inf, inf)."""
    return interval(values) if len(values) > 1 else (-np.inf, np.inf)


def differences_by_panel_and_other(
    panels: Mapping[str, Arms], arm: str, measure: Measure
) -> dict[PanelAndArmPair, DifferencesAndInterval]:
    """Return :func:`differences_and_interval` of ``arm`` with every other, in every panel."""
    return {
        f"{name}: {arm} − {other}": differences_and_interval(arms, arm, other, measure)
        for name, arms in panels.items()
        for other in sorted(arms.keys() - {arm})
    }


def curves_by_panel(
    panels: Mapping[str, Arms], metric: str, x: str = "update"
) -> dict[str, dict[str, XAndValuesPerSeed]]:
    """Return :func:`curves_by_arm` of every panel."""
    return {name: curves_by_arm(arms, metric, x) for name, arms in panels.items()}


def curves_by_arm(
    arms: Arms,
    metric: str,
    x: str = "update",
    select_rows: Callable[[pd.DataFrame], pd.DataFrame] = lambda metrics: metrics,
) -> dict[str, XAndValuesPerSeed]:
    """Return the curves of each arm: ``x`` (K,), averaged over seeds, and a metric (S, K).

    The times of seeds that trained side by side are divided among them.
    ``select_rows`` selects rows from those of a seed; by default all.
    """
    curves = {}
    for arm, runs in arms.items():
        by_seed = sorted(runs.items())
        frames = [select_rows(rows_of_seed(run.metrics(), seed)) for seed, run in by_seed]
        at, values = (
            np.stack([frame[column].to_numpy(float) for frame in frames])
            for column in (x, metric)
        )
        if x in TIMES:
            at /= np.array([[len(run.config["seeds"])] for _, run in by_seed])
        curves[arm] = at.mean(axis=0), values
    return curves
