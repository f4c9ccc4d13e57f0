"""Measurements: runs that differ in named fields, compared seed by seed as was declared."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby, product
from math import inf, isnan, nan
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy.optimize import isotonic_regression

from lnlab.analysis.statistics import ends, interval
from lnlab.papers.claims import paired
from lnlab.papers.claims.claim import Declared, Differences, one_after_the_other
from lnlab.papers.claims.paired import NumberOfRuns, measured, metrics, rows
from lnlab.papers.claims.rule import Setting
from lnlab.papers.skip_thoughts.evaluate import BEST, BY, NESTED
from lnlab.training import Experiment
from lnlab.training.runs import Run

Number = Callable[[pd.DataFrame], float]
Numbers = Callable[[Sequence[pd.DataFrame]], Sequence[float]]
"""The metrics of one seed in each term, to a number for each."""

Term = tuple[int, Mapping[str, Any]]
"""A sign, and the fields that an arm changes in the experiment."""

KINDS = ("official", "embedded", "synthetic")
"""The kinds of data that papers are judged by: a user's own are not among them."""

BESIDE = ("seeds", "device", "precision")
"""Fields of a configuration that are no part of what was declared; what a run did not measure,
it does not have."""


def each(number: Number) -> Numbers:
    """One number of each term by itself."""
    return lambda frames: [number(frame) for frame in frames]


def combined(value: Callable[..., float]) -> Numbers:
    """One number of all terms together, in the place of the first, whose sign is 1."""
    return lambda frames: [float(value(*frames)), *(0.0 for _ in frames[1:])]


@dataclass(frozen=True)
class Tuning:
    """Each arm's own rate: the value of a field that is best on validation.

    Attributes:
        field: what is chosen.
        grid: the same values for every arm.
        number: what is least at the best.
        seed: that of the runs in which it is chosen, none of those that count.
        changes: what these runs have otherwise: cases that are held out, say.
        by: the number, and the runs that it is read of, in words.
    """

    field: str
    grid: tuple[float, ...]
    number: Number
    seed: int
    changes: Mapping[str, Any]
    by: str

    @property
    def words(self) -> str:
        """The choice, as it is declared."""
        return f"{self.field} of each arm from {', '.join(map(str, self.grid))}, {self.by}"


