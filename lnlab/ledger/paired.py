"""Claims about training: one arm against another, seed by seed, from the same start."""

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
import pandas as pd

from lnlab.ledger.verdict import NOTHING, Evidence, Test, interval, judge
from lnlab.runs import Run
from lnlab.training import Task

Number = Callable[[pd.DataFrame], float]
"""The metrics of one seed to one number."""

Arms = dict[str, dict[int, Run]]
"""Finished runs that differ in normalizer and seed alone: by name, then by seed."""

SAME = ("norm", "seeds")
"""What may differ between runs that are compared."""


def along(metric: str, epochs: float | None = None) -> Number:
    """The mean of a metric over the updates of a run, or of its first ``epochs``.

    The area under the learning curve: it is lower for what learns faster.
    """

    def number(metrics: pd.DataFrame) -> float:
        rows = metrics if epochs is None else metrics[metrics.epoch <= epochs]
        updates = rows["update"].to_numpy(float)
        area = np.trapezoid(rows[metric].to_numpy(float), updates)
        return float(area / (updates[-1] - updates[0]))

    return number


def after(metric: str, epochs: float) -> Number:
    """A metric at the first measurement after ``epochs``."""
    return lambda metrics: float(metrics[metrics.epoch >= epochs][metric].iloc[0])


def final(metric: str) -> Number:
    """A metric at the end of a run."""
    return lambda metrics: float(metrics[metric].iloc[-1])


def numbers(runs: dict[int, Run], number: Number) -> dict[int, float]:
    """The number of every seed."""
    frames = {seed: run.metrics() for seed, run in runs.items()}
    return {seed: number(frame[frame.seed == seed]) for seed, frame in frames.items()}


def differences(arms: Arms, arm: str, other: str, number: Number) -> dict[int, float]:
    """``arm`` - ``other`` for each seed that both have."""
    ours, theirs = numbers(arms[arm], number), numbers(arms[other], number)
    return {seed: ours[seed] - theirs[seed] for seed in sorted(ours.keys() & theirs.keys())}


def like(runs: Iterable[Run], task: Task) -> Arms:
    """The finished runs that differ from ``task`` in normalizer and seed alone."""
    config = json.loads(json.dumps(task.config()))
    wanted = {name: value for name, value in config.items() if name not in SAME}
    arms: Arms = defaultdict(dict)
    for run in runs:
        has = {name: run.config.get(name) for name in wanted}
        if run.task == task.name and run.done and has == wanted:
            arms[run.config["norm"]] |= dict.fromkeys(run.config["seeds"], run)
    return dict(arms)


def made_on(arms: Arms) -> str:
    """What has to be said of every figure: data and their kind, seeds, hardware."""
    runs = [run for by_seed in arms.values() for run in by_seed.values()]
    seeds = sorted({len(by_seed) for by_seed in arms.values()})
    data, machines = runs[0].data, {run.environment["device_name"] for run in runs}
    count = " to ".join(str(n) for n in dict.fromkeys([seeds[0], seeds[-1]]))
    return f"{data['kind']} data: {data['name']}; {count} seeds; {', '.join(sorted(machines))}"


def compare(
    arms: Arms, arm: str, other: str, number: Number
) -> tuple[tuple[float, ...], tuple[float, float]]:
    """``arm`` - ``other`` of every seed that both have, and the interval of the mean."""
    values = tuple(differences(arms, arm, other, number).values())
    return values, interval(values)


def against(
    panels: Mapping[str, Arms], arm: str, number: Number
) -> dict[str, tuple[tuple[float, ...], tuple[float, float]]]:
    """:func:`compare` of ``arm`` with every other, in every panel, in words."""
    return {
        f"{name}: {arm} − {other}": compare(arms, arm, other, number)
        for name, arms in panels.items()
        for other in sorted(arms.keys() - {arm})
    }


def curves(
    panels: Mapping[str, Arms], metric: str, x: str = "update"
) -> dict[str, dict[str, tuple[np.ndarray, np.ndarray]]]:
    """:func:`trajectories` of every panel."""
    return {name: trajectories(arms, metric, x) for name, arms in panels.items()}


