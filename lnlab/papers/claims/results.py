"""The judged claims: what :func:`lnlab.claims` shows, as a table, a page or JSON.

Judging takes a minute, so its outcome is kept in ``results/claims.json``, with a hash of all
that it follows from: the kept runs, the entries and the code of this folder.
"""

import hashlib
import json
import math
import re
import shlex
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from scipy import stats

from lnlab.papers.claims.entries import (
    AFTER,
    CALL,
    CONDITION,
    DRAWN,
    NEAR,
    Comparison,
    Statement,
    load,
    parse_call,
)
from lnlab.papers.claims.judge import (
    INCONCLUSIVE,
    MIXED,
    NO_DIFFERENCE,
    NOT_TESTED,
    OPPOSITE,
    PAIRS,
    Decision,
    adjust_together,
    is_mixed,
    share_interval,
)
from lnlab.paths import place
from lnlab.training.runs import KEPT, write

ROOT = place("results")
NAME = "claims.json"
FEWER, LESS, LOWER = ("fewer", "more"), ("less", "more"), ("lower", "higher")
NATURAL = {"updates": FEWER, "CPU": LESS}
"""The words for less and more, by the first word of a unit; of all others ``LOWER``."""
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
        record |= {"word": MIXED, "verdict": MIXED, "size": "", "effect": effect}
    if contrary:
        names = "; ".join(f"“{s['name']}”" for _, _, s in contrary)
        says = "says" if len(contrary) == 1 else "say"
        record["contrary"] = (
            f"{len(contrary)} of {len(asked)} settings {says} the opposite: {names}"
        )
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
            counts = " and ".join(f"{count} {word}" for word, count in words.items())
            record["contrary"] = f"of the others ({len(asked) - 1}), {counts}"
    overlap = OVERLAP if headline.shared else ""
    record["note"] = " ".join(filter(None, (claim.note, record["note"], overlap)))
    record["also"] = _answers(claim, judged)
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
        if decision.word == INCONCLUSIVE:
            continue
        verdict = decision.verdict
        if contrary := sum(d.word == OPPOSITE.get(decision.word) for _, d, _ in same):
            verdict += f" (the opposite in {contrary} of {len(same)} settings)"
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
    effect = describe(of, estimate, ends) + _aside(of, decision)
    if decision.shares:
        effect, ends = _shares(of, decision.shares, len(evidence.learned[0])), None
    record: Record = {
        "name": _name(of), "word": decision.word, "verdict": verdict, "size": decision.size,
        "effect": effect, "interval": ends and [_shown(of, end) for end in ends],
        "unit": f"% change of {of.unit}" if of.effect == "ratio" else of.unit, "axis": None,
        "p": decision.p and float(f"{decision.p:.3g}"),
        "n": decision.n, "claims": of.claims, "pairs": of.pairs, "read": _read(of),
        "quantity": _quantity(of),
        "nearness": NEAR[of.near], "declared": of.declared, "asks": of.asks,
        "ruled_out": _ruled_out(of, decision, expected, matters), "command": command,
        "note": _note(of),
        "kept": not of.numbers,
        "tuned_on": of.tuned_on, "matters": _matters(of),
        "values": [_shown(of, one) for one in effects], "seeds": list(of.seeds),
    }  # fmt: skip
    if of.numbers:
        record["numbers_from"] = of.numbers_from
    if ends:
        at = sorted(sign * (end - expected) / matters for end in ends)
        middle = sign * (estimate - expected) / matters
        record["axis"] = [round(x, 4) for x in (middle, *at)]
    return decision, record


def _name(of: Comparison) -> str:
    """Return the name of a setting, with the data in front where it does not say them."""
    return of.name if of.on.casefold() in of.name.casefold() else f"{of.on}: {of.name}"


def _shown(of: Comparison, value: float) -> float:
    """Return a value as it is kept: a ratio in per cent of change, six digits."""
    value = 100 * math.expm1(value) if of.effect == "ratio" else value
    return float(f"{value:.6g}")