@dataclass(frozen=True)
class Measurement:
    """A comparison, seed by seed, of runs that differ in named fields.

    A value is the sum of the terms' numbers, each with its sign: an arm less another, or what
    one loses by a change less what another loses.

    Attributes:
        task: the experiment, its ``seeds`` those that count.
        terms: arms, with signs; any field may differ.
        numbers: what is read of each seed of the terms.
        stated: what the paper states of its own setting, by field; ``norm``: its arms, where
            this compares others, too.
        blocks: changes of fields, the unit of the interval where it is not the seed: of each
            the mean over the seeds, its own where it names ``seeds``, is one value.
        failed: what a failed run counts as.
        tuning: how the rate of each term is chosen.
    """

    task: Experiment
    terms: tuple[Term, ...]
    numbers: Numbers
    stated: Mapping[str, Any] = field(default_factory=dict)
    blocks: tuple[Mapping[str, Any], ...] = ()
    failed: float | None = None
    tuning: Tuning | None = None

    def differences(self, runs: Iterable[Run]) -> Differences | None:
        """The values of the declared runs; None unless all of them are there."""
        runs = _finished(runs, self.task)
        values, used, failures = [], [], 0
        for block in self.blocks or ({},):
            found = self._of_block(runs, block, tuple(block.get("seeds", self.task.seeds)))
            if found is None:
                return None
            by_seed, its_runs, failed = found
            mean = sum(by_seed.values()) / len(by_seed)
            values += [mean] if self.blocks else list(by_seed.values())
            used += its_runs
            failures += failed
        farthest = max((self._setting(run) for run in used), key=list(Setting).index)
        data = used[0].data
        return Differences(
            tuple(values),
            farthest,
            f"{data['kind']}: {data['name']}",
            ", ".join(sorted({run.environment["device_name"] for run in used})),
            failures,
        )

    def exploratory(self, runs: Iterable[Run]) -> str:
        """The interval of other seeds than the declared, in words; it decides nothing."""
        runs = _finished(runs, self.task)
        declared = set(self.task.seeds)
        for block in self.blocks or ({},):
            others = {seed for run in runs for seed in run.config["seeds"]} - declared
            found = self._of_block(runs, block, tuple(sorted(others)), some=True)
            if found and len(found[0]) > 1:
                seeds = ", ".join(map(str, found[0]))
                where = ", ".join(f"{name} {value}" for name, value in block.items())
                what = ends(interval(list(found[0].values())))
                told = f"{what} by seeds {seeds}, which were not declared"
                return f"{where}: {told}" if where else told
        return ""

    def arms(self, runs: Iterable[Run]) -> list[dict[int, Run]]:
        """The declared runs of each term by seed, at its own rate where that is chosen; empty
        where not all of them are there."""
        runs = _finished(runs, self.task)
        for same in _alike(runs):
            terms = self._terms(same, runs, {})
            if all({*self.task.seeds} <= by_seed.keys() for by_seed in terms):
                return [{seed: term[seed] for seed in self.task.seeds} for term in terms]
        return []

    def _terms(
        self, same: Sequence[Run], runs: Sequence[Run], block: Mapping[str, Any]
    ) -> list[dict[int, Run]]:
        """The runs of every term by seed, of the same data; a rate is chosen among all."""
        tried = _of_one_name(runs, same[0])
        return [self._runs(same, {**fields, **block}, tried) for _, fields in self.terms]

    def _of_block(
        self, runs: Sequence[Run], block: Mapping[str, Any], seeds: tuple[int, ...], some=False
    ) -> tuple[dict[int, float], list[Run], int] | None:
        """The value of each seed, the runs behind them, and how many of them failed."""
        for same in _alike(runs):
            terms = self._terms(same, runs, block)
            shared = set(seeds).intersection(*terms)
            if not shared or (len(shared) < len(set(seeds)) and not some):
                continue
            values, failures = {}, 0
            for seed in sorted(shared):
                frames = [rows(metrics(term[seed]), seed) for term in terms]
                try:
                    numbers = list(self.numbers(frames))
                except KeyError:  # these runs did not measure it
                    return None
                for place, (term, number) in enumerate(zip(terms, numbers, strict=True)):
                    lost = failed(term[seed], seed) or isnan(number)
                    if lost:
                        numbers[place] = nan if self.failed is None else self.failed
                    failures += lost
                values[seed] = sum(
                    sign * number for (sign, _), number in zip(self.terms, numbers, strict=True)
                )
            return values, [term[seed] for term in terms for seed in shared], failures
        return None

    def _runs(
        self, runs: Sequence[Run], fields: Mapping[str, Any], tried: Sequence[Run]
    ) -> dict[int, Run]:
        """The runs of one term by seed; at its own rate, found in ``tried``, where tuned."""
        changes = dict(fields)
        if self.tuning:
            best = self._best(tried, changes)
            if best is None:
                return {}
            changes[self.tuning.field] = best
        return _by_seed(runs, replace(self.task, **changes))  # pyright: ignore

    def _best(self, runs: Sequence[Run], fields: Mapping[str, Any]) -> float | None:
        """The value of the grid whose run is best; None unless all of them are there, and one
        is: of several that are as good, none was chosen."""
        tuning, found = self.tuning, {}
        assert tuning is not None
        for value in tuning.grid:
            task = self._tuned(fields, value)
            there = _by_seed(runs, task).get(tuning.seed)
            if there is None:
                return None
            try:
                found[value] = tuning.number(rows(metrics(there), tuning.seed))
            except KeyError:
                return None
        numbers = {value: number for value, number in found.items() if number == number}
        best = [value for value in numbers if numbers[value] == min(numbers.values())]
        return best[0] if len(best) == 1 else None

    def _setting(self, run: Run) -> Setting:
        """The setting of a run, next to what the paper states."""
        stated = dict(self.stated)
        arms = stated.pop("norm", ())
        stated = json.loads(json.dumps(stated))
        if run.data["kind"] != "official" or run.data["name"] != stated.pop("data", None):
            return Setting.OTHER
        # an arm's own fields are what is compared, and so are the paper's
        same = all(run.config.get(name) == value for name, value in stated.items())
        there = not arms or run.config["norm"] in arms
        return Setting.OWN if same and there else Setting.SCALED

    def command(self, data: str = "") -> str:
        """The command for the declared runs; where a rate is tuned, for those of the grid."""
        arms = [
            {**fields, **block} for block in self.blocks or ({},) for _, fields in self.terms
        ]
        if self.tuning:
            grid = self.tuning.grid
            tasks = [self._tuned(fields, value) for fields in arms for value in grid]
        else:
            tasks = [replace(self.task, **fields) for fields in arms]  # pyright: ignore
        return one_after_the_other(tasks, data)

    def then(self, runs: Iterable[Run]) -> str:
        """The command for the runs at each arm's own rate, once those of the grid are there."""
        if self.tuning is None:
            return ""
        tasks: list[Experiment] = []
        runs = _finished(runs, self.task)
        one_of_each = {_where(run): run for run in runs}.values()
        for like, block in product(one_of_each, self.blocks or ({},)):
            terms = [{**fields, **block} for _, fields in self.terms]
            best = [self._best(_of_one_name(runs, like), fields) for fields in terms]
            if None not in best:
                tasks += [
                    replace(self.task, **{**fields, self.tuning.field: value})  # pyright: ignore
                    for value, fields in zip(best, terms, strict=True)
                ]
        return one_after_the_other(tasks)

    def _tuned(self, fields: Mapping[str, Any], value: float) -> Experiment:
        """The run in which one value of the grid is tried."""
        tuning = self.tuning
        assert tuning is not None
        own = {tuning.field: value, "seeds": (tuning.seed,)}
        return replace(self.task, **{**fields, **tuning.changes, **own})  # pyright: ignore


