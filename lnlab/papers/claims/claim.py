"""A statement of a paper, what tests it, and what was found: the shape of the ledger's rows."""

import shlex
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any

from lnlab.papers.claims.rule import Kind, Outcome, Says, Setting, Verdict
from lnlab.training import Experiment


@dataclass(frozen=True)
class Evidence:
    """The findings for a statement.

    Attributes:
        quantity: what was measured, in words and with its unit.
        setting: where, of a measurement.
        outcome: of a measurement.
        interval: that which decided.
        confidence: of it: 95 %, more in a family.
        p: of the paired t test.
        p_signs: of the permutation test beside it.
        detectable: the effect that these seeds find four times out of five.
        values: a number for each seed, or each draw.
        seeds: which.
        worst: the greatest defect of an equation that says "the same", the least of one that
            says "another".
        data: begins with their kind: official, embedded or synthetic.
        hardware: where it was measured, of a measurement.
        failures: how many runs failed, and count as what was declared.
        exploratory: what runs say that were not declared for this; it decides nothing.
        then: what makes the runs at each arm's own rate, once those of its grid are there.
    """

    verdict: Verdict = Verdict.NOT_YET_RUN
    quantity: str = ""
    setting: Setting | None = None
    outcome: Outcome | None = None
    interval: tuple[float, float] | None = None
    confidence: float | None = None
    p: float | None = None
    p_signs: float | None = None
    detectable: float | None = None
    values: tuple[float, ...] = ()
    seeds: tuple[int, ...] = ()
    worst: float | None = None
    data: str = ""
    hardware: str = ""
    failures: int = 0
    exploratory: str = ""
    then: str = ""


@dataclass(frozen=True)
class Declared:
    """A declaration: what will be measured, written down before anyone looks.

    Attributes:
        measure: what is compared, with its unit.
        window: which part of a training it is read from.
        split: the cases that it is read on.
        seeds: that count; no others do.
        margin: the least effect that matters, in the unit of the measure.
        reason: why that much.
        family: the experiment whose claims share one error rate.
        tuning: how each arm's rate is chosen, and on what; empty: one shared rate.
        exact: whether permutations decide.
        says: what the statement says of the measure: that it is negative, nearer to 0 than the
            margin, or below it.
        failed: what a failed run counts as; None: as a difference that has no number.
        open: what the paper does not state of its own setting.
        shared: where values are those of several splits of the same cases, the test cases of a
            split over its training cases: their interval is wider for it.
        seen: why the data cannot be unseen, where they cannot.
    """

    measure: str
    window: str
    split: str
    seeds: tuple[int, ...]
    margin: float
    reason: str
    family: str
    tuning: str = ""
    exact: bool = False
    says: Says = Says.LESS
    failed: float | None = None
    open: tuple[str, ...] = ()
    shared: float = 0.0
    seen: str = ""


Judge = Callable[[], Evidence]
"""A judge of an equation or a reading: it needs no runs."""


@dataclass(frozen=True)
class Claim:
    """One statement of a paper.

    Attributes:
        id: short and lasting; what stands before the first dash is the paper.
        source: "Ba et al. (2016), 6.6".
        statement: what is claimed, near the paper's words.
        kind: what decides it.
        judge: judges an equation or a reading; None for a measurement.
        test: the :class:`~lnlab.papers.claims.measurement.Measurement` that is compared; None
            where nothing here can make it yet.
        same: the id of another claim that says the same, and whose findings are those of this.
        parts: the ids of claims all of which this one says: it is as sure as the least of them.
        declared: what is measured, of a measurement.
        command: what makes the runs, or judges, in a shell.
        paper: the paper's number, where it gives one.
        would: what would test it, where nothing here does.
        waits: why not yet.
        note: a mistake of the paper, or a condition.
    """

    id: str
    source: str
    statement: str
    kind: Kind = Kind.MEASUREMENT
    judge: Judge | None = None
    test: Any = None
    same: str = ""
    parts: tuple[str, ...] = ()
    declared: Declared | None = None
    command: str = ""
    paper: str = ""
    would: str = ""
    waits: str = ""
    note: str = ""


