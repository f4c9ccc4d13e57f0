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
from typing import Any

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
    adjusted_p_by_p,
    is_mixed,
)
from lnlab.paths import place
from lnlab.seeds import write_seeds
from lnlab.training.runs import KEPT, write_file

ROOT = place("results")
NAME = "claims.json"
OVERLAP = (
    "The splits of the examples overlap, so the interval is wider than that of independent "
    "seeds (Nadeau and Bengio, 2003)."
)

Record = dict[str, Any]


def source_hash(root: Path = ROOT) -> str:
    """Return the hash of what the judged claims follow from."""
    here = Path(__file__).parent
    paths = [*root.glob(f"*{KEPT}"), *here.glob("*.toml"), *here.glob("*.py")]
    total = hashlib.sha256()
    for path in sorted(paths, key=lambda path: path.name):
        total.update(f"{path.name} {hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode())
    return total.hexdigest()


def load_records(root: Path = ROOT) -> list[Record]:
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
        if kept["source"] == source_hash(root):
            return kept["claims"]
    return judge_all(root)


def save_records(root: Path = ROOT) -> Path:
    """Judge all claims and keep the records beside the runs."""
    text = json.dumps(
        {"source": source_hash(root), "claims": judge_all(root)}, indent=1, ensure_ascii=False
    )
    write_file(root / NAME, (text + "\n").encode())
    return root / NAME


def judge_all(root: Path = ROOT, statements: Iterable[Statement] | None = None) -> list[Record]:
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


def _judge_statement(claim: Statement, runs: Any) -> Record:
    record: Record = {
        "id": claim.id, "paper": claim.paper, "source": claim.source, "theme": claim.theme,
        "quote": claim.quote, "says": claim.says, "word": NOT_TESTED, "verdict": NOT_TESTED,
        "size": "", "effect": "", "interval": None, "unit": "", "axis": None, "p": None,
        "q": None, "n": 0, "setting": "", "nearness": "", "declared": "", "command": "",
        "note": claim.note, "values": [], "seeds": [], "settings": [],
    }  # fmt: skip
    if claim.needs:
        return record | {"effect": f"needs {claim.needs}"}
    if not claim.settings:
        from lnlab.papers.claims import equations

        word, effect = equations.judge_formula(claim)
        code = f'from {equations.__name__} import print_draws; print_draws("{claim.id}")'
        command = shlex.join(["python", "-c", code])
        if re.match("[a-z]{2}", effect):  # not a formula: "m/(m-1) times ..."
            effect = effect[0].upper() + effect[1:]
        n = len(equations.DRAWS) if claim.checked == DRAWN else 1
        outcome = {"word": word, "verdict": word, "effect": effect, "n": n}
        return record | outcome | {"setting": claim.checked, "command": command}
    judged = [(one, *_judge_comparison(claim, one, runs)) for one in claim.settings]
    record["settings"] = [setting for _, _, setting in judged]
    for one, _, setting in judged:
        setting["older"] = any(_replaces_unkept_setting(other, one) for other in claim.settings)
    asked = [one for one in judged if not one[0].asks]
    tested = [one for one in asked if one[1].word != NOT_TESTED] or asked
    headline, decision, setting = min(tested, key=lambda one: claim.headline_rank(one[0]))
    others = [one for one in judged if one[0] is not headline]
    rank = [*NEAR].index
    same, rest = [], []
    for s, d, _ in others:
        # rates chosen in another way are always the same question
        chosen = s.tuned_on and headline.tuned_on and s.tuned_on != headline.tuned_on
        near = rank(s.near) <= rank(headline.near) or chosen
        (same if near and not s.asks else rest).append(d)
    counted = [d for _, d, setting in others if d in same and not setting["older"]]
    every = [decision, *same, *rest]
    record |= {name: value for name, value in setting.items() if name != "name"}
    record["setting"], setting["headline"] = setting["name"], True
    record["shown"] = _headline_reason(headline, [one for one, _, _ in tested])
    record["effect"] += wording.describe_bound(headline, decision, record["bound"])
    contrary = [
        one for one in others if one[1].word == OPPOSITE.get(decision.word) and not one[0].asks
    ]
    nearest = [one for one in contrary if one[1] in same]
    if headline.numbers:
        record["effect"] += "; its runs are not kept"
    if is_mixed(decision, same, rest):
        _, against, other = min(nearest, key=lambda one: claim.headline_rank(one[0]))
        one, opposite = ("for", "against")[:: 1 if decision.word == SUPPORTED else -1]
        effect = (
            f"{one}: {record['effect']}; {opposite}, in “{other['name']}”: {other['effect']}"
        )
        why = f"another setting says the opposite, with {_describe_adjusted_p(against, every)}"
        record |= {"word": MIXED, "verdict": MIXED, "size": "", "effect": effect, "why": why}
    else:
        record["effect"] += _describe_dissenting_settings(decision, counted)
    if nearest and record["word"] != MIXED:
        reasons = "; ".join(_describe_adjusted_p(one, every) for _, one, _ in nearest)
        record["contrary"] = f"not “mixed”, as the opposite has {reasons}"
    notes = [claim.note, headline.note, OVERLAP if headline.shared else ""]
    if headline.numbers:
        notes.append(f"The runs are not kept; values are from commit {headline.numbers_from}.")
    record["note"] = " ".join(filter(None, notes))
    if headline.name in claim.parts:
        record["effect"] = f"{headline.name}: {record['effect']}"
    record["several"] = bool(claim.parts)
    for name in claim.parts:
        answers = [one for one in judged if name == (one[0].asks or one[0].name)]
        tested = [one for one in answers if one[1].word != NOT_TESTED]
        answer = NOT_TESTED  # nothing learned
        if tested:
            _, _, one = min(tested, key=lambda one: claim.headline_rank(one[0]))
            answer = f"{one['verdict']}, {one['effect']}"
        record["effect"] += f"; {name}: {answer}"
    return record


def _replaces_unkept_setting(new: Comparison, old: Comparison) -> bool:
    """Return True if a setting repeats one whose runs are not kept, with the same seeds."""
    alike = new.asks == old.asks and new.seeds == old.seeds and old.name.startswith(new.name)
    return bool(old.numbers) and not new.numbers and alike


def _describe_dissenting_settings(shown: Decision, same: Sequence[Decision]) -> str:
    """Return how many other settings, as near to the paper, have another word that decides."""
    tested = [one.word for one in same if one.word != NOT_TESTED]
    verbs = {SUPPORTED: "supports", CONTRADICTED: "contradicts"}
    said = []
    for word, verb in verbs.items():
        if word != shown.word and (n := tested.count(word)):
            said.append(f"{n} {verb if n == 1 else verb[:-1]} it")
    if not said:
        return ""
    if len(tested) == 1:
        return f"; the one other setting as near {said[0].partition(' ')[2]}"
    return f"; of {len(tested)} other settings as near, {' and '.join(said)}"


def _headline_reason(headline: Comparison, tested: Sequence[Comparison]) -> str:
    """Return which step of :meth:`Statement.headline_rank` left the headline alone."""
    rates = {
        "validation": "chosen on held-out examples",
        "training": "chosen on the training loss",
    }
    reasons = (
        "it is the nearest to the paper",
        f"in it each side has its best learning rate, {rates.get(headline.tuned_on)}",
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
    best = Statement.headline_rank(headline)
    for step, (reason, alike) in enumerate(zip(reasons, equals, strict=True)):
        equal = [one for one in tested if Statement.headline_rank(one)[:step] == best[:step]]
        left = [
            one for one in equal if Statement.headline_rank(one)[: step + 1] == best[: step + 1]
        ]
        if len(equal) > 1 and (len(left) == 1 or reason == reasons[-1]):
            return f"of {len(equal)} settings {alike}, {reason}" if alike else reason
    return ""


def _name_data(comparison: Comparison) -> str:
    first = comparison.name.partition(",")[0]
    return first if comparison.on in first else comparison.on


def _describe_adjusted_p(decision: Decision, every: Sequence[Decision]) -> str:
    """Return how Holm's correction changes the p value of a setting."""
    tests = sum(one.p is not None for one in every)
    return (
        f"p = {decision.p:.2g} ({adjusted_p_by_p(every)[decision.p]:.2g} after Holm's "
        f"correction for the {tests} comparisons of this statement)"
    )


def _judge_comparison(
    claim: Statement, comparison: Comparison, runs: Any
) -> tuple[Decision, Record]:
    from lnlab.papers.claims.pairs import PairedRuns

    evidence = PairedRuns(comparison, runs)
    try:
        decision = evidence.decision
        effects = evidence.effects
        command = "" if comparison.numbers else format_training_commands(evidence.all_runs)
        levels = used = ""
        if not comparison.numbers:
            used = wording.describe_cifar10_training(
                [runs.config(run) for run in evidence.all_runs]
            )
            levels = (
                ""
                if decision.shares
                else wording.describe_arm_means(comparison, evidence.numbers_by_arm)
            )
    except (ValueError, KeyError) as error:
        raise ValueError(f"{claim.id}, {comparison.name}: {error}") from error
    expected, matters = evidence.expected, evidence.matters
    ends = None
    if decision.low is not None and decision.high is not None:
        ends = decision.low + expected, decision.high + expected
    estimate = sum(effects) / len(effects)
    sign = -1 if comparison.claims in ("less", "not more") else 1
    verdict = decision.verdict
    if decision.word == NOT_TESTED:
        verdict = "not tested: nothing learned"
    elif comparison.near == "other" and decision.word in OPPOSITE:
        verdict = f"{decision.word} on {comparison.on}{decision.size_in_words}"
    effect = wording.describe_effect(comparison, estimate, ends)
    read = wording.describe_measure(comparison)
    if decision.shares:
        effect = wording.describe_shares(comparison, decision.shares, len(evidence.learned[0]))
        ends, read = None, "the shares of networks that learned, as not all did"
    effect += wording.describe_pairs(comparison, decision)
    claimed = ""
    if comparison.asks:
        claimed = wording.describe_claim(comparison, any(decision.shares or ()))
    change = "% change of " if comparison.effect == "ratio" else ""
    record: Record = {
        "name": wording.name_setting(comparison), "word": decision.word, "verdict": verdict,
        "size": decision.size, "effect": effect,
        "interval": ends and [wording.shown_value(comparison, end) for end in ends],
        "unit": f"{change}{comparison.unit}", "axis": None,
        "p": decision.p and float(f"{decision.p:.3g}"),
        "n": decision.n, "claims": comparison.claims, "pairs": comparison.pairs_name,
        "expected": comparison.expect, "bound": matters,
        "why": wording.explain_decision(comparison, decision, matters),
        "used": used, "levels": levels, "data": _name_data(comparison),
        "quantity": wording.name_quantity(comparison), "read": read,
        "shares": bool(decision.shares), "nearness": NEAR[comparison.near],
        "declared": comparison.declared, "asks": comparison.asks, "claimed": claimed,
        "compared": wording.name_quantity_and_sides(comparison), "command": command,
        "note": comparison.note,
        "learned": wording.describe_learned_condition(comparison.learned),
        "kept": not comparison.numbers, "numbers_from": comparison.numbers_from,
        "tuned_on": comparison.tuned_on, "matters": wording.describe_matters(comparison),
        "values": [wording.shown_value(comparison, one) for one in effects],
        "seeds": list(comparison.seeds),
    }  # fmt: skip
    if ends:
        at = sorted(sign * (end - expected) / matters for end in ends)
        middle = sign * (estimate - expected) / matters
        record["axis"] = [round(x, 4) for x in (middle, *at)]
    return decision, record


# the commands that train runs again


def format_training_commands(runs: Iterable[Any]) -> str:
    """Return the shell commands that train runs, the nearest of the budgets first."""
    from lnlab.papers import EXPERIMENTS

    seeds: dict[Any, list[int]] = {}
    for run in runs:  # runs that differ in their seeds alone are one
        experiment = EXPERIMENTS[run.task].from_config(run.config)
        one = seeds.setdefault(replace(experiment, seeds=(0,)), [])
        one += [seed for seed in experiment.seeds if seed not in one]
    runs = [replace(one, seeds=tuple(numbers)) for one, numbers in seeds.items()]
    commands = [_training_command_words(one) for one in runs]
    return format_shell_loop(commands) or " && ".join(map(shlex.join, commands))


def format_shell_loop(commands: Sequence[Sequence[str]]) -> str:
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


def _training_command_words(experiment: Any) -> list[str]:
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
def _budget_configs(kind: Any, size: int) -> dict[str, Mapping[str, Any]]:
    names = ("paper", "notebook")
    return {name: kind.budget(name, batch_size=size).config() for name in names}


def _format_command_value(key: str, value: Any) -> str:
    if key == "seeds":
        return write_seeds(value)
    return ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
