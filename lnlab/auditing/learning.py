"""Changes of each weight that do not change what comes out."""

from __future__ import annotations

import math
import time
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.dropout import _DropoutNd

from lnlab.analysis.activations import Site
from lnlab.analysis.certificate import Grade
from lnlab.analysis.certify import USUAL, Judge, certify, changes_of
from lnlab.analysis.conformance import Report
from lnlab.analysis.covariate_shift import layers
from lnlab.analysis.effective_learning_rate import ROWS, WHOLE
from lnlab.analysis.hessian import extreme_eigenvalues
from lnlab.analysis.magnitudes import EXACT, relative_change, root_mean_square, vector_norm
from lnlab.analysis.module_copy import ModuleCopy, find_weights
from lnlab.analysis.norm_gradients import affine, gradient_norms, gradient_parts, passage
from lnlab.analysis.recorder import as_matrix, mean_cosine, stable_rank
from lnlab.auditing.subject import (
    Audited,
    CannotCheck,
    Finding,
    Profile,
    Result,
    Severity,
    Visit,
    asleep,
    counted,
    eps_of,
    listed,
    normalizers,
    number,
    require,
    span,
)
from lnlab.nn import LayerNorm, RMSNorm, outside_root
from lnlab.nn.table1 import TRANSFORMATIONS

OF_WEIGHTS, OF_SCALE = (1, 2, 3, 7, 8, 10), (1, 3)
PATIENCE = 20.0
"""Seconds that a certificate of all columns may take; beyond, only scales are tried, once."""
EACH = 40
"""Evaluations that a certificate takes for each weight, about."""
TIMED = 3
"""Evaluations that are timed."""
FORMULAS = {T.column: T.formula for T in TRANSFORMATIONS}


@dataclass(frozen=True)
class Held:
    """The changes that were tried on the weights, and those that held.

    Attributes:
        said: for each weight, what became of every column that was tried.
        exact: (weight, column) of what holds, an eps aside.
        note: how it was tried.
        scales_alone: whether, for want of time, only scales were tried.
    """

    said: dict[str, dict[int, str]]
    exact: set[tuple[str, int]]
    note: str
    scales_alone: bool = False

    def without(self, names: Collection[str]) -> Held:
        """The same without some weights: those that are 0 have no length and no direction."""
        said = {name: columns for name, columns in self.said.items() if name not in names}
        exact = {pair for pair in self.exact if pair[0] in said}
        return replace(self, said=said, exact=exact)

    def weights(self, column: int) -> list[str]:
        """The weights of which a column holds."""
        return [name for name in self.said if (name, column) in self.exact]


def check_invariances(audited: Audited) -> Result:
    """A certificate of the weights, or in large nets whether their scales are seen."""
    tried = held(audited)
    rows = [
        {"weight": name} | {FORMULAS[column]: said for column, said in columns.items()}
        for name, columns in tried.said.items()
    ]
    return Result(tuple(_invariances_findings(tried)), tuple(rows), tried.note)


def held(audited: Audited) -> Held:
    """The invariances of the weights, found out once for an audit.

    Raises:
        CannotCheck: where there is no weight to try.
    """
    kept = audited.kept.get("invariances")
    if kept is None:
        try:
            kept = _held(audited.awake).without(asleep(audited.module))
        except (ValueError, TypeError) as error:
            kept = CannotCheck(str(error))
        audited.kept["invariances"] = kept
    if isinstance(kept, CannotCheck):
        raise kept
    return kept


def _held(audited: Audited) -> Held:
    audited.require_wide()
    if not find_weights(audited.module):
        raise CannotCheck("the module has no matrix or kernel.")
    large = len(find_weights(audited.module)) * EACH * _evaluation(audited) > PATIENCE
    return _scales(audited) if large else _certificate(audited)


