"""The evidence: the kept runs that a comparison selects, and the numbers read of them."""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np
import pandas as pd

from lnlab.papers import EXPERIMENTS
from lnlab.papers.claims import measures
from lnlab.papers.claims.entries import CONDITION, Comparison, parse_call
from lnlab.papers.claims.judge import Decision, judge_differences, judge_which_arm_learns
from lnlab.training.experiment import experiment_fields
from lnlab.training.runs import Run

OPERATIONAL = ("seeds", "device", "precision")
"""Fields of a configuration in which compared runs may differ beside arm and rate."""

ArmsByPairs = np.ndarray
"""A number for each arm and pair (arms, pairs)."""

RunsToAverage = list[Run]
"""The runs of one arm and seed, one for each combination of ``averaged_over``."""


class RunSelector:
    """Finished runs of all experiments, selected by the fields of their configurations."""

    def __init__(self, runs: Iterable[Run]) -> None:
        self._by_experiment: dict[str, list[Run]] = defaultdict(list)
        for run in runs:
            if run.done:
                self._by_experiment[run.task].append(run)
        self._configs: dict[tuple[str, str], dict[str, Any]] = {}
        self._frames: dict[tuple[str, str], pd.DataFrame] = {}

    def config_with_defaults_and_checksum(self, run: Run) -> dict[str, Any]:
        """Return the configuration of a run with every field, and the checksum of its data."""
        key = run.task, run.key
        if key not in self._configs:
            full = EXPERIMENTS[run.task].config_with_defaults(run.config)
            self._configs[key] = full | {"checksum": run.data["checksum"][:6]}
        return self._configs[key]

    def metrics_of_seed(self, run: Run, seed: int) -> pd.DataFrame:
        """Return the metrics of one seed of a run."""
        key = run.task, run.key
        if key not in self._frames:
            self._frames[key] = run.evaluations()
        return self._frames[key].loc[self._frames[key]["seed"] == seed]

    def select_run(self, experiment: str, wanted_fields: Mapping[str, Any], seed: int) -> Run:
        """Return the one run with these fields and this seed.

        A run that another one repeats with more seeds is passed over.

        Raises:
            ValueError: if there is none, or more than one.
        """
        if unknown := [
            name for name in wanted_fields if name not in self.selectable_fields(experiment)
        ]:
            raise ValueError(f"experiment {experiment} has no fields {unknown}")
        selected = [
            run
            for run in self._by_experiment[experiment]
            if seed in run.config["seeds"]
            and all(
                self.config_with_defaults_and_checksum(run)[name] == value
                for name, value in wanted_fields.items()
            )
        ]
        selected.sort(key=lambda run: -len(run.config["seeds"]))
        if len({self._config_text_without_operational_fields(run) for run in selected}) != 1:
            keys = ", ".join(run.key for run in selected) or "none"
            raise ValueError(
                f"runs with seed {seed} and {dict(wanted_fields)}: {keys}; one is needed"
            )
        return selected[0]

    def _config_text_without_operational_fields(self, run: Run) -> str:
        fields = self.config_with_defaults_and_checksum(run).items()
        return repr(sorted((name, x) for name, x in fields if name not in OPERATIONAL))

    @staticmethod
    def selectable_fields(experiment: str) -> list[str]:
        """Return the fields that runs of an experiment are selected by."""
        return [*experiment_fields(EXPERIMENTS[experiment]), "checksum"]


