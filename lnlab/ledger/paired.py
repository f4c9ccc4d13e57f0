"""Claims about training: one arm against another, seed by seed, from the same start."""

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import product

import numpy as np
import pandas as pd

from lnlab.ledger.verdict import NOTHING, Evidence, Test, interval, judge
from lnlab.runs import Run
from lnlab.training import Task

Number = Callable[[pd.DataFrame], float]
"""The metrics of one seed to one number."""

Arms = dict[str, dict[int, Run]]
"""Finished runs that differ in normalizer and seed alone: by name, then by seed."""

BETWEEN_ARMS = ("norm", "seeds")
"""What may differ between runs that are compared."""

STATED = ("data", "units")
"""What must be as in the paper for a run to be its own experiment."""

SMALLER = (*STATED, "epochs", "fused")
"""What a run may have otherwise than the paper's experiment and still test a claim of it."""

TIMES = ("seconds", "cpu_seconds")
"""Metrics that seeds trained side by side share."""

KINDS = ("official", "embedded", "synthetic")
"""What papers are judged by: a user's own data are not among it."""


def along(metric: str) -> Number:
    """The mean of a metric over the updates of a run.

    The area under the learning curve: it is lower for what learns faster.
    """

    def number(metrics: pd.DataFrame) -> float:
        updates = metrics["update"].to_numpy(float)
        area = np.trapezoid(metrics[metric].to_numpy(float), updates)
        return float(area / (updates[-1] - updates[0]))

    return number


def after(metric: str, epochs: float) -> Number:
    """A metric at the first measurement when ``epochs`` are over."""
    return lambda metrics: float(metrics.loc[metrics.epoch >= epochs, metric].iloc[0])


def reached(metric: str, level: float) -> Number:
    """Updates until a metric is first at ``level`` or below; infinite where it never is."""

    def number(metrics: pd.DataFrame) -> float:
        there = metrics.loc[metrics[metric] <= level, "update"]
        return float(there.iloc[0]) if len(there) else float("inf")

    return number


def settled(metric: str, within: float, of: str = "update") -> Number:
    """Where a metric first is ``within`` of its least value in the run: when it converged.

    Args:
        of: what is read there: "update", or "cpu_seconds".
    """

    def number(metrics: pd.DataFrame) -> float:
        there = metrics[metric] <= metrics[metric].min() + within
        return float(metrics.loc[there, of].iloc[0])

    return number


def final(metric: str) -> Number:
    """A metric at the end of a run."""
    return lambda metrics: float(metrics[metric].iloc[-1])


def numbers(runs: Mapping[int, Run], number: Number) -> dict[int, float]:
    """The number of every seed."""
    frames = {run: run.metrics() for run in set(runs.values())}
    return {seed: number(rows(frames[run], seed)) for seed, run in runs.items()}


def rows(metrics: pd.DataFrame, seed: int) -> pd.DataFrame:
    """What was measured of one seed."""
    return metrics.loc[metrics.seed == seed]


def differences(arms: Arms, arm: str, other: str, number: Number) -> dict[int, float]:
    """``arm`` - ``other`` for each seed that both have."""
    ours, theirs = numbers(arms[arm], number), numbers(arms[other], number)
    return {seed: ours[seed] - theirs[seed] for seed in sorted(ours.keys() & theirs.keys())}