def _evaluation(audited: Audited) -> float:
    """Seconds of an evaluation: the least of a few, as the first begins cold and any may wait
    for other work; what an audit tries must not depend on that."""
    subject = audited.subject()
    seconds = []
    for _ in range(TIMED):
        start = time.perf_counter()
        subject.run()
        seconds.append(time.perf_counter() - start)
    return min(seconds)


def _certificate(audited: Audited) -> Held:
    """All columns, graded over many deltas."""
    found = certify(
        audited.module, audited.x, columns=OF_WEIGHTS, dtypes=(torch.float64,),
        modes=("train", "evaluation"), read=audited.read,
    )  # fmt: skip
    modes = {v.mode for v in found.invariances}
    mode = "train" if "train" in modes else "evaluation"
    said: dict[str, dict[int, str]] = {}
    exact = set()
    for v in (v for v in found.invariances if v.mode == mode):
        without = f", exact without {v.exact_without}" if v.exact_without else ""
        said.setdefault(v.where, {})[v.column] = v.grade.value + without
        if v.grade is Grade.EXACT or v.exact_without == "eps":
            exact.add((v.where, v.column))
    return Held(said, exact, f"As in {mode}, {found.evaluations} evaluations in float64.")


def _scales(audited: Audited) -> Held:
    """The scales of each weight and of a quarter of its rows at one delta, without eps."""
    subject = audited.subject()
    subject = subject.without(eps=True) or subject
    judge = Judge(subject, find_weights(subject.module))
    said: dict[str, dict[int, str]] = {}
    exact = set()
    changes = changes_of(judge.weights.values(), subject, judge.base.called, None)
    for change in (
        c for c in changes if c.transformation.column in OF_SCALE and c.where != "x"
    ):
        column, defect = change.transformation.column, judge.outputs(change, USUAL)
        holds = defect <= EXACT[judge.dtype]
        said.setdefault(change.where, {})[column] = (
            "exact" if holds else f"broken ({defect:.2g})"
        )
        if holds:
            exact.add((change.where, column))
    note = (
        f"The module is large: of {len(said)} weights only scales were tried, at delta = "
        f"{USUAL} and eps = 0; certify(module, x, weights=[...]) does more."
    )
    return Held(said, exact, note, scales_alone=True)


MEANS = {
    1: (
        "what comes out does not depend on their length, only on where they point.",
        "see the effective learning rate below: weight decay acts on it alone.",
    ),
    2: (
        "whatever is added to all rows alike is taken away again by the mean.",
        "nothing: those directions get no gradient.",
    ),
    7: ("whatever is added to all units of a case is taken away by the mean.", "nothing."),
    8: (
        "a shift of each unit is taken away: a bias there has no effect.",
        "leave out the bias of these layers.",
    ),
}
"""The meaning of the columns for a module, and what to do."""


def _invariances_findings(tried: Held) -> list[Finding]:
    found = []
    for column, (means, do) in MEANS.items():
        names = tried.weights(column)
        if names:
            seen = (
                f"invariant: {len(names)} of {counted(len(tried.said), 'weight')}, "
                f"{FORMULAS[column]}"
            )
            found.append(Finding(Severity.FACT, listed(names), seen, means, do))
    if tried.scales_alone:
        found.append(
            Finding(
                Severity.FACT, "",
                f"of {counted(len(tried.said), 'weight')} only scales were tried",
                "the module is large, or slow here: whether it sees their shifts is not known.",
                "try those that matter by certify(module, x, weights=[...]).",
            )
        )  # fmt: skip
    return found


# The numbers that pass: outlier channels, rank, saturation, growth with depth.


OUTLIER = 6.0
"""A channel whose root mean square is so many times the median channel's is an outlier, the
bound of Dettmers et al. (2022, arXiv:2208.07339) for one number against the rest."""

ALIKE = 0.98
"""Cases whose mean cosine is above this can hardly be told apart. (Behind a ReLU all numbers
are positive, and two thirds is nothing special.)"""

FEW = 3
"""Among so few units cases point the same way by chance."""

