"""The judged claims: what :func:`lnlab.claims` shows, as a table, a page or JSON.

Judging takes a minute, so its outcome is kept in ``results/claims.json``, with a hash of all
that it follows from: the kept runs, the entries and the code of this folder.
"""

import hashlib
import json
import math
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scipy import stats

from lnlab.papers.claims import wording
from lnlab.papers.claims.entries import (
    AFTER,
    DRAWN,
    NEAR,
    Comparison,
    Statement,
    load_statements,
)
from lnlab.papers.claims.judge import (
    CONTRADICTED,
    MIXED,
    NOT_TESTED,
    OPPOSITE,
    SUPPORTED,
    Decision,
    holm_adjusted_p_by_p_value,
    is_mixed,
)
from lnlab.paths import folder_in_checkout_or_cwd
from lnlab.seeds import format_seeds
from lnlab.training.runs import KEPT, write_file

if TYPE_CHECKING:
    from lnlab.papers.claims.pairs import RunSelector
    from lnlab.training.experiment import Experiment
    from lnlab.training.runs import Run

ROOT = folder_in_checkout_or_cwd("results")
NAME = "claims.json"
OVERLAP = (
    "The splits of the examples overlap, so the interval is wider than that of independent "
    "seeds (Nadeau and Bengio, 2003)."
)

Record = dict[str, Any]