def failed(run: Run, seed: int) -> bool:
    """True if the training of a seed ended in no finite number."""
    return run.result.get("outcomes", {}).get(str(seed), {}).get("outcome") == "diverged"


def _finished(runs: Iterable[Run], task: Experiment) -> list[Run]:
    return [
        run
        for run in runs
        if run.task == task.name
        and run.done
        and run.data["kind"] in KINDS
        # products in bfloat16 are no part of any declaration
        and run.config["precision"] != "mixed"
    ]


def _where(run: Run) -> tuple[str, ...]:
    """The data of a run by name and kind, and the kind of device."""
    beside = (str(run.config.get(name)) for name in ("device", "precision"))
    return run.data["name"], run.data["kind"], *beside


def _of_one_name(runs: Sequence[Run], like: Run) -> list[Run]:
    """Runs of the same data or a part of it, whose checksum is another: a rate may be chosen
    on a part."""
    return [run for run in runs if _where(run) == _where(like)]


def _alike(runs: Sequence[Run]) -> Iterable[list[Run]]:
    """Runs of the same data and the same kind of device, which may be compared."""

    def where(run: Run) -> tuple[str, ...]:
        return *_where(run), run.data["checksum"]

    for _, same in groupby(sorted(runs, key=where), key=where):
        yield list(same)


def _by_seed(runs: Sequence[Run], task: Any) -> dict[int, Run]:
    """Return the runs with the configuration of a task, seeds aside.

    If two runs contain the same seed, the one with the declared metrics is used, and of those
    the one with more seeds.
    """
    config = json.loads(json.dumps(task.config()))
    extra = measured(task)
    wanted = {name: v for name, v in config.items() if name not in (*BESIDE, *extra)}

    def fitness(run: Run) -> tuple[int, int]:
        own = task.completed(run.config)
        agree = sum(own[name] == config[name] for name in extra)
        return agree, len(run.config["seeds"])

    found: dict[int, Run] = {}
    for run in sorted(runs, key=fitness):
        own = task.completed(run.config)
        if all(own[name] == value for name, value in wanted.items()):
            found |= dict.fromkeys(run.config["seeds"], run)
    return found


def declare(test: Measurement, **words: Any) -> tuple[Measurement, Declared]:
    """A measurement and what is written down of it, of the same seeds, failures and tuning."""
    words |= {"seeds": tuple(test.task.seeds)}
    words["tuning"] = test.tuning.words if test.tuning else ""
    return test, Declared(failed=test.failed, **words)


# The time in which a learning curve comes down to a level that both runs of a pair reach.
#
# The first time near a run's own least value is no measure of it: the least of a noisy curve
# falls with the number of looks, so that longer runs seem to converge later, and what gets
# worse
# from the start seems to converge at once.


class Reached(NamedTuple):
    """The time at which a curve was at a level.

    Attributes:
        at: updates, or what was asked for; the end of the run where ``censored``.
        censored: whether the run ended above the level: all that is known is a lower bound.
    """

    at: float
    censored: bool


def falling(values: np.ndarray) -> np.ndarray:
    """The closest curve, by least squares, that never rises: the trend without the noise."""
    return isotonic_regression(values, increasing=False).x


def least(metric: str) -> Number:
    """The least of the trend of a metric: its last value, for a trend never rises."""
    return lambda metrics: float(falling(metrics[metric].to_numpy(float))[-1])