FLAT = {"tanh": 2.0, "sigmoid": 4.0, "hardtanh": 1.0, "hardsigmoid": 3.0, "softsign": 3.0}
"""|a| beyond which the slope of f is below a fourteenth of its largest, tanh'(2) = 0.07; that
of softsign a sixteenth."""

SATURATED = 0.5
"""A nonlinearity of which more than this fraction is flat passes little gradient."""


def check_activations(audited: Audited) -> Result:
    """Size, outlier channels, stable rank and mean cosine of what each part makes."""
    visits = [v for v in audited.course if _judged(v)]
    if not visits:
        raise CannotCheck("no part makes a matrix of numbers.")
    rows = [_row(v) for v in visits]
    flat = _saturation(audited.subject().run().sites)
    profile = Profile(
        "Sizes over depth", "root mean square", tuple(v.name or "output" for v in visits),
        {"root mean square": tuple(r["rms"] for r in rows)},
    )  # fmt: skip
    findings = [*_of_rows(rows), *_of_saturation(flat)]
    return Result(tuple(findings), tuple(rows), profile=profile if len(rows) > 2 else None)


def _judged(visit: Visit) -> bool:
    """True if a part without parts made a matrix of numbers that it had not been given."""
    if any(visit.part.children()) or isinstance(visit.part, _DropoutNd | nn.Identity):
        return False
    made = visit.made[0] if visit.made else None
    return made is not None and made.is_floating_point() and made.dim() > 1


def _row(visit: Visit) -> dict:
    A = as_matrix(visit.made[0])
    finite = bool(A.isfinite().all())
    channels = root_mean_square(A, 0)
    median = float(channels.median())
    top = float(channels.max())
    return {
        "where": visit.name,
        "rms": float(root_mean_square(A)),
        "outlier": top / median if median else math.nan,
        "outliers": int((channels > OUTLIER * median).sum()) if median else 0,
        "rank": stable_rank(A) if finite and top else math.nan,
        "of": min(A.shape),
        "units": A.shape[1],
        "cosine": mean_cosine(A),
        "finite": finite,
    }


def _saturation(sites: list[Site]) -> dict[str, float]:
    """The fraction of its inputs where it is flat, of each bounded f."""
    found = {}
    for site in sites:
        f = site.name.rpartition(": ")[2]
        if f in FLAT and site.h is not None:
            found[site.name] = float((site.a.abs() > FLAT[f]).double().mean())
    return found


def _of_rows(rows: list[dict]) -> list[Finding]:
    found = []
    broken = [r["where"] for r in rows if not r["finite"]]
    if broken:
        found.append(
            Finding(
                Severity.FAULT, listed(broken), "NaN or infinities come out",
                "everything behind them is lost.",
                "look at the first of these parts: its input, its eps, its weights.",
            )
        )  # fmt: skip
    out = [r for r in rows if r["outliers"] and r["of"] > 3]
    if out:
        worst = max(out, key=lambda r: r["outlier"])
        found.append(
            Finding(
                Severity.RISK if worst["outlier"] > 5 * OUTLIER else Severity.FACT,
                listed([f"{r['where']} ({counted(r['outliers'], 'channel')})" for r in out]),
                f"a channel of {worst['where']} is {number(worst['outlier'])} times the median",
                "a few channels carry most of the length: in low precision they take the range "
                "from the others, and sigma is theirs.",
                "keep them in mind before quantizing; look at the gain of the normalizer.",
            )
        )  # fmt: skip
    alike = [r["where"] for r in rows if r["cosine"] > ALIKE and r["units"] > FEW]
    if alike:
        found.append(
            Finding(
                Severity.RISK, listed(alike),
                f"all cases point the same way (mean cosine above {ALIKE:g})",
                "the cases can hardly be told apart there: what differs is a small part of it.",
                "subtract what is common: let a normalizer remove the mean.",
            )
        )  # fmt: skip
    return found