class PairedRuns:
    """The runs and the numbers of one comparison, and what follows from them."""

    def __init__(self, comparison: Comparison, runs: RunSelector) -> None:
        self.comparison, self._runs = comparison, runs

    @cached_property
    def runs_by_block_seed_and_arm(self) -> list[list[list[RunsToAverage]]]:
        """The runs by block, seed, arm and value of ``averaged_over``.

        Raises:
            ValueError: if they differ in anything but arm, seed and rate.
        """
        comparison = self.comparison
        chosen = []
        for block in _cartesian_product(comparison.interval_blocks):
            per_seed = []
            for index, seed in enumerate(comparison.seeds):
                extra = {
                    name: values[index]
                    for name, values in comparison.field_values_per_seed.items()
                }
                per_seed.append(
                    [
                        [
                            self._runs.select_run(
                                comparison.experiment, {**fields, **more}, seed
                            )
                            for more in _cartesian_product(comparison.averaged_over)
                        ]
                        for fields in self._arm_configs(
                            {**comparison.common_config, **block, **extra}
                        )
                    ]
                )
            chosen.append(per_seed)
        self._check_only_free_fields_differ(
            [run for one in chosen for s in one for arm in s for run in arm]
        )
        return chosen

    @property
    def distinct_runs(self) -> list[Run]:
        """All runs of the comparison, each once."""
        return list(
            dict.fromkeys(
                r for b in self.runs_by_block_seed_and_arm for s in b for arm in s for r in arm
            )
        )

    def _arm_configs(self, common_config: Mapping[str, Any]) -> list[dict[str, Any]]:
        rates = self.comparison.learning_rates or [None] * len(self.comparison.arms)
        return [
            {**common_config, **arm, **({} if rate is None else {"learning_rate": rate})}
            for arm, rate in zip(self.comparison.arms, rates, strict=True)
        ]

    def _check_only_free_fields_differ(self, runs: Sequence[Run]) -> None:
        comparison = self.comparison
        measured = experiment_fields(EXPERIMENTS[comparison.experiment])
        free = {
            *OPERATIONAL, "learning_rate", *(name for arm in comparison.arms for name in arm),
            *comparison.averaged_over, *comparison.interval_blocks,
            *comparison.field_values_per_seed,
            *(name for name, field in measured.items() if field.constraints.get("measured")),
        }  # fmt: skip
        if (
            comparison.interval_blocks or comparison.field_values_per_seed
        ):  # a split is data of its own
            free.add("checksum")
        configs = [self._runs.config_with_defaults_and_checksum(run) for run in runs]
        for name, value in configs[0].items():
            if name not in free and any(config[name] != value for config in configs):
                raise ValueError(f"the runs differ in {name}: select them by it")

    @cached_property
    def log_or_scaled_measurements(self) -> ArmsByPairs:
        """The number of each arm, by seed or block; its logarithm if ratios are compared."""
        comparison = self.comparison
        blocks = []
        for block in self.runs_by_block_seed_and_arm:
            by_seed = [
                measure_each_arm(comparison.measure_per_arm, self._metrics_by_arm(arms, seed))
                for arms, seed in zip(block, comparison.seeds, strict=True)
            ]
            numbers = np.array(by_seed).T
            blocks.append(
                np.log(numbers)
                if comparison.effect_type == "ratio"
                else numbers * comparison.difference_multiplier
            )
        return (
            np.stack([one.mean(1) for one in blocks], 1)
            if comparison.interval_blocks
            else blocks[0]
        )

    def _metrics_by_arm(
        self, runs_by_arm: list[RunsToAverage], seed: int
    ) -> list[list[pd.DataFrame]]:
        return [[self._runs.metrics_of_seed(run, seed) for run in arm] for arm in runs_by_arm]

    @cached_property
    def pair_log_ratios_or_differences(self) -> list[float]:
        """The effect of each pair: a difference, or the logarithm of a ratio."""
        comparison = self.comparison
        if comparison.effects_of_unkept_runs:
            return list(comparison.effects_of_unkept_runs)
        first, *others = self.log_or_scaled_measurements
        if len(others) == 3:
            first, others = first - others[0], [others[1] - others[2]]
        elif len(others) > 1:
            others = [
                (np.max if comparison.claimed_relation == "more" else np.min)(others, axis=0)
            ]
        effects = first - others[0] if others else first
        return [float(effect) for effect in effects]

    @cached_property
    def reference_log_ratio_or_difference(self) -> float:
        """The effect that the estimate is held against: 0 unless the entry says otherwise."""
        expect = self.comparison.reference_effect
        if expect is None:
            return 0.0
        return math.log(expect) if self.comparison.effect_type == "ratio" else expect

    @cached_property
    def learned_by_arm_and_seed(self) -> list[list[bool]]:
        """True per arm and seed that learned; empty where the entry does not ask."""
        comparison = self.comparison
        if not comparison.learned_condition:
            return []
        match = CONDITION.fullmatch(comparison.learned_condition)
        if not match:
            raise ValueError(
                f"learned is {comparison.learned_condition!r}: write measure(metric) < number"
            )
        name, sign, bound = match.groups()
        shown = []
        for block in self.runs_by_block_seed_and_arm:
            for arms, seed in zip(block, comparison.seeds, strict=True):
                numbers = measure_each_arm(
                    [name] * len(comparison.arms), self._metrics_by_arm(arms, seed)
                )
                shown.append(
                    [x < float(bound) if sign == "<" else x > float(bound) for x in numbers]
                )
        return [list(arm) for arm in zip(*shown, strict=True)]

    @cached_property
    def log_ratio_or_difference_threshold(self) -> float:
        """The smallest effect that matters, in the unit of the values."""
        comparison = self.comparison
        return (
            -math.log1p(-comparison.smallest_relevant_effect)
            if comparison.effect_type == "ratio"
            else comparison.smallest_relevant_effect
        )

    @cached_property
    def decision(self) -> Decision:
        """The outcome."""
        comparison, learned = self.comparison, self.learned_by_arm_and_seed
        if learned and not all(all(arm) for arm in learned):
            return judge_which_arm_learns(learned[0], learned[1])
        values = [
            effect - self.reference_log_ratio_or_difference
            for effect in self.pair_log_ratios_or_differences
        ]
        return judge_differences(
            values,
            self.log_ratio_or_difference_threshold,
            comparison.claimed_relation,
            comparison.test_to_train_ratio,
        )


def _cartesian_product(values_by_name: Mapping[str, Sequence[Any]]) -> list[dict[str, Any]]:
    return [
        dict(zip(values_by_name, values, strict=True))
        for values in product(*values_by_name.values())
    ]


def measure_each_arm(
    measure_calls: Sequence[str], frames_by_arm: Sequence[Sequence[pd.DataFrame]]
) -> list[float]:
    """Return a number per arm: the measure of each, and the mean over several runs of one."""
    name, arguments = parse_call(measure_calls[0])
    if name in measures.TOGETHER:
        pairs = [frames_by_arm[start : start + 2] for start in range(0, len(frames_by_arm), 2)]
        together = measures.TOGETHER[name]
        return [x for pair in pairs for x in together([arm[0] for arm in pair], *arguments)]
    numbers = []
    for text, arm in zip(measure_calls, frames_by_arm, strict=True):
        name, arguments = parse_call(text)
        if name in measures.OVER:
            numbers.append(measures.OVER[name](arm, *arguments))
        elif name in measures.OF_ONE:
            numbers.append(float(np.mean([measures.OF_ONE[name](f, *arguments) for f in arm])))
        else:
            raise ValueError(f"measure {name!r} is unknown")
    return numbers