def sets(runs: Iterable[Run], task: Task, free: Sequence[str] = ()) -> list[Arms]:
    """The finished runs of a task, each set one in all but normalizer and seed.

    Of a seed that several runs hold the run of most seeds counts, in every arm.

    Args:
        task: the configuration that the runs have.
        free: what they may have otherwise, if all of a set do.
    """
    config = json.loads(json.dumps(task.config()))
    wanted = {k: v for k, v in config.items() if k not in (*BETWEEN_ARMS, *free)}
    # fields that a configuration names only where they are not what they used to be
    unsaid = getattr(task, "__dataclass_fields__", {}).keys() - config.keys()
    found: dict[str, Arms] = defaultdict(lambda: defaultdict(dict))
    done = (run for run in runs if run.task == task.name and run.done)
    for run in sorted(done, key=lambda run: len(run.config["seeds"])):
        if any(run.config.get(name) != value for name, value in wanted.items()):
            continue
        if unsaid & run.config.keys():
            continue
        rest = {k: v for k, v in run.config.items() if k not in BETWEEN_ARMS}
        same = json.dumps([rest, run.data["checksum"]], sort_keys=True)
        found[same][run.config["norm"]] |= dict.fromkeys(run.config["seeds"], run)
    return [dict(arms) for arms in found.values()]


def like(runs: Iterable[Run], task: Task, device: str = "") -> Arms:
    """The finished runs that differ from ``task`` in normalizer and seed alone.

    Args:
        device: what they were trained on, "cpu" or "cuda:1". By default, and where there
            are several data sets of one name, the largest set of runs is taken.
    """
    kind = device.partition(":")[0]
    there = [run for run in runs if run.config.get("device") == kind or not kind]
    return max(sets(there, task), key=lambda arms: sum(map(len, arms.values())), default={})


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
    """Along the runs of each arm: ``x`` (K,), averaged over seeds, and a metric (S, K).

    The times of seeds that trained side by side are divided among them.
    """
    curves = {}
    for arm, runs in arms.items():
        by_seed = sorted(runs.items())
        frames = [rows(run.metrics(), seed) for seed, run in by_seed]
        at, values = (
            np.stack([frame[column].to_numpy(float) for frame in frames])
            for column in (x, metric)
        )
        if x in TIMES:
            at /= np.array([[len(run.config["seeds"])] for _, run in by_seed])
        curves[arm] = at.mean(axis=0), values
    return curves


def better(task: Task, arm: str, other: str, number: Number, quantity: str) -> Test:
    """The test of "``arm`` has the smaller number than ``other``", seed by seed.

    Args:
        task: the paper's experiment. Runs that are smaller or on other data serve where
            there are none of it.
        quantity: the number in words, with its unit.
    """

    def test(runs: Sequence[Run]) -> Evidence:
        there = comparable(runs, task, (arm, other))
        if not there:
            return NOTHING
        arms = max(there, key=lambda arms: rank(arms, task))
        found = differences(arms, arm, other, number)
        return evidence(found, f"{quantity}, {arm} - {other}", [arms], is_own(arms, task))

    return test


def sturdier(
    before: Task,
    then: Task,
    arm: str,
    other: str,
    metric: str,
    quantity: str,
    field: str = "batch_size",
) -> Test:
    """The test of "from one value of a field to another ``arm`` loses less than ``other``".

    Both are read after as many epochs as the shorter run has.

    Args:
        before: the paper's experiment at the one value.
        then: at the other.
        quantity: the metric in words, with its unit.
        field: what differs between the two.
    """
    return _moves(before, then, (arm, other), metric, quantity, field)


def smaller(before: Task, then: Task, arm: str, metric: str, quantity: str, field: str) -> Test:
    """The test of "``arm`` has the smaller number at the other value of a field".

    Arguments as in :func:`sturdier`.
    """
    return _moves(before, then, (arm,), metric, quantity, field)


def _moves(
    before: Task, then: Task, names: tuple[str, ...], metric: str, quantity: str, field: str
) -> Test:
    """How far the first arm moves from one task to another, less how far the second does."""
    tasks = before, then
    word = field.partition("_")[0]
    change = f"{word} {getattr(then, field)} - {word} {getattr(before, field)}"

    def test(runs: Sequence[Run]) -> Evidence:
        there = [comparable(runs, task, names) for task in tasks]
        pairs = [(a, b) for a, b in product(*there) if _alike((a, b), tasks)]
        if not pairs:
            return NOTHING
        pair = max(pairs, key=lambda pair: [*map(rank, pair, tasks)])
        epochs = min(_any(arms).config["epochs"] for arms in pair)
        at_one, at_other = (_less(arms, names, after(metric, epochs)) for arms in pair)
        found = {seed: at_other[seed] - at_one[seed] for seed in _seeds(*pair)}
        words = f"{quantity} after {epochs} epochs, {change}, {' - '.join(names)}"
        return evidence(found, words, pair, all(map(is_own, pair, tasks)))

    return test