@dataclass(frozen=True)
class Differences:
    """The numbers of a measurement whose declared runs are all there, not judged yet."""

    values: tuple[float, ...]
    setting: Setting
    data: str
    hardware: str
    failures: int


PAPERS = {
    "Ba et al. (2016)": "ba2016",
    "Ben Othman (2018)": "benothman2018",
    "Ziaee & Çano (2022)": "ziaee2022",
}
"""The papers as they are cited, and what the ids of their claims begin with."""

ALONG = "runs do not record this along a training yet"
CHOSEN_LATE = "which claims are its parts was chosen when most of them were judged"


def untested(
    cited: str, id: str, source: str, statement: str, *, would: str, waits: str, paper: str = ""
) -> Claim:
    """A statement of ``cited`` that nothing here tests yet.

    Args:
        source: the place in the paper: "6.4, Fig. 4".
        would: what would test it.
        waits: why nothing does.
        paper: the paper's number, where it gives one.
    """
    return Claim(
        f"{PAPERS[cited]}-{id}", f"{cited}, {source}", statement,
        paper=paper, would=would, waits=waits,
    )  # fmt: skip


def equation(
    cited: str,
    id: str,
    source: str,
    statement: str,
    judge: Judge,
    *,
    kind: Kind = Kind.EQUATION,
    paper: str = "",
    note: str = "",
) -> Claim:
    """A statement of ``cited`` that the ledger itself judges.

    Args:
        source: the place in the paper: "2, eq. 6".
    """
    return Claim(
        f"{PAPERS[cited]}-{id}", f"{cited}, {source}", statement, kind, judge,
        command="lnlab claims judge", paper=paper, note=note,
    )  # fmt: skip


def restated(cited: str, id: str, source: str, statement: str, *, same: str) -> Claim:
    """A statement of ``cited`` that the claim with the id ``same`` says, too, and is judged by.

    Args:
        source: the place in the paper: "2, eq. 6".
    """
    return Claim(f"{PAPERS[cited]}-{id}", f"{cited}, {source}", statement, same=same)


def summary(
    cited: str, id: str, source: str, statement: str, *, parts: tuple[str, ...], note: str = ""
) -> Claim:
    """A statement of ``cited`` that says all of several claims at once, and is judged by them.

    Args:
        source: the place in the paper: "6".
        parts: the ids of these claims.
        note: a condition, or what is left out.
    """
    return Claim(
        f"{PAPERS[cited]}-{id}", f"{cited}, {source}", statement, parts=parts, note=note
    )


# The commands for runs that a measurement was declared of.


def one_after_the_other(tasks: Iterable[Any], data: str = "") -> str:
    """The commands that train tasks, each once.

    Args:
        tasks: what is trained.
        data: NAME=PATH, of data that is at a path; empty: as each task says.
    """
    return " && ".join(dict.fromkeys(_train(task, data) for task in tasks))


def _train(task: Any, data: str) -> str:
    """``lnlab train`` with the settings of a task, the nearest of its budgets first."""
    wanted = task.config()
    told = {
        name: [key for key in {**wanted, **config} if config.get(key) != wanted.get(key)]
        for name, config in _budgets(type(task), wanted["batch_size"]).items()
    }
    budget = min(told, key=lambda name: len(told[name]))
    if "data" in told[budget]:  # what no budget has of its own is at a path
        data = data or f"{wanted['data']}=PATH"
    words = ["lnlab", "train", task.name, "--budget", budget]
    words += ["--data", data] if data else []
    for key in dict.fromkeys(["norm", *told[budget], "batch_size"]):
        if key != "data":
            # a field at its past value is not in the configuration
            words += ["--set", f"{key}={_plain_value(wanted.get(key, getattr(task, key)))}"]
    return shlex.join(words)


@cache
def _budgets(kind: type[Experiment], size: int) -> dict[str, dict[str, Any]]:
    """The configurations of the budgets that commands start from: the same for many runs."""
    names = ("paper", "notebook")
    return {name: kind.budget(name, batch_size=size).config() for name in names}


def _plain_value(value: Any) -> str:
    if not isinstance(value, list | tuple):
        return str(value)
    # a number alone would be how many seeds there are
    return ",".join(map(str, value)) + ("," if len(value) == 1 else "")