def describe(of: Comparison, estimate: float, ends: Sequence[float] | None) -> str:
    """Return an effect in words: "27 % fewer updates with LN than with BN (21 to 32)"."""
    first, second = name_sides(of)
    if of.effect == "ratio" and (of.expect is not None or estimate > math.log(2)):
        numbers = [f"{math.exp(x):.2g}" for x in (estimate, *(ends or ()))]
        text = f"{of.unit}: {numbers[0]}"
        if second:
            text = f"{first}, {numbers[0]} times the {of.unit} {second}"
        return text + (f" ({numbers[1]} to {numbers[2]})" if ends else "")
    amount, quantity = " %", of.unit
    if of.effect == "difference":
        amount, of_what, quantity = of.unit.partition(" of ")
        amount, quantity = (f" {amount}", quantity) if of_what else ("", of.unit)
    less, more = _less_and_more(quantity)

    def size(x: float) -> str:
        value = 100 * math.expm1(x) if of.effect == "ratio" else x
        return f"{abs(value):.{of.digits}f}"

    if not second:
        text = f"{quantity}: {size(estimate)}{amount}"
        return text + (f" ({' to '.join(map(size, ends))})" if ends else "")
    text = f"{size(estimate)}{amount} {less if estimate < 0 else more} {quantity}"
    text += f" {first} than {second}"
    if not ends:
        return text
    low, high = ends
    if low > 0 or high < 0:
        return f"{text} ({' to '.join(sorted(map(size, ends), key=float))})"
    amount = amount if of.effect == "ratio" else ""
    return f"{text} ({size(low)}{amount} {less} to {size(high)}{amount} {more})"


def _less_and_more(unit: str) -> tuple[str, str]:
    return NATURAL.get(unit.partition(" ")[0], LOWER)


def _aside(of: Comparison, decision: Decision) -> str:
    """Return what the word follows from beside the interval."""
    parts = []
    most = 1 / (1 - of.matters) if of.effect == "ratio" else 0.0
    more = _less_and_more(of.unit)[1]
    if of.claims == "equal" and of.effect == "ratio":
        low, high = ((of.expect or 1) * x for x in (1 - of.matters, most))
        parts.append(f"claimed: {of.expect:g}; counted as equal: {low:.3g} to {high:.3g}")
    elif of.claims == "not more" and of.effect == "ratio" and len(of.arms) == 1:
        parts.append(f"claimed: not more than {most:.3g}")
    elif of.claims == "not more" and of.effect == "ratio":
        parts.append(f"smallest effect that matters: {100 * (most - 1):.0f} % {more}")
    elif of.expect is not None:
        parts.append(f"claimed: {of.claims} than {of.expect:g}")
    elif (
        of.claims in ("equal", "not more")
        or decision.word == NO_DIFFERENCE
        or decision.size == "small"
    ):
        parts.append(f"smallest effect that matters: {_smallest(of)}")
    if decision.n < PAIRS:
        parts.append(f"only {decision.n} seeds, and a word needs {PAIRS}")
    return "".join(f"; {part}" for part in parts)


def _shares(of: Comparison, learned: tuple[int, int], n: int) -> str:
    first, second = name_sides(of)
    a, b = learned
    quantity = "speed" if of.unit.startswith("updates") else _quantity(of)
    return (
        f"{a} of {n} networks learned {first}{_interval(a, n)}, {b} of {n} {second}"
        f"{_interval(b, n)} (to learn is to reach {_criterion(of.learned)}); where some did "
        f"not, these shares are compared and not the {quantity}"
    )


def _quantity(of: Comparison) -> str:
    """Return what is measured, without the unit that a difference is given in."""
    _, _, quantity = of.unit.partition(" of ")
    return quantity if of.effect == "difference" and quantity else of.unit


def _interval(learned: int, n: int) -> str:
    low, high = (100 * end for end in share_interval(learned, n))
    return f" ({low:.0f} to {high:.0f} %)"


def _criterion(learned: str) -> str:
    """Return in words what counts as having learned."""
    if learned.startswith("lead("):
        return "a better score than a bag of words and than the untrained network"
    name, sign, bound = CONDITION.fullmatch(learned).groups()  # pyright: ignore
    metric = parse_call(name)[1][0]
    quantity = {
        "test_bound": "variational bound",
        "valid_nll": "validation loss",
        "train_nll": "training loss",
    }[metric]
    return f"a {quantity} {'below' if sign == '<' else 'above'} {bound} nats"