def _less(arms: Arms, names: tuple[str, ...], number: Number) -> dict[int, float]:
    """The number of the first arm of every seed, less that of the second if there is one."""
    arm, *other = names
    return differences(arms, arm, other[0], number) if other else numbers(arms[arm], number)


def _alike(pair: tuple[Arms, Arms], tasks: tuple[Task, Task]) -> bool:
    """Whether two sets differ in what their tasks differ in, at most, and share two seeds."""
    a, b = (_any(arms) for arms in pair)
    one, other = (task.config() for task in tasks)
    fields = [k for k in a.config if k not in BETWEEN_ARMS and one.get(k) == other.get(k)]
    same = all(a.config[k] == b.config.get(k) for k in fields if k != "epochs")
    return same and a.data["checksum"] == b.data["checksum"] and len(_seeds(*pair)) > 1


def comparable(runs: Iterable[Run], task: Task, arms: Sequence[str]) -> list[Arms]:
    """Sets of finished runs by which a claim about ``task`` can be tested: these arms of each.

    Arms must share two seeds or more: of fewer there is no interval.
    """
    papers = (run for run in runs if run.data["kind"] in KINDS)
    there = [{arm: found.get(arm, {}) for arm in arms} for found in sets(papers, task, SMALLER)]
    return [found for found in there if len(_seeds(found)) > 1]


def _seeds(*sets: Arms) -> list[int]:
    """The seeds that all arms of some sets share."""
    return sorted(set.intersection(*(set(runs) for arms in sets for runs in arms.values())))


def _any(arms: Arms) -> Run:
    return next(iter(next(iter(arms.values())).values()))


def is_own(arms: Arms, task: Task) -> bool:
    """Whether these runs are the paper's own experiment: its data, and what it states."""
    run, config = _any(arms), json.loads(json.dumps(task.config()))
    stated = all(run.config[name] == config[name] for name in STATED)
    return stated and run.data["kind"] == "official"


def rank(arms: Arms, task: Task) -> tuple[bool, bool, int, int, int]:
    """How much a set of runs tells: the paper's own first, then data, size, length, seeds."""
    run = _any(arms)
    official, units = run.data["kind"] == "official", sum(run.config["units"])
    return is_own(arms, task), official, units, run.config["epochs"], len(_seeds(arms))


def evidence(
    found: Mapping[int, float], quantity: str, used: Sequence[Arms], own: bool
) -> Evidence:
    """What paired differences by seed, claimed to be negative, say.

    Args:
        found: the difference of each seed, at least two.
        quantity: what it is, in words.
        used: the runs behind it.
        own: whether they are the paper's own experiment.
    """
    runs = [run for arms in used for by_seed in arms.values() for run in by_seed.values()]
    values = tuple(found[seed] for seed in sorted(found))
    verdict, ends = judge(values, own)
    if ends is None:
        lost = [str(seed) for seed in sorted(found) if not np.isfinite(found[seed])]
        quantity, values = f"{quantity}: not finite for seed {', '.join(lost)}", ()
    data, units = runs[0].data, "-".join(map(str, runs[0].config["units"]))
    machines = {run.environment["device_name"] for run in runs}
    return Evidence(
        verdict,
        quantity,
        ends,
        values,
        f"{data['kind']}: {data['name']}, {units} hidden units, {len(found)} seeds",
        ", ".join(sorted(machines)),
    )
