"""Findings of an audit: rules, their findings, and the numbers behind them."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Collection, Iterator, Sequence
from dataclasses import asdict, dataclass
from enum import IntEnum
from pathlib import Path
from typing import Any


class Severity(IntEnum):
    """The weight of a finding, worst first; ``Severity("fault")`` takes its name, too."""

    FAULT = 0
    RISK = 1
    FACT = 2

    @classmethod
    def _missing_(cls, value: object) -> Severity:
        if str(value).upper() in cls.__members__:
            return cls[str(value).upper()]
        names = ", ".join(severity.word for severity in cls)
        raise ValueError(f"there is no severity {value!r}: choose from {names}.")

    @property
    def word(self) -> str:
        return self.name.lower()


@dataclass(frozen=True)
class Finding:
    """One thing that was seen in a module.

    Attributes:
        check: the check that made it.
        id: of its rule, "LN114".
        rule: the name of its rule, "eps-missing".
        severity: FAULT, something does not do what its name or its place promises; RISK, it
            may cost accuracy or a training; FACT, good to know.
        where: names of modules or parameters, the first few.
        message: what was measured, with its numbers.
        meaning: what that means, in one sentence.
        advice: what to do about it, in one sentence.
        paper_url: the address of the paper that says so; "" where none does.
    """

    check: str
    id: str
    rule: str
    severity: Severity
    where: str
    message: str
    meaning: str
    advice: str
    paper_url: str

    def __str__(self) -> str:
        where = f": {self.where}" if self.where else ""
        return (
            f"{self.severity.name}  {self.id} {self.rule}{where}\n  seen   {self.message}.\n"
            f"  means  {self.meaning}\n  do     {self.advice}"
        )

    def row(self) -> dict[str, str]:
        """Return the fields as text."""
        return asdict(self) | {"severity": self.severity.word}


Findings = Iterator[Finding | None]
"""The results of a check; None stands for a rule that found nothing."""

RULES: dict[str, dict[str, str]] = tomllib.loads(
    Path(__file__).with_name("rules.toml").read_text(encoding="utf-8")
)
"""The rules of an audit, by name: id, check, severity, message, meaning, advice, example and,
of some, the URL of a paper."""

EXAMPLE = """\
import lnlab
import torch
from torch import nn
from torch.nn import functional as F

"""
"""The imports of every example."""


def select_rule_names(rules_or_checks: Collection[str] | str) -> set[str]:
    """Return the names of rules, each given by its id, the start of ids, its name or its check.

    Raises:
        ValueError: if a word names none.
    """
    selected = set()
    for word in [rules_or_checks] if isinstance(rules_or_checks, str) else rules_or_checks:
        ids = word.upper() if word[:2].upper() == "LN" else "no id"
        names = {
            name
            for name, rule in RULES.items()
            if word in (name, rule["check"]) or rule["id"].startswith(ids)
        }
        if not names:
            checks = ", ".join(dict.fromkeys(rule["check"] for rule in RULES.values()))
            raise ValueError(
                f"there is no rule or check {word!r}: give an id (LN101), the start of several "
                f"(LN1), the name of a rule (eps-missing) or of a check: {checks}."
            )
        selected |= names
    return selected


def explain(rule: str) -> str:
    """Return what a rule means, what to do, and an example that it finds, as text.

    Args:
        rule: its id or name; a check, or the start of ids, stands for several.

    Raises:
        ValueError: if there is none.
    """
    texts = []
    for name in sorted(select_rule_names(rule), key=lambda name: RULES[name]["id"]):
        table = RULES[name]
        lines = [
            f"{table['id']} {name} (usually a {table['severity']}; check: {table['check']})",
            "",
        ]
        meaning, advice = (re.sub("{.*?}", "…", table[key]) for key in ("meaning", "advice"))
        lines += [f"  means  {meaning}", f"  do     {advice}"]
        if "…" in meaning + advice:
            lines.append("  …      what the finding fills in")
        if "paper_url" in table:
            lines.append(f"  see    {table['paper_url']}")
        if "example" in table:
            loss = ", loss_fn=loss_fn" * ("loss_fn" in table["example"])
            loss = ", y, loss_fn" if re.search(r"^(x, )?y\b", table["example"], re.M) else loss
            code = f"{EXAMPLE}{table['example']}print(lnlab.audit(net, x{loss}))"
            lines += ["", *(f"    {line}".rstrip() for line in code.splitlines())]
        texts.append("\n".join(lines))
    return "\n\n".join(texts)


def make_finding(
    rule: str,
    where: Collection[str] | None = None,
    severity: Severity | None = None,
    **values: Any,
) -> Finding | None:
    """Return a finding of a rule of :data:`RULES`; None if ``where`` has no name.

    Args:
        rule: its name.
        where: names of modules or parameters, of which the first few are kept; None: the
            finding is about the module as a whole.
        severity: another than that of the rule.
        values: what its sentences leave open; ``message`` where the rule has none.
    """
    if where is not None and not where:
        return None
    texts = {"message": "{message}", "paper_url": ""} | RULES[rule]
    message, meaning, advice = (
        texts[key].format(**values) for key in ("message", "meaning", "advice")
    )
    return Finding(
        texts["check"],
        texts["id"],
        rule,
        severity if severity is not None else Severity(texts["severity"]),
        list_names(where or ()),
        message,
        meaning,
        advice,
        texts["paper_url"],
    )


@dataclass(frozen=True)
class CheckTable:
    """The numbers behind the findings of one check.

    Attributes:
        rows: of a table; what a row is about comes first.
        table_note: how they were measured, where that is not plain.
        plotted_column: the column that is drawn over the depth of the module, if one is.
        curve_axis_label: the label of the curve's axis.
    """

    rows: Sequence[dict] = ()
    table_note: str = ""
    plotted_column: str = ""
    curve_axis_label: str = ""


class CannotCheck(ValueError):
    """A check does not apply, or cannot run; the message says why."""


def list_names(names: Collection[str], max_names: int = 3, separator: str = ", ") -> str:
    """Return the first few names, and how many others: "a, b and 4 others"."""
    names = list(dict.fromkeys(name or "the module itself" for name in names))
    rest = len(names) - max_names
    if rest < 2:
        return separator.join(names)
    return f"{separator.join(names[:max_names])} and {rest} others"


def count_with_noun(number: int, singular: str, plural: str = "") -> str:
    """Return a number with its noun: "1 weight", "3 weights"."""
    return f"{number} {singular if number == 1 else plural or singular + 's'}"


def three_significant_digits(value: float) -> str:
    """Return a number in three digits at most."""
    return f"{value:.3g}"