NORMS = {
    "none": "without normalization", "layer": "with LN", "batch": "with BN",
    "batch hidden": "with BN on the hidden layers", "batch everywhere": "with BN everywhere",
    "batch pooled": "with one pair of BN statistics for all steps",
    "batch, axis 0": "with BN of each position",
    "batch, axis 0, small": "with BN of each position divided by √d",
    "batch layer": "with BLN", "batch layer, full size": "with BLN times √d",
    "layer everywhere": "with LN also on the logits",
    "layer, per position": "with LN of each position",
    "layer, small gain": "with LN whose gain starts at 1/√d",
    "group": "with group norm", "instance": "with instance norm", "weight": "with weight norm",
    "encoder": "with LN in the encoder", "decoder": "with LN in the decoder",
    "both": "with LN in encoder and decoder", "pre": "with pre-LN", "post": "with post-LN",
    "sandwich": "with Peri-LN", "qk": "with a layer norm of queries and keys",
    "rms": "with RMSNorm", "dyt": "with DyT", "derf": "with Derf",
    "lns": "with LayerNorm scaling", "keel": "with Keel",
}  # fmt: skip
"""Values of the field ``norm`` in words."""


def name_sides(of: Comparison) -> tuple[str, str]:
    """Return the two sides of a comparison in words; the second is empty for one arm alone."""
    if of.sides:
        return of.sides[0], of.sides[1]
    first, *others = map(name_arm, of.arms)
    if len(others) < 2:
        return first, "".join(others)
    names = [name.removeprefix("with ") for name in others]
    better = " and ".join(names)
    return (
        first,
        f"with the {f'better of {better}' if len(names) == 2 else 'best other method'}",
    )


def name_arm(arm: Mapping[str, Any]) -> str:
    """Return an arm in words: "with LN", "with BN, batch size 4"."""
    fields = dict(arm)
    norm = fields.pop("norm", "")
    words = [NORMS.get(norm, f"with {norm}")] if norm else []
    words += [f"{name.replace('_', ' ')} {value}" for name, value in fields.items()]
    return ", ".join(words)


def _matters(of: Comparison) -> str:
    """Return the smallest effect that matters, with its reason."""
    return f"{_smallest(of)} ({of.reason})"


def _smallest(of: Comparison) -> str:
    """Return the smallest effect that matters: of a ratio on both sides of 1."""
    if of.effect == "difference":
        text = f"{of.matters:g} {of.unit.partition(' of ')[0].rstrip(',')}"
        return text.replace("points", "point") if of.matters == 1 else text
    if of.expect is not None or not name_sides(of)[1]:
        return f"a factor of {1 / (1 - of.matters):.3g}"
    less, more = _less_and_more(of.unit)
    return f"{100 * of.matters:g} % {less} or {100 / (1 / of.matters - 1):.0f} % {more}"


def _ruled_out(of: Comparison, decision: Decision, expected: float, matters: float) -> str:
    """Return what an inconclusive interval rules out, in words."""
    if decision.word != INCONCLUSIVE or decision.shares:
        return ""
    if decision.low is None or decision.high is None:
        return "no spread between the seeds"
    if decision.n < PAIRS:
        return ""  # the effect says so
    if of.claims in ("equal", "not more") or expected:
        return ""
    bounds = [end for end in (decision.low, decision.high) if 0 < abs(end) < matters]
    beyond = " and ".join(_size(of, end) for end in bounds)
    return beyond and f"effects beyond {beyond}"


def _size(of: Comparison, value: float) -> str:
    """Return a size without the sides, which the effect names."""
    return describe(of, value, None).removesuffix(" {} than {}".format(*name_sides(of)))


# how the number of a run is read


def _note(of: Comparison) -> str:
    """Return the notes on a setting: its own, and where its runs are lost."""
    notes = [of.note] if of.note else []
    if of.numbers:
        notes.append(f"The runs are not kept; their values stand in commit {of.numbers_from}.")
    return " ".join(notes)


def _read(of: Comparison) -> str:
    """Return how the number of each network is read from its training."""
    from lnlab.papers.claims.measures import IN_WORDS

    if not CALL.fullmatch(of.measures[0]):
        return ""  # of runs that are not kept
    name, arguments = parse_call(of.measures[0])
    return IN_WORDS[name].format(*arguments)


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