def time_to(metrics: pd.DataFrame, metric: str, level: float, of: str = "update") -> Reached:
    """The time at which the falling trend of a metric is first at ``level``.

    Between two looks the trend is a straight line.
    """
    at, trend = metrics[of].to_numpy(float), falling(metrics[metric].to_numpy(float))
    below = np.flatnonzero(trend <= level)
    if not len(below):
        return Reached(float(at[-1]), True)
    first = below[0]
    if first == 0:
        return Reached(float(at[0]), False)
    above, under = trend[first - 1], trend[first]
    part = (above - level) / (above - under)
    return Reached(float(at[first - 1] + part * (at[first] - at[first - 1])), False)


def common_level(frames: Sequence[pd.DataFrame], metric: str, share: float = 0.05) -> float:
    """A level that all of some runs reach: near the end of the one that ends highest.

    The end is the mean of the last quarter of a run; ``share`` of what that run fell, from
    where it began, stands above it.
    """
    ends = []
    for frame in frames:
        values = frame[metric].to_numpy(float)
        ends.append((values[-max(1, len(values) // 4) :].mean(), values[0]))
    end, start = max(ends)
    return float(end + share * max(start - end, 0.0))


LEVELS = 20
"""The number of levels at which trainings are compared where one is not enough."""
BEGUN = 0.1
"""The part of a training after which its level is one of those that are looked at."""


def common_levels(frames: Sequence[pd.DataFrame], metric: str) -> np.ndarray:
    """Levels (:data:`LEVELS`,) that all of some runs reach, at equal distances, falling.

    The first is where the highest trend is after a tenth of the updates, the last where the
    highest one ends. None of them is chosen by anybody.
    """
    begins, ends = [], []
    for frame in frames:
        at, trend = frame["update"].to_numpy(float), falling(frame[metric].to_numpy(float))
        begins.append(float(np.interp(BEGUN * at[-1], at, trend)))
        ends.append(float(trend[-1]))
    return np.linspace(max(begins), max(ends), LEVELS)


def over_levels(metric: str, of: str = "update") -> Numbers:
    """The mean over :func:`common_levels` of the logarithm of the time that each of some runs
    takes to a level.

    The difference of two is the logarithm of how many times as long the first takes, the
    geometric mean over levels.
    """

    return lambda frames: _to_levels(frames, metric, common_levels(frames, metric), of)


def over_levels_below(metric: str, start: float, of: str = "update") -> Numbers:
    """As :func:`over_levels`, for levels from ``start`` to where the lowest run ends.

    A run that ends above a level counts as if it were there at its end. Where no run reaches
    ``start`` there is no number.
    """

    def times(frames: Sequence[pd.DataFrame]) -> list[float]:
        end = min(float(falling(frame[metric].to_numpy(float))[-1]) for frame in frames)
        if end >= start:
            return [float("nan")] * len(frames)
        return _to_levels(frames, metric, np.linspace(start, end, LEVELS), of)

    return times


def _to_levels(
    frames: Sequence[pd.DataFrame], metric: str, levels: np.ndarray, of: str
) -> list[float]:
    """The mean over levels of the logarithm of the time that each run takes."""
    return [
        float(np.mean([np.log1p(time_to(frame, metric, level, of).at) for level in levels]))
        for frame in frames
    ]


def until(epochs: float, numbers: Numbers) -> Numbers:
    """The numbers of some runs as if each had ended after so many ``epochs``."""
    return lambda frames: numbers([frame.loc[frame.epoch <= epochs] for frame in frames])


def to_common_level(metric: str, of: str = "update"):
    """The logarithm of the time that each of some runs takes to the level that all reach.

    The difference of two is the logarithm of how many times as long the first takes.
    """

    def times(frames: Sequence[pd.DataFrame]) -> list[float]:
        level = common_level(frames, metric)
        return [float(np.log1p(time_to(frame, metric, level, of).at)) for frame in frames]

    return times


def to_own_level(metric: str) -> Numbers:
    """The logarithm of the time that each of some runs takes to the level of that run alone.

    It says when a curve comes to rest, not how soon it is at a loss; of runs that were looked
    at as often.
    """
    return lambda frames: [to_common_level(metric)([frame])[0] for frame in frames]


# The numbers of skip-thoughts' runs: what judges along a training say, and where nothing.


FALLS = ("_mse",)
HERE = {"sick": "relatedness", "mr": "opinion", "subj": "teller", "mpqa": "phrase"}
"""The judges that were made here when the runs of the stories were declared, by those in whose
place they stand; the one for CR, *customer*, came later, and no row has it."""
WORDS, TFIDF = "_words", "_tfidf"
"""The ends of a number that a bag of words has, and one whose rare words weigh more, measured
at the end of a run."""


def asked_vectors(metric: str, end: str) -> str:
    """The metric of the setting whose ids end so; empty where nothing stands in its place."""
    name, _, number = metric.partition("_")
    if end != "-stories":
        return metric
    return "_".join(filter(None, (HERE[name], number))) if name in HERE else ""


def fixed(end: str) -> float | None:
    """The C with which a setting reads what judges say along a training, as was declared; None:
    those that inner folds choose, at each point anew."""
    return 256.0 if end == "-stories" else None


def column(metrics: pd.DataFrame, metric: str, C: float | None = None) -> str:
    """The name under which a run has a metric.

    Args:
        C: one for all folds; runs of the first measure had 256 and no other. None: the one that
            inner folds choose, of a bag of words the one that is best for it; what no judge
            says, nats, has none.

    Raises:
        KeyError: if the run was not measured so.
    """
    if f"{metric}{BY}" in metrics:
        raise KeyError(f"the C of {metric} was chosen on the folds that are reported")
    names = [f"{metric}{BY}{C:g}", metric] if C else [metric + NESTED, metric + BEST, metric]
    found = [name for name in names if name in metrics]
    if not found:
        raise KeyError(f"{metric} was not measured so")
    return found[0]


def looked(metrics: pd.DataFrame, metric: str, C: float | None = None) -> pd.DataFrame:
    """The rows in which a metric was measured, under its own name.

    Args:
        C: as of :func:`column`.

    Raises:
        KeyError: as :func:`column`.
    """
    name = column(metrics, metric, C)
    there: Any = metrics[metrics[name].notna()]
    return there.assign(**{metric: there[name]})


def at(metric: str, place: int, C: float | None = None) -> NumberOfRuns:
    """A metric in one of the rows in which it was measured."""
    return lambda metrics: float(looked(metrics, metric, C)[metric].iloc[place])


def gained(metric: str) -> NumberOfRuns:
    """The mean of a metric over the updates of a run, less what it is before the first one."""
    whole = paired.along(metric)
    return lambda metrics: whole(metrics) - float(metrics[metric].iloc[0])


def readable(metric: str, number: NumberOfRuns, C: float | None = None) -> Numbers:
    """A number of each arm where the judge says something, infinity where it does not: where
    at the end no arm is above both the bag of words and its own untrained encoder.

    Args:
        C: as of :func:`column`.
    """
    sign = -1 if metric.endswith(FALLS) else 1

    def above(metrics: pd.DataFrame) -> bool:
        begins, ends = (sign * at(metric, place, C)(metrics) for place in (0, -1))
        return ends > max(begins, sign * at(metric + WORDS, -1, C)(metrics))

    def numbers(frames: Sequence[pd.DataFrame]) -> list[float]:
        if len({column(frame, metric, C) for frame in frames}) > 1:
            raise KeyError(f"{metric} was not measured in the same way in all of them")
        if not any(map(above, frames)):
            return [inf] * len(frames)
        return [number(looked(frame, metric, C)) for frame in frames]

    return numbers


def further(metrics: Sequence[str], C: float | None = None) -> NumberOfRuns:
    """Points that are still to be had after 1/1.7 of a run, averaged over all metrics, such
    that a gain is negative.

    Over all, whether or not they say something: whoever picks metrics by the very numbers that
    are subtracted finds a gain, or a loss, where there is none.
    """

    def of(frame: pd.DataFrame, metric: str) -> float:
        there = looked(frame, metric, C)
        updates = there["update"].to_numpy(float)
        place = int(abs(updates - updates[-1] / 1.7).argmin())
        values = there[metric].to_numpy(float)
        scale = (-1 if metric.endswith(FALLS) else 1) * (100 if "_" in metric else 1)
        return scale * (values[place] - values[-1])

    return lambda frame: sum(of(frame, metric) for metric in metrics) / len(metrics)


def mean(runs: Mapping[int, Run], number: NumberOfRuns) -> float:
    """The mean of a number over seeds, to three digits that count."""
    values = paired.numbers(runs, number).values()
    return float(f"{sum(values) / len(values):.3g}")


def way(runs: Mapping[int, Run], metric: str, C: float | None = None) -> str:
    """The mean of a metric before the first update and at the end, C as of :func:`column`."""
    first, last = (mean(runs, at(metric, place, C)) for place in (0, -1))
    return f"{first}\N{NO-BREAK SPACE}→\N{NO-BREAK SPACE}{last}"
