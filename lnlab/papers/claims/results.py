"""The judged claims: what :func:`lnlab.claims` shows, as a table, a page or JSON.

Judging takes a minute, so its outcome is kept in ``results/claims.json``, with a hash of all
that it follows from: the kept runs, the entries and the code of this folder.
"""

import hashlib
import json
import re
import shlex
from collections import Counter
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
    load,
)
from lnlab.papers.claims.judge import (
    INCONCLUSIVE,
    MIXED,
    NOT_TESTED,
    OPPOSITE,
    Decision,
    adjust_together,
    is_mixed,
)
from lnlab.paths import place
from lnlab.training.runs import KEPT, write

ROOT = place("results")
NAME = "claims.json"
OVERLAP = (
    "The splits of the examples overlap, so the interval is wider than that of independent "
    "seeds (Nadeau and Bengio, 2003)."
)

Record = dict[str, Any]


def source(root: Path = ROOT) -> str:
    """Return the hash of what the judged claims follow from."""
    here = Path(__file__).parent
    paths = [*root.glob(f"*{KEPT}"), *here.glob("*.toml"), *here.glob("*.py")]
    total = hashlib.sha256()
    for path in sorted(paths, key=lambda path: path.name):
        total.update(f"{path.name} {hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode())
    return total.hexdigest()


def judged(root: Path = ROOT) -> list[Record]:
    """Return a record of each claim, in the order of the files: kept ones if they are current.

    A record has id, paper, source, theme, quote, says, word, verdict, size, effect, interval,
    unit, q, n, setting, nearness, declared, command, and ``settings``, a record of each.
    """
    path = root / NAME
    if path.exists():
        kept = json.loads(path.read_text(encoding="utf-8"))
        if kept["source"] == source(root):
            return kept["claims"]
    return judge_all(root)


def keep(root: Path = ROOT) -> Path:
    """Judge all claims and keep the records beside the runs."""
    text = json.dumps(
        {"source": source(root), "claims": judge_all(root)}, indent=1, ensure_ascii=False
    )
    write(root / NAME, (text + "\n").encode())
    return root / NAME


def judge_all(root: Path = ROOT, statements: Iterable[Statement] | None = None) -> list[Record]:
    """Judge claims by the kept runs under a root.

    Raises:
        ValueError: for an entry that cannot be judged; names it, and the setting.
    """
    from lnlab.papers.claims.pairs import Runs
    from lnlab.training.runs import read

    runs = Runs(read([root]))
    records = [_record(one, runs) for one in (load() if statements is None else statements)]
    tested = [one for one in records if one["p"] is not None and one["declared"] != AFTER]
    if tested:
        for one, q in zip(
            tested, stats.false_discovery_control([one["p"] for one in tested]), strict=True
        ):
            one["q"] = float(f"{q:.3g}")
    return records


def _record(claim: Statement, runs: Any) -> Record:
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

        word, effect = equations.judge(claim)
        checks = json.dumps([one["check"] for one in claim.all_readings])
        code = f"from {equations.__name__} import draws; print(*map(draws, {checks}))"
        command = shlex.join(["python", "-c", code])
        if re.match("[a-z]{2}", effect):  # not a formula: "m/(m-1) times ..."
            effect = effect[0].upper() + effect[1:]
        n = len(equations.DRAWS) if claim.checked == DRAWN else 1
        outcome = {"word": word, "verdict": word, "effect": effect, "n": n}
        return record | outcome | {"setting": claim.checked, "command": command}
    judged = [(one, *_setting(claim, one, runs)) for one in claim.settings]
    record["settings"] = [setting for _, _, setting in judged]
    asked = [one for one in judged if not one[0].asks]
    tested = [one for one in asked if one[1].word != NOT_TESTED] or asked
    headline, decision, setting = min(tested, key=lambda one: claim.rank(one[0]))
    others = [one for one in judged if one[0] is not headline]
    rank = [*NEAR].index
    same, rest = [], []
    for s, d, _ in others:
        # rates chosen in another way are always the same question
        chosen = s.tuned_on and headline.tuned_on and s.tuned_on != headline.tuned_on
        near = rank(s.near) <= rank(headline.near) or chosen
        (same if near and not s.asks else rest).append(d)
    record |= {name: value for name, value in setting.items() if name != "name"}
    record["setting"], setting["headline"] = setting["name"], True
    contrary = [
        one for one in others if one[1].word == OPPOSITE.get(decision.word) and not one[0].asks
    ]
    if is_mixed(decision, same, rest):
        nearest = [one for one in contrary if one[1] in same]
        _, _, other = min(nearest, key=lambda one: claim.rank(one[0]))
        effect = f"{record['effect']}; the opposite in “{other['name']}”: {other['effect']}"
        record |= {"word": MIXED, "verdict": MIXED, "size": "", "effect": effect, "why": ""}
    count = len(asked) - 1
    if contrary:
        names = "; ".join(f"“{s['name']}”" for _, _, s in contrary)
        says = "says" if len(contrary) == 1 else "say"
        which = f"of the {count} other settings, {len(contrary)} {says}"
        if count == 1:
            which = "the other setting says"
        record["contrary"] = f"{which} the opposite: {names}"
        if record["word"] != MIXED:
            every = [decision, *same, *rest]
            reasons = [
                _too_weak(one, every) if one in same else "it is farther from the paper"
                for _, one, _ in contrary
            ]
            why = "; ".join(dict.fromkeys(reasons))
            record["contrary"] += f"; but the word is not “mixed”, because {why}"
    else:
        words = Counter(d.word for s, d, _ in others if not s.asks and d.word in OPPOSITE)
        if decision.word not in OPPOSITE and words:
            said = [f"{n} {'says' if n == 1 else 'say'} “{w}”" for w, n in words.items()]
            record["contrary"] = f"of the {count} other settings, {' and '.join(said)}"
            if count == 1:
                record["contrary"] = f"the other setting: {next(iter(words))}"
    overlap = OVERLAP if headline.shared else ""
    record["note"] = " ".join(filter(None, (claim.note, record["note"], overlap)))
    answers = _answers(claim, judged)
    record["also"] = [one for one in answers if one["asks"] not in claim.parts]
    parts = {of.name: setting for of, _, setting in judged if not of.asks}
    if parts.keys() & {*claim.parts}:
        record["effect"] = f"{headline.name}: {record['effect']}"
    parts |= {one["asks"]: one for one in answers}
    for name in claim.parts:
        one = parts.get(name)  # none where nothing learned
        answer = f"{one['verdict']}, {one['effect']}" if one else NOT_TESTED
        record["effect"] += f"; {name}: {answer}"
    return record


def _too_weak(of: Decision, every: Sequence[Decision]) -> str:
    """Return why a setting that says the opposite does not make a claim mixed."""
    tests = sum(one.p is not None for one in every)
    return (
        f"its p = {of.p:.2g} becomes {adjust_together(every)[of.p]:.2g}, which is above 0.05, "
        f"in Holm's correction for the {tests} comparisons of this statement"
    )


def _answers(
    claim: Statement, judged: Sequence[tuple[Comparison, Decision, Record]]
) -> list[dict[str, str]]:
    """Return what became of the other questions of a claim, where that is decided."""
    answers = []
    for asks in dict.fromkeys(setting.asks for setting, _, _ in judged if setting.asks):
        same = [one for one in judged if one[0].asks == asks and one[1].word != NOT_TESTED]
        if not same:
            continue
        _, decision, record = min(same, key=lambda one: claim.rank(one[0]))
        if decision.word == INCONCLUSIVE and asks not in claim.parts:
            continue
        verdict = decision.verdict
        if contrary := sum(d.word == OPPOSITE.get(decision.word) for _, d, _ in same):
            verdict += f" (the opposite in {contrary} of {len(same) - 1} other settings)"
        answers.append({"asks": asks, "verdict": verdict, "effect": record["effect"]})
    return answers


def _setting(claim: Statement, of: Comparison, runs: Any) -> tuple[Decision, Record]:
    from lnlab.papers.claims.pairs import PairedRuns

    evidence = PairedRuns(of, runs)
    try:
        decision = evidence.decision
        effects = evidence.effects
        command = "" if of.numbers else write_command(evidence.trained)
    except (ValueError, KeyError) as error:
        raise ValueError(f"{claim.id}, {of.name}: {error}") from error
    expected, matters = evidence.expected, evidence.matters
    ends = None
    if decision.low is not None and decision.high is not None:
        ends = decision.low + expected, decision.high + expected
    estimate = sum(effects) / len(effects)
    sign = -1 if of.claims in ("less", "not more") else 1
    verdict = decision.verdict
    if decision.word == NOT_TESTED:
        verdict = "not tested: nothing learned"
    elif of.near == "other" and decision.word in OPPOSITE:
        verdict = f"{decision.word} on {of.on}{decision.size_in_words}"
    effect = wording.describe(of, estimate, ends) + wording.describe_aside(of, decision)
    if decision.shares:
        effect, ends = (
            wording.describe_shares(of, decision.shares, len(evidence.learned[0])),
            None,
        )
    record: Record = {
        "name": wording.name_setting(of), "word": decision.word, "verdict": verdict,
        "size": decision.size, "effect": effect,
        "interval": ends and [wording.shown_value(of, end) for end in ends],
        "unit": f"% change of {of.unit}" if of.effect == "ratio" else of.unit, "axis": None,
        "p": decision.p and float(f"{decision.p:.3g}"),
        "n": decision.n, "claims": of.claims, "pairs": of.pairs,
        "expected": of.expect, "why": wording.explain(of, decision),
        "quantity": wording.name_quantity(of), "read": wording.describe_measure(of),
        "nearness": NEAR[of.near], "declared": of.declared, "asks": of.asks,
        "ruled_out": wording.rule_out(of, decision, expected, matters), "command": command,
        "note": wording.write_note(of),
        "kept": not of.numbers,
        "tuned_on": of.tuned_on, "matters": wording.describe_matters(of),
        "values": [wording.shown_value(of, one) for one in effects], "seeds": list(of.seeds),
    }  # fmt: skip
    if of.numbers:
        record["numbers_from"] = of.numbers_from
    if ends:
        at = sorted(sign * (end - expected) / matters for end in ends)
        middle = sign * (estimate - expected) / matters
        record["axis"] = [round(x, 4) for x in (middle, *at)]
    return decision, record


# the commands that train runs again


def write_command(runs: Iterable[Any]) -> str:
    """Return the shell commands that train runs, the nearest of the budgets first."""
    from lnlab.papers import EXPERIMENTS

    seeds: dict[Any, list[int]] = {}
    for run in runs:  # runs that differ in their seeds alone are one
        experiment = EXPERIMENTS[run.task].from_config(run.config)
        one = seeds.setdefault(replace(experiment, seeds=(0,)), [])
        one += [seed for seed in experiment.seeds if seed not in one]
    runs = (replace(one, seeds=tuple(numbers)) for one, numbers in seeds.items())
    return " && ".join(map(_train, runs))


def _train(experiment: Any) -> str:
    config = experiment.config()
    budgets = _budgets(type(experiment), config["batch_size"])
    changes = {
        name: [key for key in {**config, **budget} if budget.get(key) != config.get(key)]
        for name, budget in budgets.items()
    }
    budget = min(changes, key=lambda name: len(changes[name]))
    words = ["lnlab", "train", experiment.name, "--budget", budget]
    for key in dict.fromkeys(["norm", *changes[budget], "batch_size"]):
        # a field at its default is not in the configuration
        words += ["--set", f"{key}={_plain_value(config.get(key, getattr(experiment, key)))}"]
    return shlex.join(words)


@cache
def _budgets(kind: Any, size: int) -> dict[str, Mapping[str, Any]]:
    names = ("paper", "notebook")
    return {name: kind.budget(name, batch_size=size).config() for name in names}


def _plain_value(value: Any) -> str:
    if not isinstance(value, list | tuple):
        return str(value)
    # a number alone would be how many seeds there are
    return ",".join(map(str, value)) + ("," if len(value) == 1 else "")