def hash_kept_runs_and_claims(root: Path = ROOT) -> str:
    """Return the hash of what the judged claims follow from."""
    here = Path(__file__).parent
    paths = [*root.glob(f"*{KEPT}"), *here.glob("*.toml"), *here.glob("*.py")]
    total = hashlib.sha256()
    for path in sorted(paths, key=lambda path: path.name):
        total.update(f"{path.name} {hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode())
    return total.hexdigest()


def load_or_judge_records(root: Path = ROOT) -> list[Record]:
    """Return a record of each claim, in the order of the files: kept ones if they are current.

    A record has id, paper, source, theme, quote, says, word, verdict, size, effect, interval,
    unit, q, n, setting, nearness, declared, command, and ``settings``, a record of each.
    """
    path = root / NAME
    if path.exists():
        try:
            kept = json.loads(path.read_text(encoding="utf-8"))
        except ValueError as error:
            raise ValueError(
                f"{path} is damaged ({error}): `lnlab claims judge` writes it again."
            ) from error
        if kept["source"] == hash_kept_runs_and_claims(root):
            return kept["claims"]
    return judge_statements(root)


def judge_and_save_records(root: Path = ROOT) -> Path:
    """Judge all claims and keep the records beside the runs."""
    text = json.dumps(
        {"source": hash_kept_runs_and_claims(root), "claims": judge_statements(root)},
        indent=1,
        ensure_ascii=False,
    )
    write_file(root / NAME, (text + "\n").encode())
    return root / NAME


def judge_statements(
    root: Path = ROOT, statements: Iterable[Statement] | None = None
) -> list[Record]:
    """Judge claims by the kept runs under a root.

    Raises:
        ValueError: for an entry that cannot be judged; names it, and the setting.
    """
    from lnlab.papers.claims.pairs import RunSelector
    from lnlab.training.runs import read

    runs = RunSelector(read([root]))
    records = [
        _judge_statement(one, runs)
        for one in (load_statements() if statements is None else statements)
    ]
    tested = [one for one in records if one["p"] is not None and one["declared"] != AFTER]
    if tested:
        for one, q in zip(
            tested, stats.false_discovery_control([one["p"] for one in tested]), strict=True
        ):
            one["q"] = float(f"{q:.3g}")
    return records


def _judge_statement(statement: Statement, runs: "RunSelector") -> Record:
    record: Record = {
        "id": statement.id, "paper": statement.paper, "source": statement.place_in_paper,
        "theme": statement.theme, "quote": statement.quote, "says": statement.says,
        "word": NOT_TESTED, "verdict": NOT_TESTED, "size": "", "effect": "", "interval": None,
        "unit": "", "axis": None, "p": None, "q": None, "n": 0, "setting": "", "nearness": "",
        "declared": "", "command": "", "note": statement.note, "values": [], "seeds": [],
        "settings": [],
    }  # fmt: skip
    if statement.needed_to_test:
        return record | {"effect": f"needs {statement.needed_to_test}"}
    if not statement.settings:
        from lnlab.papers.claims import equations

        word, effect = equations.judge_formula(statement)
        code = (
            f"from {equations.__name__} import print_check_value_per_draw; "
            f'print_check_value_per_draw("{statement.id}")'
        )
        command = shlex.join(["python", "-c", code])
        if re.match("[a-z]{2}", effect):  # not a formula: "m/(m-1) times ..."
            effect = effect[0].upper() + effect[1:]
        n = len(equations.DRAWS) if statement.checked_inputs == DRAWN else 1
        outcome = {"word": word, "verdict": word, "effect": effect, "n": n}
        return record | outcome | {"setting": statement.checked_inputs, "command": command}
    judged = [(one, *_judge_comparison(statement, one, runs)) for one in statement.settings]
    record["settings"] = [setting for _, _, setting in judged]
    for one, _, setting in judged:
        setting["older"] = any(
            _replaces_comparison_of_unkept_runs(other, one) for other in statement.settings
        )
    asked = [one for one in judged if not one[0].other_question]
    tested = [one for one in asked if one[1].verdict_without_size != NOT_TESTED] or asked
    headline, decision, setting = min(
        tested, key=lambda one: statement.headline_sort_key(one[0])
    )
    others = [one for one in judged if one[0] is not headline]
    near = [one for one in others if _is_as_near(one[0], headline)]
    same = [d for _, d, _ in near]
    rest = [d for s, d, _ in others if not _is_as_near(s, headline)]
    counted = [d for _, d, setting in near if not setting["older"]]
    every = [decision, *same, *rest]
    record |= {name: value for name, value in setting.items() if name != "name"}
    record["setting"], setting["headline"] = setting["name"], True
    record["shown"] = _describe_headline_choice(headline, [one for one, _, _ in tested])
    record["effect"] += wording.describe_claimed_value_or_margin(
        headline, decision, record["bound"]
    )
    contrary = [
        one
        for one in others
        if one[1].verdict_without_size == OPPOSITE.get(decision.verdict_without_size)
        and not one[0].other_question
    ]
    nearest = [one for one in contrary if _is_as_near(one[0], headline)]
    if headline.effects_of_unkept_runs:
        record["effect"] += "; its runs are not kept"
    if is_mixed(decision, same, rest):
        _, against, other = min(nearest, key=lambda one: statement.headline_sort_key(one[0]))
        one, opposite = ("for", "against")[
            :: 1 if decision.verdict_without_size == SUPPORTED else -1
        ]
        effect = (
            f"{one}, in “{setting['name']}”: {record['effect']}; "
            f"{opposite}, in “{other['name']}”: {other['effect']}"
        )
        why = f"another setting says the opposite, with {_describe_adjusted_p(against, every)}"
        record |= {"word": MIXED, "verdict": MIXED, "size": "", "effect": effect, "why": why}
    else:
        record["effect"] += _describe_dissenting_settings(decision, counted)
    if nearest and record["word"] != MIXED:
        reasons = "; ".join(_describe_adjusted_p(one, every) for _, one, _ in nearest)
        record["contrary"] = f"not “mixed”, as the opposite has {reasons}"
    notes = [statement.note, headline.note, OVERLAP if headline.test_to_train_ratio else ""]
    if headline.effects_of_unkept_runs:
        notes.append(
            "The runs of the result shown first are not kept; values are from commit "
            f"{headline.unkept_effects_commit}."
        )
    record["note"] = " ".join(filter(None, notes))
    if headline.name in statement.appended_questions:
        record["effect"] = f"{headline.name}: {record['effect']}"
    record["several"] = bool(statement.appended_questions)
    for name in statement.appended_questions:
        answers = [one for one in judged if name == (one[0].other_question or one[0].name)]
        tested = [one for one in answers if one[1].verdict_without_size != NOT_TESTED]
        answer = NOT_TESTED  # nothing learned
        if tested:
            _, _, one = min(tested, key=lambda one: statement.headline_sort_key(one[0]))
            answer = f"{one['verdict']}, {one['effect']}"
        record["effect"] += f"; {name}: {answer}"
    return record


def _is_as_near(one: Comparison, headline: Comparison) -> bool:
    """Return True if a setting asks the headline's question, on data as near to the paper.

    One whose learning rates were chosen in another way counts as near.
    """
    rates = one.learning_rates_tuned_on, headline.learning_rates_tuned_on
    rank = [*NEAR].index
    near = rank(one.nearness) <= rank(headline.nearness) or (all(rates) and len({*rates}) > 1)
    return near and not one.other_question


def _replaces_comparison_of_unkept_runs(new: Comparison, old: Comparison) -> bool:
    """Return True if a setting repeats one whose runs are not kept, with the same seeds."""
    alike = (
        new.other_question == old.other_question
        and new.seeds == old.seeds
        and old.name.startswith(new.name)
    )
    return bool(old.effects_of_unkept_runs) and not new.effects_of_unkept_runs and alike


def _describe_dissenting_settings(shown: Decision, same: Sequence[Decision]) -> str:
    """Return how many other settings, as near to the paper, have another word that decides."""
    tested = [
        one.verdict_without_size for one in same if one.verdict_without_size != NOT_TESTED
    ]
    verbs = {SUPPORTED: "supports", CONTRADICTED: "contradicts"}
    said = []
    for word, verb in verbs.items():
        if word != shown.verdict_without_size and (n := tested.count(word)):
            said.append(f"{n} {verb if n == 1 else verb[:-1]} it")
    if not said:
        return ""
    if len(tested) == 1:
        return f"; the one other setting as near {said[0].partition(' ')[2]}"
    return f"; of {len(tested)} other settings as near, {' and '.join(said)}"


def _describe_headline_choice(headline: Comparison, tested: Sequence[Comparison]) -> str:
    """Return which step of :meth:`Statement.headline_sort_key` left the headline alone."""
    rates = {
        "validation": "chosen on held-out examples",
        "training": "chosen on the training loss",
    }
    reasons = (
        "it is the nearest to the paper",
        "in it each side has its best learning rate, "
        f"{rates.get(headline.learning_rates_tuned_on)}",
        f"it has the most seeds ({len(headline.seeds)})",
        "it was declared before its runs",
        "it comes first in the file of the claims",
    )
    equals = (
        "",
        "as near to the paper",
        "as near to the paper and with rates chosen alike",
        "as near to the paper, with rates chosen alike and as many seeds",
        "as near to the paper, with rates chosen alike and as many seeds",
    )
    best = Statement.headline_sort_key(headline)
    for step, (reason, alike) in enumerate(zip(reasons, equals, strict=True)):
        equal = [
            one for one in tested if Statement.headline_sort_key(one)[:step] == best[:step]
        ]
        left = [
            one
            for one in equal
            if Statement.headline_sort_key(one)[: step + 1] == best[: step + 1]
        ]
        if len(equal) > 1 and (len(left) == 1 or reason == reasons[-1]):
            return f"of {len(equal)} settings {alike}, {reason}" if alike else reason
    return ""


def _name_data(comparison: Comparison) -> str:
    first = comparison.name.partition(",")[0]
    return first if comparison.data_name in first else comparison.data_name


def _describe_adjusted_p(decision: Decision, every: Sequence[Decision]) -> str:
    """Return how Holm's correction changes the p value of a setting."""
    adjusted = holm_adjusted_p_by_p_value(every)[decision.p_value]
    tests = sum(one.p_value is not None for one in every)
    return (
        f"p = {decision.p_value:.2g} ({adjusted:.2g} after Holm's "
        f"correction for the {tests} comparisons of this statement)"
    )


def _judge_comparison(
    statement: Statement, comparison: Comparison, runs: "RunSelector"
) -> tuple[Decision, Record]:
    from lnlab.papers.claims.pairs import PairedRuns

    evidence = PairedRuns(comparison, runs)
    try:
        decision = evidence.decision
        effects = evidence.pair_log_ratios_or_differences
        command = (
            ""
            if comparison.effects_of_unkept_runs
            else format_training_commands(evidence.distinct_runs)
        )
        levels = used = ""
        if not comparison.effects_of_unkept_runs:
            used = wording.describe_cifar10_images_and_epochs(
                [runs.config_with_defaults_and_checksum(run) for run in evidence.distinct_runs]
            )
            levels = (
                ""
                if decision.learned_counts
                else wording.describe_arm_means(comparison, evidence.log_or_scaled_measurements)
            )
    except (ValueError, KeyError) as error:
        raise ValueError(f"{statement.id}, {comparison.name}: {error}") from error
    expected, matters = (
        evidence.reference_log_ratio_or_difference,
        evidence.log_ratio_or_difference_threshold,
    )
    ends = None
    if decision.interval_low is not None and decision.interval_high is not None:
        ends = decision.interval_low + expected, decision.interval_high + expected
    estimate = sum(effects) / len(effects)
    sign = -1 if comparison.claimed_relation in ("less", "not more") else 1
    verdict = decision.verdict_with_effect_size_caveat
    if decision.verdict_without_size == NOT_TESTED:
        verdict = "not tested: nothing learned"
    elif comparison.nearness == "other data" and decision.verdict_without_size in OPPOSITE:
        verdict = (
            f"{decision.verdict_without_size} on {comparison.data_name}"
            f"{decision.effect_size_caveat}"
        )
    effect = wording.describe_effect(comparison, estimate, ends)
    read = wording.describe_measure(comparison)
    if decision.learned_counts:
        effect = wording.describe_learned_counts(
            comparison, decision.learned_counts, len(evidence.learned_by_arm_and_seed[0])
        )
        ends, read = None, "the shares of networks that learned, as not all did"
    effect += wording.explain_missing_verdict(comparison, decision)
    claimed = ""
    if comparison.other_question:
        claimed = wording.describe_claimed_relation(
            comparison, any(decision.learned_counts or ())
        )
    change = "% change of " if comparison.effect_type == "ratio" else ""
    record: Record = {
        "name": wording.name_setting(comparison), "word": decision.verdict_without_size,
        "verdict": verdict, "size": decision.effect_size_class, "effect": effect,
        "interval": ends and [wording.convert_to_percent_if_ratio(comparison,
        end) for end in ends],
        "unit": f"{change}{comparison.quantity_and_unit}", "axis": None,
        "p": decision.p_value and float(f"{decision.p_value:.3g}"), "n": decision.num_pairs,
        "claims": comparison.claimed_relation, "pairs": comparison.pair_unit_name,
        "expected": comparison.reference_effect, "bound": matters,
        "why": wording.explain_decision(comparison, decision, matters), "used": used,
        "levels": levels, "data": _name_data(comparison),
        "quantity": wording.name_quantity_without_unit(comparison), "read": read,
        "shares": bool(decision.learned_counts), "nearness": NEAR[comparison.nearness],
        "declared": comparison.declared_in_commit, "asks": comparison.other_question,
        "claimed": claimed, "compared": wording.name_quantity_and_sides(comparison),
        "command": command, "note": comparison.note,
        "learned": wording.describe_learned_condition(comparison.learned_condition),
        "kept": not comparison.effects_of_unkept_runs,
        "numbers_from": comparison.unkept_effects_commit,
        "tuned_on": comparison.learning_rates_tuned_on,
        "matters": wording.describe_smallest_effect_with_reason(comparison),
        "values": [  # None where a training diverged, as NaN is no JSON
            wording.convert_to_percent_if_ratio(comparison, one) if math.isfinite(one) else None
            for one in effects
        ],
        "seeds": list(comparison.seeds),
    }  # fmt: skip
    if ends:
        at = sorted(sign * (end - expected) / matters for end in ends)
        middle = sign * (estimate - expected) / matters
        record["axis"] = [round(x, 4) for x in (middle, *at)]
    return decision, record


# the commands that train runs again


def format_training_commands(runs: "Iterable[Run]") -> str:
    """Return the shell commands that train runs, the nearest of the budgets first."""
    from lnlab.papers import EXPERIMENTS

    seeds: dict[Any, list[int]] = {}
    for run in runs:  # runs that differ in their seeds alone are one
        experiment = EXPERIMENTS[run.task].from_config_ignoring_unknown(run.config)
        one = seeds.setdefault(replace(experiment, seeds=(0,)), [])
        one += [seed for seed in experiment.seeds if seed not in one]
    runs = [replace(one, seeds=tuple(numbers)) for one, numbers in seeds.items()]
    commands = [_training_command_words(one) for one in runs]
    return shell_loop_if_grid(commands) or " && ".join(map(shlex.join, commands))


def shell_loop_if_grid(commands: Sequence[Sequence[str]]) -> str:
    """Return a shell loop that runs four or more commands, "" unless they make up a grid."""
    columns = [list(dict.fromkeys(words)) for words in zip(*commands, strict=False)]
    varied = [words for words in columns if len(words) > 1]
    count = math.prod(map(len, varied))
    if len({*map(len, commands)}) > 1 or not 4 <= len(commands) == count:
        return ""
    begin = body = ""
    for words in columns:
        name = words[0].partition("=")[0]
        if len(words) > 1:
            values = shlex.join(word.partition("=")[2] for word in words)
            begin += f"for {name} in {values}; do "
            body += f' {name}="${name}"'
        else:
            body += f" {shlex.quote(words[0])}"
    return f"{begin}{body.strip()}; {'; '.join(['done'] * len(varied))}"


def _training_command_words(experiment: "Experiment") -> list[str]:
    config = experiment.config()
    budgets = _budget_configs(type(experiment), config["batch_size"])
    changes = {
        name: [key for key in {**config, **budget} if budget.get(key) != config.get(key)]
        for name, budget in budgets.items()
    }
    budget = min(changes, key=lambda name: len(changes[name]))
    words = ["lnlab", "train", experiment.name, "--budget", budget]
    for key in dict.fromkeys(["norm", *changes[budget], "batch_size"]):
        # a field at its default is not in the configuration
        value = config.get(key, getattr(experiment, key))
        words += ["--set", f"{key}={_format_command_value(key, value)}"]
    return words


@cache
def _budget_configs(
    experiment_type: "type[Experiment]", batch_size: int
) -> dict[str, Mapping[str, Any]]:
    names = ("paper", "notebook")
    return {
        name: experiment_type.budget(name, batch_size=batch_size).config() for name in names
    }


def _format_command_value(key: str, value: Any) -> str:
    if key == "seeds":
        return format_seeds(value)
    return ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
