"""The work of the derivatives of mu and sigma on the gradient (Xu et al. 2019, section 3)."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from lnlab.analysis.conformance import Report
from lnlab.analysis.magnitudes import vector_norm
from lnlab.analysis.norm_gradients import affine, gradient_parts, passage
from lnlab.audit.audited import Audited
from lnlab.audit.checks.gradients import STAND_IN
from lnlab.audit.finding import CannotCheck, Finding, Profile, Result, Severity, listed, number
from lnlab.audit.normalizers import eps_of, normalizers, require
from lnlab.nn import LayerNorm, RMSNorm, outside_root

OURS = {"LayerNorm": LayerNorm, "RMSNorm": RMSNorm}
"""The normalizers that are most often written by hand, as ours."""

MOST = 24
"""Normalizers that are looked at, evenly over the depth: each costs a pass back."""

BLIND = 1e-6
"""The share of the squared gradient below which a part asks for what cannot change."""

AMPLIFIED = 10.0
"""A gradient that comes back so many times as long is worth a warning."""


def check(audited: Audited) -> Result:
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
    return Result(tuple(_findings(rows)), tuple(rows), note, profile if len(rows) > 2 else None)


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


def _findings(rows: list[dict]) -> list[Finding]:
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