def _of_saturation(flat: dict[str, float]) -> list[Finding]:
    worst = {n: s for n, s in flat.items() if s > SATURATED}
    if not worst:
        return []
    return [
        Finding(
            Severity.RISK, listed([f"{n} ({s:.0%})" for n, s in worst.items()]),
            "more than half of the inputs of a bounded f are where it is flat",
            "its slope is below a fourteenth there: little gradient passes.",
            "smaller weights in front of it, or a normalizer.",
        )
    ]  # fmt: skip


# The profile of gradients over depth.


STEEP = 100.0
"""A gradient that grows or shrinks by this from one end to the other needs looking after."""

LEAST = 4
"""Layers of which a trend can be told."""


def check_gradients(audited: Audited) -> Result:
    """||dL/dW|| and ||dL/dW||/||W|| of every layer, from the first that is called."""
    objective = audited.objective
    norms = gradient_norms(objective)
    sizes = {n: float(vector_norm(w)) for n, w in objective.split(objective.start).items()}
    first = [name for name in layers(objective) if name in norms]
    if not first:
        raise CannotCheck("no parameter is trained.")
    rows = tuple(
        {"layer": n, "gradient": norms[n], "weight": sizes[n],
         "gradient / weight": norms[n] / sizes[n] if sizes[n] else math.inf}
        for n in first
    )  # fmt: skip
    # a part that is never called has no place in the order of the calls, and no gradient
    drawn = [name for name in first if norms[name]]
    profile = Profile(
        "Gradients over depth", "norm", tuple(drawn),
        {"||dL/dW||": tuple(norms[n] for n in drawn)},
    )  # fmt: skip
    note = "" if audited.own_loss else STAND_IN
    return Result(
        tuple(_gradients_findings(norms, drawn)), rows, note, profile if drawn else None
    )


STAND_IN = (
    "No loss was given: this is of half the squared distance between the output and a random "
    "target."
)


def _gradients_findings(norms: dict[str, float], first: list[str]) -> list[Finding]:
    """Findings on gradients, by the ``first`` layers in order, none of which is 0."""
    found = []
    infinite = [n for n, g in norms.items() if not math.isfinite(g)]
    if infinite:
        found.append(
            Finding(
                Severity.FAULT, listed(infinite), "gradients are not finite",
                "one step with them destroys the weights.",
                "look for a division by 0, a root or logarithm of 0, or overflow.",
            )
        )  # fmt: skip
    if len(first) < LEAST or infinite:
        return found
    values = [norms[n] for n in first]
    factor = values[-1] / values[0]
    if max(factor, 1 / factor) > STEEP:
        grows = factor > 1
        found.append(
            Finding(
                Severity.RISK, f"{first[0]} to {first[-1]}",
                f"the gradient {'grows' if grows else 'shrinks'} by a factor of "
                f"{number(max(factor, 1 / factor))} from the first layer to the last",
                "no single learning rate suits both ends: the first layers "
                + ("hardly learn." if grows else "explode."),
                "normalize each branch before it is added (pre-LN), or re-scale the start.",
            )
        )  # fmt: skip
    ratio = max(values) / min(values)
    found.append(
        Finding(
            Severity.FACT, f"{max(first, key=norms.__getitem__)} has the largest",
            f"gradients of {len(first)} layers are within a factor of {number(ratio)}",
            "that is the spread which one learning rate has to serve.",
            "nothing below about 100; above it, look at the picture.",
        )
    )  # fmt: skip
    return found


# The work of the derivatives of mu and sigma on the gradient (Xu et al. 2019, section 3).


OURS = {"LayerNorm": LayerNorm, "RMSNorm": RMSNorm}
"""The normalizers that are most often written by hand, as ours."""

MOST = 24
"""Normalizers that are looked at, evenly over the depth: each costs a pass back."""

BLIND = 1e-6
"""The share of the squared gradient below which a part asks for what cannot change."""

AMPLIFIED = 10.0
"""A gradient that comes back so many times as long is worth a warning."""