def trajectories(
    arms: Arms, metric: str, x: str = "update"
) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Along the runs of each arm: ``x`` (K,), averaged over seeds, and a metric (S, K)."""
    curves = {}
    for arm, runs in arms.items():
        frames = [run.metrics().query(f"seed == {seed}") for seed, run in sorted(runs.items())]
        at, values = (
            np.stack([frame[column].to_numpy(float) for frame in frames])
            for column in (x, metric)
        )
        curves[arm] = at.mean(axis=0), values
    return curves


def better(
    task: str, arm: str, other: str, number: Number, quantity: str, **settings: object
) -> Test:
    """The test of "``arm`` has the smaller number than ``other``", seed by seed.

    Args:
        task: the name of the experiment.
        quantity: the number in words, with its unit.
        settings: what the configuration must say, batch_size=4 for example.
    """

    def test(runs: Sequence[Run]) -> Evidence:
        arms = best(comparable(runs, task, (arm, other), settings))
        if arms is None:
            return NOTHING
        found = differences(arms, arm, other, number)
        return evidence(found, f"{quantity}, {arm} - {other}", [arms[arm], arms[other]])

    return test


def sturdier(task: str, arm: str, other: str, metric: str, quantity: str) -> Test:
    """The test of "from batch 128 to batch 4 ``arm`` loses less than ``other``".

    Both batch sizes are read after as many epochs as the shorter run has.
    """

    def test(runs: Sequence[Run]) -> Evidence:
        sets = [comparable(runs, task, (arm, other), {"batch_size": m}) for m in (128, 4)]
        pairs = [(a, b) for a in sets[0] for b in sets[1] if _alike(_any(a), _any(b))]
        if not pairs:
            return NOTHING
        large, small = max(pairs, key=lambda pair: rank(pair[0]) + rank(pair[1]))
        epochs = min(_any(large).config["epochs"], _any(small).config["epochs"])
        at_128, at_4 = (
            differences(arms, arm, other, after(metric, epochs)) for arms in (large, small)
        )
        return evidence(
            {seed: at_4[seed] - at_128[seed] for seed in at_4.keys() & at_128.keys()},
            f"{quantity} after {epochs} epochs, batch 4 - batch 128, {arm} - {other}",
            [arms[name] for arms in (large, small) for name in (arm, other)],
        )

    return test


def _alike(a: Run, b: Run) -> bool:
    keys = ("units", "initialisation", "learning_rate")
    same = all(a.config[key] == b.config[key] for key in keys)
    return same and a.data["checksum"] == b.data["checksum"]


def comparable(
    runs: Sequence[Run], task: str, arms: Iterable[str], settings: dict[str, object]
) -> list[Arms]:
    """All sets of finished runs that have these arms and are one in all else but the seeds.

    Arms must share two seeds or more: of fewer there is no interval.
    """
    sets: dict[str, Arms] = defaultdict(lambda: defaultdict(dict))
    for run in runs:
        wanted = all(run.config.get(name) == value for name, value in settings.items())
        if run.task != task or not run.done or not wanted:
            continue
        rest = {name: value for name, value in run.config.items() if name not in SAME}
        same = json.dumps([rest, run.data["checksum"]], sort_keys=True)
        sets[same][run.config["norm"]] |= dict.fromkeys(run.config["seeds"], run)
    return [found for found in sets.values() if len(_shared(found, arms)) > 1]


def _shared(found: Arms, arms: Iterable[str]) -> set[int]:
    return set.intersection(*(set(found.get(arm, {})) for arm in arms))


def _any(arms: Arms) -> Run:
    return next(iter(next(iter(arms.values())).values()))


def rank(arms: Arms) -> tuple[bool, int, int, int]:
    """How much a set of runs tells: the paper's data first, then size, length and seeds."""
    run = _any(arms)
    seeds = min(len(runs) for runs in arms.values())
    official = run.data["kind"] == "official"
    return official, sum(run.config["units"]), run.config["epochs"], seeds


def best(sets: Sequence[Arms]) -> Arms | None:
    """The set that tells most; None of none."""
    return max(sets, key=rank, default=None)


def evidence(
    found: dict[int, float], quantity: str, used: Iterable[dict[int, Run]]
) -> Evidence:
    """What paired differences by seed, claimed to be negative, say."""
    runs = [run for by_seed in used for run in by_seed.values()]
    data = runs[0].data
    values = tuple(found[seed] for seed in sorted(found))
    verdict, ends = judge(values, official=data["kind"] == "official")
    return Evidence(
        verdict,
        quantity,
        ends,
        values,
        f"{data['kind']}: {data['name']}, {len(values)} seeds",
        ", ".join(sorted({run.environment["device_name"] for run in runs})),
    )