def check_backward(audited: Audited) -> Result:
    """The part of the gradient that mu and sigma of every normalizer take away."""
    objective = audited.objective
    kinds = {n: found.report for found in require(normalizers(audited)) for n in found.names}
    names = list(kinds)
    order = [v.name for v in audited.course if v.name in names]
    names = list(dict.fromkeys(order))[:: -(-len(names) // MOST)]
    rows, why = [], ""
    for name in names:
        try:
            seen = passage(objective, name)
            norm = like_ours(seen.norm, kinds[name], seen.a)
            parts = gradient_parts(norm, seen.a, seen.slope, *seen.rest)
        except (TypeError, ValueError) as error:
            why = why or str(error)
            continue
        direct, total = float(vector_norm(parts.direct)), float(vector_norm(parts.total))
        if not direct:
            continue
        without_mu = float(vector_norm(parts.direct + parts.through_mu))
        rows.append(
            {"where": name, "taken by mu": 1 - (without_mu / direct) ** 2,
             "taken by sigma": (without_mu**2 - total**2) / direct**2,
             "left": (total / direct) ** 2,
             "gradient before / behind": total / float(vector_norm(seen.slope))}
        )  # fmt: skip
    if not rows:
        raise CannotCheck(why or "no gradient reaches a normalizer.")
    note = f"Fractions of ||dL/da||². {'' if audited.own_loss else STAND_IN}".strip()
    profile = Profile(
        "Gradient that the derivatives of mu and sigma leave", "fraction of ||dL/da||²",
        tuple(r["where"] for r in rows), {"left": tuple(r["left"] for r in rows)},
    )  # fmt: skip
    return Result(
        tuple(_backward_findings(rows)), tuple(rows), note, profile if len(rows) > 2 else None
    )


def like_ours(norm: nn.Module, report: Report | None, a: Tensor) -> nn.Module:
    """``norm`` itself where its rule is known; one that turned out to be LayerNorm or RMSNorm
    of the units of ``a``, as ours with its gain, bias and eps.

    Raises:
        TypeError: for any other.
    """
    try:
        affine(norm)
    except TypeError:
        if report is None or report.kind not in OURS:
            raise
        said = {f.what: f.found for f in report.findings}
        wrong = {f.what for f in report.findings if f.wrong and "differs" not in f.what}
        own = {n: p for n, p in norm.named_parameters() if p.dim() == 1 and n in said}
        layout = _layout(said["statistics over"], a.dim())
        known = wrong <= {"variance", "eps"} and "sum" not in said.get("variance", "")
        if not known or layout is None or len(own) < sum(1 for _ in norm.parameters()):
            raise
        if "unbiased" in said.get("variance", ""):
            layout["correction"] = 1
        if "added to sigma" in said["eps"]:
            layout["root"] = outside_root
        units = a.shape[-1 - layout.get("space", 0)]
        same = OURS[report.kind](units, eps=eps_of(norm), **layout)
        same.g = next((p for n, p in own.items() if said[n].startswith("multiplies")), None)
        same.b = next((p for n, p in own.items() if said[n].startswith("added last")), None)
        return same
    return norm


def _layout(over: str, axes: int) -> dict[str, Any] | None:
    """The place of the units of a statistic: last, or along axis 1 of pictures."""
    if over.startswith(f"axis {axes - 1} "):
        return {}
    if over.startswith("axis 1 "):
        return {"space": axes - 2, "per_position": True}
    return None


def _share(statistic: str, taken: float) -> str:
    """A part of the squared gradient in words: what is not taken is added."""
    return f"{statistic} {'takes' if taken >= 0 else 'adds'} {abs(taken):.1%}"


def _backward_findings(rows: list[dict]) -> list[Finding]:
    def mean(what: str) -> float:
        return sum(r[what] for r in rows) / len(rows)

    means = (
        "that part would move the mean or the scale of the summed inputs, to which the "
        "normalizer is blind."
    )
    if min(mean("taken by mu"), mean("taken by sigma")) < 0:
        means = "a statistic of a few of the summed inputs, a median, hands these all it takes."
    found = [
        Finding(
            Severity.FACT, listed([r["where"] for r in rows]),
            f"of the squared gradient {_share('mu', mean('taken by mu'))} and "
            f"{_share('sigma', mean('taken by sigma'))} on the way back, on average",
            means,
            "nothing; detaching mu or sigma would put it back.",
        )
    ]  # fmt: skip
    blind = [r["where"] for r in rows if abs(r["left"]) < BLIND]
    if blind:
        found.append(
            Finding(
                Severity.RISK, listed(blind), "all of the gradient is taken away",
                "the loss asks for a mean or a scale, which this normalizer fixes.",
                "compare directions, or put a gain or a layer behind the normalizer.",
            )
        )  # fmt: skip
    loud = [r for r in rows if r["gradient before / behind"] > AMPLIFIED]
    if loud:
        most = max(r["gradient before / behind"] for r in loud)
        found.append(
            Finding(
                Severity.RISK, listed([r["where"] for r in loud]),
                f"the gradient comes out of the normalizer up to {number(most)} times as long",
                "it divides by a small sigma: what is in front of it is short, and its "
                "gradients long.",
                "look at the scale of what it is given, and at its eps.",
            )
        )  # fmt: skip
    return found


# The learning rate that a weight really has.
#
# A weight whose scale the loss does not see turns under a step of size eta as one of length 1
# would under :math:`\eta/\lVert w\rVert^2` (van Laarhoven 2017).


APART = 30.0
"""Effective rates further apart than this have no learning rate that suits both."""


def invariant_ways(tried: Held) -> dict[str, str]:
    """Every weight whose scale is not seen: "whole" or "rows"."""
    rows = tried.weights(3)
    return {name: ROWS if name in rows else WHOLE for name in tried.weights(1)}


def check_rates(audited: Audited) -> Result:
    """Length, effective rate and turning of every scale-invariant weight."""
    invariant = invariant_ways(held(audited))
    if not invariant:
        raise CannotCheck("the loss sees the scale of every weight: rates are what they say.")
    weights = dict(audited.module.named_parameters())
    rows = []
    for name, kind in invariant.items():
        W = weights[name].detach()
        length = float(
            root_mean_square(vector_norm(W.flatten(1), 1)) if kind == ROWS else vector_norm(W)
        )
        inverse = 1 / length if length else float("inf")
        rows.append(
            {"weight": name, "invariant": kind, "length": length,
             "effective rate / rate": inverse * inverse}
        )  # fmt: skip
    rates = [r["effective rate / rate"] for r in rows]
    note = "Of weights whose rows are invariant, length is the root mean square of a row's."
    profile = Profile(
        "Effective learning rates", "1 / ||w||²", tuple(invariant), {"1/||w||²": tuple(rates)}
    )
    return Result(
        tuple(_rates_findings(rows)), tuple(rows), note, profile if len(rows) > 2 else None
    )


def _rates_findings(rows: list[dict]) -> list[Finding]:
    rate = "effective rate / rate"
    least, most = min(rows, key=lambda r: r[rate]), max(rows, key=lambda r: r[rate])
    names = [r["weight"] for r in rows]
    found = [
        Finding(
            Severity.FACT, listed(names),
            f"a step turns {counted(len(rows), 'weight')} as if the learning rate were eta "
            f"times {span(number(least[rate]), number(most[rate]))}",
            "weight decay does not make them simpler: it keeps them short, and so the "
            "effective rate up.",
            "tune rate and decay by their product (an angle of sqrt(2 eta lambda) a step), "
            "and change neither alone.",
        )
    ]  # fmt: skip
    for kind in (ROWS, WHOLE):
        own = sorted((r for r in rows if r["invariant"] == kind), key=lambda r: r[rate])
        if own and own[-1][rate] > APART * own[0][rate]:
            found.append(
                Finding(
                    Severity.RISK, f"{own[-1]['weight']} and {own[0]['weight']}",
                    "effective rates are apart by a factor of "
                    f"{number(own[-1][rate] / own[0][rate])}",
                    "under plain gradient descent one turns fast while the other hardly moves.",
                    "start them at one length of row, or use an optimizer with a scale of its "
                    "own for each (Adam, LAMB).",
                )
            )  # fmt: skip
    return found


# The digits that are lost in the module's own precision, and in half of it.


HALVES = (torch.float16, torch.bfloat16)

LOST = {torch.float32: 1e-3, torch.bfloat16: 0.1, torch.float16: 0.02}
"""A relative error above this is more than the rounding of a few layers."""


def check_precision(audited: Audited) -> Result:
    """The outputs in lower precisions beside those in float64, in evaluation."""
    audited.require_wide()
    y = audited.subject("running").run().y
    rows = []
    for dtype in dict.fromkeys((audited.dtype, torch.float32, *HALVES)):
        if dtype is not torch.float64:
            rows.append({"precision": _name(dtype)} | _error(audited, dtype, y))
    findings = [f for row in rows for f in _precision_findings(row, _name(audited.dtype))]
    return Result(tuple(findings), tuple(rows))


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _error(audited: Audited, dtype: torch.dtype, y: torch.Tensor) -> dict:
    try:
        low = ModuleCopy(audited.module, audited.x, dtype=dtype, read=audited.read).run().y
    except (ValueError, TypeError) as error:
        return {"error": float("nan"), "remark": str(error).splitlines()[0][:120]}
    if not bool(low.isfinite().all()):
        return {"error": float("inf"), "remark": "not finite"}
    return {"error": relative_change(low.double(), y), "remark": ""}


def _precision_findings(row: dict, own: str) -> list[Finding]:
    severity = Severity.FAULT if row["precision"] == own else Severity.RISK
    if row["remark"] == "not finite":
        seen = f"in {row['precision']} the outputs are not finite"
        means = (
            "a number leaves the range: a square before its mean, or an eps that is 0 there."
        )
        return [
            Finding(severity, "", seen, means, "take statistics in float32, as torch's do.")
        ]
    if row["error"] > LOST[getattr(torch, row["precision"])]:
        seen = f"in {row['precision']} the outputs are off by {row['error']:.2g}"
        means = "more than the rounding of a few layers: something cancels."
        do = "keep that part in float32; look for differences of large numbers."
        return [Finding(Severity.RISK, "", seen, means, do)]
    return []


# The curvature of the loss at the parameters as they are.


PRODUCTS = 30
"""Products with the Hessian at most, each some two gradients."""


def check_curvature(audited: Audited) -> Result:
    """The outermost eigenvalues of the Hessian, and the learning rate that they allow."""
    if not audited.own_loss:
        raise CannotCheck("no loss was given: curvature is that of a loss.")
    row = extreme_eigenvalues(audited.objective, steps=PRODUCTS, tolerance=1e-2).summary()
    if not row["largest"] and not row["smallest"]:
        finding = Finding(
            Severity.FACT, audited.name, "the Hessian is 0 in the directions that were tried",
            "on this batch the loss is linear in the parameters, and bounds no learning rate.",
            "see that the loss is the one you train by.",
        )  # fmt: skip
        return Result((finding,), (row,))
    rate = row["critical_rate"]
    error = abs(row["error"] / row["largest"]) if row["largest"] else 0.0
    seen = (
        f"the largest eigenvalue of the Hessian is {number(row['largest'])} "
        f"(± {error:.0%}), the smallest {number(row['smallest'])}"
    )
    finding = Finding(
        Severity.FACT, audited.name, seen,
        f"on this batch plain gradient descent is stable below eta = 2/lambda = {number(rate)}"
        + ("; the loss bends down somewhere as well." if row["smallest"] < 0 else "."),
        "take it as an order of magnitude; of scale-invariant weights lambda ||w||² counts "
        f"({number(row['scale_free'])} for all of them).",
    )  # fmt: skip
    return Result((finding,), (row,))
